"""The `@tool` decorator, which makes a tool from a typed Python function."""

import copy
import inspect
import sys
import typing
from collections.abc import Callable, Iterable, Mapping
from functools import partial, update_wrapper
from types import FrameType, UnionType
from typing import Any, Generic, ParamSpec, Self, TypedDict, TypeVar, Unpack, overload

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaWarningKind
from pydantic_core import SchemaError, to_json, to_jsonable_python

from toolcrib.errors import InputValidationError, InvalidToolError, Problem
from toolcrib.errors.base import short_repr
from toolcrib.model.argschema import ArgSchema, parse_arg_schema
from toolcrib.model.context import is_context
from toolcrib.model.docstring import read_docstring
from toolcrib.model.record import problems_of
from toolcrib.model.suggest import did_you_mean
from toolcrib.model.tool import Tool, ToolAnnotations

P = ParamSpec("P")
R = TypeVar("R")

_PACKAGE = __file__.removesuffix("model/decorator.py").removesuffix("model\\decorator.py")
_POSITIONAL_KINDS = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)
_SCHEMA_ERRORS = (PydanticUserError, PydanticUndefinedAnnotation, SchemaError, TypeError, ValueError)


class ToolOptions(TypedDict, total=False):
    """Options of a tool made from a function; an option that is absent or None is read from the function."""

    name: str | None
    """The name of the tool; by default that of the function."""
    namespace: str | None
    """Its namespace, such as the name of a service."""
    version: str | None
    """A SemVer version."""
    tags: Iterable[str]
    """Its tags."""
    title: str | None
    """Its title, for people."""
    description: str | None
    """Its description; by default that of the docstring."""
    annotations: ToolAnnotations | Mapping[str, Any] | None
    """Hints about its effects, such as `readOnlyHint`."""
    arguments: ArgSchema | Mapping[str, Any] | None
    """A light argument schema, used instead of the one from the signature."""


class LocalTool(Generic[P, R]):
    """A function that is also a tool: it can be called as before, and `.tool` is its record."""

    def __init__(
        self,
        function: Callable[P, R],
        record: Tool,
        *,
        arguments: TypeAdapter[dict[str, Any]] | None = None,
        returns: TypeAdapter[Any] | None = None,
        context: str | None = None,
    ) -> None:
        update_wrapper(self, function)  # first, because it copies attributes that may have the same names
        self.function = function
        self.tool = record
        self.context = context
        """The name of the parameter of type `Context`; None if there is none."""
        self._arguments = arguments
        self._returns = returns

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function."""
        return self.function(*args, **kwargs)

    def replace(self, **options: Unpack[ToolOptions]) -> Self:
        """Return the same function as a tool with other options."""
        made = copy.copy(self)
        made.tool = replace_options(self.tool, options)
        if "arguments" in options:
            made._arguments = None  # noqa: SLF001 - the signature no longer describes the arguments
        return made

    def read_arguments(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Convert arguments from JSON to the types that the function declares.

        Raises:
            InputValidationError: they cannot be converted, although they may fit the schema.
        """
        if self._arguments is None:
            return dict(args)
        try:
            # Validated as JSON, because strict types accept a date as text in JSON only.
            return self._arguments.validate_json(to_json(args))
        except ValidationError as error:
            raise InputValidationError(problems_of(error), tool_id=str(self.tool.id)) from error

    def write_result(self, value: Any) -> Any:
        """Convert the return value of the function to JSON, by its return type.

        Raises:
            PydanticSerializationError: it cannot be serialized.
        """
        if self._returns is None:
            return to_jsonable_python(value)
        return self._returns.dump_python(value, mode="json", by_alias=True, warnings="none")

    def __repr__(self) -> str:
        return f"<LocalTool {self.tool.id}>"


@overload
def tool(function: Callable[P, R], /, **options: Unpack[ToolOptions]) -> LocalTool[P, R]: ...


@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[Callable[P, R]], LocalTool[P, R]]: ...


def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a tool from a typed function, sync or async.

    The input schema comes from the signature, or from `arguments`, a light argument schema. The output schema
    comes from the return type, the description from the docstring, and the descriptions of parameters from
    `Annotated[str, "text"]` or the docstring.

    >>> @tool
    ... def add(a: int, b: int = 1) -> int:
    ...     '''Add two numbers.'''
    ...     return a + b
    >>> add(2, 3), add.tool.description, add.tool.input_schema["required"]
    (5, 'Add two numbers.', ['a'])

    Raises:
        InvalidToolError: a parameter has no JSON Schema, or cannot be passed by name.
    """
    check_options(options)
    frame = _caller_frame()
    if function is not None:
        return _make_tool(function, frame, **options)
    return lambda decorated: _make_tool(decorated, frame, **options)


def check_options(options: Iterable[str]) -> None:
    """Refuse options that a tool does not have.

    Raises:
        TypeError: there is no such option.
    """
    known = ToolOptions.__annotations__
    for option in options:
        if option not in known:
            raise TypeError(f"a tool has no option {option!r}{did_you_mean(option, known)}")


def _caller_frame() -> FrameType:
    """Return the frame of the caller outside toolcrib, in which postponed annotations are evaluated."""
    frame = sys._getframe(1)  # noqa: SLF001 - there is no other way to know
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return frame


def _make_tool(
    function: Callable[..., Any],
    frame: FrameType,
    *,
    arguments: Any = None,
    tags: Iterable[str] = (),
    **fields: Any,
) -> LocalTool[..., Any]:
    """Make a tool of a function."""
    if not callable(function):
        raise _invalid_tool(
            str(fields.get("name") or "?"), "", f"a tool is made of a function, not {short_repr(function)}"
        )
    written = _unwrap(function)
    name = fields.pop("name", None) or getattr(written, "__name__", type(written).__name__)
    documented = read_docstring(inspect.getdoc(written))
    hints = _evaluate_hints(written, name, frame)
    signature, context = _split_context(_read_signature(function, name), name, hints)
    described = fields.pop("description", None) or documented.description or None
    adapter = None
    if arguments is None:
        adapter = _make_adapter(_make_stand_in(signature, hints), name, "the parameters")
        annotated = {
            parameter: text
            for parameter in signature.parameters
            if (text := _annotated_text(hints.get(parameter)))
        }
        schema = _input_schema(adapter, name, {**documented.parameters, **annotated})
    else:
        schema = _light_to_json_schema(arguments)
    returns = _return_adapter(written, name, hints)
    record = Tool(
        name=name,
        description=described,
        input_schema=schema,
        output_schema=None
        if returns is None
        else _output_schema(returns, name, _annotated_text(hints.get("return"))),
        tags=tags,
        **fields,
    )
    return LocalTool(function, record, arguments=adapter, returns=returns, context=context)


def replace_options(record: Tool, options: ToolOptions) -> Tool:
    """Return a tool with other options."""
    fields: dict[str, Any] = {**options}
    if "arguments" in fields:
        fields["input_schema"] = _light_to_json_schema(fields.pop("arguments"))
    return record.replace(**fields) if fields else record


def _light_to_json_schema(arguments: Any) -> dict[str, Any]:
    """Convert a light argument schema to JSON Schema."""
    return (arguments if isinstance(arguments, ArgSchema) else parse_arg_schema(arguments)).to_json_schema()


def _split_context(
    signature: inspect.Signature, name: str, hints: Mapping[str, Any]
) -> tuple[inspect.Signature, str | None]:
    """Return a signature without the parameter of type `Context`, and the name of that parameter."""
    found = [parameter for parameter in signature.parameters if is_context(hints.get(parameter))]
    if len(found) > 1:
        raise _invalid_tool(name, found[1], "is a second Context; one is enough")
    kept = [parameter for parameter in signature.parameters.values() if parameter.name not in found]
    return signature.replace(parameters=kept), found[0] if found else None


def _unwrap(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function inside a `functools.partial` or a tool."""
    while isinstance(function, partial | LocalTool):
        function = function.func if isinstance(function, partial) else function.function
    return function


def _evaluate_hints(function: Callable[..., Any], name: str, frame: FrameType) -> dict[str, Any]:
    """Return the annotations of a function, with postponed ones evaluated."""
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
        raise _invalid_tool(name, "", reason) from error
    except Exception as error:  # an annotation in quotes is evaluated as code, and may raise anything
        raise _invalid_tool(name, "", f"an annotation is not a type: {error}") from error


def _read_signature(function: Callable[..., Any], name: str) -> inspect.Signature:
    """Return the signature of a function; refuse parameters that cannot be passed by name."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise _invalid_tool(name, "", "it has no signature to read; wrap it in a typed function") from error
    for parameter in signature.parameters.values():
        if parameter.kind in _POSITIONAL_KINDS:
            raise _invalid_tool(
                name,
                parameter.name,
                "can only be passed by position, but arguments of tools are passed by name",
            )
        if parameter.name in {"self", "cls"}:
            raise _invalid_tool(
                name, parameter.name, "is not an argument; make a tool of the bound method instead"
            )
    return signature


def _make_stand_in(signature: inspect.Signature, hints: dict[str, Any]) -> Callable[..., dict[str, Any]]:
    def stand_in(**given: Any) -> dict[str, Any]:
        """Carry the signature, with its annotations evaluated, to pydantic."""
        return given

    stand_in.__signature__ = signature  # type: ignore[attr-defined]  # functions take any attribute
    stand_in.__annotations__ = {
        parameter.name: hints.get(parameter.name, _written_annotation(parameter))
        for parameter in signature.parameters.values()
    }
    return stand_in


def _input_schema(
    adapter: TypeAdapter[dict[str, Any]], name: str, described: Mapping[str, str]
) -> dict[str, Any]:
    schema = _generate(adapter, name, "the parameters", "validation")
    for parameter_name, text in described.items():
        property_schema = schema.get("properties", {}).get(parameter_name)
        if property_schema is not None and "description" not in property_schema:
            property_schema["description"] = text
    return schema


def _output_schema(adapter: TypeAdapter[Any], name: str, note: str | None) -> dict[str, Any]:
    schema = _generate(adapter, name, "the return type", "serialization")
    return schema if note is None else {"description": note, **schema}


def _annotated_text(hint: Any) -> str | None:
    """Return the text in an annotation `Annotated[str, "text"]`, also within a union.

    >>> _annotated_text(typing.Annotated[str, "A city."] | None), _annotated_text(str)
    ('A city.', None)
    """
    if typing.get_origin(hint) is typing.Annotated:
        texts = [part for part in hint.__metadata__ if isinstance(part, str)]
        return texts[-1] if texts else _annotated_text(hint.__origin__)
    if typing.get_origin(hint) in {typing.Union, UnionType}:
        return next(filter(None, map(_annotated_text, typing.get_args(hint))), None)
    return None


def _written_annotation(parameter: inspect.Parameter) -> Any:
    """Return the annotation in a signature, as for pydantic models; `Any` if there is none."""
    written = parameter.annotation
    return Any if written is parameter.empty or isinstance(written, str) else written


def _return_adapter(
    function: Callable[..., Any], name: str, hints: dict[str, Any]
) -> TypeAdapter[Any] | None:
    """Return the adapter of the return type; None for streams, `Any` and None."""
    returned = hints.get("return", Any)
    body = inspect.unwrap(function if inspect.isroutine(function) else type(function).__call__)
    streams = inspect.isgeneratorfunction(body) or inspect.isasyncgenfunction(body)
    if streams or returned is Any or returned is type(None):
        return None
    return _make_adapter(returned, name, "the return type")


class _SchemaWithoutTitles(GenerateJsonSchema):
    """Schema generator without titles, which would only repeat the names."""

    ignored_warning_kinds: set[JsonSchemaWarningKind] = {  # noqa: RUF012 - as the base class declares it
        "skipped-choice",
        "non-serializable-default",
    }

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - the base class's signature
        """Return False, so that no title is made of a field's name."""
        return False


def _make_adapter(kind: Any, name: str, what: str) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(kind)
    except _SCHEMA_ERRORS as error:
        raise _no_schema_error(error, name, what) from error


def _generate(adapter: TypeAdapter[Any], name: str, what: str, mode: JsonSchemaMode) -> dict[str, Any]:
    try:
        return adapter.json_schema(schema_generator=_SchemaWithoutTitles, mode=mode)
    except _SCHEMA_ERRORS as error:
        raise _no_schema_error(error, name, what) from error


def _no_schema_error(error: Exception, name: str, what: str) -> InvalidToolError:
    return _invalid_tool(
        name, "", f"{what} must be JSON types, pydantic models or dataclasses: {_shorten_cause(error)}"
    )


def _shorten_cause(error: Exception) -> str:
    """Return pydantic's message, without its advice for authors of models."""
    if getattr(error, "code", None) == "class-not-fully-defined":
        return "one of them refers to a type that is not defined yet"
    return " ".join(getattr(error, "message", str(error)).split()).partition(". Set ")[0]


def _invalid_tool(name: str, parameter: str, reason: str) -> InvalidToolError:
    return InvalidToolError((Problem(f"/{parameter}" if parameter else "", "signature", reason[:500]),), name)
