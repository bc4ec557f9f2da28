"""The base of every record: frozen, camelCase in JSON, and refused with our own errors."""

from collections.abc import Container, Generator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NoReturn, Self, get_args, get_origin

import pydantic
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticCustomError

from toolcrib.errors import InvalidToolError, Problem, ToolcribError, ValidationError
from toolcrib.errors.base import MAX_MESSAGE, MAX_PROBLEMS
from toolcrib.model.plain import copy_json, measure, parse_json, pointer

_MAX_DEPTH = 256
"""How deep the JSON in a record may be: what Python itself can still compare, print and write."""
_WORDING = {
    "missing": "is required",
    "extra_forbidden": "is not a field of this record",
    "invalid_key": "has a key that is not a string",
    "string_too_short": "must not be empty",
    "tuple_type": "must be an array",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
}
"""What pydantic calls by its Python name, by the type of its complaint."""


def _own(value: Any) -> Any:
    """Return a copy of a value that the caller cannot change, if it is JSON."""
    try:
        measure(value, max_depth=_MAX_DEPTH)
    except ValidationError as error:
        found = error.problems[0]
        raise PydanticCustomError("json", "{reason}", {"reason": found.message, "at": found.path}) from None
    return copy_json(value)


_OWNED = BeforeValidator(_own)
Json = Annotated[Any, _OWNED]
JsonObject = Annotated[dict[str, Any], _OWNED]
Text = Annotated[str, AfterValidator(_own)]


class _CopiedField:
    """A field that holds dicts or lists, as a class has it: every read gives a copy.

    The value itself stands in the `__dict__` of the record, where pydantic keeps and finds it.
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
        ):  # asked of the class, which has no values, or of a record half made
            raise AttributeError(f"{owner.__name__!r} has no attribute {self._name!r}") from None

    def __set__(self, record: BaseModel, value: Any) -> NoReturn:
        raise AttributeError(f"{self._name!r} of a {type(record).__name__} cannot be set")


class Record(BaseModel):
    """A value that does not change once made; bad input raises a `ToolcribError` with every problem in it.

    Dicts and lists in it are read as copies, but for values of any type, which are results of tools and
    belong to whoever called them.

    The context of validation is the names of the fields that came from elsewhere and are kept as they are:
    validators that look for mistakes of whoever writes a record in Python leave them alone.
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
            if _OWNED in field.metadata or _holds_containers(field.annotation):
                setattr(cls, name, _CopiedField(name))

    if not TYPE_CHECKING:  # type checkers derive the constructor from the fields

        def __init__(self, /, **data: Any) -> None:
            self._refuse_twice(data)
            try:
                super().__init__(**data)
            except pydantic.ValidationError as error:
                raise self._refusal(problems_of(error), data) from None

        # Pydantic validates nested records itself, so that their problems keep their paths.
        __init__.__pydantic_base_init__ = True

    @classmethod
    def from_json(cls, source: str | bytes | bytearray | dict[str, Any] | BaseModel) -> Self:
        """Return the record that JSON, as text or as a dict, describes.

        A pydantic model of the same shape, such as the MCP SDK's `Tool`, is read by its JSON form.

        Raises:
            InvalidToolError: it is not JSON, not an object, or not such a record.
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
        """Return the JSON object that a text, a dict or another library's model is."""
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
    def of_checked(cls, **fields: Any) -> Self:
        """Return a record of values that are known to be right; they are shared, not copied."""
        record = cls.__new__(cls)
        object.__setattr__(record, "__dict__", _blank(cls) | fields)
        object.__setattr__(record, "__pydantic_fields_set__", set(fields))
        object.__setattr__(record, "__pydantic_extra__", None)
        object.__setattr__(record, "__pydantic_private__", None)
        return record

    def replace(self, **changes: Any) -> Self:
        """Return the record with some fields changed, which are checked like those of a new one."""
        fields = {name: self.__dict__[name] for name in self.model_fields_set if name in self.__dict__}
        data = {**fields, **(self.__pydantic_extra__ or {}), **changes}
        self._refuse_twice(data)
        try:
            return type(self).model_validate(data, context=fields.keys() - changes.keys())
        except pydantic.ValidationError as error:
            raise self._refusal(problems_of(error), data) from None

    def __iter__(self) -> Generator[tuple[str, Any], None, None]:
        """Yield the fields and their values, as copies where they are read as copies."""
        for name, _ in super().__iter__():
            yield name, getattr(self, name)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with fields that are not checked; `replace` checks them."""
        changes = {name: _copy(value) for name, value in (update or {}).items()}
        return super().model_copy(update=changes, deep=deep)

    def shared(self, name: str) -> Any:
        """Return the value of a field itself, for those who read it often and do not change it."""
        return self.__dict__[name]

    def to_json(self, *, without: Container[str] = ()) -> dict[str, Any]:
        """Return the JSON form: camelCase, absent fields left out, nothing shared with the record.

        A field of any JSON value is absent where it was not given: null is a value like others.

        `without` names fields that are not wanted, as Python calls them.
        """
        known = {
            field.alias or name: _json(value)
            for name, field in type(self).model_fields.items()
            if name not in without and not self._is_absent(name, value := self.__dict__[name], field)
        }
        return known | {name: copy_json(value) for name, value in (self.__pydantic_extra__ or {}).items()}

    def _is_absent(self, name: str, value: Any, field: FieldInfo) -> bool:
        """Return whether a field says nothing: it is None, or empty where that is the default."""
        if value is None:
            return field.annotation is not Any or name not in self.model_fields_set
        if value or not isinstance(value, tuple | dict):
            return False
        default = _blank(type(self))[name]
        return isinstance(default, tuple | dict) and value == default

    @classmethod
    def _refuse_twice(cls, data: dict[str, Any]) -> None:
        """Refuse fields that are given under both their names."""
        aliases = _aliases(cls)
        if twice := [name for name in data if name in aliases and aliases[name] in data]:
            reason = "is given under both its names"
            raise cls._refusal(tuple(Problem(f"/{name}", "name", reason) for name in twice), data)

    @classmethod
    def _refusal(cls, problems: tuple[Problem, ...], data: dict[str, Any]) -> ToolcribError:
        """Return the error that says these problems."""
        return InvalidToolError(problems, data.get("name"), cls.__name__)


class OpenRecord(Record):
    """A record of a protocol: fields that we do not know are kept as they came."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow")
    __pydantic_extra__: dict[Text, Json] = Field(init=False)

    @property
    def model_extra(self) -> dict[str, Any] | None:
        """A copy of the fields that we do not know."""
        extra: dict[str, Any] | None = _copy(self.__pydantic_extra__)
        return extra

    if not TYPE_CHECKING:  # type checkers would take any name for a field

        def __getattr__(self, name: str) -> Any:
            return _copy(super().__getattr__(name))


def _copy(value: Any) -> Any:
    """Return a value of a field that shares no container with the record."""
    kind = type(value)
    if kind is dict or kind is list:
        return copy_json(value)
    return tuple(map(_copy, value)) if kind is tuple else value


def _holds_containers(annotation: Any) -> bool:
    """Return whether values of a type may be, or have in them, dicts or lists."""
    kind = get_origin(annotation) or annotation
    return (
        kind is dict
        or kind is list
        or _OWNED in getattr(annotation, "__metadata__", ())
        or any(map(_holds_containers, get_args(annotation)))
    )


_SCALARS = frozenset({str, int, float, bool, type(None)})


@cache
def _aliases(record: type[Record]) -> dict[str, str]:
    """Return the fields of a record that are called otherwise in JSON, by their Python names."""
    fields = record.model_fields.items()
    return {name: field.alias for name, field in fields if field.alias and field.alias != name}


@cache
def _blank(record: type[Record]) -> dict[str, Any]:
    """Return the values of the fields that are not given."""
    return {name: field.get_default(call_default_factory=True) for name, field in record.model_fields.items()}


def _json(value: Any) -> Any:
    """Return a field's value in JSON."""
    if type(value) in _SCALARS:
        return value
    if isinstance(value, Record):
        return value.to_json()
    if isinstance(value, tuple):
        return [_json(member) for member in value]
    if isinstance(value, dict) and any(isinstance(member, tuple) for member in value.values()):
        return {key: _json(member) for key, member in value.items()}
    return copy_json(value)


def problems_of(error: pydantic.ValidationError) -> tuple[Problem, ...]:
    """Return pydantic's complaints as ours."""
    return tuple(_problem(detail) for detail in error.errors(include_url=False)[:MAX_PROBLEMS])


def _problem(detail: ErrorDetails) -> Problem:
    inside = detail.get("ctx", {}).get("at", "")
    text = detail["msg"].removeprefix("Value error, ")
    message = _WORDING.get(
        detail["type"], text.replace("Input should be", "must be").replace("a valid ", "a ")
    )
    return Problem(pointer(detail["loc"]) + inside, detail["type"], message[:MAX_MESSAGE])
