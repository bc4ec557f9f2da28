"""Shapes of step results: what output schemas say about a value before it exists.

`member_shape` follows one key or index of a reference into a shape.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from toolcrib.errors.base import short_repr
from toolcrib.execution.chains.schemas import SchemaPart, possible_types
from toolcrib.model.suggest import did_you_mean

_ARTICLES = {
    "null": "null",
    "integer": "an integer",
    "fraction": "a fraction",
    "array": "an array",
    "object": "an object",
}
_ORDER = ("object", "array", "string", "number", "integer", "fraction", "boolean", "null")


_MAX_INDEX_DIGITS = 10


@dataclass(frozen=True, slots=True)
class SchemaShape:
    """A value that satisfies all parts of schemas; without parts, any value."""

    parts: tuple[SchemaPart, ...]


@dataclass(frozen=True, slots=True)
class ArrayShape:
    """An array of unknown length whose items all have one shape."""

    items: "Shape"


@dataclass(frozen=True, slots=True)
class TupleShape:
    """An array with one item of each shape, in order."""

    items: tuple["Shape", ...]


@dataclass(frozen=True, slots=True)
class NullShape:
    """Null: the result of `previous` if no step has run."""


@dataclass(frozen=True, slots=True)
class NoValue:
    """A value that cannot exist."""

    reason: str
    """Description of the value that it would be a part of, as the end of a sentence."""


Shape = SchemaShape | ArrayShape | TupleShape | NullShape
ANYTHING = SchemaShape(())


def name_types(kinds: frozenset[str]) -> str:
    """Return types with articles, for a sentence.

    >>> name_types(frozenset({"integer", "fraction", "null"}))
    'a number or null'
    """
    if kinds >= {"integer", "fraction"}:
        kinds = kinds - {"integer", "fraction"} | {"number"}
    named = [_ARTICLES.get(kind, f"a {kind}") for kind in _ORDER if kind in kinds] or ["nothing"]
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} or {named[-1]}"


def member_shape(shape: Shape, key: str | None) -> Shape | NoValue:
    """Return the shape of the member under a key or index; None means any item."""
    if isinstance(shape, SchemaShape):
        return _schema_member(shape.parts, key)
    if isinstance(shape, NullShape):
        return NoValue("is null")
    return _array_member(shape, key)


def _array_member(shape: ArrayShape | TupleShape, key: str | None) -> Shape | NoValue:
    index = _parse_index(key)
    if key is not None and index is None:
        return NoValue("is an array")
    if isinstance(shape, ArrayShape):
        return shape.items
    if index is None:
        return ANYTHING
    return shape.items[index] if index < len(shape.items) else NoValue(f"has {len(shape.items)} items")


def _parse_index(key: str | None) -> int | None:
    return int(key) if key and key.isascii() and key.isdecimal() and len(key) < _MAX_INDEX_DIGITS else None


def _schema_member(parts: Sequence[SchemaPart], key: str | None) -> Shape | NoValue:
    admitted = possible_types(parts)
    holders = (
        {"array"} if key is None else {"object", "array"} if _parse_index(key) is not None else {"object"}
    )
    holder = admitted & holders
    if not admitted or not parts:
        return ANYTHING  # a schema without valid values: the step itself fails, whatever refers to it
    if not holder:
        return NoValue(f"is {name_types(admitted)}")
    if len(holder) > 1:  # "0" may be a key of an object or an index of an array
        return ANYTHING
    found: list[SchemaPart] = []
    for part in (each for start in parts for each in start.conjuncts()):
        inner = _property_parts(part, key or "") if holder == {"object"} else _item_parts(part, key)
        if isinstance(inner, NoValue):
            return inner
        found += inner
        for branches in part.alternatives():
            inner = _alternative_member(branches, key)
            if isinstance(inner, NoValue):
                return inner
            found += inner
    return SchemaShape(tuple(found))


def _alternative_member(branches: Sequence[SchemaPart], key: str | None) -> Sequence[SchemaPart] | NoValue:
    """Return the parts that describe a member if the value satisfies one of several schemas.

    Only if all but one rule out the member is anything certain about it.
    """
    inner = [_schema_member([branch], key) for branch in branches]
    left = [each for each in inner if isinstance(each, SchemaShape)]
    if not left:
        return next(each for each in inner if isinstance(each, NoValue))
    return left[0].parts if len(left) == 1 else ()


def _property_parts(part: SchemaPart, name: str) -> Sequence[SchemaPart] | NoValue:
    declared = part.keyword("properties")
    declared = declared if isinstance(declared, dict) else {}
    if name in declared:
        inner = declared[name]
        return NoValue(f"never has {short_repr(name)}") if inner is False else [part.make_part(inner)]
    others = part.keyword("additionalProperties")
    if others is None or part.keyword("patternProperties"):
        return ()
    if others is False:
        return NoValue(f"has no {short_repr(name)}{did_you_mean(name, declared)}")
    return [part.make_part(others)]


def _item_parts(part: SchemaPart, key: str | None) -> Sequence[SchemaPart] | NoValue:
    first = part.keyword("prefixItems")
    items = part.keyword("items")
    if first or isinstance(items, list):
        return ()
    most, at = part.keyword("maxItems"), _parse_index(key)
    if isinstance(most, int) and at is not None and at >= most:
        return NoValue(f"has at most {most} items")
    if items is False:
        return NoValue("is an empty array")
    return () if items is None else [part.make_part(items)]
