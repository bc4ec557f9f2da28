"""Search by words: fielded BM25 over posting lists."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, pairwise
from math import inf, log1p, sqrt
from threading import Lock
from typing import Literal, TypeVar
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from toolcrib.discovery.protocols import Derived, Hit, Indexed, Ranking
from toolcrib.discovery.search.confidence import by_words
from toolcrib.discovery.search.lexical.postings import Filing, Postings, PostingsPart
from toolcrib.discovery.search.lexical.question import ParsedQuery, read_question
from toolcrib.discovery.search.lexical.typos import Typos
from toolcrib.discovery.search.text import DEPRECATED, MARKS, Analysis, analyse, search_doc

Score = TypeVar("Score", float, NDArray[np.float32])
"""One, or those of several tools."""
_K1 = 1.2
_B = 0.5
_PIVOT = 15.0
"""The length that counts as usual. It is fixed, not the mean of the catalogue: what a word counts in a tool
then does not change when other tools come and go."""
Scores = NDArray[np.float32]
_KIND = "terms/6"
"""The number goes up when tools are read differently, so that nothing read the old way is used."""
_BATCH = 5_000
_CHECKSUM = 4
_KEPT = 16
_BLOCK = 64
_LEAST = 300
"""A smaller catalogue is judged as if it had so many tools: in one of three, no word would tell anything."""
_PART_SHARE = 0.5
"""How much of a score the best part of a question decides, where it has several."""
_DEPRECATED_WEIGHT = 0.5
"""What the words of a deprecated tool count."""
_STEPS = 2**15
"""How finely scores are distinguished where they are added up."""
Gains = dict[str, float]
"""What each term adds to a score, before its impact."""


@dataclass(frozen=True, slots=True)
class Look:
    """The scores of one question."""

    best: list[tuple[str, float]]
    """The ids that score highest, and their scores, in order."""
    others: dict[str, float]
    """The scores of ids that were asked for."""
    total: int
    """How many tools score anything."""
    mean: float
    """The average over all tools, worked out where other ids were asked for."""
    deviation: float
    """The standard deviation over all tools, likewise."""
    parts: int
    """How many parts the question has."""
    ideal: float
    """What a tool would score that says each word once, those that no tool says included."""
    rarest: float
    """What a word counts that no tool says."""
    topics: Mapping[str, float] = field(default_factory=dict)
    """The share of the question that names topics of a tool, for those of the ids that have any."""
    deprecated: AbstractSet[str] = frozenset()
    """Those of the ids that are deprecated."""

    def matched(self, score: Score) -> Score:
        """Return how many of the rarest words a score is worth."""
        return score / self.rarest

    def coverage(self, score: Score) -> Score:
        """Return the share of the question that a score is worth."""
        return score / (self.ideal or inf)

    def confidence(self, score: float) -> float:
        """Return how far a tool with this score can be trusted to fit."""
        return by_words(matched=self.matched(score), coverage=self.coverage(score))


class Bm25Searcher:
    """Ranks tools by the words they share with a question.

    Names, descriptions, parameters, choices and example questions are fields of their own weight. A question
    in several parts is scored as a whole and by its best part. An unknown word is read as the nearest known.
    """

    score_type: Literal["bm25"] = "bm25"
    searches_within = True

    def __init__(self, *, cache: Derived | None = None) -> None:
        self._analyses = Analyses(cache)
        self._postings = Postings()
        self._slots = Slots()
        self._typos = Typos()
        self._lock = Lock()

    def update(self, added: Sequence[Indexed], removed: Sequence[str] = ()) -> None:
        """Forget the removed ids and learn the added tools; an id known already is replaced."""
        latest = {entry.id: entry for entry in added}
        filing = Filing()
        for analysis in self._analyses.of(list(latest.values())):
            filing.add(_impacts(analysis))
        with self._lock:
            for tool_id in {*removed, *latest}:
                if tool_id in self._slots:
                    self._postings.remove(self._slots.release(tool_id))
            slots = [self._slots.take(tool_id) for tool_id in latest]
            self._typos.learn(self._postings.add(filing, slots))

    def search(
        self,
        query: str,
        *,
        limit: int,
        among: AbstractSet[str] | None = None,
        exclude: AbstractSet[str] = frozenset(),
        within: AbstractSet[str] | None = None,
    ) -> Ranking:
        """Return the tools that share the most telling words with a question."""
        look = self.look(query, limit=limit, among=among, exclude=exclude, within=within)
        hits = [Hit(tool_id, score, look.confidence(score)) for tool_id, score in look.best]
        return Ranking(hits, look.total)

    def look(
        self,
        query: str,
        *,
        limit: int,
        among: AbstractSet[str] | None = None,
        exclude: AbstractSet[str] = frozenset(),
        others: Iterable[str] | None = None,
        within: AbstractSet[str] | None = None,
    ) -> Look:
        """Return the best scores, and those of other ids, with what they can be compared by."""
        with self._lock:
            ids, postings = self._slots.ids, self._visible_postings(within)
            nearest = partial(self._typos.nearest, usage=self._postings.frequency, here=postings.frequency)
            question = read_question(query, postings.knows, nearest)
            scored = score(question, postings, len(ids))
            slots = self._slots.find(others or ())
            asked = {tool_id: float(scored.scores[slot]) for tool_id, slot in slots.items()}
            mean, deviation = (0.0, 0.0) if others is None else scored.spread(len(postings))
            scores = self._select(scored.scores, among, exclude)
            top = best(scores, limit)
            found = [(ids[slot], each) for slot, each in zip(top.tolist(), scores[top].tolist(), strict=True)]
            slots |= {ids[slot]: slot for slot in top.tolist()}
            topics, deprecated = scored.marked(slots)
        found.sort(key=lambda pair: (-pair[1], pair[0]))
        return Look(
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

    def _visible_postings(self, within: AbstractSet[str] | None) -> Postings | PostingsPart:
        """Return the posting lists of the tools that the caller can see."""
        if within is None:
            return self._postings
        return PostingsPart(self._postings, self._slots.of(within), len(self._slots.ids))

    def _select(self, scores: Scores, among: AbstractSet[str] | None, exclude: AbstractSet[str]) -> Scores:
        """Return the scores with 0 for every tool that is not selected."""
        if among is not None:
            slots = self._slots.of(among)
            kept = np.zeros_like(scores)
            kept[slots] = scores[slots]
            scores = kept
        if exclude:
            scores[list(self._slots.find(exclude).values())] = 0
        return scores


def _impacts(analysis: Analysis) -> dict[str, float]:
    """Return what each term of a tool counts: how often it occurs, levelled off, for the tool's length."""
    norm = _K1 * (1 - _B + _B * analysis.length / _PIVOT)
    return {
        term: 1.0 if term.startswith(MARKS) else count * (_K1 + 1) / (count + norm)
        for term, count in analysis.terms.items()
    }


class Analyses:
    """Reads tools, and remembers what it read where there is a place to keep it."""

    def __init__(self, cache: Derived | None) -> None:
        self._cache = cache

    def of(self, entries: Sequence[Indexed]) -> Iterator[Analysis]:
        """Yield the analysis of each tool."""
        for start in range(0, len(entries), _BATCH):
            yield from self._batch(entries[start : start + _BATCH])

    def _batch(self, entries: Sequence[Indexed]) -> Iterator[Analysis]:
        kept = self._cache.derived(_KIND, [entry.content_hash for entry in entries]) if self._cache else {}
        worked_out: dict[str, bytes] = {}
        for entry in entries:
            found = _decode_analysis(kept.get(entry.content_hash))
            if found is None:
                found = analyse(search_doc(entry.tool, entry.examples))
                worked_out[entry.content_hash] = _encode_analysis(found)
            yield found
        if self._cache and worked_out:
            self._cache.save_derived(_KIND, worked_out)


def _encode_analysis(analysis: Analysis) -> bytes:
    """Return an analysis as bytes: a checksum, the terms a line each, NUL, and the numbers."""
    numbers = np.array((*analysis.terms.values(), analysis.length), dtype="<f8")
    body = "\n".join(analysis.terms).encode() + b"\0" + numbers.tobytes()
    return crc32(body).to_bytes(_CHECKSUM) + body


def _decode_analysis(kept: bytes | None) -> Analysis | None:
    """Return the analysis that bytes hold, or None where they hold none or were damaged."""
    checksum, body = (kept or b"")[:_CHECKSUM], (kept or b"")[_CHECKSUM:]
    text, _, numbers = body.partition(b"\0")
    terms = text.decode(errors="replace").split("\n") if text else []
    if crc32(body).to_bytes(_CHECKSUM) != checksum or len(numbers) != (len(terms) + 1) * 8:
        return None
    *counts, length = np.frombuffer(numbers, dtype="<f8").tolist()
    return Analysis(dict(zip(terms, counts, strict=True)), length)


class Slots:
    """Numbers for ids, handed out densely and again once they are free."""

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
        """How many slots stand for an id."""
        return len(self._by_id)

    def take(self, tool_id: str) -> int:
        """Return a slot for an id that has none."""
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
        """Return the slots of those of the ids that have one."""
        return {tool_id: slot for tool_id in ids if (slot := self._by_id.get(tool_id)) is not None}

    def of(self, ids: AbstractSet[str]) -> NDArray[np.intp]:
        """Return the slots of those of the ids that have one, in order; kept for when the set comes again."""
        kept = self._selections.get(id(ids))
        if kept is not None and kept[0] is ids:
            return kept[1]
        slots = np.array(sorted(self.find(ids).values()), dtype=np.intp)
        if len(self._selections) >= _KEPT:
            self._selections.clear()
        self._selections[id(ids)] = (ids, slots)
        return slots


def best(scores: NDArray[np.float32], count: int) -> NDArray[np.intp]:
    """Return the places of the `count` highest positive scores, and of all that equal the last of them.

    The k-th highest of the maxima of blocks is a lower bound for the k-th highest score: one pass finds it,
    and what reaches it is few.

    >>> sorted(best(np.array([1, 0, 3, 2, 3], dtype=np.float32), 2).tolist())
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


@dataclass(frozen=True, slots=True)
class Scored:
    """The scores of one question, by slot, and what they are measured against."""

    scores: Scores
    ideal: float
    """What a tool would score that says each word once, those that no tool says included."""
    rarest: float
    """What a word counts that no tool says."""
    topics: Scores | None = None
    """The share of the question that names topics of each tool; None where it names none."""
    deprecated: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    """The slots of the tools that are deprecated."""

    def marked(self, slots: Mapping[str, int]) -> tuple[dict[str, float], frozenset[str]]:
        """Return the shares of those of some ids whose topics are named, and the deprecated ones."""
        if self.topics is None and not len(self.deprecated):
            return {}, frozenset()
        ids, places = list(slots), np.fromiter(slots.values(), np.intp, len(slots))
        shares = np.zeros(len(ids)) if self.topics is None else self.topics[places]
        named = {ids[at]: float(shares[at]) for at in np.flatnonzero(shares).tolist()}
        lowered = np.flatnonzero(np.isin(places, self.deprecated)).tolist()
        return named, frozenset(ids[at] for at in lowered)

    def spread(self, tools: int) -> tuple[float, float]:
        """Return the mean and the standard deviation over so many tools; free slots score nothing.

        They are added up as whole numbers, so that the last digit does not depend on which tool came first.
        """
        if not tools:
            return 0.0, 0.0
        found = np.rint(self.scores * _STEPS).astype(np.int64)
        mean = int(found.sum()) / tools / _STEPS
        return mean, sqrt(max(int(found @ found) / tools / _STEPS**2 - mean * mean, 0.0))


def score(question: ParsedQuery, postings: Postings | PostingsPart, slots: int) -> Scored:
    """Return what each of so many slots scores, as a whole and by the best part."""
    tools = max(len(postings), _LEAST)
    rarest = _rarity(0, tools)
    found = {term: postings.of(term) for term in question.terms}
    gains = {term: weight * _rarity(len(found[term][0]), tools) for term, weight in question.terms.items()}
    scores = _score_terms(found, gains, question.parts, slots)
    ideal = question.unknown * rarest + sum(gains.values())
    topics = _topic_shares(question, postings, slots) if question.topics else None
    if topics is not None:
        ideal = ideal or rarest  # its words say nothing, and yet it asks for something
        # A topic that is all of the question adds the best that words can score; one in passing next to none.
        named = np.flatnonzero(topics)
        scores[named] += np.float32(max(ideal, rarest)) * topics[named] ** 2
    deprecated = postings.of(DEPRECATED)[0] if postings.knows(DEPRECATED) else np.empty(0, np.int32)
    scores[deprecated] *= np.float32(_DEPRECATED_WEIGHT)
    return Scored(scores, ideal, rarest, topics, deprecated)


def _score_terms(
    found: Mapping[str, tuple[NDArray[np.int32], Scores]], gains: Gains, parts: Sequence[Gains], slots: int
) -> Scores:
    """Return what the terms of each slot add up to; if there are parts, blended with the best part."""
    rows = _split_gains(gains, parts) if parts else [gains]
    table = np.zeros((len(rows), slots), dtype=np.float32)
    if found:
        lists = [found[term] for row in rows for term in row]
        lengths = [len(places) for places, _ in lists]
        places = np.concatenate([places for places, _ in lists])
        if parts:
            places += _offsets(rows, lengths, slots)
        gained = np.concatenate([impacts for _, impacts in lists])
        weights = [gain for row in rows for gain in row.values()]
        gained *= np.repeat(np.array(weights, dtype=np.float32), lengths)
        np.add.at(table.reshape(-1), places, gained)
    scores: Scores = table.sum(axis=0)
    if parts:
        scores *= 1 - _PART_SHARE
        scores += np.float32(_PART_SHARE) * table[1:].max(axis=0)
    return scores


def _topic_shares(question: ParsedQuery, postings: Postings | PostingsPart, slots: int) -> Scores:
    """Return the share of a question that names topics of each tool, by slot.

    Each word weighs as much as it is rare, so that a topic of many tools says little beside other words.
    """
    tools = max(len(postings), _LEAST)
    asked = {
        stem: weight * _rarity(postings.frequency(stem), tools) for stem, weight in question.content.items()
    }
    whole = sum(asked.values())
    shares = np.zeros(slots, np.float32)
    for stem in sorted(set().union(*question.topics.values())):
        named = [postings.of(term)[0] for term, stems in question.topics.items() if stem in stems]
        # A question of words that say nothing is its topics.
        share = asked.get(stem, 0.0) / whole if whole else 1.0
        shares[named[0] if len(named) == 1 else np.unique(np.concatenate(named))] += np.float32(share)
    return np.minimum(shares, np.float32(1.0), out=shares)


def _split_gains(gains: Gains, parts: Sequence[Gains]) -> list[Gains]:
    """Return the gains of each part of a question, after a first row that completes them to the whole.

    The first row holds the terms of no part, and, with the other sign, those that several parts repeat.
    """
    spare = dict(gains)
    for part in parts:
        for term in part:
            spare[term] -= gains[term]
    rest = {term: gain for term, gain in spare.items() if gain}
    return [rest, *({term: gains[term] for term in part} for part in parts)]


def _offsets(rows: Sequence[Gains], lengths: list[int], slots: int) -> NDArray[np.int32]:
    """Return where in the flat table the row begins that each posting belongs to."""
    ends = list(accumulate(map(len, rows), initial=0))
    totals = [sum(lengths[start:end]) for start, end in pairwise(ends)]
    return np.repeat(np.arange(len(rows), dtype=np.int32) * np.int32(slots), totals)


def _rarity(frequency: int, tools: int) -> float:
    """Return how telling a term is that so many tools have: BM25's inverse document frequency."""
    return log1p((tools - frequency + 0.5) / (frequency + 0.5))
