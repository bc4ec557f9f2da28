"""Base classes of records: immutable pydantic models with camelCase JSON and toolcrib's errors.

pydantic's `frozen` does not stop a caller from modifying a dict or a list inside a record. So such fields are
copied when a record is made, and again at every read (`_CopiedField`). Code that reads often and does not
modify the value uses `shared`, and code that makes records of values it owns uses `from_valid`, which skips
validation.
"""

from collections.abc import Callable, Container, Generator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NoReturn, Self, get_args, get_origin

import pydantic
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails, PydanticCustomError

from toolcrib.errors import InvalidToolError, Problem, ToolcribError, ValidationError
from toolcrib.errors.base import MAX_MESSAGE, MAX_PROBLEMS
from toolcrib.model.plain import copy_json, measure, parse_json, pointer

_MAX_DEPTH = 256
"""The maximum nesting of JSON in a record: Python can still compare, print and serialize it."""
_MESSAGES = {
    "missing": "is required",
    "extra_forbidden": "is not a field of this record",
    "invalid_key": "has a key that is not a string",
    "string_too_short": "must not be empty",
    "tuple_type": "must be an array",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
}
"""Messages that replace pydantic's, by its error types; pydantic's speak of Python types."""


def _copy_measured(value: Any) -> Any:
    """Check that a value is JSON, and return a copy."""
    try:
        measure(value, max_depth=_MAX_DEPTH)
    except ValidationError as error:
        found = error.problems[0]
        raise PydanticCustomError("json", "{reason}", {"reason": found.message, "at": found.path}) from None
    return copy_json(value)


_COPIED_JSON = BeforeValidator(_copy_measured)
Json = Annotated[Any, _COPIED_JSON]
JsonObject = Annotated[dict[str, Any], _COPIED_JSON]
Text = Annotated[str, AfterValidator(_copy_measured)]


class _CopiedField:
    """Descriptor of a field with dicts or lists: every read returns a copy.

    The value itself is in the `__dict__` of the record, where pydantic expects it.
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, record: BaseModel | None, owner: type) -> Any:
        try:
            return _copy(record.__dict__[self._name])
        except (
            AttributeError,
            KeyError,
        ):  # read from the class, or from a record under construction
            raise AttributeError(f"{owner.__name__!r} has no attribute {self._name!r}") from None

    def __set__(self, record: BaseModel, value: Any) -> NoReturn:
        raise AttributeError(f"{self._name!r} of a {type(record).__name__} cannot be set")


class Record(BaseModel):
    """An immutable record; invalid input raises a `ToolcribError` with every problem.

    Dicts and lists in it are read as copies, except in fields of type `Any`, which are results of tools and
    belong to the caller.

    The context of pydantic's validation is the set of the fields that come from JSON or from another record.
    Validators that look for mistakes in Python code, such as a schema given as a string, skip these.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        extra="forbid",
        arbitrary_types_allowed=True,
        defer_build=True,
    )

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        for name, field in cls.model_fields.items():
            if _COPIED_JSON in field.metadata or _holds_containers(field.annotation):
                setattr(cls, name, _CopiedField(name))

    if not TYPE_CHECKING:  # type checkers derive the constructor from the fields

        def __init__(self, /, **data: Any) -> None:
            self._refuse_twice(data)
            try:
                super().__init__(**data)
            except pydantic.ValidationError as error:
                raise self._refusal(problems_of(error), data) from None

        # Marked as pydantic's own constructor, so that nested records are validated by pydantic and their
        # problems keep their paths.
        __init__.__pydantic_base_init__ = True

    @classmethod
    def from_json(cls, source: str | bytes | bytearray | dict[str, Any] | BaseModel) -> Self:
        """Read a record from JSON, given as text or as a dict.

        A pydantic model of the same shape, such as the MCP SDK's `Tool`, is read by its JSON form.

        Raises:
            InvalidToolError: it is not JSON, not an object, or not a valid record.
        """
        if isinstance(source, cls):
            return source
        data = cls._json_object(source)
        try:
            return cls.model_validate(data, by_alias=True, by_name=False, context=cls.model_fields.keys())
        except pydantic.ValidationError as error:
            raise cls._refusal(problems_of(error), data) from None

    @classmethod
    def _json_object(cls, source: Any) -> dict[str, Any]:
        """Return the JSON object in a text, a dict or another library's model."""
        data: Any = source
        if isinstance(source, BaseModel):
            data = source.model_dump(mode="json", by_alias=True, exclude_unset=True)
        if isinstance(source, str | bytes | bytearray):
            try:
                data = parse_json(source)
            except ValueError as error:
                problem = Problem("", "json", f"it is not JSON: {error}"[:MAX_MESSAGE])
                raise cls._refusal((problem,), {}) from error
        if not isinstance(data, dict):
            problem = Problem("", "type", f"it must be a JSON object, not {type(data).__name__}")
            raise cls._refusal((problem,), {})
        return data

    @classmethod
    def from_valid(cls, **fields: Any) -> Self:
        """Make a record of valid values without validation; they are shared, not copied."""
        record = cls.__new__(cls)
        object.__setattr__(record, "__dict__", _defaults_of(cls) | fields)
        object.__setattr__(record, "__pydantic_fields_set__", set(fields))
        object.__setattr__(record, "__pydantic_extra__", None)
        object.__setattr__(record, "__pydantic_private__", None)
        return record

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed; the changes are validated."""
        fields = {name: self.__dict__[name] for name in self.model_fields_set if name in self.__dict__}
        data = {**fields, **(self.__pydantic_extra__ or {}), **changes}
        self._refuse_twice(data)
        try:
            return type(self).model_validate(data, context=fields.keys() - changes.keys())
        except pydantic.ValidationError as error:
            raise self._refusal(problems_of(error), data) from None

    def __iter__(self) -> Generator[tuple[str, Any], None, None]:
        """Yield the fields and their values, copied like those that are read."""
        for name, _ in super().__iter__():
            yield name, getattr(self, name)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with some fields changed, without validation; `replace` validates."""
        changes = {name: _copy(value) for name, value in (update or {}).items()}
        return super().model_copy(update=changes, deep=deep)

    def shared(self, name: str) -> Any:
        """Return the value of a field itself, not a copy; it must not be modified."""
        return self.__dict__[name]

    def to_json(self, *, without: Container[str] = ()) -> dict[str, Any]:
        """Return the JSON form as a copy: camelCase names, without absent fields.

        A field of type `Any` is absent only if it was not given, since null is a valid value. `without` has
        the Python names of fields to leave out.
        """
        return self._collect_json(copy_json, without)

    def _collect_json(self, copy: Callable[[Any], Any], without: Container[str] = ()) -> dict[str, Any]:
        """Return the JSON form, with the dicts and lists that `copy` returns for those of the record."""
        values, found = self.__dict__, {}
        for name, key, is_any, empty in _json_fields(type(self)):
            if name in without:
                continue
            value = values[name]
            if value is None:
                if not is_any or name not in self.model_fields_set:
                    continue
            elif empty is not None and isinstance(value, tuple | dict) and not value and value == empty:
                continue
            found[key] = value if type(value) is str else _to_json_value(value, copy)
        for name, value in (self.__pydantic_extra__ or {}).items():
            found[name] = copy(value)
        return found

    @classmethod
    def _refuse_twice(cls, data: dict[str, Any]) -> None:
        """Refuse fields that are given under both their Python and their JSON name."""
        aliases = _aliases_of(cls)
        if twice := [name for name in data if name in aliases and aliases[name] in data]:
            reason = "is given under both its names"
            raise cls._refusal(tuple(Problem(f"/{name}", "name", reason) for name in twice), data)

    @classmethod
    def _refusal(cls, problems: tuple[Problem, ...], data: dict[str, Any]) -> ToolcribError:
        """Return the error for some problems; subclasses choose its class."""
        return InvalidToolError(problems, data.get("name"), cls.__name__)


class OpenRecord(Record):
    """A record of a protocol such as MCP: unknown fields are kept."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow")
    __pydantic_extra__: dict[Text, Json] = Field(init=False)

    @property
    def model_extra(self) -> dict[str, Any] | None:
        """A copy of the unknown fields."""
        extra: dict[str, Any] | None = _copy(self.__pydantic_extra__)
        return extra

    if not TYPE_CHECKING:  # type checkers would take any name for a field

        def __getattr__(self, name: str) -> Any:
            return _copy(super().__getattr__(name))


def _copy(value: Any) -> Any:
    """Return a copy of the value of a field."""
    kind = type(value)
    if kind is dict or kind is list:
        return copy_json(value)
    return tuple(map(_copy, value)) if kind is tuple else value


def _holds_containers(annotation: Any) -> bool:
    """Return whether values of a type may be, or contain, dicts or lists."""
    kind = get_origin(annotation) or annotation
    return (
        kind is dict
        or kind is list
        or _COPIED_JSON in getattr(annotation, "__metadata__", ())
        or any(map(_holds_containers, get_args(annotation)))
    )


_SCALARS = frozenset({str, int, float, bool, type(None)})


@cache
def _aliases_of(record: type[Record]) -> dict[str, str]:
    """Return the JSON names of fields whose Python names differ, by Python name."""
    fields = record.model_fields.items()
    return {name: field.alias for name, field in fields if field.alias and field.alias != name}


@cache
def _json_fields(record: type[Record]) -> list[tuple[str, str, bool, Any]]:
    """Return each field's name, its name in JSON, whether it is of type `Any`, and its default if empty.

    A field that equals an empty tuple or dict by default is left out of JSON.
    """
    defaults = _defaults_of(record)
    return [
        (
            name,
            field.alias or name,
            field.annotation is Any,
            defaults[name] if defaults[name] in ((), {}) else None,
        )
        for name, field in record.model_fields.items()
    ]


@cache
def _defaults_of(record: type[Record]) -> dict[str, Any]:
    """Return the default values of all fields."""
    return {name: field.get_default(call_default_factory=True) for name, field in record.model_fields.items()}


def _to_json_value(value: Any, copy: Callable[[Any], Any]) -> Any:
    """Return the value of a field as JSON, its dicts and lists copied with `copy`."""
    if type(value) in _SCALARS:
        return value
    if isinstance(value, Record):
        return value.to_json()
    if isinstance(value, tuple):
        return [_to_json_value(member, copy) for member in value]
    if isinstance(value, dict) and any(isinstance(member, tuple) for member in value.values()):
        return {key: _to_json_value(member, copy) for key, member in value.items()}
    return copy(value)


def problems_of(error: pydantic.ValidationError) -> tuple[Problem, ...]:
    """Convert pydantic's errors to problems, at most `MAX_PROBLEMS`."""
    return tuple(_make_problem(detail) for detail in error.errors(include_url=False)[:MAX_PROBLEMS])


def _make_problem(detail: ErrorDetails) -> Problem:
    inside = detail.get("ctx", {}).get("at", "")
    text = detail["msg"].removeprefix("Value error, ")
    message = _MESSAGES.get(
        detail["type"], text.replace("Input should be", "must be").replace("a valid ", "a ")
    )
    return Problem(pointer(detail["loc"]) + inside, detail["type"], message[:MAX_MESSAGE])
