"""Reads objects from JSON Schemas: their properties, the required ones, and whether others are allowed.

Schemas come from strangers, so all work is limited: references are followed a few times, parts are merged a
few levels deep, and invalid parts are ignored.
"""

import marshal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from toolcrib.model.schema.references import LocalReferences

_MAX_HOPS = 16
_MAX_PARTS = 24
_MAX_MERGED = 4
_MAX_COMPARED = 400
_MAX_SMALL = 100_000
_MAX_TEXT = 12_000
_OBJECT_KEYWORDS = ("properties", "patternProperties", "additionalProperties", "required")


@dataclass(slots=True)
class Fields:
    """The properties of an object."""

    properties: dict[str, Any] = field(default_factory=dict)
    required: list[str] = field(default_factory=list)
    open: bool = False
    """Whether other properties are expected, and not merely allowed."""
    known: bool = False
    """Whether properties are listed at all."""
    values: Any = True
    """The schema of those that are not listed."""


def resolve(schema: Any, references: LocalReferences) -> Any:
    """Return the target of a `$ref` within the document; True (any value) if there is none."""
    for _ in range(_MAX_HOPS):
        if not isinstance(schema, dict) or not isinstance(schema.get("$ref"), str):
            return schema
        schema = references.find(schema["$ref"], default=True)
    return True


def types_of(schema: Mapping[str, Any]) -> list[str]:
    """Return the types that a schema allows, by `type` or by keywords of one type."""
    declared = schema.get("type")
    types = [declared] if isinstance(declared, str) else declared
    if isinstance(types, list):
        return [name for name in types if isinstance(name, str)][:8]
    if any(isinstance(schema.get(keyword), dict | list) for keyword in _OBJECT_KEYWORDS):
        return ["object"]
    if any(isinstance(schema.get(keyword), dict | list) for keyword in ("items", "prefixItems")):
        return ["array"]
    return []


def parts_of(schema: Mapping[str, Any], *keywords: str) -> list[Any]:
    """Return the first schemas of `anyOf`, `oneOf` or `allOf`."""
    found: list[Any] = []
    for keyword in keywords:
        parts = schema.get(keyword)
        if isinstance(parts, list):
            found += parts[: _MAX_PARTS + 1]
    return found


def fields_of(schema: Any, references: LocalReferences) -> Fields:
    """Return the properties that a schema of an object declares, with those of its parts.

    Properties required by a part of `allOf` are required; those of the alternatives of `anyOf` or `oneOf` are
    optional.

    >>> fields_of({"allOf": [{"properties": {"a": {}}, "required": ["a"]}, {"properties": {"b": {}}}]}, {})
    Fields(properties={'a': {}, 'b': {}}, required=['a'], open=False, known=True, values=True)
    """
    found = Fields()
    for part, alternative in _list_objects(schema, references, _MAX_MERGED, [4 * _MAX_PARTS]):
        _merge_object(found, part, demanded=not alternative)
    return found


def _list_objects(
    schema: Any, references: LocalReferences, depth: int, left: list[int], *, alternative: bool = False
) -> Iterator[tuple[Mapping[str, Any], bool]]:
    part = resolve(schema, references)
    left[0] -= 1
    if not isinstance(part, dict) or depth < 0 or left[0] < 0:
        return
    yield part, alternative
    for inner in parts_of(part, "allOf"):
        yield from _list_objects(inner, references, depth - 1, left, alternative=alternative)
    for inner in parts_of(part, "anyOf", "oneOf"):
        yield from _list_objects(inner, references, depth - 1, left, alternative=True)


def _merge_object(found: Fields, part: Mapping[str, Any], *, demanded: bool) -> None:
    properties = part.get("properties")
    if isinstance(properties, dict):
        found.known = True
        for name, schema in properties.items():
            found.properties.setdefault(name, schema)
    required = part.get("required")
    if demanded and isinstance(required, list):
        have = set(found.required)
        found.required += [name for name in dict.fromkeys(_keep_strings(required)) if name not in have]
    others = part.get("additionalProperties", False)
    if others is True or isinstance(others, dict) or isinstance(part.get("patternProperties"), dict):
        found.open = True
        found.values = others if isinstance(others, dict) and "patternProperties" not in part else True


def is_small(schema: Any) -> bool:
    """Return whether a document is small enough to serialize each of its parts."""
    return 0 < len(_serialize(schema)) <= _MAX_SMALL


def serialize_contents(schema: Any, references: LocalReferences, *, small: bool = False) -> bytes:
    """Serialize a schema and the schemas that it refers to; empty if they are large.

    `small` is whether the document is known to be so.

    >>> text, other = LocalReferences({"a": {"type": "string"}}), LocalReferences({"a": {}})
    >>> serialize_contents({"$ref": "#/a"}, text) == serialize_contents({"$ref": "#/a"}, other)
    False
    """
    if small and b"$ref" not in (written := _serialize(schema)):
        return written if len(written) <= _MAX_TEXT else b""
    return _collect_contents(schema, references)


def _serialize(value: Any) -> bytes:
    """Serialize a JSON value by marshal, which is faster than JSON text; empty if it is not JSON."""
    try:
        return marshal.dumps(value, 2)  # later formats depend on reference counts
    except ValueError:
        return b""


def _collect_contents(schema: Any, references: LocalReferences) -> bytes:
    found, pending, seen, size = [schema], [schema], set[str](), 0
    while pending:
        value = pending.pop()
        inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
        size += 1 + len(inner)
        if size > _MAX_COMPARED:
            return b""
        pending += inner
        reference = value.get("$ref") if isinstance(value, dict) else None
        if isinstance(reference, str) and reference not in seen:
            seen.add(reference)
            target = references.find(reference, default=True)
            found.append(target)
            pending.append(target)
    return _serialize(found)


def _keep_strings(values: list[Any]) -> Iterator[str]:
    return (value for value in values if isinstance(value, str))
