"""Reading a catalogue: what there is, which is meant, and which fits a question."""

from dataclasses import dataclass, field
from threading import Lock
from typing import TypeVar, Unpack

from toolcrib.discovery.index.arguments import check_asked
from toolcrib.discovery.index.cursor import Listing
from toolcrib.discovery.index.entry import Entry
from toolcrib.discovery.index.filters import Filter, FilterOptions, filter_text, read_filter
from toolcrib.discovery.index.finding import Asked, Search
from toolcrib.discovery.index.lookup import Lookup
from toolcrib.discovery.index.references import latest, not_found, versions_of
from toolcrib.discovery.keys import key_of
from toolcrib.discovery.protocols import Searcher
from toolcrib.discovery.records import Page, Result, Summary
from toolcrib.errors import InvalidToolIdError
from toolcrib.model import Tool, ToolBackend, ToolId

__all__ = ["Reader", "Shared"]

_NOTHING: frozenset[str] = frozenset()
"""A condition that no tool meets."""
Item = TypeVar("Item", Result, Summary)


@dataclass(slots=True)
class Shared:
    """What all who read one catalogue share."""

    searcher: Searcher
    version: int = 0
    lock: Lock = field(default_factory=Lock)
    """Held while the catalogue is read, and while it changes."""
    writing: Lock = field(default_factory=Lock)
    """Held from before a change until after it."""


class Reader:
    """Tools by id, version and question; every method may be called from any thread."""

    def __init__(self, lookup: Lookup, shared: Shared, key: bytes) -> None:
        """Read what can be looked up; cursors of other readers with the same key are understood."""
        self._lookup = lookup
        self._shared = shared
        self._key = key

    def __len__(self) -> int:
        with self._shared.lock:
            return len(self._lookup)

    def __contains__(self, tool_id: str | ToolId) -> bool:
        try:
            wanted = key_of(tool_id)
        except InvalidToolIdError:
            return False
        with self._shared.lock:
            return wanted in self._lookup

    @property
    def version(self) -> int:
        """A number that goes up with every change."""
        return self._shared.version

    def get(self, tool_id: str | ToolId) -> Tool:
        """Return the tool with exactly this id.

        Raises:
            ToolNotFoundError: with the nearest ids.
        """
        return self._entry(key_of(tool_id)).tool

    def resolve(self, ref: str | ToolId) -> Tool:
        """Return the tool that a reference means.

        A reference is an exact id, `namespace:name` for the highest stable version, or `namespace:name:^1.2`
        for the highest that the constraint admits.

        Raises:
            ToolNotFoundError: with the nearest ids.
        """
        with self._shared.lock:
            (found,) = self._lookup.entries([latest(self._lookup, ref)])
        return found.tool

    def versions(self, tool_id: str | ToolId) -> tuple[str, ...]:
        """Return the ids of all versions of a tool that there are, the lowest first."""
        with self._shared.lock:
            return versions_of(self._lookup, tool_id)

    def backends(self, tool_id: str | ToolId) -> tuple[ToolBackend, ...]:
        """Return where a tool can run, in the order it was registered."""
        return self._entry(key_of(tool_id)).backends

    def namespaces(self) -> tuple[str, ...]:
        """Return the namespaces in order; an empty one stands for the tools without."""
        with self._shared.lock:
            return tuple(self._lookup.namespaces())

    def tools(
        self, *, limit: int = 100, cursor: str | None = None, **filters: Unpack[FilterOptions]
    ) -> Page[Summary]:
        """Return the tools in the order of their ids, a page at a time.

        Raises:
            InvalidCursorError: the cursor is not one of this list as it is.
            ValidationError: the limit or a filter is none.
        """
        count = check_asked(limit=limit)
        conditions = read_filter(filters)
        return self._listed(f"tools {filter_text(conditions)}", conditions, count, cursor)

    def every(self, **filters: Unpack[FilterOptions]) -> tuple[Summary, ...]:
        """Return all tools as they are at one moment, in the order of their ids.

        Raises:
            ValidationError: a filter is none.
        """
        conditions = read_filter(filters)
        with self._shared.lock:
            entries = self._lookup.entries(self._lookup.listed(conditions))
        return tuple(entry.summary for entry in entries)

    def search(
        self,
        query: str,
        *,
        limit: int = 10,
        cursor: str | None = None,
        min_confidence: float = 0.0,
        **filters: Unpack[FilterOptions],
    ) -> Page[Result]:
        """Return the tools that fit a question, best first, a page at a time; a blank one lists them all.

        A tool that the question calls by its id, name or alias comes before all others.

        Raises:
            InvalidCursorError: the cursor is not one of this question to this catalogue as it is.
            ValidationError: the query, the limit, the confidence or a filter is none.
        """
        count = check_asked(limit=limit, query=query, min_confidence=min_confidence)
        asked = Asked(query, read_filter(filters), float(min_confidence))
        if not query.strip():
            return self._unranked(asked, count, cursor)
        page, is_whole = self._ranked(asked, count, cursor)
        if not is_whole:
            with self._shared.writing:  # so that nothing changes while it is asked again
                page, _ = self._ranked(asked, count, cursor)
        return page

    def _entry(self, tool_id: str) -> Entry:
        with self._shared.lock:
            found = self._lookup.get(tool_id)
            if found is None:
                raise not_found(self._lookup, tool_id)
            return found

    def _listed(self, text: str, conditions: Filter, count: int, cursor: str | None) -> Page[Summary]:
        """Return a page of the tools that pass a filter, in order."""
        with self._shared.lock:
            listing = Listing(text, self._shared.version, self._key)
            start = listing.offset(cursor)
            listed = self._lookup.listed(conditions)
            entries = self._lookup.entries(listed[start : start + count])
            total = len(listed)
        return _page(tuple(entry.summary for entry in entries), listing, start + len(entries), total)

    def _unranked(self, asked: Asked, count: int, cursor: str | None) -> Page[Result]:
        """Return what a question that asks nothing is answered with: everything, with no confidence in it."""
        conditions = (_NOTHING,) if asked.min_confidence > 0 else asked.conditions
        page = self._listed(asked.text, conditions, count, cursor)
        results = tuple(self._result(summary, 0.0, 0.0) for summary in page.items)
        return Page.of_checked(items=results, next_cursor=page.next_cursor, total=page.total)

    def _ranked(self, asked: Asked, count: int, cursor: str | None) -> tuple[Page[Result], bool]:
        """Return a page of what fits a question, and whether nothing changed while it was gathered."""
        with self._shared.lock:
            listing = Listing(asked.text, self._shared.version, self._key)
            start = listing.offset(cursor)
            among = self._lookup.selected(asked.conditions)
            named = self._lookup.named_in(asked.query, among)
        search = Search(self._shared.searcher, asked.query, named, among)
        ranking = search.find(start + count, asked.min_confidence)
        with self._shared.lock:
            found = [(self._lookup.get(hit.id), hit) for hit in ranking[start:]]
            is_whole = self._shared.version == listing.version and all(entry for entry, _ in found)
        results = tuple(
            self._result(entry.summary, hit.score, hit.confidence) for entry, hit in found if entry
        )
        return _page(results, listing, start + len(found), ranking.total), is_whole

    def _result(self, summary: Summary, score: float, confidence: float) -> Result:
        return Result.of_checked(
            summary=summary, score=score, score_type=self._shared.searcher.score_type, confidence=confidence
        )


def _page(items: tuple[Item, ...], listing: Listing, end: int, total: int) -> Page[Item]:
    following = listing.cursor(end) if items and end < total else None
    return Page.of_checked(items=items, next_cursor=following, total=total)
