"""One tool as the catalogue keeps it."""

import json
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from pydantic import TypeAdapter

from toolcrib.discovery.describe import summarize
from toolcrib.discovery.index.filters import backend_facets, tool_facets
from toolcrib.discovery.records import Summary
from toolcrib.discovery.store import StoredTool
from toolcrib.model import Tool, ToolBackend
from toolcrib.model.backend import AnyBackend

__all__ = ["Entry", "changed_fields"]

_BACKENDS: TypeAdapter[tuple[AnyBackend, ...]] = TypeAdapter(tuple[AnyBackend, ...])


class Entry:
    """A tool, where it runs, and the questions it answers; one from a store is parsed when it is used."""

    __slots__ = ("_definition", "_summary", "_tool", "backends", "content_hash", "examples", "facets", "id")

    def __init__(
        self, source: Tool | StoredTool, backends: Sequence[ToolBackend], examples: Sequence[str]
    ) -> None:
        self._summary: Summary | None = None
        self.backends = tuple(backends)
        self.examples = tuple(examples)
        if isinstance(source, Tool):
            self._tool: Tool | None = source
            self._definition = ""
            self.id = str(source.id)
            self.facets = tool_facets(source)
            self.content_hash = _digest(source, self.examples)
        else:
            self._tool = None
            self._definition = source.definition
            self.id = source.id
            self.facets = tuple(json.loads(source.facets))
            self.content_hash = source.content_hash

    @classmethod
    def stored(cls, row: StoredTool) -> "Entry":
        """Return the entry that a store kept."""
        return cls(row, _BACKENDS.validate_json(row.backends), json.loads(row.examples))

    @property
    def tool(self) -> Tool:
        """The definition."""
        if self._tool is None:
            self._tool = Tool.from_json(self._definition)
            self._definition = ""
        return self._tool

    @property
    def summary(self) -> Summary:
        """The tool at a glance."""
        if self._summary is None:
            self._summary = summarize(self.tool)
        return self._summary

    @property
    def names(self) -> tuple[str, ...]:
        """Everything that the tool is called: its id, its name and its aliases."""
        parts = self.id.split(":")
        aliases = (facet.removeprefix("alias=") for facet in self.facets if facet.startswith("alias="))
        return self.id, parts[min(1, len(parts) - 1)], *aliases

    @property
    def keys(self) -> frozenset[str]:
        """Every facet that the tool can be selected by."""
        return backend_facets(self.backends).union(self.facets)

    def row(self) -> StoredTool:
        """Return what a store keeps."""
        backends = [backend.to_json() for backend in self.backends]
        return StoredTool(
            id=self.id,
            definition=self._definition or json.dumps(self.tool.to_json()),
            backends=json.dumps(backends),
            facets=json.dumps(self.facets),
            examples=json.dumps(self.examples),
            content_hash=self.content_hash,
        )


def _text(value: Any) -> str:
    """Return JSON as text that is the same for the same JSON, and tells `1` from `true` and `1.0`."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _digest(tool: Tool, examples: Sequence[str]) -> str:
    text = f"{_text(tool.to_json())}\n{_text(examples)}"
    return blake2b(text.encode(), digest_size=20).hexdigest()


def changed_fields(known: Entry, tool: Tool) -> tuple[str, ...]:
    """Return which parts of a definition a tool has differently, by their JSON names, in order."""
    if known.tool is tool:
        return ()
    before, after = known.tool.to_json(), tool.to_json()
    return tuple(
        name
        for name in sorted(before.keys() | after.keys())
        if name not in before or name not in after or _text(before[name]) != _text(after[name])
    )
