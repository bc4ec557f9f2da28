"""Conversion of scalars and of enums."""

from typing import Any, Final

from toolcrib.adapter.rewrite.codec import Codec, EnumCodec, to_text
from toolcrib.adapter.rewrite.source import is_of_type, type_of
from toolcrib.adapter.rewrite.walk import Walk
from toolcrib.model.plain import copy_json

_MANY_VALUES: Final = 250
"""Enums with more values count against the provider's limit of characters in a long enum."""
_USED: Final = frozenset({"type", "enum", "const"})


def rewrite_scalar(
    walk: Walk, kinds: list[str], node: dict[str, Any], path: str
) -> tuple[dict[str, Any] | None, Codec | None, frozenset[str]]:
    """Convert a subschema of scalar types; return it with its codec and the keywords that are handled."""
    if not kinds:
        return _null_schema(walk, path), None, _USED
    found: dict[str, Any] = {"type": kinds[0] if len(kinds) == 1 else kinds}
    walk.unions += len(kinds) > 1
    if "type" not in node:
        walk.losses.note("type", path, f"is declared as {' or '.join(kinds)}")
    codec = None
    if "enum" in node and not any(is_of_type(type_of(value), kinds) for value in node["enum"]):
        return None, None, _USED
    if "const" in node and walk.rules.takes("const"):
        found["const"] = copy_json(node["const"])
        walk.name_chars += len(node["const"]) if type(node["const"]) is str else 0
    elif "enum" in node or "const" in node:
        codec = _limit_to_enum(walk, found, node, path)
    return found, codec, _USED


def _null_schema(walk: Walk, path: str) -> dict[str, Any]:
    """Return the schema of null."""
    if not walk.rules.nullable:
        return {"type": "null"}
    walk.losses.note("type", path, "null is expressed by nullable")
    return {"type": "string", "nullable": True, "description": "(always null)"}


def _limit_to_enum(walk: Walk, found: dict[str, Any], node: dict[str, Any], path: str) -> Codec | None:
    """Limit a converted subschema to those values of an enum that have its types."""
    if "enum" not in node:
        walk.losses.note("const", path, "is an enum of one value")
    given = node.get("enum", [node.get("const")])
    if not given:
        walk.losses.note("enum", path, "has no values, and is left out")
        return None
    kinds = found["type"] if type(found["type"]) is list else [found["type"]]
    values = [value for value in given if is_of_type(type_of(value), kinds)]
    if len(values) < sum(value is not None for value in given):
        walk.losses.note("enum", path, "only values of the type are kept")
    return limit_values(walk, found, values, path)


def limit_values(walk: Walk, found: dict[str, Any], values: list[Any], path: str) -> Codec | None:
    """Add an enum in the provider's form, and return the codec of its values."""
    walk.count_work(len(values))
    walk.enum_values += len(values)
    chars = sum(len(value) for value in values if type(value) is str)
    walk.name_chars += chars
    if len(values) > _MANY_VALUES:
        walk.enum_chars = max(walk.enum_chars, chars)
    scalars_only = all(type(value) is not dict and type(value) is not list for value in values)
    strings_only = all(type(value) is str for value in values)
    if strings_only or (scalars_only and walk.rules.enums != "string"):
        found["enum"] = copy_json(values)
        return None
    texts = [value if type(value) is str else to_text(value) for value in values]
    if len(set(texts)) < len(texts):  # such as 1 and "1": written as JSON, strings get quotes
        texts = [to_text(value) for value in values]
    walk.losses.note("enum", path, "its values are passed as text")
    found["type"] = "string"
    found["enum"] = list(dict.fromkeys(texts))
    return EnumCodec(dict(zip(texts, copy_json(values), strict=True)))
