"""Entry of the catalogue: one tool with its backends and example questions."""

import json
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from sys import intern
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter

from toolcrib.discovery.facts import summarize
from toolcrib.discovery.index.definitions import Definitions
from toolcrib.discovery.index.filters import ALIAS, DEPRECATED, backend_facets, tool_facets
from toolcrib.discovery.keys import key_of
from toolcrib.discovery.records import Summary
from toolcrib.discovery.store import StoredTool
from toolcrib.errors import InvalidToolError, StoreError
from toolcrib.model import Tool, ToolBackend
from toolcrib.model.backend import AnyBackend
from toolcrib.model.toolid import without_version

_BACKENDS: TypeAdapter[tuple[AnyBackend, ...]] = TypeAdapter(tuple[AnyBackend, ...])


_LOG = logging.getLogger("toolcrib.discovery")
_TEXT = {str}
_BLOCK = 1_000
"""Rows whose definitions are in memory at a time."""
T = TypeVar("T")


class Entry:
    """A tool with its backends and example questions; the tool itself, or the place of its definition.

    Opening a catalogue of 100,000 tools must not parse them all, so search reads the stored facets and the
    cached analysis, and only tools that are shown are parsed.
    """

    __slots__ = (
        "_definitions",
        "_place",
        "_summary",
        "_tool",
        "backends",
        "content_hash",
        "examples",
        "facets",
        "id",
    )

    def __init__(  # noqa: PLR0913 - a tool, or its definition at a place, with what is known of it
        self,
        tool_id: str,
        backends: tuple[ToolBackend, ...],
        examples: tuple[str, ...],
        facets: tuple[str, ...],
        content_hash: str,
        *,
        tool: Tool | None = None,
        definitions: Definitions | None = None,
        place: int = 0,
    ) -> None:
        self.id, self.backends, self.examples, self.facets = tool_id, backends, examples, facets
        self.content_hash = content_hash
        self._tool = tool
        self._summary: Summary | None = None
        self._definitions, self._place = definitions, place

    @classmethod
    def of(cls, tool: Tool, backends: Sequence[ToolBackend], examples: Sequence[str]) -> "Entry":
        """Return the entry of a tool, which stays in memory."""
        texts = tuple(examples)
        return cls(
            key_of(tool.id), tuple(backends), texts, tool_facets(tool), _digest(tool, texts), tool=tool
        )

    @classmethod
    def from_row(
        cls, row: StoredTool, texts: Mapping[str, tuple[str, ...]], definitions: Definitions, place: int
    ) -> "Entry":
        """Return the entry of a stored row: `texts` has what its lists of texts are parsed to.

        Raises:
            StoreError: the row is damaged.
        """
        try:
            backends = _parse_backends(row.backends)
            examples, facets = texts[row.examples], texts[row.facets]
        except (ValueError, TypeError, RecursionError, KeyError) as error:
            raise _unreadable_error(row.id) from error
        return cls(row.id, backends, examples, facets, row.content_hash, definitions=definitions, place=place)

    def moved_to(self, definitions: Definitions, place: int) -> "Entry":
        """Return the same entry with its definition at a place, and no longer in memory."""
        known = (self.id, self.backends, self.examples, self.facets, self.content_hash)
        return Entry(*known, definitions=definitions, place=place)

    def release(self) -> None:
        """Give back the place of the definition of an entry that was replaced or removed."""
        if self._definitions is not None:
            self._definitions.release(self._place)

    def equals(self, other: "Entry | None") -> bool:
        """Return whether another entry has the same content, backends and examples."""
        return other is not None and (self.content_hash, self.backends, self.examples) == (
            other.content_hash,
            other.backends,
            other.examples,
        )

    @property
    def definition(self) -> str:
        """The definition, as the text of a JSON object."""
        if self._definitions is not None:
            return self._definitions.text(self._place)
        return json.dumps(self.tool.shared_json())

    @property
    def tool(self) -> Tool:
        """The definition, parsed when it is needed.

        Raises:
            StoreError: the stored definition is damaged.
        """
        if self._definitions is not None:
            return self._read(self._definitions.tool)
        return cast("Tool", self._tool)  # it has the one or the other

    @property
    def summary(self) -> Summary:
        """The summary of the tool.

        Raises:
            StoreError: the stored definition is damaged.
        """
        if self._definitions is not None:
            return self._read(self._definitions.summary)
        if self._summary is None:
            self._summary = summarize(self.tool)
        return self._summary

    def _read(self, read: Callable[[int], T]) -> T:
        try:
            return read(self._place)
        except InvalidToolError as error:
            raise _unreadable_error(self.id) from error

    @property
    def names(self) -> tuple[str, ...]:
        """All names of the tool: its id, with and without a version, its name and its aliases."""
        parts = self.id.split(":")
        return self.id, without_version(self.id), parts[min(1, len(parts) - 1)], *self.aliases

    @property
    def aliases(self) -> tuple[str, ...]:
        """The aliases of the tool."""
        return tuple(facet.removeprefix(ALIAS) for facet in self.facets if facet.startswith(ALIAS))

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
            definition=self.definition,
            backends=json.dumps(backends),
            facets=json.dumps(self.facets),
            examples=json.dumps(self.examples),
            content_hash=self.content_hash,
        )


def _unreadable_error(tool_id: str) -> StoreError:
    reason = f"the stored tool {tool_id!r} cannot be read; register it again, or unregister it"
    return StoreError("tools", reason)


@lru_cache(maxsize=1 << 12)  # many tools have the same backends
def _parse_backends(kept: str) -> tuple[ToolBackend, ...]:
    return _BACKENDS.validate_json(kept)


def _parse_texts(kept: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Parse JSON arrays of texts; those that cannot be read are left out."""
    # As one text, which takes a quarter of the time of one by one.
    try:
        found = json.loads(f"[{','.join(kept)}]")
        pairs = list(zip(kept, found, strict=True))
    except (ValueError, RecursionError):
        if len(kept) == 1:
            return {}
        pairs = [(text, texts) for text in kept for texts in _parse_texts([text]).values()]
    return {
        text: tuple(map(intern, texts))
        for text, texts in pairs
        if isinstance(texts, list | tuple) and set(map(type, texts)) <= _TEXT
    }


def _canonical_json(value: Any) -> str:
    """Serialize JSON with sorted keys, so that equal values give equal texts."""
    # As texts, 1, 1.0 and true differ; Python compares them as equal.
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _digest(tool: Tool, examples: Sequence[str]) -> str:
    text = f"{_canonical_json(tool.shared_json())}\n{_canonical_json(examples)}"
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
        before, after = known.tool.shared_json(), tool.shared_json()
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


def read_stored_entries(
    rows: Iterable[StoredTool], definitions: Definitions, *, parsed: bool = False
) -> Iterator[Entry]:
    """Yield the entries of stored rows, and move their definitions to a file.

    Rows that cannot be read, or parsed with `parsed`, are logged and left out.
    """
    remaining = iter(rows)
    while block := list(islice(remaining, _BLOCK)):
        places = definitions.append([row.definition for row in block])
        texts = _parse_texts({text for row in block for text in (row.facets, row.examples)})
        for row, place in zip(block, places, strict=True):
            try:
                entry = Entry.from_row(row, texts, definitions, place)
                if parsed:
                    Tool.from_json(row.definition)
            except (StoreError, InvalidToolError) as error:
                definitions.release(place)
                _LOG.warning("a tool is left out: %s", error)
            else:
                yield entry
