"""Conversion of the root of a schema, which must be a plain object for every provider."""

from typing import Any, Final

from toolcrib.adapter.loss import step
from toolcrib.adapter.rewrite.codec import WrapCodec
from toolcrib.adapter.rewrite.combine import CONDITIONAL, hoist, is_object_with_choices, merge_all
from toolcrib.adapter.rewrite.definition_table import Found
from toolcrib.adapter.rewrite.keyword_filter import filter_keywords, widen_exclusive
from toolcrib.adapter.rewrite.object_codecs import ObjectCodec
from toolcrib.adapter.rewrite.objects import USED, Keys, rewrite_object
from toolcrib.adapter.rewrite.source import DEFINITIONS
from toolcrib.adapter.rewrite.walk import Walk

WRAPPED: Final = "arguments"
"""The property that contains a root which is not a plain object."""
_COMBINING: Final = frozenset({"anyOf", "oneOf", "allOf", "if", "then", "else", "not", "enum", "const"})
_NAMING: Final = ("patternProperties", "propertyNames", "dependentRequired", "dependentSchemas")
_DEFINITIONS: Final = frozenset(DEFINITIONS)
_OUTSIDE: Final = _DEFINITIONS | {"$schema", "$id"}


def rewrite_root(walk: Walk) -> Found:
    """Convert a whole schema; return it with the codec of the arguments."""
    node, is_merged = walk.source.read(walk.source.root, walk.losses.note, ""), True
    if "$ref" in node or "allOf" in node:
        merged, _ = merge_all(walk, node, "")
        node, is_merged = node if merged is None else merged, merged is not None
    is_plain = is_merged and _is_object(node)
    if is_plain and not walk.rules.root_unions and not _COMBINING.isdisjoint(node):
        is_plain = _is_flat(walk, node)
        if is_plain:
            node = hoist(walk, node, "", words=tuple(sorted(_COMBINING)))
    renamed = _new_names(walk, node) if is_plain and not walk.rules.structured else {}
    _choose_references(walk, is_plain=is_plain and not renamed)
    found, codec = _convert_object(walk, node, renamed) if is_plain else _convert_wrapped(walk)
    walk.references.keep_root(codec)
    found = _add_definitions(walk, found)
    widen_exclusive(walk)
    if walk.source.changed and found.pop("$schema", None) is not None:
        walk.losses.note("$schema", "", "is left out, since newer keywords are used")
    return found, codec


def _is_object(node: dict[str, Any]) -> bool:
    """Return whether the root is, or can be treated as, the schema of an object."""
    if "type" in node:
        return node["type"] == "object" or (type(node["type"]) is list and "object" in node["type"])
    choices = [node[word] for word in ("anyOf", "oneOf") if type(node.get(word)) is list]
    return all(type(member) is not dict or _is_object(member) for members in choices for member in members)


def _is_flat(walk: Walk, node: dict[str, Any]) -> bool:
    """Return whether the combinations at the root only add to its own properties."""
    if "enum" in node or "const" in node:
        return False
    return is_object_with_choices(walk, {"type": "object", **node}, "")


def _choose_references(walk: Walk, *, is_plain: bool) -> None:
    """Decide which references are kept unchanged in the converted schema."""
    references, rules = walk.references, walk.rules
    references.root_stays = is_plain and rules.refs and "$ref" not in walk.source.root
    if not rules.structured:
        references.definitions_stay = tuple(word for word in DEFINITIONS if rules.takes(word))


def _convert_object(walk: Walk, node: dict[str, Any], renamed: dict[str, str]) -> Found:
    """Convert a root that is an object."""
    if node.get("type") != "object":
        walk.losses.note("type", "", "is declared as object")
        node = {**node, "type": "object"}
    if walk.rules.structured:
        if not CONDITIONAL.isdisjoint(node):
            node = hoist(walk, node, "")
        found, codec = rewrite_object(walk, node, "", is_root=True)
        return walk.add_keywords(node, found or {}, codec, USED, ""), codec
    if not renamed:
        return filter_keywords(walk, node, ""), None
    codec = ObjectCodec(tuple(renamed), renamed)
    return filter_keywords(walk, _rename_properties(walk, node, renamed), ""), codec


def _new_names(walk: Walk, node: dict[str, Any]) -> dict[str, str]:
    """Return new names for properties of the root whose names the provider does not accept."""
    rule, properties = walk.rules.root_keys, node.get("properties", {})
    if rule is None:
        return {}
    fine = {name for name in properties if rule.fullmatch(name)}
    fitting = Keys(fine.union(node.get("required", ())))
    return {name: fitting.fit(name) for name in properties if name not in fine}


def _rename_properties(walk: Walk, node: dict[str, Any], renamed: dict[str, str]) -> dict[str, Any]:
    """Rename properties of an object root."""
    for name, key in renamed.items():
        walk.losses.note("properties", step("", "properties", name), f"is called {key!r}")
    naming: list[str] = [word for word in _NAMING if word in node]
    if "patternProperties" in naming and "additionalProperties" in node:
        naming.append("additionalProperties")
    for word in naming:
        walk.losses.note(word, "", "is kept only in the description, since it names properties")
        walk.leftovers.setdefault("", []).append((word, node[word]))
    kept = {word: value for word, value in node.items() if word not in naming}
    kept["properties"] = {renamed.get(name, name): schema for name, schema in node["properties"].items()}
    if "required" in node:
        kept["required"] = [renamed.get(name, name) for name in node["required"]]
    return kept


def _convert_wrapped(walk: Walk) -> Found:
    """Convert a root that is not an object to the only property of one."""
    walk.losses.note(
        "type", "", f"the schema is not a plain object; it becomes the property {WRAPPED!r} of one"
    )
    root = {word: value for word, value in walk.source.root.items() if word not in _OUTSIDE}
    walk.enter_object()
    inner, codec = walk.convert_member(root, "")
    walk.object_depth -= 1
    found = walk.make_object({WRAPPED: inner}, [WRAPPED])
    for word in ("$schema", "$id"):
        if word in walk.source.root and walk.rules.takes(word):
            found[word] = walk.source.root[word]
        elif word in walk.source.root:
            walk.losses.note(word, "", "is left out")
    return found, WrapCodec(WRAPPED, codec)


def _add_definitions(walk: Walk, found: dict[str, Any]) -> dict[str, Any]:
    """Add the definitions that a converted root needs, or all of them if they keep their places."""
    if not walk.references.definitions and _DEFINITIONS.isdisjoint(walk.source.root):
        return found
    for word in walk.references.definitions_stay:
        given = walk.source.root.get(word)
        if type(given) is dict and word not in found:
            found[word] = {
                name: walk.convert(member, step("", word, name))[0] for name, member in given.items()
            }
    # Searching for used definitions takes a pass over the schema, so it is done only if some may be unused.
    used = walk.references.used(found) if walk.has_discarded else walk.references.definitions
    for word in DEFINITIONS:
        given = walk.source.root.get(word)
        if type(given) is dict and word not in walk.references.definitions_stay:
            _note_definitions(walk, word, given.keys() - used.keys())
    if used:
        found["$defs"] = {**found.get("$defs", {}), **used}
    return found


def _note_definitions(walk: Walk, word: str, missing: set[str]) -> None:
    """Report definitions that the converted schema does not have, or has elsewhere."""
    if not walk.rules.refs:
        size = f"{walk.visited:,} subschemas in all"
        walk.losses.note(word, "", f"are copied to where they are referred to, {size}")
        return
    if word != "$defs":
        walk.losses.note(word, "", "are under $defs")
    for name in missing:
        message = "is left out: nothing refers to it, or only what is merged or passed as text"
        walk.losses.note(word, step("", word, name), message)
