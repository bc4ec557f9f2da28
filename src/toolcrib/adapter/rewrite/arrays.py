"""Conversion of arrays: lists of one kind of item, and tuples."""

from typing import Any, Final

from toolcrib.adapter.loss import step
from toolcrib.adapter.rewrite.codec import ArrayCodec, Codec
from toolcrib.adapter.rewrite.definition_table import Found
from toolcrib.adapter.rewrite.describe import add_text
from toolcrib.adapter.rewrite.object_codecs import TupleCodec
from toolcrib.adapter.rewrite.scalars import limit_values
from toolcrib.adapter.rewrite.walk import Walk

_USED: Final = frozenset({"type", "items", "prefixItems", "enum", "const"})
_USED_IN_TUPLE: Final = _USED | {"minItems", "maxItems"}


def rewrite_array(
    walk: Walk, node: dict[str, Any], path: str
) -> tuple[dict[str, Any] | None, Codec | None, frozenset[str]]:
    """Convert an array schema; return it with its codec and the keywords that are handled.

    The schema is None if values can only be passed as JSON text.
    """
    found: dict[str, Any] | None
    if "enum" in node or "const" in node:
        limited: dict[str, Any] = {"type": "string"}
        values = [value for value in node.get("enum", [node.get("const")]) if type(value) is list]
        return (limited, limit_values(walk, limited, values, path), _USED) if values else (None, None, _USED)
    if "prefixItems" in node:
        found, codec = _rewrite_tuple(walk, node, path)
        if found is not None:
            message = "the tuple is passed as an object with a property for each place"
            walk.losses.note("prefixItems", path, message)
        return found, codec, _USED_IN_TUPLE
    items = node.get("items", True)
    if "items" not in node:
        walk.losses.note("items", path, "are not described, and are passed as JSON text")
    if items is False:
        walk.losses.note("items", path, "must not be given, which only the description says")
        description = add_text(node.get("description"), "(always empty)")
        return {"type": "array", "items": {"type": "string"}, "description": description}, None, _USED
    inner, codec = walk.convert_member(items, step(path, "items"))
    return {"type": "array", "items": inner}, ArrayCodec(codec) if codec else None, _USED


def _rewrite_tuple(walk: Walk, node: dict[str, Any], path: str) -> Found:
    """Convert a tuple to an object with a property for each position; None if JSON text is needed."""
    rules, least = walk.rules, node.get("minItems", 0)
    properties: dict[str, Any] = {}
    items, required = [], []
    walk.enter_object()
    for index, item in enumerate(node["prefixItems"]):
        name = f"item_{index + 1}"
        found, codec = walk.convert_member(item, step(path, "prefixItems", index))
        null_is_absent = index >= least and rules.all_required
        if null_is_absent:
            wider = walk.make_nullable(found)
            if wider is found:  # null is already a value of the item, so it cannot mean absence
                walk.object_depth -= 1
                walk.has_discarded = True
                return None, None
            found = wider
        if rules.all_required or index < least:
            required.append(name)
        properties[name] = found
        items.append((name, codec, null_is_absent))
    rest = None
    if node.get("items", True) is not False and node.get("maxItems", len(items) + 1) > len(items):
        found, codec = walk.convert_member(node.get("items", True), step(path, "items"))
        properties["rest"] = {"type": "array", "items": found}
        required.append("rest")
        rest = ("rest", codec)
    walk.object_depth -= 1
    return walk.make_object(properties, required), TupleCodec(items, rest)
