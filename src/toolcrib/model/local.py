"""A tool made of a typed Python function."""

import inspect
import sys
import typing
from collections.abc import Callable, Iterable, Mapping
from functools import partial, update_wrapper
from types import FrameType
from typing import Any, Generic, ParamSpec, TypeVar, overload

from pydantic import TypeAdapter
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaWarningKind
from pydantic_core import SchemaError

from toolcrib.errors import InvalidToolError, Problem
from toolcrib.model.argschema import ArgSchema, parse_arg_schema
from toolcrib.model.docstring import read_docstring
from toolcrib.model.suggest import did_you_mean
from toolcrib.model.tool import Tool, ToolAnnotations

__all__ = ["LocalTool", "tool"]

P = ParamSpec("P")
R = TypeVar("R")

_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)
_OPTIONS = (
    "name", "namespace", "version", "tags", "title", "description", "annotations", "arguments",
)  # fmt: skip


class LocalTool(Generic[P, R]):
    """A function that is also a tool: call it as before, or hand `.tool` to a crib."""

    def __init__(self, function: Callable[P, R], record: Tool) -> None:
        update_wrapper(self, function)  # first, because it brings the attributes of the function along
        self.function = function
        self.tool = record

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
    for option in options:
        if option not in _OPTIONS:
            raise TypeError(f"tool() has no option {option!r}{did_you_mean(option, _OPTIONS)}")
    frame = sys._getframe(1)  # noqa: SLF001 - where names in postponed annotations are looked up
    if function is not None:
        return LocalTool(function, _record(function, frame, **options))
    return lambda decorated: LocalTool(decorated, _record(decorated, frame, **options))


def _record(
    function: Callable[..., Any],
    frame: FrameType,
    *,
    arguments: Any = None,
    tags: Iterable[str] = (),
    **fields: Any,
) -> Tool:
    """Return the record that describes a function."""
    written = _written(function)
    name = fields.pop("name", None) or getattr(written, "__name__", type(written).__name__)
    documented = read_docstring(inspect.getdoc(written))
    hints = _hints(written, name, frame)
    signature = _signature(function, name)
    described = fields.pop("description", None) or documented.description or None
    if arguments is None:
        schema = _input_schema(signature, name, hints, documented.parameters)
    elif isinstance(arguments, ArgSchema):
        schema = arguments.to_json_schema()
    else:
        light = parse_arg_schema(dict(arguments) if isinstance(arguments, Mapping) else arguments)
        schema = light.to_json_schema()
    return Tool(
        name=name,
        description=described,
        input_schema=schema,
        output_schema=_output_schema(written, name, hints),
        tags=tags,
        **fields,
    )


def _written(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that a partial one, or a tool, stands for."""
    while isinstance(function, partial | LocalTool):
        function = function.func if isinstance(function, partial) else function.function
    return function


def _hints(function: Callable[..., Any], name: str, frame: FrameType) -> dict[str, Any]:
    """Return the annotations of a function, postponed ones evaluated."""
    target: Any = function
    if inspect.isclass(function):
        target = function.__init__
    elif not inspect.isroutine(function):
        target = type(function).__call__
    body = inspect.unwrap(target)
    is_inner = "." in body.__qualname__ and getattr(body, "__globals__", None) is frame.f_globals
    scope = dict(frame.f_locals) if is_inner else None
    try:
        return typing.get_type_hints(target, localns=scope, include_extras=True)
    except NameError as error:
        reason = f"an annotation names {error.name!r}, which is not known here; define it at module level"
        raise _refusal(name, "", reason) from error
    except Exception as error:  # an annotation in quotes is code, and may raise whatever it likes
        raise _refusal(name, "", f"an annotation is not a type: {error}") from error


def _signature(function: Callable[..., Any], name: str) -> inspect.Signature:
    """Return the signature of a function whose every parameter can be passed by name."""
    try:
        signature = inspect.signature(function)
    except ValueError as error:
        raise _refusal(name, "", "it has no signature to read; wrap it in a typed function") from error
    for parameter in signature.parameters.values():
        if parameter.kind in _BY_POSITION:
            raise _refusal(
                name, parameter.name, "can only be passed by position, and tools are called by name"
            )
        if parameter.name in {"self", "cls"}:
            raise _refusal(
                name, parameter.name, "is not an argument; make a tool of the bound method instead"
            )
    return signature


def _input_schema(
    signature: inspect.Signature, name: str, hints: dict[str, Any], described: Mapping[str, str]
) -> dict[str, Any]:
    def stand_in() -> None:
        """Carry the signature, with its annotations evaluated, to pydantic."""

    stand_in.__signature__ = signature  # type: ignore[attr-defined]  # functions take any attribute
    stand_in.__annotations__ = {
        parameter.name: hints.get(parameter.name, _annotation(parameter))
        for parameter in signature.parameters.values()
    }
    schema = _generate(stand_in, name, "the parameters", "validation")
    for parameter_name, text in described.items():
        property_schema = schema.get("properties", {}).get(parameter_name)
        if property_schema is not None and "description" not in property_schema:
            property_schema["description"] = text
    return schema


def _annotation(parameter: inspect.Parameter) -> Any:
    """Return what a signature alone says of a parameter, as that of a pydantic model does."""
    written = parameter.annotation
    return Any if written is parameter.empty or isinstance(written, str) else written


def _output_schema(function: Callable[..., Any], name: str, hints: dict[str, Any]) -> dict[str, Any] | None:
    """Return the schema of what a function returns; a stream, and nothing, have none."""
    returned = hints.get("return", Any)
    body = inspect.unwrap(function if inspect.isroutine(function) else type(function).__call__)
    streams = inspect.isgeneratorfunction(body) or inspect.isasyncgenfunction(body)
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
    except (PydanticUserError, PydanticUndefinedAnnotation, SchemaError, TypeError, ValueError) as error:
        reason = f"{what} must be JSON types, pydantic models or dataclasses: {_cause(error)}"
        raise _refusal(name, "", reason) from error


def _cause(error: Exception) -> str:
    """Return what pydantic says, without the advice for those who write models."""
    if getattr(error, "code", None) == "class-not-fully-defined":
        return "one of them refers to a type that is not defined yet"
    return " ".join(getattr(error, "message", str(error)).split()).partition(". Set ")[0]


def _refusal(name: str, parameter: str, reason: str) -> InvalidToolError:
    return InvalidToolError((Problem(f"/{parameter}" if parameter else "", "signature", reason[:500]),), name)
