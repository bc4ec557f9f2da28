"""Snapshots: what a searcher has derived from its tools, as one value of a cache.

With it, a catalogue is opened without working anything out again. A snapshot need not be up to date: it has
the content hash of each tool, so its reader knows which tools it still describes.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from toolcrib.discovery.protocols import Derived
from toolcrib.errors import StoreError

_LOG = logging.getLogger("toolcrib.discovery")
SNAPSHOT = "snapshot"
"""The key of snapshots in a cache, where single values have a content hash."""
_CHECKSUM_BYTES = 4
_LENGTH_BYTES = 8
_MIN_UNSAVED = 16
_UNSAVED_SHARE = 16
_UNOPENED_SHARE = 64


@dataclass(frozen=True, slots=True)
class SearchSnapshot:
    """Lists of texts without line breaks, and arrays, by name; `ids` and `hashes` are those of the tools."""

    texts: Mapping[str, Sequence[str]]
    arrays: Mapping[str, NDArray[Any]]

    def save(self, cache: Derived, kind: str) -> None:
        """Write the snapshot to a cache, in place of the one of the same kind; a failure is logged."""
        texts = {name: "\n".join(lines).encode(errors="surrogatepass") for name, lines in self.texts.items()}
        parts = texts | {name: one.tobytes() for name, one in self.arrays.items()}
        head = {
            "texts": {name: [len(lines), len(texts[name])] for name, lines in self.texts.items()},
            "arrays": {name: [one.dtype.str, one.shape] for name, one in self.arrays.items()},
        }
        described = json.dumps(head).encode()
        body = b"".join((len(described).to_bytes(_LENGTH_BYTES), described, *parts.values()))
        try:
            cache.save_derived(kind, {SNAPSHOT: crc32(body).to_bytes(_CHECKSUM_BYTES) + body})
        except StoreError as error:
            _LOG.warning("opening will take longer, since no snapshot could be written: %s", error)

    @classmethod
    def load(cls, cache: Derived, kind: str) -> "SearchSnapshot | None":
        """Read the snapshot of a kind, with read-only arrays; None if there is none, or it is damaged."""
        kept = memoryview(cache.derived(kind, [SNAPSHOT]).get(SNAPSHOT, b""))
        body = kept[_CHECKSUM_BYTES:]
        if not body or crc32(body).to_bytes(_CHECKSUM_BYTES) != kept[:_CHECKSUM_BYTES]:
            return None
        at = _LENGTH_BYTES + int.from_bytes(body[:_LENGTH_BYTES])
        head = json.loads(bytes(body[_LENGTH_BYTES:at]))
        texts, arrays = {}, {}
        for name, (count, size) in head["texts"].items():
            text = bytes(body[at : at + size]).decode(errors="surrogatepass")
            texts[name] = text.split("\n") if count else []
            at += size
        for name, (dtype, shape) in head["arrays"].items():
            size = int(np.prod(shape)) * np.dtype(dtype).itemsize
            arrays[name] = np.frombuffer(body[at : at + size], dtype).reshape(shape)
            at += size
        return cls(texts, arrays)


def is_due(changes: int, tools: int, *, opening: bool = False) -> bool:
    """Return whether a snapshot should be written after so many changes since the last one.

    >>> is_due(1, 50, opening=True), is_due(1, 1_000, opening=True), is_due(100, 1_000)
    (True, False, True)
    """
    if opening:
        return changes * _UNOPENED_SHARE > tools
    return changes >= max(_MIN_UNSAVED, tools / _UNSAVED_SHARE)
