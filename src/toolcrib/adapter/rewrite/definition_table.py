"""Table of the definitions of a converted schema."""

from typing import Any, Final

from toolcrib.adapter.rewrite.codec import Codec
from toolcrib.adapter.rewrite.source import TYPES

ROOT: Final = "#"
"""The reference to the root of a schema."""
Found = tuple[Any, Codec | None]
"""A converted subschema, and its codec; None if the values are the same in both schemas."""
_ALL_TYPES: Final = frozenset(TYPES)


class DefinitionTable:
    """The definitions of one converted schema, each converted once, when it is first referred to."""

    root_stays = False
    """Whether references to the root are kept, because the converted root is the same object."""
    definitions_stay: tuple[str, ...] = ()
    """The keywords, such as `$defs`, whose definitions keep their places in the converted schema."""

    def __init__(self) -> None:
        self.definitions: dict[str, Any] = {}
        """The converted definitions by name; None for one that is being converted."""
        self.codecs: dict[str, Codec | None] = {}
        """The codecs by name, and that of the root by `ROOT`."""
        self.names: dict[int, str] = {}
        """The names by the `id()` of the original definition."""
        self.finished: dict[str, Found] = {}
        """Converted references to finished definitions, by the original reference."""
        self.levels: dict[str, int] = {}
        """The level of the walk at which each definition was first reached."""
        self.name_counts: dict[str, int] = {}
        """The number of definitions so far for each wanted name."""
        self.being_copied: set[int] = set()
        """The `id()` of each definition that is being copied to the place of a reference."""
        self._kinds: dict[str, frozenset[str]] = {}

    def get_finished(self, schema: dict[str, Any]) -> Found | None:
        """Return a converted bare reference, if its definition is finished; else None."""
        reference = schema.get("$ref")
        if type(reference) is not str or reference not in self.finished:
            return None
        found, codec = self.finished[reference]
        return found.copy(), codec

    def used(self, root: dict[str, Any]) -> dict[str, Any]:
        """Return the definitions that a converted root refers to, directly or indirectly."""
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
        """Return the converted definition of a converted reference; None while it is being converted."""
        return self.definitions.get(reference.removeprefix("#/$defs/"))

    def kinds(self, schema: dict[str, Any], unknown: frozenset[str] = _ALL_TYPES) -> frozenset[str]:
        """Return the JSON types of a converted subschema; `unknown` for a definition being converted."""
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
        """Set the codec of the root, for references to it."""
        self.codecs[ROOT] = codec
