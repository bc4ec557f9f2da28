"""Search by words: BM25 over posting lists, with weighted fields.

A term's part of a score is its inverse document frequency times its impact. The impact has all of BM25 that
depends on the tool alone (term frequency, weighted by field, and length), so it is computed once, when the
tool is added; a search only multiplies and adds arrays. Two things differ from textbook BM25:

- The usual length (`_USUAL_LENGTH`) is fixed, so that impacts do not change when other tools come and go.
- A question in several parts ("book a flight, find a hotel") scores half by the sum over all its terms,
  half by its best part, so that a tool for one part is not beaten by one that has a little of each.

Scores are sums in float32, whose last bits could depend on the order of the terms; the statistics over all
tools are therefore computed in whole numbers (`mean_and_deviation`).
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import partial
from math import inf
from threading import Lock
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from toolcrib.discovery.protocols import Derived, Hit, Indexed, Lifts, Ranking
from toolcrib.discovery.records import Reason
from toolcrib.discovery.search.confidence import confidence_by_words
from toolcrib.discovery.search.lexical.documents import DocumentBatch, analyse_tools
from toolcrib.discovery.search.lexical.postings import Postings, VisiblePostings
from toolcrib.discovery.search.lexical.question import ParsedQuery, parse_query
from toolcrib.discovery.search.lexical.reasons import explain_words, learned_reasons
from toolcrib.discovery.search.lexical.scoring import Scores, score_slots
from toolcrib.discovery.search.lexical.typos import SpellingCorrector
from toolcrib.discovery.search.snapshot import SearchSnapshot, is_due
from toolcrib.discovery.search.text import MARKS

Score = TypeVar("Score", float, NDArray[np.float32])
"""One score, or an array of the scores of several tools."""
_K1 = 1.2
_B = 0.5
_USUAL_LENGTH = 15.0
"""The document length at which BM25's length normalisation is neutral, in weighted words."""
# The number must be increased when the analysis of tools or an impact changes: older snapshots are not used.
_CACHE_KIND = "postings/1"
_MAX_SELECTIONS = 16
_BLOCK = 64
_LEARNED_GAIN = 0.5
"""The score that learned questions add to a tool at most, as a share of that of a perfect match."""


@dataclass(frozen=True, slots=True)
class LexicalScores:
    """The BM25 scores of one question, and the figures that make them comparable across questions."""

    best: list[tuple[str, float]]
    """The highest-scoring ids with their scores, in order."""
    others: dict[str, float]
    """The scores of the ids given as `others`."""
    total: int
    """The number of tools with a positive score."""
    mean: float
    """The mean over all tools; 0 unless `others` was given."""
    deviation: float
    """The standard deviation over all tools; 0 unless `others` was given."""
    parts: int
    """The number of parts of the question."""
    ideal: float
    """The score of a tool that contains each word of the question once, unknown words included."""
    rarest: float
    """The score of one word that no tool contains."""
    topics: Mapping[str, float] = field(default_factory=dict)
    """The share of the question that names topics of a tool, for those of the ids that have any."""
    deprecated: AbstractSet[str] = frozenset()
    """Those of the ids that are deprecated."""

    def matched(self, score: Score) -> Score:
        """Return a score in units of the rarest word."""
        return score / self.rarest

    def coverage(self, score: Score) -> Score:
        """Return a score as a share of the ideal one."""
        return score / (self.ideal or inf)

    def confidence(self, score: float) -> float:
        """Return the confidence of a tool with this score."""
        return confidence_by_words(matched=self.matched(score), coverage=self.coverage(score))


class Bm25Searcher:
    """Ranks tools by the words they share with a question (BM25).

    Names, descriptions, parameters, enum values and example questions are fields with weights. A question in
    several parts is scored as a whole and by its best part. A misspelt word is read as the nearest known one.
    """

    score_type: Literal["bm25"] = "bm25"
    searches_within = True
    takes_lifts = True
    explains = True

    def __init__(self, *, cache: Derived | None = None) -> None:
        self._cache = cache
        self._postings = Postings()
        self._slots = Slots()
        self._hashes: dict[str, str] = {}
        """The content hash of each tool."""
        self._unsaved = 0
        """The number of tools that have changed since the last snapshot."""
        self._typos = SpellingCorrector()
        self._lock = Lock()

    def update(self, added: Sequence[Indexed], removed: Sequence[str] = ()) -> None:
        """Remove ids and add tools; a tool whose id is already there is replaced."""
        latest = {entry.id: entry for entry in added}
        opening = not self._slots.ids
        if opening:
            latest = self._restore(latest)
        batch = analyse_tools((entry.tool, entry.examples) for entry in latest.values())
        impacts = _compute_impacts(batch)
        with self._lock:
            gone = [tool_id for tool_id in {*removed, *latest} if tool_id in self._slots]
            self._postings.remove(set(map(self._slots.release, gone)))
            for tool_id in gone:
                del self._hashes[tool_id]
            slots = [self._slots.take(tool_id) for tool_id in latest]
            self._hashes.update((entry.id, entry.content_hash) for entry in latest.values())
            self._typos.learn(self._postings.add(batch, slots, impacts))
            self._unsaved += len(gone) + len(latest)
            due = self._cache is not None and is_due(self._unsaved, len(self._hashes), opening=opening)
            kept = self._snapshot() if due else None
        if kept is not None and self._cache is not None:
            kept.save(self._cache, _CACHE_KIND)

    def _restore(self, entries: dict[str, Indexed]) -> dict[str, Indexed]:
        """Take over those of the entries that the snapshot describes, and return the others."""
        kept = None if self._cache is None else SearchSnapshot.load(self._cache, _CACHE_KIND)
        if kept is None:
            return entries
        names: list[str] = []
        known: dict[str, str] = {}
        gone: list[str] = []
        for tool_id, content_hash in zip(kept.texts["ids"], kept.texts["hashes"], strict=True):
            entry = entries.get(tool_id)
            if entry is None or entry.content_hash != content_hash:
                names.append(tool_id)
                gone.append(tool_id)
            else:  # the texts of the entry, not copies of them
                names.append(entry.id)
                known[entry.id] = entry.content_hash
        if not known:
            return entries
        with self._lock:
            self._postings.load(kept.texts["terms"], kept.arrays, len(names))
            self._slots.fill(names)
            self._postings.remove(set(map(self._slots.release, gone)))
            self._typos.learn(kept.texts["terms"])
            self._hashes = known
            self._unsaved = len(gone)
        if len(known) == len(entries):
            return {}
        return {tool_id: entry for tool_id, entry in entries.items() if tool_id not in known}

    def _snapshot(self) -> SearchSnapshot:
        """Return a snapshot of all tools, whose slots follow each other."""
        terms, arrays = self._postings.dump()
        places = np.cumsum([bool(tool_id) for tool_id in self._slots.ids], dtype=np.int32) - np.int32(1)
        ids = list(filter(None, self._slots.ids))
        self._unsaved = 0
        return SearchSnapshot(
            {"ids": ids, "hashes": [self._hashes[one] for one in ids], "terms": terms},
            arrays | {"slots": places[arrays["slots"]]},
        )

    def search(  # noqa: PLR0913 - options, each with a default
        self,
        query: str,
        *,
        limit: int,
        among: AbstractSet[str] | None = None,
        exclude: AbstractSet[str] = frozenset(),
        within: AbstractSet[str] | None = None,
        lifts: Lifts | None = None,
        explain: bool = False,
    ) -> Ranking:
        """Return the tools with the highest BM25 scores for a question.

        Learned questions do not raise destructive tools, and each hit matches a word of the question.
        """
        raised = {one: lift for one, lift in (lifts or {}).items() if not lift.may_destroy}
        raised = {one: lift for one, lift in raised.items() if one not in exclude}
        lexical = self.score_query(
            query, limit=limit, among=among, exclude=exclude, others=raised or None, within=within
        )
        scores, gain = dict(lexical.best), _LEARNED_GAIN * max(lexical.ideal, lexical.rarest)
        if raised:
            scores |= {one: score + gain * raised[one].strength for one, score in lexical.others.items()}
        best = sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[: max(limit, 0)]
        unmatched = sum(score == 0 for score in lexical.others.values()) if raised else 0
        hits = [Hit(tool_id, score, lexical.confidence(score)) for tool_id, score in best]
        if explain:
            why = self.explain(query, [hit.id for hit in hits], within)
            for one, lift in raised.items():
                if one in why:
                    why[one] += learned_reasons(gain * lift.strength, lift.strength)
            hits = [hit._replace(why=why[hit.id]) for hit in hits]
        return Ranking(hits, lexical.total + unmatched)

    def explain(
        self, query: str, ids: Sequence[str], within: AbstractSet[str] | None = None
    ) -> dict[str, tuple[Reason, ...]]:
        """Return the reasons for the scores of some tools, whose shares add up to the scores."""
        with self._lock:
            postings = self._visible_postings(within)
            slots = self._slots.find(ids)
            found = explain_words(query, self._parse(query, postings), postings, slots, len(self._slots.ids))
        return {tool_id: found.get(tool_id, ()) for tool_id in ids}

    def score_query(
        self,
        query: str,
        *,
        limit: int,
        among: AbstractSet[str] | None = None,
        exclude: AbstractSet[str] = frozenset(),
        others: Iterable[str] | None = None,
        within: AbstractSet[str] | None = None,
    ) -> LexicalScores:
        """Return the best scores for a question, those of `others`, and figures to compare them by."""
        with self._lock:
            ids, postings = self._slots.ids, self._visible_postings(within)
            question = self._parse(query, postings)
            scored = score_slots(question, postings, len(ids))
            slots = self._slots.find(others or ())
            asked = {tool_id: float(scored.scores[slot]) for tool_id, slot in slots.items()}
            mean, deviation = (0.0, 0.0) if others is None else scored.mean_and_deviation(len(postings))
            scores = self._select(scored.scores, among, exclude)
            top = top_slots(scores, limit)
            found = [(ids[slot], each) for slot, each in zip(top.tolist(), scores[top].tolist(), strict=True)]
            slots |= {ids[slot]: slot for slot in top.tolist()}
            topics, deprecated = scored.topics_and_deprecated(slots)
        found.sort(key=lambda pair: (-pair[1], pair[0]))
        return LexicalScores(
            best=found[: max(limit, 0)],
            others=asked,
            total=int(np.count_nonzero(scores)),
            mean=mean,
            deviation=deviation,
            parts=len(question.parts),
            ideal=scored.ideal,
            rarest=scored.rarest,
            topics=topics,
            deprecated=deprecated,
        )

    def _parse(self, query: str, postings: Postings | VisiblePostings) -> ParsedQuery:
        nearest = partial(self._typos.nearest, usage=self._postings.frequency, here=postings.frequency)
        return parse_query(query, postings.knows, nearest)

    def _visible_postings(self, within: AbstractSet[str] | None) -> Postings | VisiblePostings:
        """Return the posting lists, restricted to the tools that the caller can see."""
        if within is None:
            return self._postings
        return VisiblePostings(self._postings, self._slots.of(within), len(self._slots.ids))

    def _select(self, scores: Scores, among: AbstractSet[str] | None, exclude: AbstractSet[str]) -> Scores:
        """Return the scores, with 0 for tools outside `among` or inside `exclude`."""
        if among is not None:
            slots = self._slots.of(among)
            kept = np.zeros_like(scores)
            kept[slots] = scores[slots]
            scores = kept
        if exclude:
            scores[list(self._slots.find(exclude).values())] = 0
        return scores


def _compute_impacts(batch: DocumentBatch) -> Scores:
    """Return the impact of each term of each tool: BM25's saturated frequency, normalised by length."""
    norms = _K1 * (1 - _B + _B * batch.lengths / _USUAL_LENGTH)
    impacts = batch.values * (_K1 + 1) / (batch.values + np.repeat(norms, batch.sizes))
    is_mark = np.array([term.startswith(MARKS) for term in batch.vocabulary], np.bool_)
    impacts[is_mark[batch.terms]] = 1.0
    return impacts.astype(np.float32)


class Slots:
    """Dense numbers for ids, by which arrays of scores are indexed; freed slots are used again."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        """The id of each slot; empty for a free one."""
        self._by_id: dict[str, int] = {}
        self._free: list[int] = []
        self._selections: dict[int, tuple[AbstractSet[str], NDArray[np.intp]]] = {}

    def __contains__(self, tool_id: str) -> bool:
        return tool_id in self._by_id

    @property
    def taken(self) -> int:
        """The number of slots in use."""
        return len(self._by_id)

    def fill(self, ids: Sequence[str]) -> None:
        """Assign the first slots to different ids, before any other has one."""
        self.ids = list(ids)
        self._by_id = dict(zip(self.ids, range(len(self.ids)), strict=True))

    def take(self, tool_id: str) -> int:
        """Assign a slot to an id that has none, and return it."""
        self._selections.clear()
        if self._free:
            slot = self._free.pop()
            self.ids[slot] = tool_id
        else:
            slot = len(self.ids)
            self.ids.append(tool_id)
        self._by_id[tool_id] = slot
        return slot

    def release(self, tool_id: str) -> int:
        """Free the slot of an id, and return it."""
        self._selections.clear()
        slot = self._by_id.pop(tool_id)
        self.ids[slot] = ""
        self._free.append(slot)
        return slot

    def find(self, ids: Iterable[str]) -> dict[str, int]:
        """Return the slots of those ids that have one."""
        return {tool_id: slot for tool_id in ids if (slot := self._by_id.get(tool_id)) is not None}

    def of(self, ids: AbstractSet[str]) -> NDArray[np.intp]:
        """Return the sorted slots of those ids that have one; cached by the identity of the set."""
        # The cache holds the set itself, so that its `id` cannot be reused by another set.
        kept = self._selections.get(id(ids))
        if kept is not None and kept[0] is ids:
            return kept[1]
        slots = np.array(sorted(self.find(ids).values()), dtype=np.intp)
        if len(self._selections) >= _MAX_SELECTIONS:
            self._selections.clear()
        self._selections[id(ids)] = (ids, slots)
        return slots


def top_slots(scores: NDArray[np.float32], count: int) -> NDArray[np.intp]:
    """Return the positions of the `count` highest positive scores, and of all that tie with the last.

    The k-th highest of the maxima of blocks is a lower bound for the k-th highest score. One pass finds this
    bound, and only the few scores that reach it have to be partitioned.

    >>> sorted(top_slots(np.array([1, 0, 3, 2, 3], dtype=np.float32), 2).tolist())
    [2, 4]
    """
    if count <= 0 or not len(scores):
        return np.empty(0, dtype=np.intp)
    bound, blocks = 0.0, len(scores) // _BLOCK
    if blocks > count:
        maxima = scores[: blocks * _BLOCK].reshape(blocks, _BLOCK).max(axis=1)
        bound = float(np.partition(maxima, blocks - count)[blocks - count])
    found = np.flatnonzero(scores >= bound) if bound > 0 else np.flatnonzero(scores > 0)
    if len(found) <= count:
        return found
    values = scores[found]
    last = np.partition(values, len(values) - count)[len(values) - count]
    top: NDArray[np.intp] = found[values >= last]
    return top
