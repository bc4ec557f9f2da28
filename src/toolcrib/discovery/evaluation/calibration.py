"""Whether a confidence means what it says: of the answers given with 0.8, are 80 % right?"""

from collections.abc import Iterable
from statistics import fmean

from toolcrib.model.record import Record

__all__ = ["Bin", "Calibration", "calibrate"]

_BINS = 10


class Bin(Record):
    """The answers whose confidence lies in one tenth of the scale."""

    low: float
    high: float
    count: int
    confidence: float
    """The mean of what was said."""
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
