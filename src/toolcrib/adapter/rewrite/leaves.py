"""The short way for the subschemas that most schemas are made of.

Four in five subschemas of real tools say a type and little more. Every provider takes them, their values look
the same before and after, and nothing is lost: the long way would come to the same, in five times the time.
"""

from typing import TYPE_CHECKING, Any, Final

from toolcrib.adapter.rewrite.source import SCALARS

if TYPE_CHECKING:
    from toolcrib.adapter.rewrite.walk import Walk

_NULLABLE: Final = [[kind, "null"] for kind in ("string", "boolean", "number", "integer")]
_FEW_VALUES: Final = 100
_TYPE_ALONE: Final = 1
_TYPE_AND_MORE: Final = 2


def rewrite_leaf(walk: "Walk", schema: Any) -> dict[str, Any] | None:
    """Return a subschema converted; None where the long way must be taken."""
    if type(schema) is not dict or ("description" in schema and type(schema["description"]) is not str):
        return None
    kinds, words = schema.get("type"), len(schema) - ("description" in schema)
    if type(kinds) is str:
        if words == _TYPE_ALONE:
            return schema.copy() if kinds in SCALARS else None
        if words == _TYPE_AND_MORE and kinds == "array":
            return _list(walk, schema)
        return _enum(walk, schema) if words == _TYPE_AND_MORE and kinds == "string" else None
    if words == _TYPE_ALONE and kinds in _NULLABLE and walk.rules.type_lists:
        walk.unions += 1
        return {**schema, "type": kinds.copy()}
    return None


def widen_leaf(walk: "Walk", leaf: dict[str, Any]) -> bool:
    """Make a converted leaf admit null too; return whether it did already."""
    kinds = leaf["type"]
    if type(kinds) is list:
        return True
    leaf["type"] = [kinds, "null"]
    walk.unions += 1
    if "enum" in leaf:
        leaf["enum"].append(None)
        walk.enum_values += 1
    return False


def _list(walk: "Walk", schema: dict[str, Any]) -> dict[str, Any] | None:
    items = schema.get("items")
    found = rewrite_leaf(walk, items) if type(items) is dict and items.get("type") != "array" else None
    return None if found is None else {**schema, "items": found}


def _enum(walk: "Walk", schema: dict[str, Any]) -> dict[str, Any] | None:
    values = schema.get("enum")
    if type(values) is not list or not 0 < len(values) <= _FEW_VALUES or set(map(type, values)) != {str}:
        return None
    walk.enum_values += len(values)
    walk.name_chars += len("".join(values))
    return {**schema, "enum": values.copy()}
