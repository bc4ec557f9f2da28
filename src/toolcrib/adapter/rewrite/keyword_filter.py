"""Conversion for providers that take nearly all of JSON Schema: unsupported keywords are removed."""

from typing import Any, Final

from toolcrib.adapter.loss import step
from toolcrib.adapter.rewrite.combine import merge_all
from toolcrib.adapter.rewrite.describe import describe
from toolcrib.adapter.rewrite.source import DEFINITIONS, MANY_SCHEMAS, MAP_OF_SCHEMAS, ONE_SCHEMA
from toolcrib.adapter.rewrite.walk import Walk
from toolcrib.model.json_text import compact_json
from toolcrib.model.plain import copy_json

_IN_PLACE: Final = frozenset({"anyOf", "oneOf", "allOf", "not", "if", "then", "else", "dependentSchemas"})
"""The keywords whose subschemas apply to the same value."""


def filter_keywords(walk: Walk, node: dict[str, Any], path: str) -> dict[str, Any]:
    """Return a subschema with unsupported keywords moved into the description, or left out."""
    if "allOf" in node and not walk.rules.takes("allOf"):
        return _convert_merged(walk, node, path)
    rules = walk.rules
    found: dict[str, Any] = {}
    given = walk.leftovers.pop(path, [])
    is_same = True
    for word, value in node.items():
        if rules.takes(word) and walk.is_allowed(word, value):
            known = _count_weakening(walk)
            found[word] = _convert_value(walk, word, value, path)
            is_same = is_same and (word != "oneOf" or _count_weakening(walk) == known)
        elif word == "const":
            walk.losses.note(word, path, "is an enum of one value")
            found["enum"] = [copy_json(value)]
        elif word in rules.dropped or word.startswith("x-"):
            walk.losses.note(word, path, "is left out")
        elif word not in {"$defs", "definitions"}:
            given.append((word, value))
            walk.losses.note(word, path, "is kept only in the description")
    # Without the patterns, `additionalProperties` would apply to the properties that they match.
    if "patternProperties" in node and "patternProperties" not in found and "additionalProperties" in found:
        given.append(("additionalProperties", found.pop("additionalProperties")))
        walk.losses.note("additionalProperties", path, "is kept only in the description, as the patterns are")
    if given:
        found["description"] = describe(found.get("description"), given)
    if "oneOf" in found:
        _check_exclusive(walk, found, path, is_same=is_same)
    _add_required_keywords(walk, found, path)
    return found


def _check_exclusive(walk: Walk, found: dict[str, Any], path: str, *, is_same: bool) -> None:
    """Keep `oneOf` only if its alternatives exclude each other as in the original.

    An alternative that lost a keyword admits more values, so that two may fit and `oneOf` would refuse them.
    """
    if is_same:
        walk.exclusive.append((found, path))
    else:
        _make_any_of(walk, found, path)


def _count_weakening(walk: Walk) -> int:
    """Return a count that grows when a subschema loses a keyword and may admit more values."""
    return walk.losses.count if walk.rules.keywords else walk.widened_count


def widen_exclusive(walk: Walk) -> None:
    """Change `oneOf` to `anyOf` where an alternative refers to definitions that may have lost keywords."""
    if walk.losses.is_any_in(*DEFINITIONS) if walk.rules.keywords else walk.widened_count:
        for found, path in walk.exclusive:
            if '"$ref"' in compact_json(found["oneOf"]):
                _make_any_of(walk, found, path)


def _make_any_of(walk: Walk, found: dict[str, Any], path: str) -> None:
    """Change a `oneOf` to `anyOf`, or describe it if there is an `anyOf` beside it."""
    if "anyOf" in found:
        found["description"] = describe(found.get("description"), [("oneOf", found.pop("oneOf"))])
        walk.losses.note("oneOf", path, "is kept only in the description, since there is an anyOf beside it")
        return
    found["anyOf"] = found.pop("oneOf")
    walk.losses.note("oneOf", path, "becomes anyOf: as they are written, more than one alternative may fit")


def _convert_merged(walk: Walk, node: dict[str, Any], path: str) -> dict[str, Any]:
    """Convert a subschema with `allOf` for a provider that does not support it."""
    merged, followed = merge_all(walk, node, path)
    if not followed.isdisjoint(walk.merging):
        walk.losses.note("$ref", path, "refers back to itself; it is expanded once")
        return {}
    walk.merging |= followed
    found = filter_keywords(walk, merged or {}, path)
    walk.merging -= followed
    return found


def _convert_value(walk: Walk, word: str, value: Any, path: str) -> Any:
    """Return the value of a keyword, with the subschemas in it converted."""
    if word == "items" and type(value) is bool and walk.rules.needs_items:
        walk.losses.note(word, path, "must be a schema, and are declared as anything")
        walk.widened_count += value is False
        return {}
    convert = walk.convert if word in _IN_PLACE else walk.convert_member
    if word in ONE_SCHEMA and type(value) is not list:
        return convert(value, step(path, word))[0]
    if word in MANY_SCHEMAS or word == "items":
        return [convert(member, step(path, word, index))[0] for index, member in enumerate(value)]
    if word in MAP_OF_SCHEMAS:
        return {name: convert(member, step(path, word, name))[0] for name, member in value.items()}
    return copy_json(value) if type(value) is list or type(value) is dict else value


def _add_required_keywords(walk: Walk, found: dict[str, Any], path: str) -> None:
    """Add keywords that the provider requires on every object and every array."""
    declared = found.get("type")
    kinds = [declared] if type(declared) is str else declared or ()
    if "object" in kinds and walk.rules.needs_properties and "properties" not in found:
        found["properties"] = {}
        walk.losses.note("properties", path, "are added, empty, since the provider requires them")
    if "array" in kinds and walk.rules.needs_items and "items" not in found and "prefixItems" not in found:
        found["items"] = {}
        walk.losses.note("items", path, "are added, and may be anything, since the provider requires them")
