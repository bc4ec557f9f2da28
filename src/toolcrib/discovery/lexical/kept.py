"""Analyses of tools, worked out once for each content."""

from collections.abc import Iterator, Sequence

import numpy as np

from toolcrib.discovery.protocols import Derived, Indexed
from toolcrib.discovery.text import Analysis, analyse

__all__ = ["Analyses"]

_KIND = "terms/1"
"""The number goes up when tools are read differently, so that nothing read the old way is used."""
_BATCH = 5_000


class Analyses:
    """Reads tools, and remembers what it read where there is a place to keep it."""

    def __init__(self, cache: Derived | None) -> None:
        self._cache = cache

    def of(self, entries: Sequence[Indexed]) -> Iterator[Analysis]:
        """Yield the analysis of each tool."""
        for start in range(0, len(entries), _BATCH):
            yield from self._batch(entries[start : start + _BATCH])

    def _batch(self, entries: Sequence[Indexed]) -> Iterator[Analysis]:
        kept = self._cache.derived(_KIND, [entry.content_hash for entry in entries]) if self._cache else {}
        worked_out: dict[str, bytes] = {}
        for entry in entries:
            found = _read(kept.get(entry.content_hash))
            if found is None:
                found = analyse(entry.tool, entry.examples)
                worked_out[entry.content_hash] = _written(found)
            yield found
        if self._cache and worked_out:
            self._cache.save_derived(_KIND, worked_out)


def _written(analysis: Analysis) -> bytes:
    """Return an analysis as bytes: the terms a line each, then NUL, then the numbers."""
    numbers = np.array((*analysis.terms.values(), analysis.length), dtype="<f4")
    return "\n".join(analysis.terms).encode() + b"\0" + numbers.tobytes()


def _read(kept: bytes | None) -> Analysis | None:
    """Return the analysis that bytes hold, or None where they hold none."""
    text, _, numbers = (kept or b"").partition(b"\0")
    terms = text.decode(errors="replace").split("\n") if text else []
    if len(numbers) != (len(terms) + 1) * 4:
        return None
    *counts, length = np.frombuffer(numbers, dtype="<f4").tolist()
    return Analysis(dict(zip(terms, counts, strict=True)), length)
