"""Records of parsed argument schemas, and the texts by which values are named and compared."""

from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

import jsonschema_rs

from toolcrib.errors.text import truncate
from toolcrib.model.json_text import sorted_json
from toolcrib.model.plain import walk

ArgType = Literal["string", "integer", "float", "number", "boolean", "enum", "array", "object"]
TYPES: Final[tuple[ArgType, ...]] = get_args(ArgType)
ACCEPTED: Final[dict[ArgType, frozenset[type]]] = {
    "string": frozenset({str}),
    "integer": frozenset({int, float}),
    "float": frozenset({int, float}),
    "number": frozenset({int, float}),
    "boolean": frozenset({bool}),
    "array": frozenset({list}),
    "object": frozenset({dict}),
}
"""The Python types of each schema type; those of an enum follow from its values."""

Place = tuple[str | int, ...]
"""The keys and indexes that lead to a value, outermost first."""

_LONGEST_NAME = 100
_LONGEST_NUMBER = 64
_MAX_FORM = 4_096
_MAX_FORM_BITS = 1_024  # the longest whole float; writing out much longer integers takes quadratic time


def quote(text: str) -> str:
    r"""Return a text in quotes for messages: cut, and with control characters escaped.

    >>> quote("limit"), quote("a\nb")
    ("'limit'", "'a\\nb'")
    """
    cut = truncate(text, _LONGEST_NAME)
    return f"'{cut}'" if cut.isprintable() else repr(cut)


def label(place: Place) -> str:
    """Return a place in quotes for messages, in the notation of Python.

    >>> label(("people", 2, "name"))
    "'people[2].name'"
    """
    parts = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
    return quote("".join(parts).removeprefix("."))


def number_text(number: float) -> str:
    """Return a number for messages: whole numbers without a fraction, long ones cut.

    >>> number_text(100.0), number_text(0.5)
    ('100', '0.5')
    """
    return truncate(str(_whole(number)), _LONGEST_NUMBER)


def form_of(value: Any) -> str | None:
    """Return the text by which an enum compares a JSON value; None if it is too large for an enum.

    >>> [form_of(value) for value in ("a", 1, 1.0, 0.5, True, None, {"b": 1.0, "a": [None]})]
    ['a', '1', '1', '0.5', 'true', 'null', '{"a":[null],"b":1}']
    """
    if type(value) is str:
        return value
    if type(value) is int and value.bit_length() <= _MAX_FORM_BITS:
        return str(value)
    return sorted_json(_whole(value)) if _is_small(value) else None


def _is_small(value: Any) -> bool:
    size = 0
    for member in walk(value):
        size += 1
        if type(member) is str:
            size += len(member)
        elif type(member) is dict:
            size += sum(map(len, member))
        elif type(member) is int and member.bit_length() > _MAX_FORM_BITS:
            return False
        if size > _MAX_FORM:
            return False
    return True


def _whole(value: Any) -> Any:
    """Return a value with whole floats converted to integers."""
    if type(value) is float:
        return int(value) if value.is_integer() else value
    if type(value) is dict:
        return {key: _whole(member) for key, member in value.items()}
    return [_whole(member) for member in value] if type(value) is list else value


@dataclass(frozen=True, slots=True)
class CompiledPattern:
    """A compiled regular expression that matches in time linear in the text."""

    text: str
    steps: int
    """The maximum number of steps for each character of a text."""
    engine: jsonschema_rs.Validator = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Members:
    """The properties of an object, and its required names."""

    properties: dict[str, "ArgSchemaProperty"]
    required: tuple[str, ...] = ()
    """Every required name in schema order; names without a property come last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgSchemaProperty:
    """One argument: its type, whether it is required, and the bounds of its value or of its elements."""

    name: str
    """The name of the argument."""
    type: ArgType | None = None
    """The type as written; None for any value."""
    value_type: ArgType | None = None
    """The type of the value, or of each element of an array."""
    is_array: bool = False
    """Whether the argument is an array."""
    required: bool = False
    """Whether it is required."""
    description: str = ""
    """The description of the argument."""
    min_length: int | None = None
    """The minimum number of code points of the string, or of each element."""
    max_length: int | None = None
    """The maximum number of code points of the string, or of each element."""
    minimum: float | None = None
    """The minimum of the number, or of each element; inclusive."""
    maximum: float | None = None
    """The maximum of the number, or of each element; inclusive."""
    choices: dict[str, Any] | None = None
    """The values of an enum, by their text form (`form_of`), which is the same for equal values."""
    patterns: tuple[CompiledPattern, ...] = ()
    """Regular expressions that the string, or each element, must match (extended)."""
    min_items: int | None = None
    """The minimum number of elements (extended)."""
    max_items: int | None = None
    """The maximum number of elements (extended)."""
    members: Members | None = None
    """The members of the object, or of each object in the array (extended)."""
    has_default: bool = False
    """Whether the schema has a default, which may be null."""
    default: Any = None
    """The value that `apply_defaults` fills in."""
    deprecated: bool = False
    """Whether using the argument causes a warning (extended)."""

    @property
    def enum(self) -> tuple[Any, ...] | None:
        """The allowed values of the argument or of each element; None if there is no enum."""
        return None if self.choices is None else tuple(self.choices.values())
