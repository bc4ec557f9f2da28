"""Search by words: fielded BM25 over posting lists."""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from math import log1p, sqrt
from threading import Lock
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from toolcrib.discovery.lexical.kept import Analyses
from toolcrib.discovery.lexical.look import Look
from toolcrib.discovery.lexical.postings import Postings
from toolcrib.discovery.lexical.question import Question, read_question
from toolcrib.discovery.lexical.slots import Slots
from toolcrib.discovery.lexical.top import best
from toolcrib.discovery.lexical.typos import Typos
from toolcrib.discovery.protocols import Derived, Hit, Indexed, Ranking
from toolcrib.discovery.text import Analysis

__all__ = ["Bm25Searcher"]

_K1 = 1.2
_B = 0.5
_PIVOT = 15.0
"""The length that counts as usual. It is fixed, not the mean of the catalogue: what a word counts in a tool
then does not change when other tools come and go."""
_LEAST = 300
"""A smaller catalogue is judged as if it had so many tools: in one of three, no word would tell anything."""
_PART_SHARE = 0.5
"""How much of a score the best part of a question decides, where it has several."""

Scores = NDArray[np.float32]


class Bm25Searcher:
    """Ranks tools by the words they share with a question.

    Names, descriptions, parameters, choices and example questions are fields of their own weight. A question
    in several parts is scored as a whole and by its best part. An unknown word is read as the nearest known.
    """

    score_type: Literal["bm25"] = "bm25"

    def __init__(self, *, cache: Derived | None = None) -> None:
        self._analyses = Analyses(cache)
        self._postings = Postings()
        self._slots = Slots()
        self._typos = Typos()
        self._lock = Lock()

    def update(self, added: Sequence[Indexed], removed: Sequence[str] = ()) -> None:
        """Forget the removed ids and learn the added tools; an id known already is replaced."""
        documents = {entry.id: _impacts(analysis) for entry, analysis in self._analyses.of(added)}
        with self._lock:
            for tool_id in {*removed, *documents}:
                if tool_id in self._slots:
                    self._postings.remove(self._slots.release(tool_id))
            filed = [(self._slots.take(tool_id), impacts) for tool_id, impacts in documents.items()]
            self._typos.learn(self._postings.add(filed))

    def search(
        self,
        query: str,
        *,
        limit: int,
        among: AbstractSet[str] | None = None,
        exclude: AbstractSet[str] = frozenset(),
    ) -> Ranking:
        """Return the tools that share the most telling words with a question."""
        look = self.look(query, limit=limit, among=among, exclude=exclude)
        hits = [Hit(tool_id, score, look.confidence(score)) for tool_id, score in look.best]
        return Ranking(hits, look.total)

    def look(
        self,
        query: str,
        *,
        limit: int,
        among: AbstractSet[str] | None = None,
        exclude: AbstractSet[str] = frozenset(),
        others: Iterable[str] = (),
    ) -> Look:
        """Return the best scores, and those of other ids, with what they can be compared by."""
        with self._lock:
            question = read_question(query, self._postings.__contains__, self._nearest)
            scores = self._scores(question)
            slots = {tool_id: self._slots.get(tool_id) for tool_id in others}
            scored = {tool_id: float(scores[at]) for tool_id, at in slots.items() if at is not None}
            mean, deviation = _spread(scores, self._slots.taken)
            scores = self._selected(scores, among, exclude)
            found = [(self._slots.id_at(slot), float(scores[slot])) for slot in best(scores, limit)]
            ideal = self._ideal(question)
            rarest = self._rarity(0)
        found.sort(key=lambda pair: (-pair[1], pair[0]))
        return Look(
            best=found[:limit],
            others=scored,
            total=int(np.count_nonzero(scores)),
            mean=mean,
            deviation=deviation,
            parts=len(question.parts),
            ideal=ideal,
            rarest=rarest,
        )

    def _nearest(self, word: str) -> str | None:
        return self._typos.nearest(word, self._postings.frequency)

    def _scores(self, question: Question) -> Scores:
        """Return the score of every slot."""
        parts = question.parts
        whole = np.zeros(len(self._slots), dtype=np.float32)
        by_part = np.zeros((len(parts), len(self._slots)), dtype=np.float32)
        for term, weight in question.terms.items():
            slots, impacts = self._postings.of(term)
            gained = impacts * np.float32(weight * self._rarity(len(slots)))
            np.add.at(whole, slots, gained)
            for scores, part in zip(by_part, parts, strict=True):
                if term in part:
                    np.add.at(scores, slots, gained)
        if not parts:
            return whole
        whole *= 1 - _PART_SHARE
        whole += np.float32(_PART_SHARE) * by_part.max(axis=0)
        return whole

    def _rarity(self, frequency: int) -> float:
        """Return how telling a term is that so many tools have: BM25's inverse document frequency."""
        return log1p((max(len(self._postings), _LEAST) - frequency + 0.5) / (frequency + 0.5))

    def _ideal(self, question: Question) -> float:
        """Return what a tool would score that says each word once, the unknown ones included."""
        known = sum(
            weight * self._rarity(self._postings.frequency(term)) for term, weight in question.terms.items()
        )
        return known + question.unknown * self._rarity(0)

    def _selected(self, scores: Scores, among: AbstractSet[str] | None, exclude: AbstractSet[str]) -> Scores:
        """Return the scores with everything but the selection at nothing."""
        if among is not None:
            slots = self._slots.of(among)
            kept = np.zeros_like(scores)
            kept[slots] = scores[slots]
            scores = kept
        for tool_id in exclude:
            slot = self._slots.get(tool_id)
            if slot is not None:
                scores[slot] = 0
        return scores


def _impacts(analysis: Analysis) -> dict[str, float]:
    """Return what each term of a tool counts: how often it occurs, levelled off, for the tool's length."""
    norm = _K1 * (1 - _B + _B * analysis.length / _PIVOT)
    return {term: count * (_K1 + 1) / (count + norm) for term, count in analysis.terms.items()}


def _spread(scores: Scores, tools: int) -> tuple[float, float]:
    """Return the mean and the standard deviation of the scores of so many tools; free slots score nothing.

    They are added up in order of size, so that the last digit does not depend on which tool came first.
    """
    if not tools:
        return 0.0, 0.0
    found = np.sort(scores[scores > 0]).astype(np.float64)
    mean = float(found.sum()) / tools
    return mean, sqrt(max(float((found * found).sum()) / tools - mean * mean, 0.0))
