"""Search by words: fielded BM25 over posting lists."""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from threading import Lock
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from toolcrib.discovery.lexical.analyses import Analyses
from toolcrib.discovery.lexical.look import Look
from toolcrib.discovery.lexical.postings import Filing, Postings
from toolcrib.discovery.lexical.question import read_question
from toolcrib.discovery.lexical.scoring import score
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
        others: Iterable[str] | None = None,
    ) -> Look:
        """Return the best scores, and those of other ids, with what they can be compared by."""
        with self._lock:
            question = read_question(query, self._postings.__contains__, self._nearest)
            scored = score(question, self._postings, len(self._slots))
            places = {tool_id: self._slots.get(tool_id) for tool_id in others or ()}
            asked = {tool_id: float(scored.scores[at]) for tool_id, at in places.items() if at is not None}
            mean, deviation = (0.0, 0.0) if others is None else scored.spread(self._slots.taken)
            scores = self._selected(scored.scores, among, exclude)
            top = best(scores, limit)
            found = list(zip(map(self._slots.id_at, top.tolist()), scores[top].tolist(), strict=True))
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
        )

    def _nearest(self, word: str) -> str | None:
        return self._typos.nearest(word, self._postings.frequency)

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
