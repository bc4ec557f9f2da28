"""What the words of a question say about the tools."""

from dataclasses import dataclass

from toolcrib.discovery.confidence import by_words

__all__ = ["Look"]


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

    def matched(self, score: float) -> float:
        """Return how many of the rarest words a score is worth."""
        return score / self.rarest

    def coverage(self, score: float) -> float:
        """Return the share of the question that a score is worth."""
        return score / self.ideal if self.ideal else 0.0

    def confidence(self, score: float) -> float:
        """Return how far a tool with this score can be trusted to fit."""
        return by_words(matched=self.matched(score), coverage=self.coverage(score))
