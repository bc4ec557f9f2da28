"""What every tool scores on a question: BM25 over posting lists."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import log1p, sqrt

import numpy as np
from numpy.typing import NDArray

from toolcrib.discovery.lexical.postings import Postings
from toolcrib.discovery.lexical.question import Question

__all__ = ["Scored", "score"]

_LEAST = 300
"""A smaller catalogue is judged as if it had so many tools: in one of three, no word would tell anything."""
_PART_SHARE = 0.5
"""How much of a score the best part of a question decides, where it has several."""

_STEPS = 2**15
"""How finely scores are told apart where they are added up."""

Scores = NDArray[np.float32]
Gains = dict[str, float]
"""What each term adds to a score, before its impact."""


@dataclass(frozen=True, slots=True)
class Scored:
    """The scores of one question, by slot, and what they are measured against."""

    scores: Scores
    ideal: float
    """What a tool would score that says each word once, those that no tool says included."""
    rarest: float
    """What a word counts that no tool says."""

    def spread(self, tools: int) -> tuple[float, float]:
        """Return the mean and the standard deviation over so many tools; free slots score nothing.

        They are added up as whole numbers, so that the last digit does not depend on which tool came first.
        """
        if not tools:
            return 0.0, 0.0
        found = np.rint(self.scores * _STEPS).astype(np.int64)
        mean = int(found.sum()) / tools / _STEPS
        return mean, sqrt(max(int(found @ found) / tools / _STEPS**2 - mean * mean, 0.0))


def score(question: Question, postings: Postings, slots: int) -> Scored:
    """Return what each of so many slots scores, as a whole and by the best part."""
    tools = max(len(postings), _LEAST)
    rarest = _rarity(0, tools)
    found = {term: postings.of(term) for term in question.terms}
    gains = {term: weight * _rarity(len(found[term][0]), tools) for term, weight in question.terms.items()}
    rows = _rows(question, gains)
    table = np.zeros((len(rows), slots), dtype=np.float32)
    if found:
        lists = [found[term] for row in rows for term in row]
        lengths = [len(places) for places, _ in lists]
        places = np.concatenate([places for places, _ in lists])
        if len(rows) > 1:
            places += _offsets(rows, lengths, slots)
        gained = np.concatenate([impacts for _, impacts in lists])
        weights = [gain for row in rows for gain in row.values()]
        gained *= np.repeat(np.array(weights, dtype=np.float32), lengths)
        np.add.at(table.reshape(-1), places, gained)
    return Scored(_blended(table), question.unknown * rarest + sum(gains.values()), rarest)


def _rows(question: Question, gains: Gains) -> list[Gains]:
    """Return what is added up apart: the parts of the question, and first what makes them the whole.

    That is the terms of no part, and, with the other sign, those that several parts have too often.
    """
    if not question.parts:
        return [gains]
    spare = dict(gains)
    for part in question.parts:
        for term in part:
            spare[term] -= gains[term]
    rest = {term: gain for term, gain in spare.items() if gain}
    return [rest, *({term: gains[term] for term in part} for part in question.parts)]


def _offsets(rows: Sequence[Gains], lengths: list[int], slots: int) -> NDArray[np.int32]:
    """Return where in the flat table the row begins that each posting belongs to."""
    ends = list(accumulate(map(len, rows), initial=0))
    totals = [sum(lengths[start:end]) for start, end in pairwise(ends)]
    return np.repeat(np.arange(len(rows), dtype=np.int32) * np.int32(slots), totals)


def _blended(table: Scores) -> Scores:
    """Return the scores of the whole question, with those of its best part mixed in."""
    whole: Scores = table.sum(axis=0)
    if len(table) > 1:
        whole *= 1 - _PART_SHARE
        whole += np.float32(_PART_SHARE) * table[1:].max(axis=0)
    return whole


def _rarity(frequency: int, tools: int) -> float:
    """Return how telling a term is that so many tools have: BM25's inverse document frequency."""
    return log1p((tools - frequency + 0.5) / (frequency + 0.5))
