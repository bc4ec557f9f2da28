"""A learnt verdict on whether a tool does what a question asks, which is more than whether they are alike.

"Delete the playlist" is as near to a tool that adds to playlists as a question that it answers. What tells
them apart is *where* two vectors differ, so the verdict weighs every dimension of their product and of their
difference, beside the words that they share. Each model has a judge of its own, `judge.npz` in its folder,
fitted on questions with and without an answer; `docs/model-card.md` says how well it tells them apart.
"""

from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from zipfile import BadZipFile
from zlib import error as CorruptError  # noqa: N812 - it is a class

import numpy as np
from numpy.typing import NDArray

from toolcrib.errors import EmbeddingError

JUDGE = "judge.npz"
"""The file in the folder of a model."""
_MOST_COVERED = 1.5
_STEEPEST = 60.0
"""Beyond this a probability is 0 or 1 in all digits that matter."""

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Features:
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
class RelevanceClassifier:
    """Weighs evidence."""

    weights: Floats
    bias: float

    def confidences(self, evidence: Features) -> list[float]:
        """Return how likely each tool is to answer the question.

        Raises:
            EmbeddingError: it was fitted on vectors of another length.
        """
        if evidence.features.shape[1] != len(self.weights):
            raise EmbeddingError(
                f"{JUDGE!r} has {len(self.weights)} weights, and vectors of {len(evidence.question)} numbers"
                f" need {evidence.features.shape[1]}; fit it for this model"
            )
        # Row by row: what a matrix product adds up depends, in its last bits, on how many rows there are.
        weighed = (evidence.features * self.weights).astype(np.float64).sum(axis=1)
        odds = np.clip(weighed + self.bias, -_STEEPEST, _STEEPEST)
        found: list[float] = (1 / (1 + np.exp(-odds))).tolist()
        return found

    def save(self, folder: Path) -> None:
        """Put it into the folder of its model."""
        np.savez(folder / JUDGE, weights=self.weights.astype(np.float32), bias=np.float32(self.bias))


def read_judge(folder: Path) -> RelevanceClassifier | None:
    """Return the judge of a model, or nothing if it has none.

    Raises:
        EmbeddingError: the file holds something else.
    """
    file = folder / JUDGE
    try:
        if not file.exists():
            return None
        # From memory, because numpy leaves a file open that turns out to be no archive.
        with np.load(BytesIO(file.read_bytes()), allow_pickle=False) as found:
            judge = RelevanceClassifier(np.asarray(found["weights"], np.float32), float(found["bias"]))
    except (OSError, ValueError, TypeError, KeyError, EOFError, BadZipFile, CorruptError) as error:
        raise EmbeddingError(f"{JUDGE!r} cannot be read: {error}", repr(str(folder))) from error
    if judge.weights.ndim != 1 or not np.isfinite([*judge.weights, judge.bias]).all():
        raise EmbeddingError(f"{JUDGE!r} must hold a row of finite weights", repr(str(folder)))
    return judge
