"""Scores by words and by meaning, made comparable and added up."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolcrib.discovery.lexical.look import Look

__all__ = ["FLOOR", "Blend", "Candidates"]

FLOOR = 0.1
"""The cosine below which a tool that shares no word with the question is not told at all."""

_LEAST_SHARE, _MOST_SHARE = 0.15, 0.35
"""What words decide where they cover little of the question, and where they cover much."""
_LITTLE, _MUCH = 0.2, 0.6
_PARTS = 2
"""A question of more parts than this is a list of errands, of which words miss fewer."""
_PARTS_SHARE = 0.4

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Candidates:
    """Tools that may be told, with what is known of each."""

    ids: Sequence[str]
    words: Floats
    """Their scores by words."""
    cosines: Floats

    def worth_telling(self) -> "Candidates":
        """Return those that share a word with the question, or are at least faintly near to it."""
        kept = np.flatnonzero((self.words > 0) | (self.cosines >= FLOOR))
        return self.take(kept.tolist())

    def followed_by(self, others: "Candidates") -> "Candidates":
        """Return these, and then the others."""
        return Candidates(
            [*self.ids, *others.ids],
            np.concatenate((self.words, others.words)),
            np.concatenate((self.cosines, others.cosines)),
        )

    def take(self, places: Sequence[int]) -> "Candidates":
        """Return those at these places, in this order."""
        rows = [place for place in places if place < len(self.ids)]
        return Candidates([self.ids[row] for row in rows], self.words[rows], self.cosines[rows])


@dataclass(frozen=True, slots=True)
class Blend:
    """How the scores of one question are made comparable."""

    look: Look
    share: float
    """What words decide."""
    mean: float
    deviation: float
    """Of the cosines."""

    @classmethod
    def of(cls, look: Look, cosines: Floats) -> "Blend":
        """Return the blend for a question, from the cosines of tools that stand for all."""
        covered = look.coverage(look.best[0][1]) if look.best else 0.0
        rise = min(max((covered - _LITTLE) / (_MUCH - _LITTLE), 0.0), 1.0)
        share = _LEAST_SHARE + (_MOST_SHARE - _LEAST_SHARE) * rise
        if look.parts > _PARTS:
            share = max(share, _PARTS_SHARE)
        return cls(look, share, float(cosines.mean()), float(cosines.std()))

    def order(self, candidates: Candidates) -> list[tuple[float, int]]:
        """Return the score and the place of each candidate, the best first, equal ones by id."""
        by_words = (candidates.words.astype(np.float64) - self.look.mean) / (self.look.deviation or 1.0)
        by_meaning = (candidates.cosines.astype(np.float64) - self.mean) / (self.deviation or 1.0)
        scores = (self.share * by_words + (1 - self.share) * by_meaning).tolist()
        ids = candidates.ids
        return [(scores[at], at) for at in sorted(range(len(ids)), key=lambda at: (-scores[at], ids[at]))]
