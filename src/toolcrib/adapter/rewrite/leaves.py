"""The short way for the subschemas that most schemas are made of.

Four in five subschemas of real tools say a type and little more. Every provider takes them, their values look
the same before and after, and nothing is lost: the long way would come to the same, in five times the time.
"""

from typing import TYPE_CHECKING, Any, Final

from toolcrib.adapter.rewrite.source import SCALARS

if TYPE_CHECKING:
    from toolcrib.adapter.rewrite.walk import Walk

__all__ = ["rewrite_leaf"]

_NULLABLE: Final = [[kind, "null"] for kind in ("string", "boolean", "number", "integer")]
_SIMPLE: Final = frozenset({"type", "description"})
_LIST: Final = _SIMPLE | {"items"}
_ENUM: Final = _SIMPLE | {"enum"}
_FEW_VALUES: Final = 100


def rewrite_leaf(walk: "Walk", schema: dict[str, Any]) -> dict[str, Any] | None:
    """Return a subschema converted; None where the long way must be taken."""
    if type(schema.get("description", "")) is not str:
        return None
    keys, kinds = schema.keys(), schema.get("type")
    if type(kinds) is str:
        if keys <= _SIMPLE:
            return schema.copy() if kinds in SCALARS else None
        if kinds == "array":
            return _list(walk, schema) if keys <= _LIST else None
        return _enum(walk, schema) if kinds == "string" and keys <= _ENUM else None
    if type(kinds) is list and keys <= _SIMPLE and kinds in _NULLABLE and walk.rules.type_lists:
        walk.unions += 1
        return {**schema, "type": kinds.copy()}
    return None


def _list(walk: "Walk", schema: dict[str, Any]) -> dict[str, Any] | None:
    items = schema.get("items")
    found = rewrite_leaf(walk, items) if type(items) is dict and items.get("type") != "array" else None
    return None if found is None else {**schema, "items": found}


def _enum(walk: "Walk", schema: dict[str, Any]) -> dict[str, Any] | None:
    values = schema["enum"]
    if type(values) is not list or not 0 < len(values) <= _FEW_VALUES or set(map(type, values)) != {str}:
        return None
    walk.enum_values += len(values)
    walk.name_chars += sum(map(len, values))
    return {**schema, "enum": values.copy()}
