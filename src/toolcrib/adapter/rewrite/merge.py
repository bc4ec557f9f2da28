"""Merging of subschemas that apply together into one, where that can be expressed."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from toolcrib.adapter.rewrite.source import canonical_text

_FIRST_WINS: Final = frozenset({"description", "title", "default", "examples", "$comment", "$schema", "$id"})
_LARGEST: Final = frozenset(
    {"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains"}
)
_SMALLEST: Final = frozenset(
    {"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains"}
)
_CLOSING: Final = ("unevaluatedProperties", "patternProperties", "propertyNames")
_ANYTHING: Final[tuple[Any, ...]] = ({}, True)


def merge(schemas: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    """Return one schema that is equivalent to all of them together; None if there is none.

    >>> merge([{"type": "object", "required": ["a"]}, {"required": ["b"], "minProperties": 2}])
    {'type': 'object', 'required': ['a', 'b'], 'minProperties': 2}
    """
    merged: dict[str, Any] = {}
    for schema in schemas:
        if _constrains_unnamed(merged, schema) or _constrains_unnamed(schema, merged):
            return None
        added, merged = _apply_map_schema(schema, merged), _apply_map_schema(merged, schema)
        for word, value in added.items():
            if word not in merged or merged[word] == value:
                merged[word] = value
                continue
            found = _join(word, merged[word], value)
            if found is None:
                return None
            merged[word] = found[0]
    return merged


def are_disjoint(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether the types of two schemas exclude each other."""
    return "type" in one and "type" in other and _join_types(one["type"], other["type"]) is None


def _constrains_unnamed(schema: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether a schema constrains properties that only the other one names.

    Merged into one object, its `additionalProperties` would no longer apply to these.
    """
    strangers = other.get("properties", {}).keys() - schema.get("properties", {}).keys()
    is_closed = schema.get("additionalProperties") is False
    return bool(strangers) and (
        is_closed or any(schema.get(word, True) not in _ANYTHING for word in _CLOSING)
    )


def _apply_map_schema(schema: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Add the `additionalProperties` of another schema to those properties that the other does not name.

    Only if it has a `type`: without one, the merged property would be taken to have the implied type.
    """
    wanted = other.get("additionalProperties", True)
    if type(wanted) is not dict or "type" not in wanted or "properties" not in schema:
        return schema
    named = other.get("properties", {})
    properties = {
        name: member if name in named else {"allOf": [member, wanted]}
        for name, member in schema["properties"].items()
    }
    return {**schema, "properties": properties}


def _join(word: str, one: Any, other: Any) -> tuple[Any] | None:
    """Merge two values of a keyword; return the result in a tuple, or None if they cannot be merged."""
    if word in _FIRST_WINS or word.startswith("x-"):
        return (one,)
    if word in _LARGEST:
        return (max(one, other),)
    if word in _SMALLEST:
        return (min(one, other),)
    join = _JOINS.get(word)
    return join(one, other) if join else None


def _join_names(one: list[str], other: list[str]) -> tuple[Any]:
    return (list(dict.fromkeys([*one, *other])),)


def _join_properties(one: dict[str, Any], other: dict[str, Any]) -> tuple[Any]:
    joined = dict(one)
    for name, schema in other.items():
        if name in joined and joined[name] != schema:
            joined[name] = {"allOf": [joined[name], schema]}
        else:
            joined[name] = schema
    return (joined,)


def _join_additional(one: Any, other: Any) -> tuple[Any]:
    if one is False or other is False:
        return (False,)
    return (other if one in _ANYTHING else one if other in _ANYTHING else {"allOf": [one, other]},)


def _join_types(one: Any, other: Any) -> tuple[Any] | None:
    ours, theirs = ([kinds] if isinstance(kinds, str) else kinds for kinds in (one, other))
    both = [kind for kind in ours if kind in theirs or (kind == "integer" and "number" in theirs)]
    both += [kind for kind in theirs if kind == "integer" and "number" in ours and kind not in both]
    if not both:
        return None
    return (both[0],) if len(both) == 1 else (both,)


def _join_enums(one: list[Any], other: list[Any]) -> tuple[Any] | None:
    theirs = set(map(canonical_text, other))
    both = [value for value in one if canonical_text(value) in theirs]
    return (both,) if both else None


def _join_definitions(one: dict[str, Any], other: dict[str, Any]) -> tuple[Any]:
    return ({**other, **one},)


def _join_flags(one: Any, other: Any) -> tuple[Any]:
    return (bool(one or other),)


_JOINS: Final[dict[str, Callable[[Any, Any], tuple[Any] | None]]] = {
    "required": _join_names,
    "properties": _join_properties,
    "additionalProperties": _join_additional,
    "type": _join_types,
    "enum": _join_enums,
    "$defs": _join_definitions,
    "definitions": _join_definitions,
    "uniqueItems": _join_flags,
    "deprecated": _join_flags,
}
