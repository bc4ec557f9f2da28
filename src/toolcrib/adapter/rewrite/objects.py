"""Conversion of objects: optional properties, names, and maps to lists of pairs."""

import re
from collections.abc import Container, Iterable
from typing import Any, Final

from toolcrib.adapter.loss import step
from toolcrib.adapter.rewrite.codec import Codec
from toolcrib.adapter.rewrite.definition_table import Found
from toolcrib.adapter.rewrite.leaves import rewrite_leaf, widen_leaf
from toolcrib.adapter.rewrite.object_codecs import MapCodec, ObjectCodec
from toolcrib.adapter.rewrite.scalars import limit_values
from toolcrib.adapter.rewrite.walk import Walk

USED: Final = frozenset(
    {"type", "properties", "required", "additionalProperties", "patternProperties", "enum", "const"}
)
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_]+")
_MAX_KEY: Final = 64
_EXTRA: Final = "additional_properties"
_NULL_IS_ABSENT: Final = "is optional, and now always given: null stands for its absence"


def rewrite_object(
    walk: Walk, node: dict[str, Any], path: str, *, is_root: bool = False
) -> tuple[dict[str, Any] | None, Codec | None]:
    """Convert an object schema; None if values can only be passed as JSON text."""
    if not is_root and ("enum" in node or "const" in node):
        found: dict[str, Any] = {"type": "string"}
        values = [value for value in node.get("enum", [node.get("const")]) if type(value) is dict]
        return (found, limit_values(walk, found, values, path)) if values else (None, None)
    required = frozenset(node.get("required", ()))
    properties: dict[str, Any] = node.get("properties", {})
    others = _other_properties_schema(node)
    are_declared = properties.keys() >= required
    if not are_declared:
        properties = _declare_required(node, properties)
    if not properties and not is_root:
        if others is None or (others is False and not walk.rules.empty_objects):
            return None, None
        if others is not False:
            return _rewrite_map(walk, node, others, path)
    walk.enter_object()
    if not are_declared:
        walk.losses.note("required", path, "names properties that are not declared")
    found, needed, codec = _convert_named(walk, properties, required, path, is_root=is_root)
    walk.object_depth -= 1
    if not found and not is_root and not walk.rules.empty_objects:
        return None, None
    # A root without properties that explicitly allows any gets a list of pairs; without it, no argument could
    # be passed at all.
    if others is None and is_root and not found and "additionalProperties" in node:
        others = True
    if others is not None and others is not False:
        codec = codec or ObjectCodec(tuple(found))
        codec.extra = _add_extra_property(walk, node, others, found, needed, path)
    return _make_closed(walk, node, found, needed, path), codec


def _declare_required(node: dict[str, Any], declared: dict[str, Any]) -> dict[str, Any]:
    """Return the properties of an object, with those added that are required but not declared."""
    other = node.get("additionalProperties", True)
    if other is False:
        return declared
    return declared | {name: other for name in node["required"] if name not in declared}


def _other_properties_schema(node: dict[str, Any]) -> Any:
    """Return the schema of undeclared properties: False if none are allowed, None for any value."""
    other = node.get("additionalProperties", node.get("unevaluatedProperties"))
    if "patternProperties" not in node:
        return None if other is True or other == {} else other
    patterns = list(node["patternProperties"].values())
    kinds = [kind for kind in (*patterns, other) if kind is not False and kind is not None]
    if any(kind is True or kind == {} for kind in kinds):
        return None
    return {"anyOf": kinds} if len(kinds) > 1 else kinds[0] if kinds else False


def _rewrite_map(walk: Walk, node: dict[str, Any], others: Any, path: str) -> Found:
    """Convert a map to a list of key and value pairs."""
    for word in ("additionalProperties", "patternProperties"):
        if word in node:
            walk.losses.note(word, path, "the map is passed as a list of key and value pairs")
    key: dict[str, Any] = {"type": "string"}
    names = node.get("propertyNames")
    walk.enter_object()
    if type(names) is dict and names and names.get("type", "string") == "string" and "$ref" not in names:
        key, codec = walk.convert_member({**names, "type": "string"}, step(path, "propertyNames"))
        if codec is not None:  # keys must stay strings, so a schema that changes them cannot be used
            walk.has_discarded = True
            key = {"type": "string"}
    value, codec = walk.convert_member(others, step(path, "additionalProperties"))
    walk.object_depth -= 1
    pair = walk.make_object({"key": key, "value": value}, ["key", "value"])
    return {"type": "array", "items": pair}, MapCodec(codec)


def _convert_named(
    walk: Walk, properties: dict[str, Any], required: frozenset[str], path: str, *, is_root: bool
) -> tuple[dict[str, Any], list[str], ObjectCodec | None]:
    """Convert declared properties; return them, the required names, and a codec if one is needed."""
    rule = walk.rules.keys or (walk.rules.root_keys if is_root else None)
    keys = {} if rule is None else _rename_keys(walk, properties, rule, path)
    if properties:
        walk.count_subschemas(len(properties))
    all_required = walk.rules.all_required
    found, codecs, absent = _convert_properties(
        walk, properties, required if all_required else properties, path
    )
    needed = list(found) if all_required else [name for name in found if name in required]
    codec = None
    if keys or codecs or absent:
        codec = ObjectCodec(tuple(found), keys, codecs, absent)
    if keys:
        found = {keys.get(name, name): schema for name, schema in found.items()}
        needed = [keys.get(name, name) for name in needed]
    return found, needed, codec


def _convert_properties(
    walk: Walk, properties: dict[str, Any], always: Container[str], path: str
) -> tuple[dict[str, Any], dict[str, Codec], list[str]]:
    """Convert properties; return them, their codecs, and the names for which null means absence."""
    found: dict[str, Any] = {}
    codecs: dict[str, Codec] = {}
    optional: list[str] = []
    nullable: list[str] = []
    within = f"{path}/properties"
    walk.level += 1
    for name, given in properties.items():
        is_absent = name not in always
        leaf = rewrite_leaf(walk, given)
        if leaf is not None:
            found[name] = leaf
            if is_absent:
                (nullable if widen_leaf(walk, leaf) else optional).append(name)
        elif given is False:
            walk.losses.note("properties", step(within, name), "is never allowed, and is left out")
            walk.visited -= 1  # it was counted with the others, but is not converted
        else:
            schema, codec = walk.convert_compound(given, step(within, name))
            if codec is not None:
                codecs[name] = codec
            found[name] = schema
            if is_absent:
                found[name] = wider = walk.make_nullable(schema)
                (nullable if wider is schema else optional).append(name)
    walk.level -= 1
    if optional or nullable:
        _note_absent(walk, path, optional, nullable)
    return found, codecs, optional + nullable


def _note_absent(walk: Walk, path: str, optional: list[str], nullable: list[str]) -> None:
    """Report the properties of an object for which null means absence."""
    if optional:
        walk.losses.note_in("required", path, _NULL_IS_ABSENT, optional)
    if nullable:
        walk.losses.note_in(
            "nullable", path, f"{_NULL_IS_ABSENT}, and its own null is taken for that", nullable
        )


def _rename_keys(walk: Walk, properties: dict[str, Any], rule: re.Pattern[str], path: str) -> dict[str, str]:
    """Return new names for properties whose names the provider does not accept."""
    fine = {name for name in properties if rule.fullmatch(name)}
    fitting = Keys(fine)
    keys = {name: fitting.fit(name) for name in properties if name not in fine}
    for name, key in keys.items():
        walk.losses.note("properties", step(path, "properties", name), f"is called {key!r}")
    return keys


def _add_extra_property(
    walk: Walk, node: dict[str, Any], others: Any, found: dict[str, Any], needed: list[str], path: str
) -> tuple[str, Codec | None]:
    """Add the property with the list of undeclared properties; return its name and codec."""
    key = Keys({*found, *node.get("properties", ())}).fit(_EXTRA)
    schema, codec = _rewrite_map(walk, node, others, path)
    found[key] = {**schema, "description": "(what has no property of its own)"}
    if walk.rules.all_required:
        needed.append(key)
    return key, codec


def _make_closed(
    walk: Walk, node: dict[str, Any], found: dict[str, Any], needed: list[str], path: str
) -> dict[str, Any]:
    """Return the schema of an object, and report if `additionalProperties` changes."""
    given = node.get("additionalProperties")
    if walk.rules.closed and given is not False:
        walk.losses.note("additionalProperties", path, "only the named properties can be passed")
    elif not walk.rules.closed and given is not None:
        walk.losses.note("additionalProperties", path, "is left out")
    return walk.make_object(found, needed)


class Keys:
    """Unique names of letters, digits and `_`, for properties that must be renamed."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)
        self._counts: dict[str, int] = {}

    def fit(self, name: str) -> str:
        """Return a name of at most 64 characters that is not taken, and mark it as taken."""
        base = _FOREIGN.sub("_", name).strip("_") or "property"
        base = (f"_{base}" if base[0].isdigit() else base)[:_MAX_KEY]
        count, key = self._counts.get(base, 1), base
        while key in self._taken:
            count += 1
            suffix = f"_{count}"
            key = base[: _MAX_KEY - len(suffix)] + suffix
        self._counts[base] = count
        self._taken.add(key)
        return key
