"""A learnt verdict on whether a tool does what a question asks, which is more than whether they are alike.

"Delete the playlist" is as near to a tool that adds to playlists as a question that it answers. What tells
them apart is *where* two vectors differ, so the verdict weighs every dimension of their product and of their
difference, beside the words that they share. Each model has a judge of its own, `judge.npz` in its folder,
fitted on questions with and without an answer; `docs/model-card.md` says how well it tells them apart.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from toolcrib.errors import EmbeddingError

__all__ = ["JUDGE", "Evidence", "Judge", "read_judge"]

JUDGE = "judge.npz"
"""The file in the folder of a model."""
_MOST_COVERED = 1.5
_STEEPEST = 60.0
"""Beyond this a probability is 0 or 1 in all digits that matter."""

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Evidence:
    """What is known of some tools, a row for each, and of the question they may answer."""

    matched: Floats
    """How many of the rarest words their scores are worth."""
    coverage: Floats
    """The share of the question that they say."""
    cosines: Floats
    question: Floats
    """Its vector."""
    tools: Floats
    """Their vectors."""

    @cached_property
    def features(self) -> Floats:
        """All of it, as rows of numbers that a judge weighs."""
        signals = (np.log1p(self.matched), np.minimum(self.coverage, _MOST_COVERED), self.cosines)
        products, differences = self.tools * self.question, np.abs(self.tools - self.question)
        return np.column_stack((*signals, products, differences)).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Judge:
    """Weighs evidence."""

    weights: Floats
    bias: float

    def confidences(self, evidence: Evidence) -> list[float]:
        """Return how likely each tool is to answer the question."""
        odds = np.clip(evidence.features @ self.weights + self.bias, -_STEEPEST, _STEEPEST)
        found: list[float] = (1 / (1 + np.exp(-odds.astype(np.float64)))).tolist()
        return found

    def save(self, folder: Path) -> None:
        """Put it into the folder of its model."""
        np.savez(folder / JUDGE, weights=self.weights.astype(np.float32), bias=np.float32(self.bias))


def read_judge(folder: Path) -> Judge | None:
    """Return the judge of a model, or nothing if it has none.

    Raises:
        EmbeddingError: the file holds something else.
    """
    file = folder / JUDGE
    if not file.exists():
        return None
    try:
        with np.load(file, allow_pickle=False) as found:
            judge = Judge(np.asarray(found["weights"]), float(found["bias"]))
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise EmbeddingError(f"{JUDGE!r} cannot be read: {error}", repr(str(folder))) from error
    if judge.weights.ndim != 1 or not np.isfinite([*judge.weights, judge.bias]).all():
        raise EmbeddingError(f"{JUDGE!r} must hold a row of finite weights", repr(str(folder)))
    return judge
