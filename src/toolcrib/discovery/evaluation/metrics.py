"""Ranking metrics, AUC and calibration."""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence
from math import log2
from statistics import fmean

from toolcrib.model.record import Record

_BINS = 10


def ndcg_at(k: int, ranked: Sequence[str], relevant: Collection[str]) -> float:
    """Return the normalised discounted cumulative gain (NDCG) of the first k.

    Every relevant id has the same gain, and counts once. Without relevant ids, the result is 0.

    >>> round(ndcg_at(10, ["b", "a"], {"a"}), 3)
    0.631
    """
    best = sum(1 / log2(place + 1) for place in range(1, min(k, len(set(relevant))) + 1))
    return sum(1 / log2(place + 1) for place in _first_places(ranked[:k], relevant)) / best if best else 0.0


def recall_at(k: int, ranked: Sequence[str], relevant: Collection[str]) -> float:
    """Return the share of the relevant ids that are among the first k.

    >>> recall_at(2, ["a", "x", "b"], {"a", "b"})
    0.5
    """
    wanted = set(relevant)
    return len(wanted.intersection(ranked[:k])) / len(wanted) if wanted else 0.0


def reciprocal_rank(ranked: Sequence[str], relevant: Collection[str]) -> float:
    """Return 1 / rank of the first relevant id; 0 if there is none.

    >>> reciprocal_rank(["x", "a"], {"a"})
    0.5
    """
    return next((1 / place for place in _first_places(ranked, relevant)), 0.0)


def hit_at_1(ranked: Sequence[str], relevant: Collection[str]) -> float:
    """Return 1 if the first id is relevant, else 0."""
    return float(bool(ranked) and ranked[0] in relevant)


def auc(positives: Iterable[float], negatives: Iterable[float]) -> float:
    """Return the area under the ROC curve: the share of pairs with the positive above the negative.

    A tie counts half. 1 is perfect separation; 0.5 is chance, and also the result if either group is empty.

    >>> auc([0.9, 0.4], [0.4, 0.1])
    0.875
    """
    above, below = list(positives), sorted(negatives)
    if not above or not below:
        return 0.5
    halves = sum(bisect_left(below, value) + bisect_right(below, value) for value in above)
    return halves / (2 * len(above) * len(below))


def _first_places(ranked: Sequence[str], relevant: Collection[str]) -> list[int]:
    """Return the ranks, from 1, at which each relevant id occurs first."""
    left = set(relevant)
    places = []
    for place, found in enumerate(ranked, 1):
        if found in left:
            left.remove(found)
            places.append(place)
    return places


class Bin(Record):
    """The answers with a confidence in one tenth of the scale."""

    low: float
    """The lower bound of the tenth."""
    high: float
    """The upper bound of the tenth."""
    count: int
    """The number of answers in it."""
    confidence: float
    """Their mean confidence."""
    precision: float
    """The share of right answers."""


class Calibration(Record):
    """Calibration of confidences: comparison with the shares of right answers."""

    bins: tuple[Bin, ...]
    """The tenths of the scale with answers, lowest first."""
    error: float
    """The expected calibration error: the weighted mean distance between confidence and precision."""


def calibrate(answers: Iterable[tuple[float, bool]]) -> Calibration:
    """Compute the calibration of confidences, given whether each answer was right.

    >>> calibrate([(0.95, True), (0.85, True), (0.85, False)]).error
    0.25
    """
    tenths: list[list[tuple[float, bool]]] = [[] for _ in range(_BINS)]
    for confidence, is_right in answers:
        tenths[min(int(confidence * _BINS), _BINS - 1)].append((confidence, is_right))
    bins = tuple(_make_bin(place, held) for place, held in enumerate(tenths) if held)
    total = sum(held.count for held in bins)
    error = sum(held.count * abs(held.confidence - held.precision) for held in bins) / total if total else 0.0
    return Calibration(bins=bins, error=round(error, 12))


def _make_bin(place: int, held: list[tuple[float, bool]]) -> Bin:
    return Bin(
        low=place / _BINS,
        high=(place + 1) / _BINS,
        count=len(held),
        confidence=fmean(confidence for confidence, _ in held),
        precision=fmean(is_right for _, is_right in held),
    )
