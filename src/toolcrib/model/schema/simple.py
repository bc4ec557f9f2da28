"""Recognises simple schemas, which are known to be valid without compiling them.

A catalogue checks the schemas of every tool that it takes in, and calls a few of them. To compile a schema
costs half a millisecond and some ten kilobytes. Seven in eight schemas of real tools have nothing that a
compiler could refuse: objects, arrays and scalars with plain limits, no references and no patterns.
"""

from collections.abc import Callable
from typing import Any

from toolcrib.model.schema.engine import DRAFT_7, DRAFT_2020_12
from toolcrib.model.schema.explain import TYPES

_MAX_DEPTH = 16
_MAX_SUBSCHEMAS = 500
"""Larger schemas are compiled, which bounds their cost."""
_SINGLES = frozenset({"items", "additionalProperties"})
_LISTS = frozenset({"anyOf", "oneOf", "allOf"})
_DIALECTS = frozenset({DRAFT_2020_12, f"{DRAFT_2020_12}#", DRAFT_7, f"{DRAFT_7}#"})


def is_simple(schema: Any) -> bool:
    """Return whether a schema of plain JSON certainly compiles; False where only a compiler can tell.

    >>> is_simple({"type": "object", "properties": {"name": {"type": "string", "maxLength": 80}}})
    True
    >>> is_simple({"properties": {"name": {"pattern": "["}}}), is_simple({"type": "text"})
    (False, False)
    """
    if type(schema) is dict and "$schema" in schema:
        if type(schema["$schema"]) is not str or schema["$schema"] not in _DIALECTS:
            return False
        schema = {keyword: value for keyword, value in schema.items() if keyword != "$schema"}
    level, seen = [schema], 0
    for _ in range(_MAX_DEPTH):
        deeper: list[Any] = []
        if not all(_is_simple_node(each, deeper) for each in level):
            return False
        seen += len(level)
        if not deeper:
            return seen <= _MAX_SUBSCHEMAS
        level = deeper
    return False


def _is_simple_node(schema: Any, deeper: list[Any]) -> bool:
    """Return whether a schema is simple but for its subschemas, which are added to a list."""
    if type(schema) is not dict:
        return type(schema) is bool
    for keyword, value in schema.items():
        kind = type(value)
        if (is_valid := _VALUES.get(keyword)) is not None:
            if not is_valid(value):
                return False
        elif keyword == "properties" and kind is dict:
            deeper += value.values()
        elif keyword in _SINGLES and (kind is dict or kind is bool):
            deeper.append(value)
        elif keyword in _LISTS and kind is list and value:
            deeper += value
        else:
            return False
    return True


def _is_text(value: Any) -> bool:
    return type(value) is str


def _is_flag(value: Any) -> bool:
    return type(value) is bool


def _is_number(value: Any) -> bool:
    return type(value) in {int, float}


def _is_positive(value: Any) -> bool:
    return type(value) in {int, float} and value > 0


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_type(value: Any) -> bool:
    if type(value) is str:
        return value in TYPES
    return _is_list_of_names(value) and len(value) > 0 and all(name in TYPES for name in value)


def _is_list_of_names(value: Any) -> bool:
    return type(value) is list and all(type(name) is str for name in value) and len(set(value)) == len(value)


def _is_scalar(value: Any) -> bool:
    return value is None or type(value) in {str, int, float, bool}


def _is_plain(value: Any) -> bool:
    """Return whether a value is a scalar, a list of scalars or an empty object."""
    return _is_scalar(value) or value == {} or (type(value) is list and all(map(_is_scalar, value)))


def _is_choice(value: Any) -> bool:
    return type(value) is list and len(value) > 0 and all(map(_is_scalar, value))


_VALUES: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("title", "description", "format", "$comment"), _is_text),
    **dict.fromkeys(("deprecated", "readOnly", "writeOnly", "uniqueItems"), _is_flag),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _is_count),
    **dict.fromkeys(("minProperties", "maxProperties"), _is_count),
    "multipleOf": _is_positive,
    "type": _is_type,
    "required": _is_list_of_names,
    "enum": _is_choice,
    "const": _is_plain,
    "default": _is_plain,
    "examples": _is_choice,
}
"""Checks of the values of keywords without subschemas."""
