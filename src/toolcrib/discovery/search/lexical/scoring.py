"""Scores of one question for every tool: the sum of its terms, and what topics and deprecation make of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from math import log1p, sqrt

import numpy as np
from numpy.typing import NDArray

from toolcrib.discovery.search.lexical.postings import Postings, VisiblePostings
from toolcrib.discovery.search.lexical.question import ParsedQuery
from toolcrib.discovery.search.text import DEPRECATED

Scores = NDArray[np.float32]
Found = Mapping[str, tuple[NDArray[np.int32], Scores]]
"""The tools of each term, and its impact in each."""
_MIN_CATALOGUE_SIZE = 300
"""Inverse document frequencies are computed as for at least this many tools: with three, no word is rare."""
PART_SHARE = 0.5
"""The weight of the best part in the score of a question with several parts."""
DEPRECATED_WEIGHT = 0.5
"""Factor on the scores of deprecated tools."""
_SCORE_STEPS = 2**15
"""Resolution, in steps per unit, to which scores are rounded for their statistics."""
Gains = dict[str, float]
"""The factor of each term on its impacts: its weight in the question times its inverse frequency."""


@dataclass(frozen=True, slots=True)
class SlotScores:
    """The scores of one question by slot, and the figures of `LexicalScores` that they share."""

    scores: Scores
    ideal: float
    rarest: float
    topics: Scores | None = None
    """The share of the question that names topics of each tool; None if it names none."""
    deprecated: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    """The slots of the deprecated tools."""

    def topics_and_deprecated(self, slots: Mapping[str, int]) -> tuple[dict[str, float], frozenset[str]]:
        """Return the topic shares of those ids that have any, and the deprecated ids."""
        if self.topics is None and not len(self.deprecated):
            return {}, frozenset()
        ids, places = list(slots), np.fromiter(slots.values(), np.intp, len(slots))
        shares = np.zeros(len(ids)) if self.topics is None else self.topics[places]
        named = {ids[at]: float(shares[at]) for at in np.flatnonzero(shares).tolist()}
        is_deprecated = np.zeros(len(self.scores), np.bool_)
        is_deprecated[self.deprecated] = True
        return named, frozenset(ids[at] for at in np.flatnonzero(is_deprecated[places]).tolist())

    def mean_and_deviation(self, tools: int) -> tuple[float, float]:
        """Return the mean and the standard deviation over `tools` scores; the slots of no tool score 0.

        Whole numbers are added, since a sum of floats depends, in its last digit, on the order of the tools.
        """
        if not tools:
            return 0.0, 0.0
        found = np.rint(self.scores * _SCORE_STEPS).astype(np.int64)
        mean = int(found.sum()) / tools / _SCORE_STEPS
        return mean, sqrt(max(int(found @ found) / tools / _SCORE_STEPS**2 - mean * mean, 0.0))


def score_slots(question: ParsedQuery, postings: Postings | VisiblePostings, slots: int) -> SlotScores:
    """Score a question for each slot, as a whole and by its best part."""
    found, gains, rarest = find_terms(question, postings)
    scores = _score_terms(found, gains, question.parts, slots)
    ideal = question.unknown * rarest + sum(gains.values())
    topics = topic_shares(question, postings, slots) if question.topics else None
    if topics is not None:
        ideal = ideal or rarest  # a question of topics and stop words alone has no other terms
        # A topic that is all of the question adds as much as a perfect match of words; one in passing little.
        named = np.flatnonzero(topics)
        scores[named] += np.float32(max(ideal, rarest)) * topics[named] ** 2
    deprecated = postings.of(DEPRECATED)[0] if postings.knows(DEPRECATED) else np.empty(0, np.int32)
    scores[deprecated] *= np.float32(DEPRECATED_WEIGHT)
    return SlotScores(scores, ideal, rarest, topics, deprecated)


def find_terms(question: ParsedQuery, postings: Postings | VisiblePostings) -> tuple[Found, Gains, float]:
    """Return the posting list and the gain of each term of a question, and the gain of an unknown word."""
    tools = max(len(postings), _MIN_CATALOGUE_SIZE)
    found = {term: postings.of(term) for term in question.terms}
    gains = {
        term: weight * _inverse_frequency(len(found[term][0]), tools)
        for term, weight in question.terms.items()
    }
    return found, gains, _inverse_frequency(0, tools)


def _score_terms(found: Found, gains: Gains, parts: Sequence[Gains], slots: int) -> Scores:
    """Return the sum of the terms for each slot, blended with the best part if there are parts."""
    # One row for each part, and one for the rest. All postings of all rows are added by a single call of
    # `np.add.at` into a flat view of the table, instead of one call for each term.
    rows = _split_gains(gains, parts) if parts else [gains]
    table = np.zeros((len(rows), slots), dtype=np.float32)
    if found:
        lists = [found[term] for row in rows for term in row]
        lengths = [len(places) for places, _ in lists]
        places = np.concatenate([places for places, _ in lists])
        if parts:
            places += _row_offsets(rows, lengths, slots)
        gained = np.concatenate([impacts for _, impacts in lists])
        weights = [gain for row in rows for gain in row.values()]
        gained *= np.repeat(np.array(weights, dtype=np.float32), lengths)
        np.add.at(table.reshape(-1), places, gained)
    scores: Scores = table.sum(axis=0) if parts else table[0]
    if parts:
        scores *= 1 - PART_SHARE
        scores += np.float32(PART_SHARE) * table[1:].max(axis=0)
    return scores


def topic_shares(question: ParsedQuery, postings: Postings | VisiblePostings, slots: int) -> Scores:
    """Return the share of a question that names topics of each tool, by slot.

    Words are weighted by their rarity, so that a topic of many tools counts little beside other words.
    """
    tools = max(len(postings), _MIN_CATALOGUE_SIZE)
    asked = {
        stem: weight * _inverse_frequency(postings.frequency(stem), tools)
        for stem, weight in question.content.items()
    }
    whole = sum(asked.values())
    shares = np.zeros(slots, np.float32)
    for stem in sorted(set().union(*question.topics.values())):
        named = [postings.of(term)[0] for term, stems in question.topics.items() if stem in stems]
        # Without content words, the topics are the whole question.
        share = asked.get(stem, 0.0) / whole if whole else 1.0
        shares[named[0] if len(named) == 1 else np.unique(np.concatenate(named))] += np.float32(share)
    return np.minimum(shares, np.float32(1.0), out=shares)


def _split_gains(gains: Gains, parts: Sequence[Gains]) -> list[Gains]:
    """Return a row of gains for each part of a question, after a first row that completes their sum.

    The rows must add up to the gains of the whole question. So the first row has the terms of no part and,
    with negative sign, the surplus of terms that several parts repeat.
    """
    spare = dict(gains)
    for part in parts:
        for term in part:
            spare[term] -= gains[term]
    rest = {term: gain for term, gain in spare.items() if gain}
    return [rest, *({term: gains[term] for term in part} for part in parts)]


def _row_offsets(rows: Sequence[Gains], lengths: list[int], slots: int) -> NDArray[np.int32]:
    """Return, for each posting, the offset of its row in the flat table."""
    ends = list(accumulate(map(len, rows), initial=0))
    totals = [sum(lengths[start:end]) for start, end in pairwise(ends)]
    return np.repeat(np.arange(len(rows), dtype=np.int32) * np.int32(slots), totals)


def _inverse_frequency(frequency: int, tools: int) -> float:
    """Return BM25's inverse document frequency of a term that `frequency` of `tools` tools have."""
    return log1p((tools - frequency + 0.5) / (frequency + 0.5))
