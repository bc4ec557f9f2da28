"""A tool made of a typed Python function."""

import inspect
import sys
import typing
from collections.abc import Callable, Iterable, Mapping
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar, overload

from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaWarningKind

from toolcrib.errors import InvalidToolError, Problem
from toolcrib.model.argschema import ArgSchema, parse_arg_schema
from toolcrib.model.docstring import read_docstring
from toolcrib.model.tool import Tool, ToolAnnotations

__all__ = ["LocalTool", "tool"]

P = ParamSpec("P")
R = TypeVar("R")

_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)


class LocalTool(Generic[P, R]):
    """A function that is also a tool: call it as before, or hand `.tool` to a crib."""

    def __init__(self, function: Callable[P, R], record: Tool) -> None:
        self.function = function
        self.tool = record
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<LocalTool {self.tool.id}>"


@overload
def tool(function: Callable[P, R], /) -> LocalTool[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    namespace: str | None = None,
    version: str | None = None,
    tags: Iterable[str] = (),
    title: str | None = None,
    description: str | None = None,
    annotations: ToolAnnotations | None = None,
    arguments: ArgSchema | Mapping[str, Any] | None = None,
) -> Callable[[Callable[P, R]], LocalTool[P, R]]: ...


def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Turn a typed function, sync or async, into a tool.

    The input schema comes from the signature, or from `arguments`, a light argument schema; the output schema
    from the return type; the description, and those of the parameters, from the docstring.

    >>> @tool
    ... def add(a: int, b: int = 1) -> int:
    ...     '''Add two numbers.'''
    ...     return a + b
    >>> add(2, 3), add.tool.description, add.tool.input_schema["required"]
    (5, 'Add two numbers.', ['a'])

    Raises:
        InvalidToolError: a parameter has no JSON Schema, or cannot be passed by name.
    """
    scope = sys._getframe(1).f_locals  # noqa: SLF001 - where names in postponed annotations are looked up
    if function is not None:
        return LocalTool(function, _record(function, scope, **options))
    return lambda decorated: LocalTool(decorated, _record(decorated, scope, **options))


def _record(
    function: Callable[..., Any],
    scope: Mapping[str, Any],
    *,
    arguments: ArgSchema | Mapping[str, Any] | None = None,
    tags: Iterable[str] = (),
    **fields: Any,
) -> Tool:
    """Return the record that describes a function."""
    name = fields.pop("name", None) or getattr(function, "__name__", type(function).__name__)
    documented = read_docstring(inspect.getdoc(function))
    hints = _hints(function, name, scope)
    described = fields.pop("description", None) or documented.description or None
    if arguments is None:
        schema = _input_schema(function, name, hints, documented.parameters)
    else:
        light = arguments if isinstance(arguments, ArgSchema) else parse_arg_schema(dict(arguments))
        schema = light.to_json_schema()
    return Tool(
        name=name,
        description=described,
        input_schema=schema,
        output_schema=_output_schema(function, name, hints),
        tags=tuple(tags),
        **fields,
    )


def _hints(function: Callable[..., Any], name: str, scope: Mapping[str, Any]) -> dict[str, Any]:
    """Return the annotations of a function, postponed ones evaluated."""
    target = function if inspect.isroutine(function) else type(function).__call__
    try:
        return typing.get_type_hints(target, localns=dict(scope), include_extras=True)
    except NameError as error:
        raise _refusal(name, "", f"an annotation names {error.name!r}, which is not defined yet") from error


def _input_schema(
    function: Callable[..., Any], name: str, hints: dict[str, Any], described: Mapping[str, str]
) -> dict[str, Any]:
    signature = inspect.signature(function)
    for parameter in signature.parameters.values():
        if parameter.kind in _BY_POSITION:
            raise _refusal(
                name, parameter.name, "can only be passed by position, and tools are called by name"
            )
        if parameter.name in {"self", "cls"}:
            raise _refusal(
                name, parameter.name, "is not an argument; make a tool of the bound method instead"
            )

    def stand_in() -> None:
        """Carry the signature, with its annotations evaluated, to pydantic."""

    stand_in.__signature__ = signature  # type: ignore[attr-defined]  # functions take any attribute
    stand_in.__annotations__ = hints
    schema = _generate(stand_in, name, "the parameters", "validation")
    for parameter_name, text in described.items():
        property_schema = schema.get("properties", {}).get(parameter_name)
        if property_schema is not None and "description" not in property_schema:
            property_schema["description"] = text
    return schema


def _output_schema(function: Callable[..., Any], name: str, hints: dict[str, Any]) -> dict[str, Any] | None:
    """Return the schema of what a function returns; a stream, and nothing, have none."""
    returned = hints.get("return", Any)
    streams = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
    if streams or returned is Any or returned is type(None):
        return None
    return _generate(returned, name, "the return type", "serialization")


class _Terse(GenerateJsonSchema):
    """Schemas without the titles that only repeat a name."""

    ignored_warning_kinds: set[JsonSchemaWarningKind] = {  # noqa: RUF012 - as the base class declares it
        "skipped-choice",
        "non-serializable-default",
    }

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - the base class's signature
        """Return whether to make a title of a field's name: never."""
        return False


def _generate(kind: Any, name: str, what: str, mode: JsonSchemaMode) -> dict[str, Any]:
    try:
        return TypeAdapter(kind).json_schema(schema_generator=_Terse, mode=mode)
    except PydanticUserError as error:
        cause = error.message.splitlines()[0].partition(". Set ")[0]
        reason = f"{what} must be JSON types, pydantic models or dataclasses: {cause}"
        raise _refusal(name, "", reason) from error


def _refusal(name: str, parameter: str, reason: str) -> InvalidToolError:
    return InvalidToolError((Problem(f"/{parameter}" if parameter else "", "signature", reason[:500]),), name)
