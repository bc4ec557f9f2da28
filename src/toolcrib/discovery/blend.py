"""Scores by words and by meaning, made comparable and added up."""

from collections.abc import Mapping, Sequence
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

    @classmethod
    def of(
        cls, cosines: Mapping[str, float], words: Mapping[str, float], floor: float = FLOOR
    ) -> "Candidates":
        """Return those of some tools that share a word with the question, or are faintly near to it."""
        kept = [one for one, cosine in cosines.items() if cosine >= floor or words.get(one, 0.0) > 0]
        return cls(
            kept,
            np.array([words.get(one, 0.0) for one in kept], np.float32),
            np.array([cosines[one] for one in kept], np.float32),
        )

    @property
    def unsaid(self) -> int:
        """How many share no word with the question."""
        return int((self.words == 0).sum())

    def take(self, places: Sequence[int]) -> "Candidates":
        """Return those at these places, in this order."""
        return Candidates([self.ids[place] for place in places], self.words[places], self.cosines[places])

    def followed_by(self, others: "Candidates") -> "Candidates":
        """Return these, and then the others."""
        return Candidates(
            [*self.ids, *others.ids],
            np.concatenate((self.words, others.words)),
            np.concatenate((self.cosines, others.cosines)),
        )


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

    def best(self, both: Candidates, rest: Candidates, limit: int) -> tuple[Candidates, list[float]]:
        """Return the best candidates and their scores, equal ones by id; the rest follow by their cosines."""
        by_words = (both.words.astype(np.float64) - self.look.mean) / (self.look.deviation or 1.0)
        by_meaning = (both.cosines.astype(np.float64) - self.mean) / (self.deviation or 1.0)
        scores = self.share * by_words + (1 - self.share) * by_meaning
        last = np.partition(scores, -limit)[-limit] if limit < len(scores) else -np.inf
        top = np.flatnonzero(scores >= last).tolist()
        order = sorted(top, key=lambda place: (-scores[place], both.ids[place]))[:limit]
        told, listed = both.take(order), scores[order].tolist()
        left = range(min(limit - len(order), len(rest.ids)))
        below = (listed[-1] if listed else 0.0) - 2.0  # so that even a cosine of 1 stays below
        return told.followed_by(rest.take(left)), [
            *listed,
            *(below + cosine for cosine in rest.cosines[left].tolist()),
        ]
