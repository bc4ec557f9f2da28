"""Whether a schema is larger than a provider takes."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from toolcrib.adapter.rules.positions import DEFINITIONS, Place, Places, types_of
from toolcrib.adapter.rules.tables import Limits, Rules
from toolcrib.errors import Problem

__all__ = ["oversizes"]

_LONG_ENUM: Final = 250
_LONG_ENUM_CHARS: Final = 15_000

_TOTALS: Final = {
    "enum_values": "values under enum",
    "name_chars": "characters in the names of properties and definitions and in the values of enums",
    "optional": "properties that are not required",
    "unions": "unions",
}
"""The limits on a schema as a whole, and what each of them counts."""


def oversizes(places: Places, rules: Rules) -> Iterator[Problem]:
    """Yield what is larger than the rules allow; the keyword of each problem is the name of the limit."""
    limits = rules.limits
    if limits == Limits():
        return
    yield from _of_definitions(places, rules)
    if limits.enum_values is not None:
        yield from _of_enums(places, rules)
    counts: Counter[str] = Counter()
    for place in places.all:
        counts.update(_counts(place))
    for name, noun in _TOTALS.items():
        bound = getattr(limits, name)
        if bound is not None and counts[name] > bound:
            yield _oversize("", name, rules, f"more than {bound:,} {noun}, and there are {counts[name]:,}")


def _of_definitions(places: Places, rules: Rules) -> Iterator[Problem]:
    """Yield what is too large in the root or in one definition, without following references."""
    limits = rules.limits
    homes, depths = _measure(places.all)
    sizes: Counter[Place] = Counter()
    for place in places.all:
        sizes[homes[place]] += len(_members(place, "properties"))
    for home, size in sizes.items():
        if limits.properties is not None and size > limits.properties:
            many = f"more than {limits.properties:,} properties in one definition, and there are {size:,}"
            yield _oversize(home.path, "properties", rules, many)
    for place in _too_deep(depths, homes, limits):
        deep = f"objects nested more than {limits.depth} deep in one definition"
        yield _oversize(place.path, "depth", rules, deep)


def _measure(places: list[Place]) -> tuple[dict[Place, Place], dict[Place, int]]:
    """Return for each place the definition it is in, and how many objects deep it is there."""
    homes: dict[Place, Place] = {}
    depths: dict[Place, int] = {}
    for place in places:
        parent = place.parent
        if parent is None or place.word == "$ref" or place.word in DEFINITIONS:
            homes[place], depths[place] = place, 0
        else:
            homes[place], depths[place] = homes[parent], depths[parent]
        depths[place] += _is_object(place.value)
    return homes, depths


def _too_deep(depths: dict[Place, int], homes: dict[Place, Place], limits: Limits) -> list[Place]:
    """Return the first place of each definition that is too deep in it."""
    first: dict[Place, Place] = {}
    for place, depth in depths.items():
        if limits.depth is not None and depth > limits.depth:
            first.setdefault(homes[place], place)
    return list(first.values())


def _of_enums(places: Places, rules: Rules) -> Iterator[Problem]:
    for place in places.all:
        values = _values(place)
        chars = sum(len(value) for value in values if type(value) is str)
        if len(values) > _LONG_ENUM and chars > _LONG_ENUM_CHARS:
            long = f"more than {_LONG_ENUM_CHARS:,} characters in one enum of more than {_LONG_ENUM} values"
            yield _oversize(place.path, "enum_values", rules, long)


def _counts(place: Place) -> dict[str, int]:
    schema = place.value
    if type(schema) is not dict:
        return {}
    names = [name for word in ("properties", *DEFINITIONS) for name in _members(place, word)]
    texts = [value for value in (*_values(place), schema.get("const")) if type(value) is str]
    required = schema.get("required")
    needed = {name for name in required if type(name) is str} if type(required) is list else set()
    return {
        "enum_values": len(_values(place)),
        "name_chars": sum(map(len, names)) + sum(map(len, texts)),
        "optional": len(_members(place, "properties").keys() - needed),
        "unions": (type(schema.get("anyOf")) is list) + (len(types_of(schema)) > 1),
    }


def _is_object(schema: Any) -> bool:
    return type(schema) is dict and ("object" in types_of(schema) or "properties" in schema)


def _members(place: Place, word: str) -> dict[str, Any]:
    held = place.value.get(word) if type(place.value) is dict else None
    return held if type(held) is dict else {}


def _values(place: Place) -> list[Any]:
    held = place.value.get("enum") if type(place.value) is dict else None
    return held if type(held) is list else []


def _oversize(path: str, limit: str, rules: Rules, what: str) -> Problem:
    return Problem(path, limit, f"{rules.title} does not take {what}; split the tool or leave some out")
