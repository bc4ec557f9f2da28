"""Confidence of search results: the estimated probability that a tool fits a question.

Scores order the results of one search, but say nothing about whether the best one is any good: the best of a
hundred wrong tools has a high score too. So a confidence is computed from signals that mean the same in every
catalogue: how many rare words a tool shares with the question, what share of the question these are, and the
cosine. The formulas below come from logistic regressions on labelled questions, on as many questions that no
tool answers, and on some whose tools were removed; `docs/search-measurements.md` has the error rates.

A cosine measures only similarity: "Delete the playlist" is as similar to a tool that adds to playlists as a
question that the tool answers. The dimensions *in which* two vectors differ tell these apart. So an embedding
model may have a classifier of its own, `judge.npz` in its folder, that replaces the formulas: a logistic
regression which weighs every dimension of the product and of the absolute difference of the two vectors,
beside the cosine and the shared words. It is fitted on questions with and without an answer;
`docs/model-card.md` has its error rates.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from itertools import accumulate, chain
from math import exp, log, log1p
from pathlib import Path
from zipfile import BadZipFile
from zlib import error as CorruptError  # noqa: N812 - it is a class

import numpy as np
from numpy.typing import NDArray

from toolcrib.errors import EmbeddingError

LOW_CONFIDENCE = 0.05
"""If the best result of a search has less confidence than this, no tool fits.

At this limit, BM25 with the built-in table keeps 95% of the right first answers in the measurements and
rejects 55% of small talk; with MiniLM these are 96% and 65% (`docs/model-card.md`). BM25 alone keeps an
answer to 70 to 100% of the questions, and rejects 67 to 91% of those that no tool answers.
"""
RERANKED = 5
"""The number of first results that are reordered by confidence and whose confidences are pooled."""
_MAX_LOG_ODDS = 60.0
"""Log-odds are limited to this, where a probability is 0 or 1 to double precision and `exp` is safe."""
_TOPIC_CONFIDENCE = 0.3
"""The confidence of a tool without other evidence, if the question consists of one of its topics."""
_DEPRECATED_ODDS_FACTOR = 0.5
JUDGE = "judge.npz"
"""The name of the classifier's file in the folder of a model."""
_MAX_COVERAGE = 1.5

Floats = NDArray[np.float32]


def confidence_by_words(*, matched: float, coverage: float) -> float:
    """Return the confidence of a tool found by words.

    `matched` is its score in units of the rarest word, `coverage` its score as a share of the highest
    possible one.

    >>> confidence_by_words(matched=0, coverage=0) < 0.01 < 0.7 < confidence_by_words(matched=4, coverage=1)
    True
    """
    return _logistic(4.85 * log1p(matched) + 2.51 * min(coverage, _MAX_COVERAGE) - 8.18)


def confidence_by_meaning(exponent: float) -> float:
    """Return the confidence of a tool from the log-odds that its cosine gives.

    >>> confidence_by_meaning(0)
    0.5
    """
    return _logistic(exponent)


def confidence_by_both(*, matched: float, coverage: float, meaning: float) -> float:
    """Return the confidence of a tool from its words and its meaning, the log-odds that its cosine gives."""
    return _logistic(3.5 * log1p(matched) + 1.63 * min(coverage, _MAX_COVERAGE) + 0.318 * meaning - 5.42)


def adjust_confidence(confidence: float, *, share: float, deprecated: bool) -> float:
    """Return the confidence of a tool, raised for named topics and lowered if the tool is deprecated.

    `share` is the share of the question that names topics of the tool. The tool may fit by its texts or by
    its topics, so the two probabilities are combined; the square keeps a word in passing from counting much.

    >>> round(adjust_confidence(0.01, share=1.0, deprecated=False), 3)
    0.307
    """
    raised = confidence + _TOPIC_CONFIDENCE * share**2 * (1 - confidence)
    if not deprecated:
        return raised
    return raised * _DEPRECATED_ODDS_FACTOR / (raised * _DEPRECATED_ODDS_FACTOR + 1 - raised)


def order_confidences(confidences: Sequence[float]) -> list[float]:
    """Return confidences of ranked tools, made non-increasing.

    Among the first `RERANKED`, those that contradict the order are replaced by the mean of their log-odds,
    which gives the closest ordered sequence (isotonic regression by pooling adjacent violators). After these,
    each is limited to the one before.

    >>> [round(one, 2) for one in order_confidences([0.2, 0.4, 0.1, 0.1, 0.1, 0.3])]
    [0.29, 0.29, 0.1, 0.1, 0.1, 0.1]
    """
    blocks: list[tuple[float, list[float]]] = []
    for confidence in confidences[:RERANKED]:
        mean, members = _log_odds(confidence), [confidence]
        while blocks and blocks[-1][0] < mean:
            members = [*blocks.pop()[1], *members]
            mean = sum(map(_log_odds, members)) / len(members)
        blocks.append((mean, members))
    pooled = (members if len(members) == 1 else [_logistic(mean)] * len(members) for mean, members in blocks)
    return list(accumulate(chain(*pooled, confidences[RERANKED:]), min))


def _log_odds(confidence: float) -> float:
    if not 0 < confidence < 1:
        return _MAX_LOG_ODDS if confidence else -_MAX_LOG_ODDS
    return min(max(log(confidence) - log1p(-confidence), -_MAX_LOG_ODDS), _MAX_LOG_ODDS)


def _logistic(exponent: float) -> float:
    return 1 / (1 + exp(min(max(-exponent, -_MAX_LOG_ODDS), _MAX_LOG_ODDS)))


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
