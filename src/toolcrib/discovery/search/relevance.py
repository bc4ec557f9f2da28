"""Relevance classifier: the probability that a tool does what a question asks, learnt from examples.

A cosine measures only similarity: "Delete the playlist" is as similar to a tool that adds to playlists as a
question that the tool answers. The dimensions *in which* two vectors differ tell these apart, so a logistic
regression weighs every dimension of their product and of their absolute difference, beside the cosine and the
shared words. Each embedding model has a classifier of its own, `judge.npz` in its folder, fitted on questions
with and without an answer; `docs/model-card.md` has its error rates.
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
"""The name of the classifier's file in the folder of a model."""
_MAX_COVERAGE = 1.5
_MAX_LOG_ODDS = 60.0
"""Log-odds are limited to this, where a probability is 0 or 1 to double precision and `exp` is safe."""

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Features:
    """Inputs of the relevance classifier for some tools and a question, a row for each tool."""

    matched: Floats
    """The BM25 score of each tool, in units of the rarest word."""
    coverage: Floats
    """The BM25 score of each tool, as a share of the highest possible one."""
    cosines: Floats
    question: Floats
    """The vector of the question."""
    tools: Floats
    """The vectors of the tools."""

    @cached_property
    def features(self) -> Floats:
        """The feature matrix: a row for each tool, a column for each weight of the classifier."""
        signals = (np.log1p(self.matched), np.minimum(self.coverage, _MAX_COVERAGE), self.cosines)
        products, differences = self.tools * self.question, np.abs(self.tools - self.question)
        return np.column_stack((*signals, products, differences)).astype(np.float32)


@dataclass(frozen=True, slots=True)
class RelevanceClassifier:
    """Logistic regression over `Features`."""

    weights: Floats
    bias: float

    def confidences(self, evidence: Features) -> list[float]:
        """Return the probability that each tool answers the question.

        Raises:
            EmbeddingError: the classifier was fitted on vectors of another length.
        """
        if evidence.features.shape[1] != len(self.weights):
            raise EmbeddingError(
                f"{JUDGE!r} has {len(self.weights)} weights, and vectors of {len(evidence.question)} numbers"
                f" need {evidence.features.shape[1]}; fit it for this model"
            )
        # Not a matrix product: its last bits depend on the number of rows, and so on the other candidates.
        weighed = (evidence.features * self.weights).astype(np.float64).sum(axis=1)
        odds = np.clip(weighed + self.bias, -_MAX_LOG_ODDS, _MAX_LOG_ODDS)
        found: list[float] = (1 / (1 + np.exp(-odds))).tolist()
        return found

    def save(self, folder: Path) -> None:
        """Write the classifier into the folder of its model."""
        np.savez(folder / JUDGE, weights=self.weights.astype(np.float32), bias=np.float32(self.bias))


def read_judge(folder: Path) -> RelevanceClassifier | None:
    """Read the classifier in the folder of a model; return None if there is none.

    Raises:
        EmbeddingError: the file cannot be read or is not a classifier.
    """
    file = folder / JUDGE
    try:
        if not file.exists():
            return None
        # From memory, because numpy leaves a file open if it is not an archive.
        with np.load(BytesIO(file.read_bytes()), allow_pickle=False) as found:
            judge = RelevanceClassifier(np.asarray(found["weights"], np.float32), float(found["bias"]))
    except (OSError, ValueError, TypeError, KeyError, EOFError, BadZipFile, CorruptError) as error:
        raise EmbeddingError(f"{JUDGE!r} cannot be read: {error}", repr(str(folder))) from error
    if judge.weights.ndim != 1 or not np.isfinite([*judge.weights, judge.bias]).all():
        raise EmbeddingError(f"{JUDGE!r} must hold a row of finite weights", repr(str(folder)))
    return judge
