"""Conversion of references: kept if the provider supports them, else replaced by copies of their targets."""

import re
from typing import Any, Final

from toolcrib.adapter.rewrite.codec import RefCodec
from toolcrib.adapter.rewrite.combine import rewrite_all
from toolcrib.adapter.rewrite.definition_table import ROOT, Found
from toolcrib.adapter.rewrite.keyword_filter import filter_keywords
from toolcrib.adapter.rewrite.source import ANNOTATIONS
from toolcrib.adapter.rewrite.walk import Walk

_DEFINITION: Final = re.compile(r"#/(\$defs|definitions)/([^/]+)")
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_.-]+")


def rewrite_reference(walk: Walk, node: dict[str, Any], path: str) -> Found:
    """Convert a subschema with a reference."""
    reference = node["$ref"]
    target = walk.source.find(reference)
    siblings = {word: value for word, value in node.items() if word != "$ref"}
    if target is None:
        walk.losses.note("$ref", path, f"leads nowhere within the schema: {reference[:100]!r}; left out")
        return walk.convert(siblings, path)
    if type(target) is bool:
        return walk.convert(siblings if target else False, path)
    if walk.rules.structured and not siblings.keys() <= ANNOTATIONS:
        members = [*siblings.get("allOf", ()), {"$ref": reference}]
        return rewrite_all(walk, {**siblings, "allOf": members}, path)
    if not walk.rules.refs:
        return _copy_target(walk, target, reference, siblings, path)
    found, codec = _refer(walk, target, reference, path)
    return _add_siblings(walk, found, siblings, path), codec


def _refer(walk: Walk, target: dict[str, Any], reference: str, path: str) -> Found:
    """Return a reference to a definition of the converted schema, which is converted at the first one."""
    table = walk.references
    if reference == ROOT and table.root_stays:
        walk.recursive = True
        return {"$ref": ROOT}, RefCodec(ROOT, table.codecs) if walk.rules.structured else None
    if (
        table.definitions_stay
        and (usual := _DEFINITION.fullmatch(reference))
        and usual[1] in table.definitions_stay
    ):
        return {"$ref": reference}, None
    name = _define(walk, target, reference, path)
    found = {"$ref": f"#/$defs/{name}"}
    if table.definitions[name] is None:
        # Back at a definition without having gone into a member of the value, as with {"$ref": "#"} in the
        # root: such a reference constrains nothing, and no provider accepts it.
        if table.levels[name] == walk.level:
            walk.losses.note("$ref", path, "refers only to itself; anything is accepted")
            return walk.to_json_text({}, path) if walk.rules.structured else ({}, None)
        walk.recursive = True
        return found, RefCodec(name, table.codecs)
    codec = table.codecs[name]
    if _DEFINITION.fullmatch(reference):
        table.finished[reference] = found, codec
    return found.copy(), codec


def _define(walk: Walk, target: dict[str, Any], reference: str, path: str) -> str:
    """Convert a definition, unless that is done or under way, and return its name."""
    table = walk.references
    if id(target) in table.names:
        return table.names[id(target)]
    wanted = _FOREIGN.sub("_", reference.rpartition("/")[2]).strip("_") or "root"
    name, count = wanted, table.name_counts.get(wanted, 1)
    taken = walk.source.root.get("$defs", ()) if "$defs" in table.definitions_stay else ()
    while name in table.definitions or name in taken:
        count += 1
        name = f"{wanted}_{count}"
    table.name_counts[wanted] = count
    if reference != f"#/$defs/{name}":
        walk.losses.note("$ref", path, f"{reference[:100]!r} is the definition {name!r} under $defs")
    # Entered before the conversion, so that a recursive reference finds it.
    table.names[id(target)] = name
    table.definitions[name] = None
    table.levels[name] = walk.level
    # Providers limit the depth of each definition by itself, without following references.
    depth, walk.object_depth = walk.object_depth, 0
    found = walk.convert(target, walk.source.pointer_to(reference))
    walk.object_depth = depth
    table.definitions[name], table.codecs[name] = found
    walk.name_chars += len(name)
    return name


def _copy_target(
    walk: Walk, target: dict[str, Any], reference: str, siblings: dict[str, Any], path: str
) -> Found:
    """Convert a copy of the target of a reference, unless the reference is inside that target."""
    table = walk.references
    if id(target) in table.being_copied:
        walk.losses.note("$ref", path, f"{reference[:100]!r} refers back to itself; it is expanded once")
        return walk.to_json_text({"description": target.get("description"), **siblings}, path)
    walk.losses.note("$ref", path, "is replaced by what it refers to")
    table.being_copied.add(id(target))
    found = walk.convert({**target, **siblings}, walk.source.pointer_to(reference))
    table.being_copied.discard(id(target))
    return found


def _add_siblings(walk: Walk, found: dict[str, Any], siblings: dict[str, Any], path: str) -> dict[str, Any]:
    """Add the keywords beside a reference to the converted one, as far as the provider allows them."""
    if not siblings:
        return found
    allowed = walk.rules.ref_siblings
    if walk.rules.structured:
        outer = walk.add_keywords(siblings, {}, None, frozenset(), path)
        walk.unions += bool(outer)
        return {"anyOf": [found], **outer} if outer else found
    beside = filter_keywords(walk, siblings, path)
    if allowed is not None:
        for word in beside.keys() - allowed:
            walk.losses.note(word, path, "may not stand beside $ref, and is left out")
    return found | {word: value for word, value in beside.items() if allowed is None or word in allowed}
