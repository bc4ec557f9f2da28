"""Read side of the index: list, resolve, search."""

import re
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from threading import Lock
from typing import Any, TypeVar, Unpack

from toolcrib.discovery.index.entry import Entry
from toolcrib.discovery.index.filters import Filter, FilterOptions, filter_text, read_filter
from toolcrib.discovery.index.lookup import Lookup
from toolcrib.discovery.index.names import ALIAS
from toolcrib.discovery.index.references import not_found_error, resolve_reference, versions_of
from toolcrib.discovery.keys import key_of
from toolcrib.discovery.learned import Lift, may_destroy
from toolcrib.discovery.protocols import Hit, Lifts, Raise, Ranking, Searcher
from toolcrib.discovery.records import Page, Reason, Result, Summary
from toolcrib.discovery.search.lexical.reasons import locate_words
from toolcrib.errors import InvalidCursorError, InvalidToolIdError, Problem, ValidationError
from toolcrib.errors.base import short_repr
from toolcrib.model import Tool, ToolBackend, ToolId
from toolcrib.model.toolid import without_version

MAX_LIMIT = 1_000
"""The maximum number of items on a page; a larger limit is lowered to it."""
_FIRST_DEPTH = 500
"""Hits that a search with a minimum confidence examines at first."""
_DEPTH_FACTOR = 4
_CURSOR_FORMAT = struct.Struct(">Q8s8s")
"""Offset, digest of the version, signature: 24 bytes, which base64 encodes without padding."""
_CURSOR = re.compile(r"[A-Za-z0-9_-]{32}")
_MATCHES_NOTHING: frozenset[str] = frozenset()
"""A condition without facets, which no tool fulfils."""
Item = TypeVar("Item", Result, Summary)


@dataclass(frozen=True, slots=True)
class Search:
    """One search: tools that the question names come first, then the hits of the searcher."""

    rank: Callable[..., Ranking]
    """`Searcher.search` with the question bound, and limited to the tools that the caller can see."""
    named: Mapping[str, int]
    """The tools that the question calls by name, each with its directness (see `Names`)."""
    among: frozenset[str] | None
    """The ids that pass the filter; None if there is none."""
    explain: bool = False
    """Whether hits get the reasons for their scores."""

    def find(self, count: int, min_confidence: float) -> Ranking:
        """Return the best `count` hits with at least this confidence, and the total number of such hits."""
        if min_confidence <= 0:
            return self._rank_named_first(count)
        # The total must be exact, so every confident hit has to be seen. Confidence falls with rank, so when
        # the second half of the hits read has none with enough confidence, neither have those after it.
        depth = _FIRST_DEPTH
        ranked: Sequence[Hit] = self._rank_named_first(depth)
        while len(ranked) == depth and max(hit.confidence for hit in ranked[depth // 2 :]) >= min_confidence:
            depth *= _DEPTH_FACTOR
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
        """Return the named tools, the most directly named first, with scores above those of all others."""
        # Each step of directness adds more than the searcher's highest score, so that the score only orders
        # tools that are named equally directly.
        found = self.rank(limit=len(named), among=named)
        hits = {hit.id: hit for hit in found}
        scores = dict.fromkeys(named, 0.0) | {hit.id: max(hit.score, 0.0) for hit in found}
        step = max(scores.values()) + 1.0
        scored = [
            (above + 1.0 + step * (ALIAS - self.named[one]) + score, one) for one, score in scores.items()
        ]
        ordered = sorted(scored, key=lambda pair: (-pair[0], pair[1]))
        if not self.explain:
            return [Hit(one, score, 1.0) for score, one in ordered]
        return [Hit(one, score, 1.0, _explain_named(score, hits.get(one))) for score, one in ordered]


@dataclass(frozen=True, slots=True)
class _Asked:
    """The arguments of a search, checked."""

    query: str
    conditions: Filter
    min_confidence: float
    count: int
    """The number of results on the page."""
    cursor: str | None
    lifts: Mapping[str, Lift] | None
    explain: bool


@dataclass(frozen=True, slots=True)
class ListState:
    """Identity of a list or a search at one version of the index; writes and reads its cursors.

    A cursor is an offset with two keyed digests: one of the version of the index, and one that signs the
    offset together with the query and the filters. So a cursor cannot be used for another query, cannot be
    forged, and tells nothing of the number of changes that a view cannot see.
    """

    query: str | None
    """The question of a search; None for a list."""
    conditions: Filter
    min_confidence: float
    version: int
    key: bytes
    """The random key of the index, so that cursors of another process or index are refused."""
    lifts: Lifts = field(default_factory=dict)
    """How far learned questions raise tools in a search."""

    def write_cursor(self, offset: int) -> str:
        """Return the cursor of an offset."""
        stamp = self._digest_version()
        packed = _CURSOR_FORMAT.pack(offset, stamp, self._sign(offset, stamp))
        return urlsafe_b64encode(packed).decode()

    def read_cursor(self, cursor: str | None) -> int:
        """Return the offset of a cursor; None and an empty text mean the beginning.

        Raises:
            InvalidCursorError: it is not a cursor, or belongs to another list or version.
        """
        if cursor is None or cursor == "":
            return 0
        offset, stamp, seal = _unpack_cursor(cursor)
        if seal != self._sign(offset, stamp):
            raise InvalidCursorError("it was not issued for this query and these filters")
        if stamp != self._digest_version():
            raise InvalidCursorError("the catalogue has changed since it was issued")
        return offset

    def _digest_version(self) -> bytes:
        # A digest, because the number itself would reveal changes outside a view.
        learned = f" {sorted(self.lifts.items())}" if self.lifts else ""
        return self._digest(f"version {self.version}{learned}")

    def _sign(self, offset: int, stamp: bytes) -> bytes:
        asked = f"{self.query!r} {self.min_confidence!r} {filter_text(self.conditions)}"
        return self._digest(f"{offset} {stamp.hex()} {asked}")

    def _digest(self, text: str) -> bytes:
        return blake2b(text.encode(errors="surrogatepass"), digest_size=8, key=self.key).digest()


def _unpack_cursor(cursor: object) -> tuple[int, bytes, bytes]:
    # The pattern is needed because the base64 decoder skips characters outside its alphabet.
    if not isinstance(cursor, str) or not _CURSOR.fullmatch(cursor):
        raise InvalidCursorError("it was not issued by this index")
    offset, stamp, seal = _CURSOR_FORMAT.unpack(urlsafe_b64decode(cursor))
    return offset, stamp, seal


@dataclass(slots=True)
class SharedReads:
    """State that an index and its views share."""

    searcher: Searcher
    version: int = 0
    lock: Lock = field(default_factory=Lock)
    """Guards the entry table; held briefly by readers and by the last step of a change."""
    writing: Lock = field(default_factory=Lock)
    """Held during a whole change, including the store and the searcher; taken before `lock`."""


class IndexReader:
    """Read access to a catalogue: get, resolve, list and search; every method is thread-safe."""

    def __init__(self, lookup: Lookup, shared: SharedReads, key: bytes) -> None:
        """Read from a lookup; cursors are valid for all readers with the same key."""
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
        """The version of the catalogue, a number that increases with every change."""
        return self._shared.version

    def get(self, tool_id: str | ToolId) -> Tool:
        """Return the tool with exactly this id.

        Raises:
            ToolNotFoundError: no tool has this id; with the most similar ids.
        """
        return self._get_entry(key_of(tool_id)).tool

    def resolve(self, ref: str | ToolId) -> Tool:
        """Return the tool that a reference names.

        A reference is an exact id, `namespace:name` for the highest stable version, or `namespace:name:^1.2`
        for the highest version that the constraint admits.

        Raises:
            ToolNotFoundError: no tool matches; with the most similar ids.
        """
        return self.find(ref)[0]

    def find(self, ref: str | ToolId) -> tuple[Tool, tuple[ToolBackend, ...]]:
        """Return the tool that a reference names, and its backends, read atomically.

        Raises:
            ToolNotFoundError: no tool matches; with the most similar ids.
        """
        with self._shared.lock:
            found = resolve_reference(self._lookup, ref)
        return found.tool, found.backends

    def versions(self, tool_id: str | ToolId) -> tuple[str, ...]:
        """Return the ids of all versions of a tool, the lowest first."""
        with self._shared.lock:
            return versions_of(self._lookup, tool_id)

    def backends(self, tool_id: str | ToolId) -> tuple[ToolBackend, ...]:
        """Return the backends of a tool, in the order of their registration."""
        return self._get_entry(key_of(tool_id)).backends

    def example_questions(self, tool_id: str | ToolId) -> tuple[str, ...]:
        """Return the example questions of a tool, by which searches find it."""
        return self._get_entry(key_of(tool_id)).examples

    def namespaces(self) -> tuple[str, ...]:
        """Return the namespaces, sorted; an empty text stands for tools without a namespace."""
        with self._shared.lock:
            return tuple(self._lookup.namespaces())

    def tools(
        self, *, limit: int = 100, cursor: str | None = None, **filters: Unpack[FilterOptions]
    ) -> Page[Summary]:
        """Return a page of the tools, sorted by id.

        Raises:
            InvalidCursorError: the cursor belongs to other filters or another version of the catalogue.
            ValidationError: the limit or a filter is invalid.
        """
        count = check_search(limit=limit)
        return self._list_page(None, read_filter(filters), 0.0, count, cursor)

    def list_all(self, **filters: Unpack[FilterOptions]) -> tuple[Summary, ...]:
        """Return the summaries of all tools, sorted by id, read atomically.

        Raises:
            ValidationError: a filter is invalid.
        """
        conditions = read_filter(filters)
        with self._shared.lock:
            entries = self._lookup.entries(self._lookup.sorted_ids(conditions))
        return tuple(entry.summary for entry in entries)

    def search(
        self,
        query: str,
        *,
        limit: int = 10,
        cursor: str | None = None,
        min_confidence: float = 0.0,
        lifts: Mapping[str, Lift] | None = None,
        explain: bool = False,
        **filters: Unpack[FilterOptions],
    ) -> Page[Result]:
        """Return a page of the tools that fit a question, best first; a blank question lists all tools.

        A tool that the question calls by its id, name or alias comes before all others. `lifts` are how far
        learned questions raise tools, by their ids without versions (see `LearnedQuestions`). With `explain`,
        each result has the reasons for its score.

        Raises:
            InvalidCursorError: the cursor belongs to another query or another version of the catalogue.
            ValidationError: the query, the limit, the confidence or a filter is invalid.
        """
        count = check_search(limit=limit, query=query, min_confidence=min_confidence)
        conditions, confidence = read_filter(filters) if filters else (), float(min_confidence)
        if not query.strip():
            return self._list_unranked(query, conditions, confidence, count, cursor)
        # The searcher runs without a lock, so that a slow search delays nobody. If the catalogue changed
        # meanwhile, the hits may not match it: search again, this time with changes locked out.
        asked = _Asked(query, conditions, confidence, count, cursor, lifts, explain)
        find = partial(self._find_page, asked)
        page, is_current = find()
        if not is_current:
            with self._shared.writing:
                page, _ = find()
        return page

    def _get_entry(self, tool_id: str) -> Entry:
        with self._shared.lock:
            found = self._lookup.get(tool_id)
            if found is None:
                raise not_found_error(self._lookup, tool_id)
            return found

    def _list_page(
        self, query: str | None, conditions: Filter, min_confidence: float, count: int, cursor: str | None
    ) -> Page[Summary]:
        """Return a page of the tools that pass a filter, sorted by id."""
        with self._shared.lock:
            state = ListState(query, conditions, min_confidence, self._shared.version, self._key)
            start = state.read_cursor(cursor)
            listed = self._lookup.sorted_ids(conditions)
            entries = self._lookup.entries(listed[start : start + count])
            total = len(listed)
        return _make_page(tuple(entry.summary for entry in entries), state, start + len(entries), total)

    def _list_unranked(
        self, query: str, conditions: Filter, min_confidence: float, count: int, cursor: str | None
    ) -> Page[Result]:
        """Return a page of all tools as the results of a blank question, with a confidence of 0."""
        passing = (_MATCHES_NOTHING,) if min_confidence > 0 else conditions
        page = self._list_page(query, passing, min_confidence, count, cursor)
        results = self._make_results([(summary, 0.0, 0.0) for summary in page.items])
        return Page.from_valid(items=results, next_cursor=page.next_cursor, total=page.total, query=query)

    def _find_page(self, asked: "_Asked") -> tuple[Page[Result], bool]:
        """Return a page of results, and whether the catalogue stayed the same during the search."""
        searcher, lifts = self._shared.searcher, asked.lifts
        rank: Callable[..., Ranking] = partial(searcher.search, asked.query)
        with self._shared.lock:
            among, visible = self._lookup.matching_ids(asked.conditions), self._lookup.matching_ids()
            raised = (
                self._find_raised(lifts, among) if lifts and getattr(searcher, "takes_lifts", False) else {}
            )
            version = self._shared.version
            state = ListState(asked.query, asked.conditions, asked.min_confidence, version, self._key, raised)
            start = state.read_cursor(asked.cursor)
            named = self._lookup.names.find_named_in(asked.query, among)
        if visible is not None and getattr(searcher, "searches_within", False):
            rank = partial(rank, within=visible)
        if raised:
            rank = partial(rank, lifts=raised)
        if asked.explain and getattr(searcher, "explains", False):
            rank = partial(rank, explain=True)
        search = Search(rank, named, among, asked.explain)
        ranking = search.find(start + asked.count, asked.min_confidence)
        with self._shared.lock:
            found = [(self._lookup.get(hit.id), hit) for hit in ranking[start:]]
            is_current = self._shared.version == version and all(entry for entry, _ in found)
        known = [(entry, hit) for entry, hit in found if entry]
        results = self._make_results([(entry.summary, hit.score, hit.confidence) for entry, hit in known])
        if asked.explain:
            explained = [_explain_hit(entry, hit, lifts or {}) for entry, hit in known]
            pairs = zip(results, explained, strict=True)
            results = tuple(result.model_copy(update={"why": why}) for result, why in pairs)
        return _make_page(results, state, start + len(found), ranking.total), is_current

    def _find_raised(self, lifts: Mapping[str, Lift], among: frozenset[str] | None) -> dict[str, Raise]:
        """Return how far tools are raised, by id, and whether they may destroy something."""
        raised: dict[str, Raise] = {}
        for name, lift in lifts.items():
            for entry in self._lookup.entries(self._lookup.versions(name)):
                if among is None or entry.id in among:
                    raised[entry.id] = Raise(lift.strength, may_destroy(entry.id, entry.facets))
        return raised

    def _make_results(self, found: Sequence[tuple[Summary, float, float]]) -> tuple[Result, ...]:
        """Build results from summaries with their scores and confidences."""
        score_type = self._shared.searcher.score_type
        return tuple(
            Result.from_valid(summary=summary, score=score, score_type=score_type, confidence=confidence)
            for summary, score, confidence in found
        )


def _explain_named(score: float, hit: Hit | None) -> tuple[Reason, ...]:
    """Return the reasons for the score of a tool that the question names, given its hit without the name."""
    own, why = (0.0, ()) if hit is None else (hit.score, hit.why)
    return (Reason.from_valid(kind="name", score=score - own), *why)


def _explain_hit(entry: Entry, hit: Hit, lifts: Mapping[str, Lift]) -> tuple[Reason, ...]:
    """Return the reasons for the score of a hit, the largest first, in terms of the texts of its tool."""
    unexplained = hit.score - sum(reason.score for reason in hit.why)
    whole = Reason.from_valid(kind="searcher", score=unexplained)
    lift = lifts.get(without_version(entry.id))
    reasons: list[Reason] = [] if any(reason.kind != "name" for reason in hit.why) else [whole]
    for reason in locate_words(hit.why, entry.tool, entry.examples):
        if reason.kind == "learned" and lift is not None:
            reasons += _split_learned(reason, lift)
        else:
            reasons.append(reason)
    told = (one for one in reasons if one.score)
    return tuple(sorted(told, key=lambda one: (-one.score, one.kind, one.text)))


def _split_learned(reason: Reason, lift: Lift) -> Iterator[Reason]:
    """Yield a reason for each learned question that raises a tool."""
    for similar in lift.questions:
        part = similar.lift / lift.strength
        yield reason.model_copy(
            update={"score": reason.score * part, "text": similar.question, "value": similar.lift}
        )


def check_search(*, limit: int, query: Any = "", min_confidence: float = 0.0) -> int:
    """Check the arguments of a list or a search, and return the limit, at most `MAX_LIMIT`.

    Raises:
        ValidationError: with every problem.
    """
    problems: list[Problem] = []
    if not isinstance(query, str):
        problems.append(Problem("/query", "type", f"must be text, not {type(query).__name__}"))
    if isinstance(limit, bool) or not isinstance(limit, int):
        problems.append(Problem("/limit", "type", f"must be a whole number, not {type(limit).__name__}"))
    elif limit < 1:
        problems.append(Problem("/limit", "minimum", f"must be at least 1, not {short_repr(limit)}"))
    if isinstance(min_confidence, bool) or not isinstance(min_confidence, int | float):
        problems.append(Problem("/min_confidence", "type", "must be a number from 0 to 1"))
    elif not 0 <= min_confidence <= 1:  # false for NaN too
        problems.append(Problem("/min_confidence", "maximum", "must be from 0 to 1"))
    if problems:
        raise ValidationError(tuple(problems))
    return min(limit, MAX_LIMIT)


def _make_page(items: tuple[Item, ...], state: ListState, end: int, total: int) -> Page[Item]:
    next_cursor = state.write_cursor(end) if items and end < total else None
    return Page.from_valid(items=items, next_cursor=next_cursor, total=total, query=state.query)
