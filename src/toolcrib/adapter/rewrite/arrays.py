"""Arrays: lists of one kind of item, and tuples."""

from typing import TYPE_CHECKING, Any, Final

from toolcrib.adapter.paths import step
from toolcrib.adapter.rewrite.codec import ArrayCodec, Codec, TupleCodec
from toolcrib.adapter.rewrite.scalars import limit_values

if TYPE_CHECKING:
    from toolcrib.adapter.rewrite.walk import Found, Walk

__all__ = ["USED", "rewrite_array"]

USED: Final = frozenset({"type", "items", "prefixItems", "enum", "const"})


def rewrite_array(
    walk: "Walk", node: dict[str, Any], path: str
) -> tuple[dict[str, Any] | None, Codec | None]:
    """Return an array schema converted; None where only JSON text will do."""
    if "enum" in node or "const" in node:
        found: dict[str, Any] = {"type": "string"}
        values = [value for value in node.get("enum", [node.get("const")]) if type(value) is list]
        return found, limit_values(walk, found, values, path)
    if "prefixItems" in node:
        return _rewrite_tuple(walk, node, path)
    items = node.get("items", True)
    if "items" not in node:
        walk.losses.note("items", path, "are not described, and are passed as JSON text")
    if items is False:
        walk.losses.note("items", path, "may not be given, which is only said in the description")
        return {"type": "array", "items": {"type": "string"}, "description": "(always empty)"}, None
    found, codec = walk.schema(items, step(path, "items"))
    return {"type": "array", "items": found}, ArrayCodec(codec) if codec else None


def _rewrite_tuple(walk: "Walk", node: dict[str, Any], path: str) -> "Found":
    """Return a tuple as an object with a property for each place."""
    walk.losses.note("prefixItems", path, "the tuple is passed as an object with a property for each place")
    rules, least = walk.rules, node.get("minItems", 0)
    properties: dict[str, Any] = {}
    items, required = [], []
    for index, item in enumerate(node["prefixItems"]):
        name = f"item_{index + 1}"
        found, codec = walk.schema(item, step(path, "prefixItems", index))
        is_optional = index >= least
        if is_optional and rules.all_required:
            found = walk.nullable(found)
        if rules.all_required or not is_optional:
            required.append(name)
        properties[name] = found
        items.append((name, codec, is_optional and rules.all_required))
    rest = None
    if node.get("items", True) is not False and node.get("maxItems", len(items) + 1) > len(items):
        found, codec = walk.schema(node.get("items", True), step(path, "items"))
        properties["rest"] = {"type": "array", "items": found}
        required.append("rest")
        rest = ("rest", codec)
    walk.optional += len(properties) - len(required)
    walk.properties += len(properties)
    schema: dict[str, Any] = {"type": "object", "properties": properties, "required": required}
    if rules.closed:
        schema["additionalProperties"] = False
    return schema, TupleCodec(items, rest)
