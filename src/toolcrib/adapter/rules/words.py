"""Checks of single keyword values that a provider refuses."""

import re
from collections.abc import Callable, Iterator, Mapping
from math import isfinite
from typing import Any, Final

from toolcrib.adapter.rules.positions import REFERENCES, types_of
from toolcrib.adapter.rules.tables import SchemaRules
from toolcrib.errors.base import join_options, short_repr
from toolcrib.model.schema.keywords import LISTS, MAPS, SINGLES

TYPES: Final = ("array", "boolean", "integer", "null", "number", "object", "string")

_BACKTRACKING: Final = re.compile(
    r"(?P<hit>\\[1-9]|\\k[<{']|\(\?(?:<?[=!]|P=))|\\.|\[(?:\\.|[^\]\\])*\]?", re.DOTALL
)
"""Matches look-around and back-references, and also escapes and character sets, so that these are skipped."""


def sketch(value: Any) -> str:
    """Return a short name of a value for messages, without its content."""
    if type(value) is dict:
        return "an object"
    return "a list" if type(value) is list else short_repr(value)


def has_shape(word: str, value: Any) -> bool:
    """Return whether the value of a keyword has the right JSON type."""
    fits = _SHAPES.get(word)
    return fits is None or fits(value)


def value_faults(word: str, schema: Mapping[str, Any], rules: SchemaRules) -> Iterator[str]:
    """Yield the reasons why the rules refuse the value of one keyword, which has the right type."""
    check = _CHECKS.get(word)
    return iter(()) if check is None else check(schema, rules)


def _is_flag(value: Any) -> bool:
    return type(value) is bool


def _is_number(value: Any) -> bool:
    return type(value) is int or (type(value) is float and isfinite(value))


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and value == int(value)


def _is_text(value: Any) -> bool:
    return type(value) is str


def _is_texts(value: Any) -> bool:
    return type(value) is list and all(map(_is_text, value))


def _is_kind(value: Any) -> bool:
    return _is_text(value) or (_is_texts(value) and bool(value))


def _is_list(value: Any) -> bool:
    return type(value) is list


def _is_filled(value: Any) -> bool:
    return type(value) is list and bool(value)


def _is_map(value: Any) -> bool:
    return type(value) is dict


def _is_schema(value: Any) -> bool:
    return type(value) is dict or type(value) is bool


_SHAPES: Final[Mapping[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(SINGLES, _is_schema),
    **dict.fromkeys(LISTS, _is_filled),
    **dict.fromkeys(MAPS | {"dependentRequired"}, _is_map),
    **dict.fromkeys(("maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum", "multipleOf"), _is_number),
    **dict.fromkeys(("maxContains", "maxItems", "maxLength", "maxProperties"), _is_count),
    **dict.fromkeys(("minContains", "minItems", "minLength", "minProperties"), _is_count),
    **dict.fromkeys(("deprecated", "nullable", "readOnly", "uniqueItems", "writeOnly"), _is_flag),
    **dict.fromkeys(("$anchor", "$comment", "$dynamicAnchor", "$id", "$schema", *REFERENCES), _is_text),
    **dict.fromkeys(("contentEncoding", "contentMediaType"), _is_text),
    **dict.fromkeys(("description", "format", "pattern", "title"), _is_text),
    **dict.fromkeys(("enum", "examples"), _is_list),
    "required": _is_texts,
    "type": _is_kind,
}
"""Checks of the type of each keyword's value; nested schemas are checked at their own places."""


def _type(schema: Mapping[str, Any], rules: SchemaRules) -> Iterator[str]:
    if type(schema["type"]) is list and not rules.type_lists:
        yield "a list of types; use one type, or anyOf"
    for kind in types_of(schema):
        if kind not in TYPES:
            yield f"the type {short_repr(kind)}; use {join_options(TYPES)}"
        elif kind == "null" and rules.nullable:
            yield "the type 'null'; use nullable: true"


def _enum(schema: Mapping[str, Any], rules: SchemaRules) -> Iterator[str]:
    values = schema["enum"]
    if rules.structured and not values:
        yield "an empty enum; leave it out"
    yield from _choices(values, rules)
    if rules.enums == "string" and schema.get("type") != "string":
        yield "an enum of another type; use type: 'string', or leave the enum out"


def _const(schema: Mapping[str, Any], rules: SchemaRules) -> Iterator[str]:
    yield from _choices([schema["const"]], rules)


def _choices(values: list[Any], rules: SchemaRules) -> Iterator[str]:
    if rules.enums == "string":
        other = [value for value in values if type(value) is not str]
    else:
        other = [value for value in values if rules.enums == "scalar" and type(value) in {dict, list}]
    if other:
        kind = "strings" if rules.enums == "string" else "single values"
        yield f"the choice {sketch(other[0])}; use {kind} only"


def _format(schema: Mapping[str, Any], rules: SchemaRules) -> Iterator[str]:
    value = schema["format"]
    if rules.formats is not None and value not in rules.formats:
        known = join_options(sorted(rules.formats))
        yield f"the format {short_repr(value)}; use {known}, or put it into the description"


def _pattern(schema: Mapping[str, Any], rules: SchemaRules) -> Iterator[str]:
    if rules.look_around:
        return
    hit = next((token["hit"] for token in _BACKTRACKING.finditer(schema["pattern"]) if token["hit"]), None)
    if hit is not None:
        yield f"{short_repr(hit)} in a pattern; write it without look-around and back-references"


def _min_items(schema: Mapping[str, Any], rules: SchemaRules) -> Iterator[str]:
    least = schema["minItems"]
    if rules.max_min_items is not None and least > rules.max_min_items:
        limit = rules.max_min_items
        yield f"a minItems above {limit}, and it is {short_repr(least)}; put it into the description"


_CHECKS: Final[Mapping[str, Callable[[Mapping[str, Any], SchemaRules], Iterator[str]]]] = {
    "const": _const,
    "enum": _enum,
    "format": _format,
    "minItems": _min_items,
    "pattern": _pattern,
    "type": _type,
}
