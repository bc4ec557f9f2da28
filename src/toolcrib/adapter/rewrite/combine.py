"""Conversion of `allOf` and of combinations on objects.

Subschemas that apply together are merged into one if that can be expressed. Otherwise their properties are
declared as optional in the surrounding object (`hoist`), and the rest is described.
"""

from collections.abc import Iterator
from typing import Any, Final

from toolcrib.adapter.rewrite.definition_table import Found
from toolcrib.adapter.rewrite.merge import merge
from toolcrib.adapter.rewrite.source import ANNOTATIONS
from toolcrib.adapter.rewrite.walk import Walk

CONDITIONAL: Final = frozenset({"if", "then", "else", "not", "dependentSchemas"})
"""Keywords that apply to some values only."""
_COMBINING: Final = ("anyOf", "oneOf", "allOf", "if", "then", "else", "not", "dependentSchemas")
_DECLARING: Final = frozenset(_COMBINING) - {"if", "not"}
_OPEN: Final = frozenset({"$ref", "properties", "allOf", "additionalProperties", "enum", "const"})
_SIZED: Final = frozenset({dict, list, str})
_MAX_FOLLOWED: Final = 64


def rewrite_all(walk: Walk, node: dict[str, Any], path: str) -> Found:
    """Convert a subschema with `allOf`, or with other keywords beside a reference."""
    if reference := _lone_reference(node):
        walk.losses.note("allOf", path, "of one reference is that reference")
        rest = {word: value for word, value in node.items() if word != "allOf"}
        return walk.convert_reference({**rest, "$ref": reference}, path)
    merged, followed = merge_all(walk, node, path)
    # A target that is being merged already would be merged for ever.
    if not followed.isdisjoint(walk.merging):
        walk.losses.note("$ref", path, "refers back to itself; it is expanded once")
        return walk.to_json_text({word: node[word] for word in node.keys() & ANNOTATIONS}, path)
    if merged is None:
        return walk.to_json_text(node, path)
    walk.merging |= followed
    found = walk.convert_structured(merged, path)
    walk.merging -= followed
    return found


def _lone_reference(node: dict[str, Any]) -> str:
    """Return the reference of a subschema that consists of an `allOf` of one reference; else empty."""
    members = node.get("allOf", ())
    is_lone = len(members) == 1 and type(members[0]) is dict and members[0].keys() == {"$ref"}
    if not is_lone or not node.keys() <= ANNOTATIONS | {"allOf"} or type(members[0]["$ref"]) is not str:
        return ""
    reference: str = members[0]["$ref"]
    return reference


def merge_all(walk: Walk, node: dict[str, Any], path: str) -> tuple[dict[str, Any] | None, set[int]]:
    """Merge a subschema with its `allOf` and its reference; return it and the `id()`s of the targets.

    If they cannot be merged, their properties become optional, and the rest is described. The result is None
    if that would exclude valid values.
    """
    followed: set[int] = set()
    parts: list[dict[str, Any]] = []
    pending: list[Any] = [node]
    for part in pending:
        if part is True:
            continue
        if type(part) is not dict:  # `false`, which no value fits
            parts.append({"not": {}})
            continue
        walk.count_work(sum(len(value) for value in part.values() if type(value) in _SIZED))
        read = walk.source.read(part, walk.losses.note, path) if part is not node else node
        parts.append({word: value for word, value in read.items() if word not in {"allOf", "$ref"}})
        pending += read.get("allOf", ())
        if "$ref" in read:
            pending += _find_target(walk, read["$ref"], followed, path)
    merged = merge(parts)
    for word in ("allOf", "$ref"):
        if merged is not None and word in node:
            walk.losses.note(word, path, "is merged into the schema around it")
    if merged is not None:
        return merged, followed
    # The parts cannot be merged. Declaring all their properties in one object is only right for objects.
    kinds = "object" if any(part.get("type") == "object" for part in parts) else node.get("type")
    if not only_adds(walk, kinds, pending[1:], path):
        return None, followed
    bare = {word: value for word, value in node.items() if word != "$ref"}
    return hoist(walk, {**bare, "allOf": pending[1:]}, path, words=("allOf",)), followed


def _find_target(walk: Walk, reference: str, followed: set[int], path: str) -> list[Any]:
    """Return the target of a reference in a list; empty if it was followed before or does not exist."""
    target = walk.source.find(reference)
    if target is None:
        walk.losses.note("$ref", path, f"leads nowhere within the schema: {reference[:100]!r}; left out")
        return []
    if id(target) in followed:
        return []
    followed.add(id(target))
    return [target]


def resolve(walk: Walk, schema: Any, path: str) -> Any:
    """Read a subschema; if it is only a reference, return its target instead."""
    for _ in range(_MAX_FOLLOWED):
        if type(schema) is not dict:
            return schema
        schema = walk.source.read(schema, walk.losses.note, path)
        if "$ref" not in schema or len(schema) > 1:
            return schema
        schema = walk.source.find(schema["$ref"])
    return None


def is_object_with_choices(walk: Walk, node: dict[str, Any], path: str) -> bool:
    """Return whether a node is an object with properties of its own, to which a union only adds some."""
    members = [*node.get("anyOf", ()), *node.get("oneOf", ())]
    if not node.get("properties") and (node.get("type") != "object" or any(map(_may_declare, members))):
        return False
    return only_adds(walk, node.get("type"), members, path)


def only_adds(walk: Walk, kinds: Any, members: list[Any], path: str) -> bool:
    """Return whether an object schema with the properties of all members admits every value of each."""
    if not walk.rules.structured or (kinds is not None and "object" not in kinds):
        return True
    for schema in _walk_in_place(walk, members, path):
        values = schema.get("enum", [schema["const"]] if "const" in schema else [])
        if any(type(value) is dict or kinds is None for value in values):
            return False
        if kinds is None and schema.get("type", "object") != "object":
            return False
        if "patternProperties" in schema or schema.get("additionalProperties", True) not in (True, False, {}):
            return False
    return True


def _may_declare(schema: Any) -> bool:
    """Return whether an alternative may declare properties."""
    pending = [schema]
    for one in pending:
        if one is True or (type(one) is dict and (one.keys() <= ANNOTATIONS or not _OPEN.isdisjoint(one))):
            return True
        if type(one) is dict:
            choices = (one.get(word) for word in ("anyOf", "oneOf"))
            pending += [member for members in choices if type(members) is list for member in members]
    return False


def hoist(walk: Walk, node: dict[str, Any], path: str, words: tuple[str, ...] = _COMBINING) -> dict[str, Any]:
    """Replace the combinations in an object schema by optional properties; the rest is described."""
    used = [word for word in words if word in node]
    declared: dict[str, list[Any]] = {}
    for word in used:
        if word in _DECLARING:
            _collect_properties(walk, _subschemas(word, node[word]), path, declared)
        walk.losses.note(word, path, "is kept only in the description; what it declares is optional")
    # A property that several alternatives declare differently becomes a union of its schemas.
    own = node.get("properties", {})
    hoisted = {
        name: found[0] if len(found) == 1 else {"anyOf": found}
        for name, found in declared.items()
        if name not in own
    }
    kept = {word: value for word, value in node.items() if word not in words}
    is_object = "object" in node.get("type", "object")
    if hoisted and is_object and node.get("additionalProperties") is not False:
        kept["properties"] = {**own, **hoisted}
    walk.leftovers.setdefault(path, []).extend((word, node[word]) for word in used)
    walk.count_work(len(used))
    return kept


def _subschemas(word: str, value: Any) -> list[Any]:
    """Return the subschemas in the value of a combining keyword."""
    if word == "dependentSchemas":
        return list(value.values())
    return list(value) if type(value) is list else [value]


def _collect_properties(walk: Walk, schemas: list[Any], path: str, declared: dict[str, list[Any]]) -> None:
    """Collect the properties that subschemas, and the targets of their references, declare."""
    for schema in _walk_in_place(walk, schemas, path):
        given = [schema["const"]] if "const" in schema else schema.get("enum", ())
        members = [
            (name, {"enum": [member]})
            for value in given
            if type(value) is dict
            for name, member in value.items()
        ]
        for name, found in (*schema.get("properties", {}).items(), *members):
            known = declared.setdefault(name, [])
            walk.count_work(len(known))
            if found is not False and found not in known:
                known.append(found)


def _walk_in_place(walk: Walk, schemas: list[Any], path: str) -> Iterator[dict[str, Any]]:
    """Yield subschemas with all others that they combine or refer to for the same value."""
    pending = list(schemas)
    seen: set[int] = set()
    while pending:
        schema = resolve(walk, pending.pop(), path)
        if type(schema) is not dict or id(schema) in seen:
            continue
        seen.add(id(schema))
        yield schema
        for word in _DECLARING & schema.keys():
            pending += _subschemas(word, schema[word])
        if "$ref" in schema:
            pending.append(walk.source.find(schema["$ref"]))
