"""Schemas for providers that take JSON Schema nearly whole: kept as they are, but for single keywords."""

from typing import TYPE_CHECKING, Any, Final

from toolcrib.adapter.loss import step
from toolcrib.adapter.rewrite.combine import merge_all
from toolcrib.adapter.rewrite.describe import describe
from toolcrib.adapter.rewrite.source import DEFINITIONS, MANY_SCHEMAS, MAP_OF_SCHEMAS, ONE_SCHEMA
from toolcrib.model.json_text import compact_json
from toolcrib.model.plain import copy_json

if TYPE_CHECKING:
    from toolcrib.adapter.rewrite.walk import Walk

_IN_PLACE: Final = frozenset({"anyOf", "oneOf", "allOf", "not", "if", "then", "else", "dependentSchemas"})
"""The keywords whose subschemas look at the same value."""


def carry(walk: "Walk", node: dict[str, Any], path: str) -> dict[str, Any]:
    """Return a subschema with what its provider does not take moved into the description, or left out."""
    if "allOf" in node and not walk.rules.takes("allOf"):
        return _merged(walk, node, path)
    rules = walk.rules
    found: dict[str, Any] = {}
    given = walk.leftovers.pop(path, [])
    is_same = True
    for word, value in node.items():
        if rules.takes(word) and walk.may_stay(word, value):
            known = _weakened(walk)
            found[word] = _inside(walk, word, value, path)
            is_same = is_same and (word != "oneOf" or _weakened(walk) == known)
        elif word == "const":
            walk.losses.note(word, path, "is an enum of one value")
            found["enum"] = [copy_json(value)]
        elif word in rules.dropped or word.startswith("x-"):
            walk.losses.note(word, path, "is left out")
        elif word not in {"$defs", "definitions"}:
            given.append((word, value))
            walk.losses.note(word, path, "is kept only in the description")
    if "patternProperties" in node and "patternProperties" not in found and "additionalProperties" in found:
        given.append(("additionalProperties", found.pop("additionalProperties")))
        walk.losses.note("additionalProperties", path, "is kept only in the description, as the patterns are")
    if given:
        found["description"] = describe(found.get("description"), given)
    if "oneOf" in found:
        _exclude(walk, found, path, is_same=is_same)
    _complete(walk, found, path)
    return found


def _exclude(walk: "Walk", found: dict[str, Any], path: str, *, is_same: bool) -> None:
    """Keep `oneOf` only where its alternatives exclude one another as they did."""
    if is_same:
        walk.exclusive.append((found, path))
    else:
        _widen(walk, found, path)


def _weakened(walk: "Walk") -> int:
    """Return how much was lost so far that may let more values fit; little where all keywords stay."""
    return walk.losses.count if walk.rules.keywords else walk.loosened


def widen_exclusive(walk: "Walk") -> None:
    """Make `oneOf` an `anyOf` where an alternative may refer to a definition that says less than it did."""
    if walk.losses.is_any_in(*DEFINITIONS) if walk.rules.keywords else walk.loosened:
        for found, path in walk.exclusive:
            if '"$ref"' in compact_json(found["oneOf"]):
                _widen(walk, found, path)


def _widen(walk: "Walk", found: dict[str, Any], path: str) -> None:
    """Keep `oneOf` without its exclusion, since its alternatives exclude one another less than they did."""
    if "anyOf" in found:
        found["description"] = describe(found.get("description"), [("oneOf", found.pop("oneOf"))])
        walk.losses.note("oneOf", path, "is kept only in the description, since anyOf stands beside it")
        return
    found["anyOf"] = found.pop("oneOf")
    walk.losses.note("oneOf", path, "is anyOf: more than one alternative may fit, as they are written")


def _merged(walk: "Walk", node: dict[str, Any], path: str) -> dict[str, Any]:
    """Return a subschema with `allOf`, for a provider that does not take it."""
    merged, followed = merge_all(walk, node, path)
    if not followed.isdisjoint(walk.merging):
        walk.losses.note("$ref", path, "refers back to itself; one turn is kept")
        return {}
    walk.merging |= followed
    found = carry(walk, merged or {}, path)
    walk.merging -= followed
    return found


def _inside(walk: "Walk", word: str, value: Any, path: str) -> Any:
    """Return the value of a keyword, the subschemas in it converted."""
    if word == "items" and type(value) is bool and walk.rules.needs_items:
        walk.losses.note(word, path, "must be a schema, and are declared as anything")
        walk.loosened += value is False
        return {}
    convert = walk.schema if word in _IN_PLACE else walk.below
    if word in ONE_SCHEMA and type(value) is not list:
        return convert(value, step(path, word))[0]
    if word in MANY_SCHEMAS or word == "items":
        return [convert(member, step(path, word, index))[0] for index, member in enumerate(value)]
    if word in MAP_OF_SCHEMAS:
        return {name: convert(member, step(path, word, name))[0] for name, member in value.items()}
    return copy_json(value) if type(value) is list or type(value) is dict else value


def _complete(walk: "Walk", found: dict[str, Any], path: str) -> None:
    """Add what the provider wants every object and every array to say."""
    declared = found.get("type")
    kinds = [declared] if type(declared) is str else declared or ()
    if "object" in kinds and walk.rules.needs_properties and "properties" not in found:
        found["properties"] = {}
        walk.losses.note("properties", path, "are added, empty, since the provider wants them")
    if "array" in kinds and walk.rules.needs_items and "items" not in found and "prefixItems" not in found:
        found["items"] = {}
        walk.losses.note("items", path, "are added, and may be anything, since the provider wants them")
