"""How good one ranking is, and how well a number tells two groups apart."""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence
from math import log2
from statistics import fmean

from toolcrib.model.record import Record

_BINS = 10


def ndcg_at(k: int, ranked: Sequence[str], relevant: Collection[str]) -> float:
    """Return the discounted gain of the first k, as a share of the best that k could have.

    Every relevant id counts the same, and once. Where nothing is relevant, nothing can be gained: 0.

    >>> round(ndcg_at(10, ["b", "a"], {"a"}), 3)
    0.631
    """
    best = sum(1 / log2(place + 1) for place in range(1, min(k, len(set(relevant))) + 1))
    return sum(1 / log2(place + 1) for place in _places(ranked[:k], relevant)) / best if best else 0.0


def recall_at(k: int, ranked: Sequence[str], relevant: Collection[str]) -> float:
    """Return the share of the relevant ids that are among the first k.

    >>> recall_at(2, ["a", "x", "b"], {"a", "b"})
    0.5
    """
    wanted = set(relevant)
    return len(wanted.intersection(ranked[:k])) / len(wanted) if wanted else 0.0


def reciprocal_rank(ranked: Sequence[str], relevant: Collection[str]) -> float:
    """Return 1 over the place of the first relevant id, or 0.

    >>> reciprocal_rank(["x", "a"], {"a"})
    0.5
    """
    return next((1 / place for place in _places(ranked, relevant)), 0.0)


def hit_at_1(ranked: Sequence[str], relevant: Collection[str]) -> float:
    """Return 1 where the first id is relevant, else 0."""
    return float(bool(ranked) and ranked[0] in relevant)


def auc(positives: Iterable[float], negatives: Iterable[float]) -> float:
    """Return how often a positive is above a negative, over all pairs; a tie counts half.

    1 separates them, 0.5 is chance; and so it is where either group is empty.

    >>> auc([0.9, 0.4], [0.4, 0.1])
    0.875
    """
    above, below = list(positives), sorted(negatives)
    if not above or not below:
        return 0.5
    halves = sum(bisect_left(below, value) + bisect_right(below, value) for value in above)
    return halves / (2 * len(above) * len(below))


def _places(ranked: Sequence[str], relevant: Collection[str]) -> list[int]:
    """Return the places, from 1, where a relevant id stands for the first time."""
    left = set(relevant)
    places = []
    for place, found in enumerate(ranked, 1):
        if found in left:
            left.remove(found)
            places.append(place)
    return places


class Bin(Record):
    """The answers whose confidence lies in one tenth of the scale."""

    low: float
    """Where the tenth begins."""
    high: float
    """Where it ends."""
    count: int
    """How many answers lie in it."""
    confidence: float
    """The mean of the predictions."""
    precision: float
    """The share that was right."""


class Calibration(Record):
    """How far confidence is from the truth."""

    bins: tuple[Bin, ...]
    """Tenths of the scale that hold an answer, lowest first."""
    error: float
    """The expected calibration error: the mean distance of a bin's confidence from its precision."""


def calibrate(answers: Iterable[tuple[float, bool]]) -> Calibration:
    """Return how confidences compare with whether the answers were right.

    >>> calibrate([(0.95, True), (0.85, True), (0.85, False)]).error
    0.25
    """
    tenths: list[list[tuple[float, bool]]] = [[] for _ in range(_BINS)]
    for confidence, is_right in answers:
        tenths[min(int(confidence * _BINS), _BINS - 1)].append((confidence, is_right))
    bins = tuple(_bin(place, held) for place, held in enumerate(tenths) if held)
    total = sum(held.count for held in bins)
    error = sum(held.count * abs(held.confidence - held.precision) for held in bins) / total if total else 0.0
    return Calibration(bins=bins, error=round(error, 12))


def _bin(place: int, held: list[tuple[float, bool]]) -> Bin:
    return Bin(
        low=place / _BINS,
        high=(place + 1) / _BINS,
        count=len(held),
        confidence=fmean(confidence for confidence, _ in held),
        precision=fmean(is_right for _, is_right in held),
    )
