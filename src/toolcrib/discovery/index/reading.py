"""Read side of the index: list, resolve, search."""

import re
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from threading import Lock
from typing import Any, TypeVar, Unpack

from toolcrib.discovery.index.entry import Entry
from toolcrib.discovery.index.filters import Filter, FilterOptions, filter_text, read_filter
from toolcrib.discovery.index.lookup import Lookup
from toolcrib.discovery.index.names import ALIAS
from toolcrib.discovery.index.references import latest, not_found, versions_of
from toolcrib.discovery.keys import key_of
from toolcrib.discovery.protocols import Hit, Ranking, Searcher
from toolcrib.discovery.records import Page, Result, Summary
from toolcrib.errors import InvalidCursorError, InvalidToolIdError, Problem, ValidationError
from toolcrib.errors.base import shown
from toolcrib.model import Tool, ToolBackend, ToolId

MAX_LIMIT = 1_000
"""How many items a page holds at most; a larger limit gives a page of so many."""
_DEPTH = 500
"""Hits examined for those with enough confidence; more, if the second half of these still has some."""
_DEEPER = 4
_PLACE = struct.Struct(">Q8s8s")
_CURSOR = re.compile(r"[A-Za-z0-9_-]{32}")
"""Three bytes are four characters: 24 bytes need no padding."""
_NO_TOOL: frozenset[str] = frozenset()
"""A condition that no tool meets."""
Item = TypeVar("Item", Result, Summary)


@dataclass(frozen=True, slots=True)
class Search:
    """One question to a searcher, among the tools that pass a filter."""

    rank: Callable[..., Ranking]
    """The `search` of the searcher with its question, limited to the tools that the caller can see."""
    named: Mapping[str, int]
    """The tools that the question calls by name, and how directly."""
    among: frozenset[str] | None

    def find(self, count: int, min_confidence: float) -> Ranking:
        """Return the best `count` hits with at least this confidence, and how many there are."""
        if min_confidence <= 0:
            return self._rank_named_first(count)
        depth = _DEPTH
        ranked: Sequence[Hit] = self._rank_named_first(depth)
        while len(ranked) == depth and max(hit.confidence for hit in ranked[depth // 2 :]) >= min_confidence:
            depth *= _DEEPER
            ranked = self._rank_named_first(depth)
        sure = [hit for hit in ranked if hit.confidence >= min_confidence]
        return Ranking(sure[:count], len(sure))

    def _rank_named_first(self, count: int) -> Ranking:
        named = frozenset(self.named if self.among is None else self.among.intersection(self.named))
        if not named:
            return self.rank(limit=count, among=self.among)
        rest = self.rank(limit=count, among=self.among, exclude=named)
        first = self._rank_by_name(named, above=rest[0].score if rest else 0.0)
        return Ranking([*first, *rest][:count], len(first) + rest.total)

    def _rank_by_name(self, named: frozenset[str], above: float) -> Sequence[Hit]:
        """Return the named tools, the most directly named first, each with a score above every other's."""
        found = self.rank(limit=len(named), among=named)
        scores = dict.fromkeys(named, 0.0) | {hit.id: max(hit.score, 0.0) for hit in found}
        step = max(scores.values()) + 1.0
        scored = [
            (above + 1.0 + step * (ALIAS - self.named[one]) + score, one) for one, score in scores.items()
        ]
        return [Hit(one, score, 1.0) for score, one in sorted(scored, key=lambda pair: (-pair[0], pair[1]))]


@dataclass(frozen=True, slots=True)
class ListState:
    """A list or a search at one version of an index; makes and reads the cursors of its pages."""

    query: str | None
    """The question of a search; None for a list."""
    conditions: Filter
    min_confidence: float
    version: int
    key: bytes
    """The key of the index: cursors of another process or another index are refused."""

    def write_cursor(self, offset: int) -> str:
        """Return the cursor for a place in the list."""
        stamp = self._stamp()
        packed = _PLACE.pack(offset, stamp, self._seal(offset, stamp))
        return urlsafe_b64encode(packed).decode()

    def read_cursor(self, cursor: str | None) -> int:
        """Return the offset that a cursor means; None and an empty one mean the beginning.

        Raises:
            InvalidCursorError: it is no cursor, or it belongs to another list or another state of it.
        """
        if cursor is None or cursor == "":
            return 0
        offset, stamp, seal = _unpack(cursor)
        if seal != self._seal(offset, stamp):
            raise InvalidCursorError("it was not issued for this query and these filters")
        if stamp != self._stamp():
            raise InvalidCursorError("the catalogue has changed since it was issued")
        return offset

    def _stamp(self) -> bytes:
        """Return a digest of the version, which tells a caller of a view nothing of changes elsewhere."""
        return self._digest(f"version {self.version}")

    def _seal(self, offset: int, stamp: bytes) -> bytes:
        asked = f"{self.query!r} {self.min_confidence!r} {filter_text(self.conditions)}"
        return self._digest(f"{offset} {stamp.hex()} {asked}")

    def _digest(self, text: str) -> bytes:
        return blake2b(text.encode(errors="surrogatepass"), digest_size=8, key=self.key).digest()


def _unpack(cursor: object) -> tuple[int, bytes, bytes]:
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
        count = check_search(limit=limit)
        return self._list_page(None, read_filter(filters), 0.0, count, cursor)

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
        count = check_search(limit=limit, query=query, min_confidence=min_confidence)
        conditions, confidence = read_filter(filters), float(min_confidence)
        if not query.strip():
            return self._list_unranked(query, conditions, confidence, count, cursor)
        page, is_current = self._find_page(query, conditions, confidence, count, cursor)
        if not is_current:
            with self._shared.writing:  # the second search must see one state of the catalogue
                page, _ = self._find_page(query, conditions, confidence, count, cursor)
        return page

    def _entry(self, tool_id: str) -> Entry:
        with self._shared.lock:
            found = self._lookup.get(tool_id)
            if found is None:
                raise not_found(self._lookup, tool_id)
            return found

    def _list_page(
        self, query: str | None, conditions: Filter, min_confidence: float, count: int, cursor: str | None
    ) -> Page[Summary]:
        """Return a page of the tools that pass a filter, in order."""
        with self._shared.lock:
            state = ListState(query, conditions, min_confidence, self._shared.version, self._key)
            start = state.read_cursor(cursor)
            listed = self._lookup.listed(conditions)
            entries = self._lookup.entries(listed[start : start + count])
            total = len(listed)
        return _make_page(tuple(entry.summary for entry in entries), state, start + len(entries), total)

    def _list_unranked(
        self, query: str, conditions: Filter, min_confidence: float, count: int, cursor: str | None
    ) -> Page[Result]:
        """Return a page of all tools as results of a blank question, with a confidence of 0."""
        passing = (_NO_TOOL,) if min_confidence > 0 else conditions
        page = self._list_page(query, passing, min_confidence, count, cursor)
        results = self._make_results([(summary, 0.0, 0.0) for summary in page.items])
        return Page.of_checked(items=results, next_cursor=page.next_cursor, total=page.total)

    def _find_page(
        self, query: str, conditions: Filter, min_confidence: float, count: int, cursor: str | None
    ) -> tuple[Page[Result], bool]:
        """Return a page of results, and whether the catalogue is still the one that was searched."""
        searcher = self._shared.searcher
        rank: Callable[..., Ranking] = partial(searcher.search, query)
        with self._shared.lock:
            state = ListState(query, conditions, min_confidence, self._shared.version, self._key)
            start = state.read_cursor(cursor)
            among, visible = self._lookup.selected(conditions), self._lookup.selected()
            named = self._lookup.names.named_in(query, among)
        if visible is not None and getattr(searcher, "searches_within", False):
            rank = partial(rank, within=visible)
        ranking = Search(rank, named, among).find(start + count, min_confidence)
        with self._shared.lock:
            found = [(self._lookup.get(hit.id), hit) for hit in ranking[start:]]
            is_current = self._shared.version == state.version and all(entry for entry, _ in found)
        results = self._make_results(
            [(entry.summary, hit.score, hit.confidence) for entry, hit in found if entry]
        )
        return _make_page(results, state, start + len(found), ranking.total), is_current

    def _make_results(self, found: Sequence[tuple[Summary, float, float]]) -> tuple[Result, ...]:
        """Return results for summaries with their scores and confidences."""
        score_type = self._shared.searcher.score_type
        return tuple(
            Result.of_checked(summary=summary, score=score, score_type=score_type, confidence=confidence)
            for summary, score, confidence in found
        )


def check_search(*, limit: int, query: Any = "", min_confidence: float = 0.0) -> int:
    """Check the arguments of a list or a search, and return how many items a page may hold.

    Raises:
        ValidationError: with every problem.
    """
    problems: list[Problem] = []
    if not isinstance(query, str):
        problems.append(Problem("/query", "type", f"must be text, not {type(query).__name__}"))
    if isinstance(limit, bool) or not isinstance(limit, int):
        problems.append(Problem("/limit", "type", f"must be a whole number, not {type(limit).__name__}"))
    elif limit < 1:
        problems.append(Problem("/limit", "minimum", f"must be at least 1, not {shown(limit)}"))
    if isinstance(min_confidence, bool) or not isinstance(min_confidence, int | float):
        problems.append(Problem("/min_confidence", "type", "must be a number from 0 to 1"))
    elif not 0 <= min_confidence <= 1:  # which NaN is not either
        problems.append(Problem("/min_confidence", "maximum", "must be from 0 to 1"))
    if problems:
        raise ValidationError(tuple(problems))
    return min(limit, MAX_LIMIT)


def _make_page(items: tuple[Item, ...], state: ListState, end: int, total: int) -> Page[Item]:
    following = state.write_cursor(end) if items and end < total else None
    return Page.of_checked(items=items, next_cursor=following, total=total)
