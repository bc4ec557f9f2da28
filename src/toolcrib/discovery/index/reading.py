"""Reading a catalogue: what there is, which is meant, and which fits a question."""

import re
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from threading import Lock
from typing import TypeVar, Unpack

from toolcrib.discovery.index.arguments import check_asked
from toolcrib.discovery.index.entry import Entry
from toolcrib.discovery.index.filters import Filter, FilterOptions, filter_text, read_filter
from toolcrib.discovery.index.lookup import Lookup
from toolcrib.discovery.index.names import ALIAS
from toolcrib.discovery.index.references import latest, not_found, versions_of
from toolcrib.discovery.keys import key_of
from toolcrib.discovery.protocols import Hit, Ranking, Searcher
from toolcrib.discovery.records import Page, Result, Summary
from toolcrib.errors import InvalidCursorError, InvalidToolIdError
from toolcrib.model import Tool, ToolBackend, ToolId

_DEPTH = 500
"""How many hits are looked at for those that are sure enough; more, where half of these still hold some."""
_DEEPER = 4
_PLACE = struct.Struct(">Q8s8s")
_CURSOR = re.compile(r"[A-Za-z0-9_-]{32}")
"""Three bytes are four characters: 24 bytes need no padding."""
_NOTHING: frozenset[str] = frozenset()
"""A condition that no tool meets."""
Item = TypeVar("Item", Result, Summary)


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, and which answers are wanted."""

    query: str
    conditions: Filter
    min_confidence: float

    @property
    def text(self) -> str:
        """Everything that the answers depend on, as one text."""
        return f"search {self.min_confidence!r} {filter_text(self.conditions)} {self.query}"


@dataclass(frozen=True, slots=True)
class Search:
    """One question, and where to look."""

    searcher: Searcher
    query: str
    named: Mapping[str, int]
    """The tools that the question calls by name, and how directly."""
    among: frozenset[str] | None
    within: frozenset[str] | None = None
    """The tools there are, as far as the asker may know: no number says anything of others."""

    def find(self, count: int, min_confidence: float) -> Ranking:
        """Return the best `count` hits that are sure enough, and how many there are."""
        if min_confidence <= 0:
            return self._ranked(count)
        depth = _DEPTH
        ranked: Sequence[Hit] = self._ranked(depth)
        while len(ranked) == depth and max(hit.confidence for hit in ranked[depth // 2 :]) >= min_confidence:
            depth *= _DEEPER
            ranked = self._ranked(depth)
        sure = [hit for hit in ranked if hit.confidence >= min_confidence]
        return Ranking(sure[:count], len(sure))

    def _ranked(self, count: int) -> Ranking:
        named = frozenset(self.named if self.among is None else self.among.intersection(self.named))
        if not named:
            return self._searched(count, self.among)
        rest = self._searched(count, self.among, exclude=named)
        first = self._by_name(named, above=rest[0].score if rest else 0.0)
        return Ranking([*first, *rest][:count], len(first) + rest.total)

    def _searched(
        self, limit: int, among: frozenset[str] | None, exclude: frozenset[str] = frozenset()
    ) -> Ranking:
        search: Callable[..., Ranking] = self.searcher.search
        if self.within is not None and getattr(self.searcher, "searches_within", False):
            search = partial(search, within=self.within)
        return search(self.query, limit=limit, among=among, exclude=exclude)

    def _by_name(self, named: frozenset[str], above: float) -> Sequence[Hit]:
        """Return the named tools, the most directly named first, each with a score above every other's."""
        found = self._searched(len(named), named)
        scores = dict.fromkeys(named, 0.0) | {hit.id: max(hit.score, 0.0) for hit in found}
        step = max(scores.values()) + 1.0
        scored = [
            (above + 1.0 + step * (ALIAS - self.named[one]) + score, one) for one, score in scores.items()
        ]
        return [Hit(one, score, 1.0) for score, one in sorted(scored, key=lambda pair: (-pair[0], pair[1]))]


@dataclass(frozen=True, slots=True)
class ListState:
    """A list in one state: what was asked for, and the version of the index that answered."""

    question: str
    """Everything that the list depends on, as text."""
    version: int
    index: bytes
    """Which index it is: cursors of another process or another index mean nothing here."""

    def cursor(self, offset: int) -> str:
        """Return the cursor for a place in the list."""
        stamp = self._stamp()
        packed = _PLACE.pack(offset, stamp, self._seal(offset, stamp))
        return urlsafe_b64encode(packed).decode()

    def offset(self, cursor: str | None) -> int:
        """Return the place that a cursor means; None and an empty one mean the beginning.

        Raises:
            InvalidCursorError: it is no cursor, or it belongs to another list or another state of it.
        """
        if cursor is None or cursor == "":
            return 0
        offset, stamp, seal = _unpacked(cursor)
        if seal != self._seal(offset, stamp):
            raise InvalidCursorError("it was not issued for this query and these filters")
        if stamp != self._stamp():
            raise InvalidCursorError("the catalogue has changed since it was issued")
        return offset

    def _stamp(self) -> bytes:
        """Return what stands for the version: whoever sees a part of an index need not learn of the rest."""
        return self._digest(f"version {self.version}")

    def _seal(self, offset: int, stamp: bytes) -> bytes:
        return self._digest(f"{offset} {stamp.hex()} {self.question}")

    def _digest(self, text: str) -> bytes:
        return blake2b(text.encode(errors="surrogatepass"), digest_size=8, key=self.index).digest()


def _unpacked(cursor: object) -> tuple[int, bytes, bytes]:
    # Checked by its letters: the decoder would overlook what is not of its alphabet.
    if not isinstance(cursor, str) or not _CURSOR.fullmatch(cursor):
        raise InvalidCursorError("it was not issued by this index")
    offset, stamp, seal = _PLACE.unpack(urlsafe_b64decode(cursor))
    return offset, stamp, seal


@dataclass(slots=True)
class SharedReads:
    """What all who read one catalogue share."""

    searcher: Searcher
    version: int = 0
    lock: Lock = field(default_factory=Lock)
    """Held while the catalogue is read, and while it changes."""
    writing: Lock = field(default_factory=Lock)
    """Held from before a change until after it."""


class IndexReader:
    """Tools by id, version and question; every method may be called from any thread."""

    def __init__(self, lookup: Lookup, shared: SharedReads, key: bytes) -> None:
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
        return self.find(ref)[0]

    def find(self, ref: str | ToolId) -> tuple[Tool, tuple[ToolBackend, ...]]:
        """Return the tool that a reference means, with its backends, as of one moment.

        Raises:
            ToolNotFoundError: with the nearest ids.
        """
        with self._shared.lock:
            found = latest(self._lookup, ref)
        return found.tool, found.backends

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
            listing = ListState(text, self._shared.version, self._key)
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
            listing = ListState(asked.text, self._shared.version, self._key)
            start = listing.offset(cursor)
            among, within = self._lookup.selected(asked.conditions), self._lookup.selected()
            named = self._lookup.named_in(asked.query, among)
        search = Search(self._shared.searcher, asked.query, named, among, within)
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


def _page(items: tuple[Item, ...], listing: ListState, end: int, total: int) -> Page[Item]:
    following = listing.cursor(end) if items and end < total else None
    return Page.of_checked(items=items, next_cursor=following, total=total)
