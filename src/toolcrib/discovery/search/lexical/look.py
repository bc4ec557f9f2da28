"""What the words of a question say about the tools."""

from dataclasses import dataclass
from math import inf
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from toolcrib.discovery.search.confidence import by_words

__all__ = ["Look"]

Score = TypeVar("Score", float, NDArray[np.float32])
"""One, or those of several tools."""


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

    def matched(self, score: Score) -> Score:
        """Return how many of the rarest words a score is worth."""
        return score / self.rarest

    def coverage(self, score: Score) -> Score:
        """Return the share of the question that a score is worth."""
        return score / (self.ideal or inf)

    def confidence(self, score: float) -> float:
        """Return how far a tool with this score can be trusted to fit."""
        return by_words(matched=self.matched(score), coverage=self.coverage(score))
