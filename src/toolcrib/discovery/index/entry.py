"""Entry of the catalogue: one tool with its backends and example questions."""

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from sys import intern
from typing import Any

from pydantic import TypeAdapter

from toolcrib.discovery.facts import summarize
from toolcrib.discovery.index.filters import DEPRECATED, backend_facets, tool_facets
from toolcrib.discovery.keys import key_of
from toolcrib.discovery.records import Summary
from toolcrib.discovery.store import StoredTool
from toolcrib.errors import InvalidToolError, StoreError
from toolcrib.model import Tool, ToolBackend
from toolcrib.model.backend import AnyBackend
from toolcrib.model.toolid import without_version

_BACKENDS: TypeAdapter[tuple[AnyBackend, ...]] = TypeAdapter(tuple[AnyBackend, ...])


_LOG = logging.getLogger("toolcrib.discovery")


class Entry:
    """A tool with its backends and example questions; one loaded from a store is parsed when first used.

    Opening a catalogue of 100,000 tools must not parse them all, so search reads the stored facets and the
    cached analysis, and only tools that are shown are parsed.
    """

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
            self.id = key_of(source.id)
            self.facets = tool_facets(source)
            self.content_hash = _digest(source, self.examples)
        else:
            self._tool = None
            self._definition = source.definition
            self.id = source.id
            self.facets = _parse_texts(source.facets)
            self.content_hash = source.content_hash

    @classmethod
    def from_row(cls, row: StoredTool) -> "Entry":
        """Return the entry of a stored row.

        Raises:
            StoreError: the row is damaged.
        """
        try:
            return cls(row, _parse_backends(row.backends), _parse_texts(row.examples))
        except (ValueError, TypeError, RecursionError) as error:
            raise _unreadable_error(row.id) from error

    def equals(self, other: "Entry | None") -> bool:
        """Return whether another entry has the same content, backends and examples."""
        return other is not None and (self.content_hash, self.backends, self.examples) == (
            other.content_hash,
            other.backends,
            other.examples,
        )

    @property
    def tool(self) -> Tool:
        """The definition, parsed at first use.

        Raises:
            StoreError: the stored definition is damaged.
        """
        # Read before `_tool` is tested: another thread may parse it and clear `_definition` in between.
        definition = self._definition
        if self._tool is None:
            try:
                self._tool = Tool.from_json(definition)
            except InvalidToolError as error:
                raise _unreadable_error(self.id) from error
            self._definition = ""
        return self._tool

    @property
    def summary(self) -> Summary:
        """The summary of the tool."""
        if self._summary is None:
            self._summary = summarize(self.tool)
        return self._summary

    @property
    def names(self) -> tuple[str, ...]:
        """All names of the tool: its id, with and without a version, its name and its aliases."""
        parts = self.id.split(":")
        return self.id, without_version(self.id), parts[min(1, len(parts) - 1)], *self.aliases

    @property
    def aliases(self) -> tuple[str, ...]:
        """The aliases of the tool."""
        return tuple(facet.removeprefix("alias=") for facet in self.facets if facet.startswith("alias="))

    @property
    def is_deprecated(self) -> bool:
        """Whether the tool is marked as deprecated."""
        return DEPRECATED in self.facets

    @property
    def keys(self) -> frozenset[str]:
        """Every facet that the tool can be selected by."""
        return backend_facets(self.backends).union(self.facets)

    def to_row(self) -> StoredTool:
        """Return the row that a store writes."""
        backends = [backend.to_json() for backend in self.backends]
        return StoredTool(
            id=self.id,
            definition=self._definition or json.dumps(self.tool.to_json()),
            backends=json.dumps(backends),
            facets=json.dumps(self.facets),
            examples=json.dumps(self.examples),
            content_hash=self.content_hash,
        )


def _unreadable_error(tool_id: str) -> StoreError:
    reason = f"the stored tool {tool_id!r} cannot be read; register it again, or unregister it"
    return StoreError("tools", reason)


# Many tools have the same texts, and share what they are parsed to.
@lru_cache(maxsize=1 << 12)
def _parse_backends(kept: str) -> tuple[ToolBackend, ...]:
    return _BACKENDS.validate_json(kept)


@lru_cache(maxsize=1 << 12)
def _parse_texts(kept: str) -> tuple[str, ...]:
    texts = json.loads(kept)
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise TypeError(kept[:80])
    return tuple(map(intern, texts))


def _canonical_json(value: Any) -> str:
    """Serialize JSON with sorted keys, so that equal values give equal texts."""
    # As texts, 1, 1.0 and true differ; Python compares them as equal.
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _digest(tool: Tool, examples: Sequence[str]) -> str:
    text = f"{_canonical_json(tool.to_json())}\n{_canonical_json(examples)}"
    return blake2b(text.encode(), digest_size=20).hexdigest()


def definition_digest(tool: Tool) -> str:
    """Return a digest of the definition of a tool, without example questions."""
    return _digest(tool, ())


def changed_fields(known: Entry, tool: Tool) -> tuple[str, ...]:
    """Return the sorted JSON names of the fields in which a tool differs from a known entry.

    The result is `("definition",)` if the known definition cannot be read or was changed in place.
    """
    if _digest(tool, known.examples) == known.content_hash:
        return ()
    try:
        before, after = known.tool.to_json(), tool.to_json()
    except StoreError:
        return ("definition",)
    changed = tuple(
        name
        for name in sorted(before.keys() | after.keys())
        if name not in before
        or name not in after
        or _canonical_json(before[name]) != _canonical_json(after[name])
    )
    return changed or ("definition",)


def read_stored_entries(rows: Iterable[StoredTool], *, parsed: bool = False) -> Iterator[Entry]:
    """Yield the entries of stored rows; rows that cannot be read, or parsed with `parsed`, are logged."""
    for row in rows:
        try:
            entry = Entry.from_row(row)
            if parsed:
                Tool.from_json(row.definition)
        except (StoreError, InvalidToolError) as error:
            _LOG.warning("a tool is left out: %s", error)
        else:
            yield entry
