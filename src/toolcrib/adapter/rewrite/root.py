"""The root of a schema, which every provider wants to be a plain object."""

from typing import TYPE_CHECKING, Any, Final

from toolcrib.adapter.paths import step
from toolcrib.adapter.rewrite.carry import carry
from toolcrib.adapter.rewrite.codec import Codec, ObjectCodec, WrapCodec
from toolcrib.adapter.rewrite.objects import USED, fit_key, rewrite_object
from toolcrib.adapter.rewrite.unions import hoist, is_object_with_choices

if TYPE_CHECKING:
    from toolcrib.adapter.rewrite.walk import Found, Walk

__all__ = ["WRAPPED", "rewrite_root"]

WRAPPED: Final = "arguments"
"""The property that holds a root which is no plain object."""
_COMBINING: Final = ("anyOf", "oneOf", "allOf", "if", "then", "else", "not", "enum", "const")
_NAMING: Final = ("patternProperties", "propertyNames", "dependentRequired", "dependentSchemas")
_DEFINITIONS: Final = ("$defs", "definitions")


def rewrite_root(walk: "Walk") -> "Found":
    """Return the whole schema converted, and the codec of the arguments."""
    node = walk.source.read(walk.source.root, walk.losses.note, "")
    if "$ref" in node or "allOf" in node:
        node = walk.merged(node, "")
    is_plain = _is_object(node) and ("$ref" not in node)
    if (
        is_plain
        and (combined := [word for word in _COMBINING if word in node])
        and not walk.rules.root_unions
    ):
        if _is_flat(node):
            node = hoist(walk, node, "", words=tuple(combined))
        else:
            is_plain = False
    _keep_references(walk, is_plain=is_plain)
    found, codec = _plain(walk, node) if is_plain else _wrap(walk)
    walk.references.keep_root(codec)
    return _with_definitions(walk, found), codec


def _is_object(node: dict[str, Any]) -> bool:
    kinds = node.get("type", "object")
    return kinds == "object" or (type(kinds) is list and "object" in kinds)


def _is_flat(node: dict[str, Any]) -> bool:
    """Return whether the combinations at the root only add to properties that it has of its own."""
    return is_object_with_choices({"type": "object", **node}) and "enum" not in node and "const" not in node


def _keep_references(walk: "Walk", *, is_plain: bool) -> None:
    """Say which references hold in the converted schema as they are."""
    references, rules = walk.references, walk.rules
    references.root_stays = is_plain and rules.refs and "$ref" not in walk.source.root
    if not rules.structured:
        references.definitions_stay = tuple(word for word in _DEFINITIONS if rules.takes(word))


def _plain(walk: "Walk", node: dict[str, Any]) -> "Found":
    """Return an object root converted."""
    if node.get("type") != "object":
        walk.losses.note("type", "", "is said to be object")
        node = {**node, "type": "object"}
    if walk.rules.structured:
        found, codec = rewrite_object(walk, node, "", is_root=True)
        return walk.finish(node, found or {}, None, USED, ""), codec
    codec = None
    if walk.rules.root_keys is not None:
        node, codec = _rename(walk, node)
    return carry(walk, node, ""), codec


def _rename(walk: "Walk", node: dict[str, Any]) -> tuple[dict[str, Any], Codec | None]:
    """Return an object root whose properties have names that the provider takes."""
    rule, properties = walk.rules.root_keys, node.get("properties", {})
    taken = {name for name in properties if rule is None or rule.fullmatch(name)}
    if len(taken) == len(properties):
        return node, None
    keys = {name: name if name in taken else fit_key(name, taken) for name in properties}
    renamed = {name: key for name, key in keys.items() if key != name}
    for name, key in renamed.items():
        walk.losses.note("properties", step("", "properties", name), f"is called {key!r}")
    naming = [(word, node[word]) for word in _NAMING if word in node]
    for word, _ in naming:
        walk.losses.note(word, "", "is only said in the description, since it names properties")
    kept = {word: value for word, value in node.items() if word not in _NAMING}
    kept["properties"] = {keys[name]: schema for name, schema in properties.items()}
    if "required" in node:
        kept["required"] = [keys.get(name, name) for name in node["required"]]
    if naming:
        walk.said.setdefault("", []).extend(naming)
    return kept, ObjectCodec({name: (key, None, False) for name, key in renamed.items()})


def _wrap(walk: "Walk") -> "Found":
    """Return an object whose one property is the root."""
    walk.losses.note("type", "", f"the schema is no plain object, and is the property {WRAPPED!r} of one")
    root = {word: value for word, value in walk.source.root.items() if word not in _DEFINITIONS}
    root.pop("$schema", None)
    inner, codec = walk.schema(root, "")
    found: dict[str, Any] = {"type": "object", "properties": {WRAPPED: inner}, "required": [WRAPPED]}
    walk.properties += 1
    if walk.rules.closed:
        found["additionalProperties"] = False
    return found, WrapCodec(WRAPPED, codec)


def _with_definitions(walk: "Walk", found: dict[str, Any]) -> dict[str, Any]:
    """Return a converted root with the definitions that it refers to, or all where these stay in place."""
    for word in _DEFINITIONS:
        given = walk.source.root.get(word)
        if type(given) is not dict:
            continue
        if word not in walk.references.definitions_stay:
            _note_definitions(walk, word, given)
        elif word not in found:
            found[word] = {
                name: walk.schema(member, step("", word, name))[0] for name, member in given.items()
            }
    if walk.references.definitions:
        found["$defs"] = {**found.get("$defs", {}), **walk.references.definitions}
    return found


def _note_definitions(walk: "Walk", word: str, given: dict[str, Any]) -> None:
    """Tell which definitions the converted schema does not have, or has elsewhere."""
    if not walk.rules.refs:
        walk.losses.note(word, "", "are copied to where they are referred to")
        return
    if word != "$defs":
        walk.losses.note(word, "", "are under $defs")
    for name in given:
        if name not in walk.references.definitions:
            walk.losses.note(word, step("", word, name), "is not referred to by this name, and is left out")
