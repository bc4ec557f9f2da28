"""A shape as a JSON Schema that every value it was learnt from fits."""

from typing import Any, Final

from toolcrib.discovery.docs.shapes import KINDS, Shape

__all__ = ["shape_schema"]

MAX_PROPERTIES: Final = 50
"""How many properties of one object are listed."""
MAX_NODES: Final = 1_000
"""How many subschemas are written; what lies deeper is left open."""


def shape_schema(shape: Shape, depth: int) -> dict[str, Any]:
    """Return the schema of a shape, in the same words for the same shape.

    An object whose names are too many to list is described by those that most objects have, or, where each
    object has others, as a map.
    """
    while depth > 0 and _count(shape, depth) > MAX_NODES:
        depth -= 1
    return _schema(shape, depth)


def _count(shape: Shape, depth: int) -> int:
    if depth <= 0:
        return 1
    inner = [member for _, member in shape.named.values()]
    inner += [member for member in (shape.rest, shape.items) if member]
    return 1 + sum(_count(member, depth - 1) for member in inner)


def _schema(shape: Shape, depth: int) -> dict[str, Any]:
    is_wide = "number" in shape.kinds
    types = [kind for kind in KINDS if kind in shape.kinds and not (is_wide and kind == "integer")]
    schema: dict[str, Any] = {"type": types[0] if len(types) == 1 else types}
    if depth <= 0:
        return schema
    if shape.named or shape.rest:
        schema |= _members(shape, depth)
    if shape.items:
        schema["items"] = _schema(shape.items, depth - 1)
    return schema


def _members(shape: Shape, depth: int) -> dict[str, Any]:
    listed = _listed(shape)
    rest = shape.rest.to_depth(depth - 1) if shape.rest else Shape()
    for name in shape.named.keys() - listed:
        rest.join(shape.named[name][1], depth - 1)
    members: dict[str, Any] = {}
    if listed:
        members["properties"] = {name: _schema(shape.named[name][1], depth - 1) for name in listed}
    if required := [name for name in listed if shape.named[name][0] == shape.objects]:
        members["required"] = required
    if rest.kinds:
        members["additionalProperties"] = _schema(rest, depth - 1)
    return members


def _listed(shape: Shape) -> list[str]:
    """Return the names worth listing, in order."""
    counts = {name: count for name, (count, _) in shape.named.items()}
    if len(counts) <= MAX_PROPERTIES:
        return sorted(counts)
    common = sum(count * 2 >= shape.objects for count in counts.values())
    if common * 2 < len(counts):
        return []
    return sorted(sorted(counts, key=lambda name: (-counts[name], name))[:MAX_PROPERTIES])
