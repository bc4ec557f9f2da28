"""The best of many scores, without sorting them all."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["best"]

_BLOCK = 64


def best(scores: NDArray[np.float32], count: int) -> NDArray[np.intp]:
    """Return the places of the `count` highest positive scores, and of all that equal the last of them.

    The k-th highest of the maxima of blocks is a lower bound for the k-th highest score: one pass finds it,
    and what reaches it is few.

    >>> sorted(best(np.array([1, 0, 3, 2, 3], dtype=np.float32), 2).tolist())
    [2, 4]
    """
    if count <= 0 or not len(scores):
        return np.empty(0, dtype=np.intp)
    bound = _bound(scores, count)
    found = np.flatnonzero(scores >= bound) if bound > 0 else np.flatnonzero(scores > 0)
    if len(found) <= count:
        return found
    values = scores[found]
    last = np.partition(values, len(values) - count)[len(values) - count]
    top: NDArray[np.intp] = found[values >= last]
    return top


def _bound(scores: NDArray[np.float32], count: int) -> float:
    whole = len(scores) // _BLOCK
    if whole <= count:
        return 0.0
    maxima = scores[: whole * _BLOCK].reshape(whole, _BLOCK).max(axis=1)
    return float(np.partition(maxima, whole - count)[whole - count])
