"""Analyses of tools, worked out once for each content."""

from collections.abc import Iterator, Sequence
from zlib import crc32

import numpy as np

from toolcrib.discovery.protocols import Derived, Indexed
from toolcrib.discovery.text import Analysis, analyse

__all__ = ["Analyses"]

_KIND = "terms/3"
"""The number goes up when tools are read differently, so that nothing read the old way is used."""
_BATCH = 5_000
_CHECKSUM = 4


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
    """Return an analysis as bytes: a checksum, the terms a line each, NUL, and the numbers."""
    numbers = np.array((*analysis.terms.values(), analysis.length), dtype="<f8")
    body = "\n".join(analysis.terms).encode() + b"\0" + numbers.tobytes()
    return crc32(body).to_bytes(_CHECKSUM) + body


def _read(kept: bytes | None) -> Analysis | None:
    """Return the analysis that bytes hold, or None where they hold none or were damaged."""
    checksum, body = (kept or b"")[:_CHECKSUM], (kept or b"")[_CHECKSUM:]
    text, _, numbers = body.partition(b"\0")
    terms = text.decode(errors="replace").split("\n") if text else []
    if crc32(body).to_bytes(_CHECKSUM) != checksum or len(numbers) != (len(terms) + 1) * 8:
        return None
    *counts, length = np.frombuffer(numbers, dtype="<f8").tolist()
    return Analysis(dict(zip(terms, counts, strict=True)), length)
