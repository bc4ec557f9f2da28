"""Approximate nearest neighbours among many vectors, by a graph (HNSW)."""

from contextlib import suppress
from importlib import import_module
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolcrib.discovery.search.semantic.vectors import Slots

_MAX_INT8 = 127
_SEARCH_BREADTH = 384
"""HNSW's `ef`: the number of candidates that a search keeps."""


class NeighbourGraph:
    """Approximate nearest-neighbour graph (HNSW) over the slots of a table.

    A discarded slot stays in the graph, because searches pass through it, but is never returned. The same
    slots with the same vectors, added in the same order, make the same graph. Not thread-safe.

    Built with usearch, which the extra `semantic` brings. Measured with real questions over 100,000
    vectors of 384 dimensions on one Xeon core: 1.5 ms a search, which has .995 of the true ten best and
    always the first, where comparing every vector takes 10 ms; a breadth of 128 instead of 384 has .977
    in 0.6 ms. Adding one vector takes 0.4 ms, so 40 seconds for all.
    """

    def __init__(self, usearch: Any, dimensions: int) -> None:
        self._index = usearch.Index(
            ndim=dimensions,
            metric="cos",
            dtype="i8",
            connectivity=16,
            expansion_add=128,
            expansion_search=_SEARCH_BREADTH,
        )
        self._slots: list[int] = []
        """The slot that each vector in the graph stands for, or -1."""
        self._places: dict[int, int] = {}

    @classmethod
    def of(cls, dimensions: int) -> "NeighbourGraph | None":
        """Return an empty graph; None if usearch is not installed."""
        # usearch 2.26 crashes a process that imports onnxruntime after it, so onnxruntime is imported first.
        with suppress(ImportError):
            import_module("onnxruntime")
        try:
            usearch = import_module("usearch.index")
        except ImportError:
            return None
        return cls(usearch, dimensions)

    def __len__(self) -> int:
        """Return the number of slots that a search can return."""
        return len(self._places)

    @property
    def stale(self) -> int:
        """The number of vectors in the graph whose slots were discarded."""
        return len(self._slots) - len(self._places)

    def add(self, slots: Slots, rows: NDArray[Any]) -> None:
        """Add slots that are not in the graph."""
        first = len(self._slots)
        places = range(first, first + len(slots))
        self._index.add(np.arange(first, first + len(slots), dtype=np.uint64), _to_int8(rows), threads=1)
        self._slots.extend(slots.tolist())
        self._places.update(zip(slots.tolist(), places, strict=True))

    def discard(self, slot: int) -> None:
        """Stop returning a slot until it is added again; a slot outside the graph is ignored."""
        place = self._places.pop(slot, None)
        if place is not None:
            self._slots[place] = -1

    def nearest(self, query: NDArray[Any], count: int) -> Slots:
        """Return about `count` slots near to a query, fewer if many are stale.

        For a query of several rows, about as many for each row.
        """
        rows = _to_int8(np.atleast_2d(query))
        found = [self._index.search(row, count, threads=1).keys.tolist() for row in rows]
        slots = np.array([self._slots[key] for key in dict.fromkeys(chain(*found))], np.intp)
        return slots[slots >= 0]


def _to_int8(rows: NDArray[Any]) -> NDArray[np.int8]:
    """Scale rows to int8, keeping their directions."""
    if rows.dtype == np.int8:
        return rows
    largest = np.abs(rows).max(axis=1, keepdims=True)
    whole: NDArray[np.int8] = np.rint(rows * (_MAX_INT8 / largest)).astype(np.int8)
    return whole
