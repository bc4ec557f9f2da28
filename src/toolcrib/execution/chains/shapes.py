"""Shapes of step results, as far as the output schemas tell."""

from collections.abc import Sequence
from dataclasses import dataclass

from toolcrib.errors.base import shown
from toolcrib.execution.chains.schemas import SchemaPart, types
from toolcrib.model.suggest import did_you_mean

_ARTICLES = {
    "null": "null",
    "integer": "an integer",
    "fraction": "a fraction",
    "array": "an array",
    "object": "an object",
}
_ORDER = ("object", "array", "string", "number", "integer", "fraction", "boolean", "null")


_DIGITS = 10


@dataclass(frozen=True, slots=True)
class Fits:
    """A value that fits all of these schemas; with none of them, any value."""

    places: tuple[SchemaPart, ...]


@dataclass(frozen=True, slots=True)
class Each:
    """A list, each of whose items is of a shape."""

    of: "Shape"


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of just these."""

    shapes: tuple["Shape", ...]


@dataclass(frozen=True, slots=True)
class Null:
    """Null, where no step has run yet."""


@dataclass(frozen=True, slots=True)
class NoValue:
    """There can be nothing here."""

    reason: str
    """What is there instead, as the end of a sentence."""


Shape = Fits | Each | ListOf | Null
ANYTHING = Fits(())


def a(kinds: frozenset[str]) -> str:
    """Return types as a sentence names them.

    >>> a(frozenset({"integer", "fraction", "null"}))
    'a number or null'
    """
    if kinds >= {"integer", "fraction"}:
        kinds = kinds - {"integer", "fraction"} | {"number"}
    named = [_ARTICLES.get(kind, f"a {kind}") for kind in _ORDER if kind in kinds] or ["nothing"]
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} or {named[-1]}"


def member_of(shape: Shape, part: str | None) -> Shape | NoValue:
    """Return the shape of what a key or place leads to, or of any item where that is None."""
    if isinstance(shape, Fits):
        return _in_schemas(shape.places, part)
    if isinstance(shape, Null):
        return NoValue("is null")
    return _in_list(shape, part)


def _in_list(shape: Each | ListOf, part: str | None) -> Shape | NoValue:
    place = _place(part)
    if part is not None and place is None:
        return NoValue("is an array")
    if isinstance(shape, Each):
        return shape.of
    if place is None:
        return ANYTHING
    return shape.shapes[place] if place < len(shape.shapes) else NoValue(f"has {len(shape.shapes)} items")


def _place(part: str | None) -> int | None:
    return int(part) if part and part.isascii() and part.isdecimal() and len(part) < _DIGITS else None


def _in_schemas(places: Sequence[SchemaPart], part: str | None) -> Shape | NoValue:
    admitted = types(places)
    holders = {"array"} if part is None else {"object", "array"} if _place(part) is not None else {"object"}
    holder = admitted & holders
    if not admitted or not places:
        return ANYTHING  # a schema that admits nothing says nothing either
    if not holder:
        return NoValue(f"is {a(admitted)}")
    if len(holder) > 1:
        return ANYTHING
    found: list[SchemaPart] = []
    for place in (each for start in places for each in start.all()):
        inner = _property(place, part or "") if holder == {"object"} else _item(place, part)
        if isinstance(inner, NoValue):
            return inner
        found += inner
        for branches in place.choices():
            inner = _chosen(branches, part)
            if isinstance(inner, NoValue):
                return inner
            found += inner
    return Fits(tuple(found))


def _chosen(branches: Sequence[SchemaPart], part: str | None) -> Sequence[SchemaPart] | NoValue:
    """Return what is known of a member where a value fits one of several schemas."""
    inner = [_in_schemas([branch], part) for branch in branches]
    left = [each for each in inner if isinstance(each, Fits)]
    if not left:
        return next(each for each in inner if isinstance(each, NoValue))
    return left[0].places if len(left) == 1 else ()


def _property(place: SchemaPart, name: str) -> Sequence[SchemaPart] | NoValue:
    declared = place.under("properties")
    declared = declared if isinstance(declared, dict) else {}
    if name in declared:
        inner = declared[name]
        return NoValue(f"never has {shown(name)}") if inner is False else [place.at(inner)]
    others = place.under("additionalProperties")
    if others is None or place.under("patternProperties"):
        return ()
    if others is False:
        return NoValue(f"has no {shown(name)}{did_you_mean(name, declared)}")
    return [place.at(others)]


def _item(place: SchemaPart, part: str | None) -> Sequence[SchemaPart] | NoValue:
    first = place.under("prefixItems")
    items = place.under("items")
    if first or isinstance(items, list):
        return ()
    most, at = place.under("maxItems"), _place(part)
    if isinstance(most, int) and at is not None and at >= most:
        return NoValue(f"has at most {most} items")
    if items is False:
        return NoValue("is an empty array")
    return () if items is None else [place.at(items)]
