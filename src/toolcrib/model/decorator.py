"""The `@tool` decorator: a typed Python function as a tool."""

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
from toolcrib.errors.base import shown
from toolcrib.model.argschema import ArgSchema, parse_arg_schema
from toolcrib.model.context import is_context
from toolcrib.model.docstring import read_docstring
from toolcrib.model.record import problems_of
from toolcrib.model.suggest import did_you_mean
from toolcrib.model.tool import Tool, ToolAnnotations

P = ParamSpec("P")
R = TypeVar("R")

_PACKAGE = __file__.removesuffix("model/decorator.py").removesuffix("model\\decorator.py")
_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)
_NO_SCHEMA = (PydanticUserError, PydanticUndefinedAnnotation, SchemaError, TypeError, ValueError)


class ToolOptions(TypedDict, total=False):
    """Facts of a tool beside its function; what is left out, or None, is read from the function."""

    name: str | None
    """What the tool is called; the function's name unless given."""
    namespace: str | None
    """Where it belongs, such as the name of a shop or a service."""
    version: str | None
    """A SemVer version."""
    tags: Iterable[str]
    """What it is filed under."""
    title: str | None
    """What people call it."""
    description: str | None
    """What it does; the docstring's text unless given."""
    annotations: ToolAnnotations | Mapping[str, Any] | None
    """Hints, such as `readOnlyHint`."""
    arguments: ArgSchema | Mapping[str, Any] | None
    """A light argument schema, instead of the one that the signature gives."""


class LocalTool(Generic[P, R]):
    """A function that is also a tool: call it as before, or hand `.tool` to a crib."""

    def __init__(
        self,
        function: Callable[P, R],
        record: Tool,
        *,
        arguments: TypeAdapter[dict[str, Any]] | None = None,
        returns: TypeAdapter[Any] | None = None,
        context: str | None = None,
    ) -> None:
        update_wrapper(self, function)  # first, because it brings the attributes of the function along
        self.function = function
        self.tool = record
        self.context = context
        """The parameter that is given the running call, where there is one."""
        self._arguments = arguments
        self._returns = returns

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function."""
        return self.function(*args, **kwargs)

    def replace(self, **options: Unpack[ToolOptions]) -> Self:
        """Return the same function as a tool with other options."""
        made = copy.copy(self)
        made.tool = replaced(self.tool, options)
        if "arguments" in options:
            made._arguments = None  # noqa: SLF001 - they are no longer those of the signature
        return made

    def read_arguments(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments that came as JSON as the types that the function declares.

        Raises:
            InputValidationError: they are none of these types, although they may fit the schema.
        """
        if self._arguments is None:
            return dict(args)
        try:
            # As JSON, because it is: strict types take a date from text in JSON alone.
            return self._arguments.validate_json(to_json(args))
        except ValidationError as error:
            raise InputValidationError(problems_of(error), tool_id=str(self.tool.id)) from error

    def write_result(self, value: Any) -> Any:
        """Return what the function gave as JSON, written as its return type says.

        Raises:
            PydanticSerializationError: it cannot be written.
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
    """Turn a typed function, sync or async, into a tool.

    The input schema comes from the signature, or from `arguments`, a light argument schema; the output schema
    from the return type; the description from the docstring; those of the parameters from
    `Annotated[str, "text"]`, or from the docstring.

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
    frame = _user()
    if function is not None:
        return _make(function, frame, **options)
    return lambda decorated: _make(decorated, frame, **options)


def check_options(options: Iterable[str]) -> None:
    """Refuse options that a tool does not have.

    Raises:
        TypeError: there is no such option.
    """
    known = ToolOptions.__annotations__
    for option in options:
        if option not in known:
            raise TypeError(f"a tool has no option {option!r}{did_you_mean(option, known)}")


def _user() -> FrameType:
    """Return where toolcrib was called from: names in postponed annotations are looked up there."""
    frame = sys._getframe(1)  # noqa: SLF001 - there is no other way to know
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return frame


def _make(
    function: Callable[..., Any],
    frame: FrameType,
    *,
    arguments: Any = None,
    tags: Iterable[str] = (),
    **fields: Any,
) -> LocalTool[..., Any]:
    """Return the tool that a function makes."""
    if not callable(function):
        raise _refusal(
            str(fields.get("name") or "?"), "", f"a tool is made of a function, not {shown(function)}"
        )
    written = _written(function)
    name = fields.pop("name", None) or getattr(written, "__name__", type(written).__name__)
    documented = read_docstring(inspect.getdoc(written))
    hints = _hints(written, name, frame)
    signature, context = _without_context(_signature(function, name), name, hints)
    described = fields.pop("description", None) or documented.description or None
    adapter = None
    if arguments is None:
        adapter = _adapter(_stand_in(signature, hints), name, "the parameters")
        annotated = {
            parameter: text for parameter in signature.parameters if (text := _note(hints.get(parameter)))
        }
        schema = _input_schema(adapter, name, {**documented.parameters, **annotated})
    else:
        schema = _light(arguments)
    returns = _returned(written, name, hints)
    record = Tool(
        name=name,
        description=described,
        input_schema=schema,
        output_schema=None if returns is None else _output_schema(returns, name, _note(hints.get("return"))),
        tags=tags,
        **fields,
    )
    return LocalTool(function, record, arguments=adapter, returns=returns, context=context)


def replaced(record: Tool, options: ToolOptions) -> Tool:
    """Return a tool with other options."""
    fields: dict[str, Any] = {**options}
    if "arguments" in fields:
        fields["input_schema"] = _light(fields.pop("arguments"))
    return record.replace(**fields) if fields else record


def _light(arguments: Any) -> dict[str, Any]:
    """Return a light argument schema as a JSON Schema."""
    return (arguments if isinstance(arguments, ArgSchema) else parse_arg_schema(arguments)).to_json_schema()


def _without_context(
    signature: inspect.Signature, name: str, hints: Mapping[str, Any]
) -> tuple[inspect.Signature, str | None]:
    """Return a signature without the parameter for the running call, and the name of that."""
    found = [parameter for parameter in signature.parameters if is_context(hints.get(parameter))]
    if len(found) > 1:
        raise _refusal(name, found[1], "is a second Context; one is enough")
    kept = [parameter for parameter in signature.parameters.values() if parameter.name not in found]
    return signature.replace(parameters=kept), found[0] if found else None


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
    except (TypeError, ValueError) as error:
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


def _stand_in(signature: inspect.Signature, hints: dict[str, Any]) -> Callable[..., dict[str, Any]]:
    def stand_in(**given: Any) -> dict[str, Any]:
        """Carry the signature, with its annotations evaluated, to pydantic."""
        return given

    stand_in.__signature__ = signature  # type: ignore[attr-defined]  # functions take any attribute
    stand_in.__annotations__ = {
        parameter.name: hints.get(parameter.name, _annotation(parameter))
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


def _note(hint: Any) -> str | None:
    """Return the text that an annotation carries: `Annotated[str, "text"]`, or that or None.

    >>> _note(typing.Annotated[str, "A city."] | None), _note(str)
    ('A city.', None)
    """
    if typing.get_origin(hint) is typing.Annotated:
        texts = [part for part in hint.__metadata__ if isinstance(part, str)]
        return texts[-1] if texts else _note(hint.__origin__)
    if typing.get_origin(hint) in {typing.Union, UnionType}:
        return next(filter(None, map(_note, typing.get_args(hint))), None)
    return None


def _annotation(parameter: inspect.Parameter) -> Any:
    """Return what a signature alone says of a parameter, as that of a pydantic model does."""
    written = parameter.annotation
    return Any if written is parameter.empty or isinstance(written, str) else written


def _returned(function: Callable[..., Any], name: str, hints: dict[str, Any]) -> TypeAdapter[Any] | None:
    """Return what writes that which a function returns; a stream, and nothing, have none."""
    returned = hints.get("return", Any)
    body = inspect.unwrap(function if inspect.isroutine(function) else type(function).__call__)
    streams = inspect.isgeneratorfunction(body) or inspect.isasyncgenfunction(body)
    if streams or returned is Any or returned is type(None):
        return None
    return _adapter(returned, name, "the return type")


class _Terse(GenerateJsonSchema):
    """Schemas without the titles that only repeat a name."""

    ignored_warning_kinds: set[JsonSchemaWarningKind] = {  # noqa: RUF012 - as the base class declares it
        "skipped-choice",
        "non-serializable-default",
    }

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - the base class's signature
        """Return whether to make a title of a field's name: never."""
        return False


def _adapter(kind: Any, name: str, what: str) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(kind)
    except _NO_SCHEMA as error:
        raise _no_schema(error, name, what) from error


def _generate(adapter: TypeAdapter[Any], name: str, what: str, mode: JsonSchemaMode) -> dict[str, Any]:
    try:
        return adapter.json_schema(schema_generator=_Terse, mode=mode)
    except _NO_SCHEMA as error:
        raise _no_schema(error, name, what) from error


def _no_schema(error: Exception, name: str, what: str) -> InvalidToolError:
    return _refusal(name, "", f"{what} must be JSON types, pydantic models or dataclasses: {_cause(error)}")


def _cause(error: Exception) -> str:
    """Return what pydantic says, without the advice for those who write models."""
    if getattr(error, "code", None) == "class-not-fully-defined":
        return "one of them refers to a type that is not defined yet"
    return " ".join(getattr(error, "message", str(error)).split()).partition(". Set ")[0]


def _refusal(name: str, parameter: str, reason: str) -> InvalidToolError:
    return InvalidToolError((Problem(f"/{parameter}" if parameter else "", "signature", reason[:500]),), name)
