"""References: kept where the provider follows them, otherwise their targets copied in, within bounds."""

import re
from typing import TYPE_CHECKING, Any, Final

from toolcrib.adapter.rewrite.carry import carry
from toolcrib.adapter.rewrite.codec import Codec, RefCodec
from toolcrib.adapter.rewrite.combine import rewrite_all
from toolcrib.adapter.rewrite.source import ANNOTATIONS, TYPES

if TYPE_CHECKING:
    from toolcrib.adapter.rewrite.walk import Found, Walk

_DEFINITION: Final = re.compile(r"#/(\$defs|definitions)/([^/]+)")
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_.-]+")
ROOT: Final = "#"
_ALL: Final = frozenset(TYPES)


class References:
    """The definitions of one converted schema, each converted once, when it is first referred to."""

    root_stays = False
    """Whether a reference to the root leads to the converted root."""
    definitions_stay: tuple[str, ...] = ()
    """The keywords whose definitions the converted schema has in the same place."""

    def __init__(self) -> None:
        self.definitions: dict[str, Any] = {}
        """By name; None while being converted."""
        self._codecs: dict[str, Codec | None] = {}
        self._names: dict[int, str] = {}
        self._done: dict[str, Found] = {}
        self._levels: dict[str, int] = {}
        self._kinds: dict[str, frozenset[str]] = {}
        self._counts: dict[str, int] = {}
        self._open: set[int] = set()

    def known(self, schema: dict[str, Any]) -> "Found | None":
        """Return a reference and nothing else converted, where its definition has been."""
        reference = schema.get("$ref")
        if type(reference) is not str or reference not in self._done:
            return None
        found, codec = self._done[reference]
        return found.copy(), codec

    def rewrite(self, walk: "Walk", node: dict[str, Any], path: str) -> "Found":
        """Return a subschema with a reference converted."""
        reference = node["$ref"]
        target = walk.source.find(reference)
        siblings = {word: value for word, value in node.items() if word != "$ref"}
        if target is None:
            walk.losses.note("$ref", path, f"leads nowhere within the schema: {reference[:100]!r}; left out")
            return walk.schema(siblings, path)
        if type(target) is bool:
            return walk.schema(siblings if target else False, path)
        if walk.rules.structured and not siblings.keys() <= ANNOTATIONS:
            members = [*siblings.get("allOf", ()), {"$ref": reference}]
            return rewrite_all(walk, {**siblings, "allOf": members}, path)
        if not walk.rules.refs:
            return self._copy(walk, target, reference, siblings, path)
        found, codec = self._refer(walk, target, reference, path)
        return self._beside(walk, found, siblings, path), codec

    def _refer(self, walk: "Walk", target: dict[str, Any], reference: str, path: str) -> "Found":
        """Return a reference to a definition of the converted schema."""
        if reference == ROOT and self.root_stays:
            walk.recursive = True
            return {"$ref": ROOT}, RefCodec(ROOT, self._codecs) if walk.rules.structured else None
        if (
            self.definitions_stay
            and (usual := _DEFINITION.fullmatch(reference))
            and usual[1] in self.definitions_stay
        ):
            return {"$ref": reference}, None
        name = self._define(walk, target, reference, path)
        found = {"$ref": f"#/$defs/{name}"}
        if self.definitions[name] is None:
            if self._levels[name] == walk.level:
                walk.losses.note("$ref", path, "leads back to itself and says nothing; anything is admitted")
                return walk.anything({}, path) if walk.rules.structured else ({}, None)
            walk.recursive = True
            return found, RefCodec(name, self._codecs)
        codec = self._codecs[name]
        if _DEFINITION.fullmatch(reference):
            self._done[reference] = found, codec
        return found.copy(), codec

    def _define(self, walk: "Walk", target: dict[str, Any], reference: str, path: str) -> str:
        if id(target) in self._names:
            return self._names[id(target)]
        wanted = _FOREIGN.sub("_", reference.rpartition("/")[2]).strip("_") or "root"
        name, count = wanted, self._counts.get(wanted, 1)
        taken = walk.source.root.get("$defs", ()) if "$defs" in self.definitions_stay else ()
        while name in self.definitions or name in taken:
            count += 1
            name = f"{wanted}_{count}"
        self._counts[wanted] = count
        if reference != f"#/$defs/{name}":
            walk.losses.note("$ref", path, f"{reference[:100]!r} is the definition {name!r} under $defs")
        self._names[id(target)] = name
        self.definitions[name] = None
        self._levels[name] = walk.level
        depth, walk.object_depth = walk.object_depth, 0
        found = walk.schema(target, walk.source.pointer(reference))
        walk.object_depth = depth
        self.definitions[name], self._codecs[name] = found
        walk.name_chars += len(name)
        return name

    def _copy(
        self, walk: "Walk", target: dict[str, Any], reference: str, siblings: dict[str, Any], path: str
    ) -> "Found":
        """Return the target of a reference itself, unless it is a part of what is being copied."""
        if id(target) in self._open:
            walk.losses.note("$ref", path, f"{reference[:100]!r} refers back to itself; one turn is kept")
            return walk.anything({"description": target.get("description"), **siblings}, path)
        walk.losses.note("$ref", path, "is replaced by what it refers to")
        self._open.add(id(target))
        found = walk.schema({**target, **siblings}, walk.source.pointer(reference))
        self._open.discard(id(target))
        return found

    def _beside(
        self, walk: "Walk", found: dict[str, Any], siblings: dict[str, Any], path: str
    ) -> dict[str, Any]:
        """Return a reference with what its original had beside it, as far as that may stand there."""
        if not siblings:
            return found
        allowed = walk.rules.ref_siblings
        if walk.rules.structured:
            outer = walk.finish(siblings, {}, None, frozenset(), path)
            walk.unions += bool(outer)
            return {"anyOf": [found], **outer} if outer else found
        beside = carry(walk, siblings, path)
        if allowed is not None:
            for word in beside.keys() - allowed:
                walk.losses.note(word, path, "may not stand beside $ref, and is left out")
        return found | {word: value for word, value in beside.items() if allowed is None or word in allowed}

    def used(self, root: dict[str, Any]) -> dict[str, Any]:
        """Return the definitions that a converted root refers to, at first or second hand."""
        used: set[str] = set()
        pending: list[Any] = [root] if self.definitions else []
        while pending:
            value = pending.pop()
            if type(value) is list:
                pending += value
            elif type(value) is dict:
                pending += value.values()
                name = str(value.get("$ref", "")).removeprefix("#/$defs/")
                if name in self.definitions and name not in used:
                    used.add(name)
                    pending.append(self.definitions[name])
        return {name: found for name, found in self.definitions.items() if name in used}

    def converted(self, reference: str) -> Any:
        """Return the converted definition that a converted reference leads to; None while it is made."""
        return self.definitions.get(reference.removeprefix("#/$defs/"))

    def kinds(self, schema: dict[str, Any], unknown: frozenset[str] = _ALL) -> frozenset[str]:
        """Return the JSON types that a converted subschema admits; `unknown` while a definition is made."""
        only = schema.get("$ref")
        if only in self._kinds:
            return self._kinds[only]
        pending = [schema]
        kinds: set[str] = set()
        seen: set[str] = set()
        is_known = True
        while pending:
            schema = pending.pop()
            reference = schema.get("$ref")
            if reference is not None and reference not in seen:
                seen.add(reference)
                target = self.converted(reference)
                if target is None:
                    is_known = False
                    kinds |= unknown
                elif reference in self._kinds:
                    kinds |= self._kinds[reference]
                else:
                    pending.append(target)
            declared = schema.get("type", ())
            kinds.update([declared] if type(declared) is str else declared)
            if schema.get("nullable"):
                kinds.add("null")
            pending += schema.get("anyOf", ())
        found = frozenset(kinds | {"integer"} if "number" in kinds else kinds)
        if is_known and only is not None:
            self._kinds[only] = found
        return found

    def keep_root(self, codec: Codec | None) -> None:
        """Take the codec of the root, for what refers to it."""
        self._codecs[ROOT] = codec
