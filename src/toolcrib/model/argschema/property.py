"""One argument as its schema describes it."""

from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

from toolcrib.model.argschema.forms import Choices
from toolcrib.model.argschema.patterns import Pattern

_N = TypeVar("_N", int, float)

ArgType = Literal["string", "integer", "float", "number", "boolean", "enum", "array", "object"]

TYPES: Final[tuple[ArgType, ...]] = (
    "string",
    "integer",
    "float",
    "number",
    "boolean",
    "enum",
    "array",
    "object",
)

ACCEPTED: Final[dict[ArgType, frozenset[type]]] = {
    "string": frozenset({str}),
    "integer": frozenset({int, float}),
    "float": frozenset({int, float}),
    "number": frozenset({int, float}),
    "boolean": frozenset({bool}),
    "array": frozenset({list}),
    "object": frozenset({dict}),
}
"""The Python types each schema type admits; an enum admits what its values say."""


@dataclass(frozen=True, slots=True)
class NoDefault:
    """Stands where a property has no default, since None is one."""


NO_DEFAULT: Final = NoDefault()


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a value must satisfy beyond its type; each bound concerns only the values it can apply to."""

    min_length: int | None = None
    max_length: int | None = None
    minimum: float | None = None
    maximum: float | None = None
    choices: Choices | None = None
    patterns: tuple[Pattern, ...] = ()

    def both(self, other: "Bounds") -> "Bounds":
        """Return the bounds that hold where these and the others do."""
        return Bounds(
            min_length=_largest(self.min_length, other.min_length),
            max_length=_smallest(self.max_length, other.max_length),
            minimum=_largest(self.minimum, other.minimum),
            maximum=_smallest(self.maximum, other.maximum),
            choices=self.choices.both(other.choices) if self.choices else other.choices,
            patterns=self.patterns + other.patterns,
        )


def _largest(one: _N | None, two: _N | None) -> _N | None:
    return max((bound for bound in (one, two) if bound is not None), default=None)


def _smallest(one: _N | None, two: _N | None) -> _N | None:
    return min((bound for bound in (one, two) if bound is not None), default=None)


@dataclass(frozen=True, slots=True)
class Members:
    """The properties of an object and the names it must have."""

    properties: dict[str, "ArgSchemaProperty"]
    required: tuple[str, ...] = ()
    """Every required name in schema order; names without a property come last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgSchemaProperty:
    """One argument: its type, whether it must be there, and the bounds of its value or of each element."""

    name: str
    type: ArgType | None = None
    """The type as written, or None where any value will do."""
    value_type: ArgType | None = None
    """The type of the value, or of each element of an array."""
    is_array: bool = False
    required: bool = False
    description: str = ""
    bounds: Bounds = Bounds()
    """The bounds of the value, or of each element of an array."""
    members: Members | None = None
    """What an object holds, or each object in an array (extended)."""
    min_items: int | None = None
    max_items: int | None = None
    default: Any = NO_DEFAULT
    deprecated: bool = False

    @property
    def enum(self) -> tuple[Any, ...] | None:
        """The allowed values of the argument or of each element, or None where there is no enum."""
        return None if self.bounds.choices is None else self.bounds.choices.values

    @property
    def has_default(self) -> bool:
        """Whether the schema gives a default."""
        return not isinstance(self.default, NoDefault)
