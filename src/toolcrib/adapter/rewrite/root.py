"""The root of a schema, which every provider wants to be a plain object."""

from typing import TYPE_CHECKING, Any, Final

from toolcrib.adapter.loss import step
from toolcrib.adapter.rewrite.carry import carry, widen_exclusive
from toolcrib.adapter.rewrite.codec import WrapCodec
from toolcrib.adapter.rewrite.combine import CONDITIONAL, hoist, is_object_with_choices, merge_all
from toolcrib.adapter.rewrite.object_codecs import ObjectCodec
from toolcrib.adapter.rewrite.objects import USED, Keys, rewrite_object
from toolcrib.adapter.rewrite.source import DEFINITIONS

if TYPE_CHECKING:
    from toolcrib.adapter.rewrite.walk import Found, Walk

WRAPPED: Final = "arguments"
"""The property that holds a root which is no plain object."""
_COMBINING: Final = frozenset({"anyOf", "oneOf", "allOf", "if", "then", "else", "not", "enum", "const"})
_NAMING: Final = ("patternProperties", "propertyNames", "dependentRequired", "dependentSchemas")
_DEFINITIONS: Final = frozenset(DEFINITIONS)
_OUTSIDE: Final = _DEFINITIONS | {"$schema", "$id"}


def rewrite_root(walk: "Walk") -> "Found":
    """Return the whole schema converted, and the codec of the arguments."""
    node, is_merged = walk.source.read(walk.source.root, walk.losses.note, ""), True
    if "$ref" in node or "allOf" in node:
        merged, _ = merge_all(walk, node, "")
        node, is_merged = node if merged is None else merged, merged is not None
    is_plain = is_merged and _is_object(node)
    if is_plain and not walk.rules.root_unions and not _COMBINING.isdisjoint(node):
        is_plain = _is_flat(walk, node)
        if is_plain:
            node = hoist(walk, node, "", words=tuple(sorted(_COMBINING)))
    renamed = _renamed(walk, node) if is_plain and not walk.rules.structured else {}
    _keep_references(walk, is_plain=is_plain and not renamed)
    found, codec = _plain(walk, node, renamed) if is_plain else _wrap(walk)
    walk.references.keep_root(codec)
    found = _with_definitions(walk, found)
    widen_exclusive(walk)
    if walk.source.changed and found.pop("$schema", None) is not None:
        walk.losses.note("$schema", "", "is left out, since newer words are used")
    return found, codec


def _is_object(node: dict[str, Any]) -> bool:
    """Return whether the root is, or may be taken for, the schema of an object."""
    if "type" in node:
        return node["type"] == "object" or (type(node["type"]) is list and "object" in node["type"])
    choices = [node[word] for word in ("anyOf", "oneOf") if type(node.get(word)) is list]
    return all(type(member) is not dict or _is_object(member) for members in choices for member in members)


def _is_flat(walk: "Walk", node: dict[str, Any]) -> bool:
    """Return whether the combinations at the root only add to properties that it has of its own."""
    if "enum" in node or "const" in node:
        return False
    return is_object_with_choices(walk, {"type": "object", **node}, "")


def _keep_references(walk: "Walk", *, is_plain: bool) -> None:
    """Say which references hold in the converted schema as they are."""
    references, rules = walk.references, walk.rules
    references.root_stays = is_plain and rules.refs and "$ref" not in walk.source.root
    if not rules.structured:
        references.definitions_stay = tuple(word for word in DEFINITIONS if rules.takes(word))


def _plain(walk: "Walk", node: dict[str, Any], renamed: dict[str, str]) -> "Found":
    """Return an object root converted."""
    if node.get("type") != "object":
        walk.losses.note("type", "", "is declared as object")
        node = {**node, "type": "object"}
    if walk.rules.structured:
        if not CONDITIONAL.isdisjoint(node):
            node = hoist(walk, node, "")
        found, codec = rewrite_object(walk, node, "", is_root=True)
        return walk.finish(node, found or {}, codec, USED, ""), codec
    if not renamed:
        return carry(walk, node, ""), None
    codec = ObjectCodec(tuple(renamed), renamed)
    return carry(walk, _rename(walk, node, renamed), ""), codec


def _renamed(walk: "Walk", node: dict[str, Any]) -> dict[str, str]:
    """Return other names for the properties of the root whose own the provider does not take."""
    rule, properties = walk.rules.root_keys, node.get("properties", {})
    if rule is None:
        return {}
    fine = {name for name in properties if rule.fullmatch(name)}
    fitting = Keys(fine.union(node.get("required", ())))
    return {name: fitting.fit(name) for name in properties if name not in fine}


def _rename(walk: "Walk", node: dict[str, Any], renamed: dict[str, str]) -> dict[str, Any]:
    """Return an object root with other names for some of its properties."""
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


def _wrap(walk: "Walk") -> "Found":
    """Return an object whose one property is the root."""
    walk.losses.note("type", "", f"the schema is no plain object, and is the property {WRAPPED!r} of one")
    root = {word: value for word, value in walk.source.root.items() if word not in _OUTSIDE}
    walk.enter_object()
    inner, codec = walk.below(root, "")
    walk.object_depth -= 1
    found = walk.closed_object({WRAPPED: inner}, [WRAPPED])
    for word in ("$schema", "$id"):
        if word in walk.source.root and walk.rules.takes(word):
            found[word] = walk.source.root[word]
        elif word in walk.source.root:
            walk.losses.note(word, "", "is left out")
    return found, WrapCodec(WRAPPED, codec)


def _with_definitions(walk: "Walk", found: dict[str, Any]) -> dict[str, Any]:
    """Return a converted root with the definitions that it refers to, or all where these stay in place."""
    if not walk.references.definitions and _DEFINITIONS.isdisjoint(walk.source.root):
        return found
    for word in walk.references.definitions_stay:
        given = walk.source.root.get(word)
        if type(given) is dict and word not in found:
            found[word] = {
                name: walk.schema(member, step("", word, name))[0] for name, member in given.items()
            }
    used = walk.references.used(found) if walk.has_discarded else walk.references.definitions
    for word in DEFINITIONS:
        given = walk.source.root.get(word)
        if type(given) is dict and word not in walk.references.definitions_stay:
            _note_definitions(walk, word, given.keys() - used.keys())
    if used:
        found["$defs"] = {**found.get("$defs", {}), **used}
    return found


def _note_definitions(walk: "Walk", word: str, missing: set[str]) -> None:
    """Tell which definitions the converted schema does not have, or has elsewhere."""
    if not walk.rules.refs:
        size = f"{walk.visited:,} subschemas in all"
        walk.losses.note(word, "", f"are copied to where they are referred to, {size}")
        return
    if word != "$defs":
        walk.losses.note(word, "", "are under $defs")
    for name in missing:
        message = "is left out: nothing refers to it, or only what is merged or passed as text"
        walk.losses.note(word, step("", word, name), message)
