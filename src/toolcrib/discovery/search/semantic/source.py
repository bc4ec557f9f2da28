"""Source of document vectors: from a persistent cache, or else from the embedder in batches."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from toolcrib.discovery.protocols import Derived, Embedder, Indexed
from toolcrib.discovery.search.semantic.text import clean
from toolcrib.discovery.search.semantic.units import is_vector, to_bytes, unit_vectors
from toolcrib.discovery.search.semantic.vectors import Floats
from toolcrib.discovery.search.snapshot import SearchSnapshot
from toolcrib.errors import EmbeddingError, ToolcribError

T = TypeVar("T")
TextOf = Callable[[Indexed], str]

MAX_BATCH = 1_000
"""The maximum number of texts embedded at once, and held in memory at a time."""
_MAX_TEXT = 100_000


@dataclass(frozen=True, slots=True)
class CallerHooks:
    """Callbacks by which synchronous code works for either a synchronous or an asynchronous caller."""

    embed: Callable[[Sequence[str]], Any]
    """Calls the embedder, and waits for the result."""
    check: Callable[[], None] = lambda: None
    """Raises if the caller was cancelled."""
    report: Callable[[int, int], object] = lambda _done, _total: None
    """Reports progress: the number of documents with vectors, and of all."""


class VectorSource:
    """Computes vectors of documents and questions; only one thread at a time may call `fetch`.

    Vectors are cached under the keys of the embedder and of the text; if either has none, they are not
    cached. The keys are read at first use, because an embedder may have to load its model for it.
    """

    def __init__(
        self, embedder: Embedder, *, text: TextOf, cache: Derived | None = None, batch: int = 256
    ) -> None:
        self._embedder = embedder
        self._cache = cache
        self._text = text
        self._batch = max(1, min(batch, MAX_BATCH))
        self._made: dict[str, bytes] = {}
        self._lock = threading.Lock()
        self.dimensions: int | None = None
        """The length of a vector; None until it is known."""

    def embed(self, hooks: CallerHooks, texts: Sequence[str]) -> Floats:
        """Return the unit vectors of texts; zeros for a text that the embedder cannot read.

        Raises:
            EmbeddingError: the embedder failed, or returned something else than vectors.
        """
        try:
            output = hooks.embed(texts)
        except ToolcribError:
            raise
        except Exception as error:  # an embedder of the program may raise anything
            raise EmbeddingError(f"the embedder raised {type(error).__name__}: {error}") from error
        with self._lock:
            found = unit_vectors(output, count=len(texts), dimensions=self.dimensions)
            self.dimensions = found.shape[1]
        return found

    def fetch(self, hooks: CallerHooks, documents: Mapping[str, Indexed]) -> Mapping[str, bytes]:
        """Return the vectors of documents as bytes; both mappings are keyed by content hash.

        Finished vectors are kept until `clear`, so that a caller that was cancelled can go on later.
        """
        if documents and self._cache_kind is not None and self.dimensions is None:
            self._learn_dimensions(hooks)
        done = 0
        for hashes in batched(sorted(documents), MAX_BATCH):
            hooks.check()
            self._load_cached([one for one in hashes if one not in self._made])
            missing = {one: documents[one] for one in hashes if one not in self._made}
            hooks.report(done + len(hashes) - len(missing), len(documents))
            for count in self._embed_missing(hooks, missing):
                hooks.report(done + len(hashes) - len(missing) + count, len(documents))
            done += len(hashes)
        return self._made

    def clear(self) -> None:
        """Drop the computed vectors."""
        self._made = {}

    def load_snapshot(self, hooks: CallerHooks, precision: str) -> SearchSnapshot | None:
        """Return the snapshot of vectors of this embedder with this precision; None if there is none."""
        if self._cache is None or self._cache_kind is None:
            return None
        kept = SearchSnapshot.load(self._cache, f"snapshot/{self._cache_kind}/{precision}")
        if kept is None or "signs" not in kept.arrays:  # an older version has written it
            return None
        if self.dimensions is None:
            self._learn_dimensions(hooks)
        return kept if kept.arrays["rows"].shape[1] == self.dimensions else None

    def save_snapshot(self, kept: SearchSnapshot, precision: str) -> None:
        """Write a snapshot of vectors with this precision to the cache, if there is one."""
        if self._cache is not None and self._cache_kind is not None:
            kept.save(self._cache, f"snapshot/{self._cache_kind}/{precision}")

    @cached_property
    def _cache_kind(self) -> str | None:
        """The kind under which vectors are cached; None if they are not."""
        keys = (getattr(self._embedder, "key", None), getattr(self._text, "key", None))
        return None if self._cache is None or None in keys else "/".join(("vectors", *map(str, keys)))

    def _learn_dimensions(self, hooks: CallerHooks) -> None:
        """Learn the length of vectors, by which cached ones are checked; embed a word if need be."""
        dimensions = getattr(self._embedder, "dimensions", None)
        if isinstance(dimensions, int):
            self.dimensions = dimensions
        else:
            self.embed(hooks, ["tool"])

    def _load_cached(self, hashes: Sequence[str]) -> None:
        """Load cached vectors; values that cannot be vectors of this embedder are ignored."""
        if (
            self._cache is not None
            and self._cache_kind is not None
            and self.dimensions is not None
            and hashes
        ):
            found = self._cache.derived(self._cache_kind, hashes)
            size = self.dimensions
            self._made |= {key: blob for key, blob in found.items() if is_vector(blob, size)}

    def _embed_missing(self, hooks: CallerHooks, documents: Mapping[str, Indexed]) -> Iterator[int]:
        """Embed documents; yield the number of finished ones after each batch."""
        texts = {key: clean(self._text(one), _MAX_TEXT) for key, one in documents.items()}
        # Texts of similar length waste no padding. Sorting by hash too makes the batches, and so the vectors,
        # independent of the order of registration.
        ordered = sorted(texts, key=lambda key: (len(texts[key]), key))
        for done, hashes in enumerate(batched(ordered, self._batch)):
            hooks.check()
            vectors = self.embed(hooks, [texts[key] for key in hashes])
            vectors = self._add_topics(hooks, vectors, [documents[key] for key in hashes])
            made = dict(zip(hashes, to_bytes(vectors), strict=True))
            self._made |= made  # before they are cached, so that a full disk does not lose them
            if self._cache is not None and self._cache_kind is not None:
                kept = [hashes[row] for row in np.flatnonzero(vectors.any(axis=1)).tolist()]
                self._cache.save_derived(self._cache_kind, {key: made[key] for key in kept})
            yield done * self._batch + len(hashes)

    def _add_topics(self, hooks: CallerHooks, vectors: Floats, documents: Sequence[Indexed]) -> Floats:
        """Add the weighted vectors of the documents' topics to their vectors."""
        topics_of = getattr(self._text, "topics", None)
        filed = [topics_of(one) for one in documents] if topics_of else []
        texts = list(dict.fromkeys(text for text, weight in filed if text and weight))
        if not texts:
            return vectors
        rows = dict(zip(texts, self.embed(hooks, texts), strict=True))
        added = [rows[text] * weight if text in rows else np.zeros_like(vectors[0]) for text, weight in filed]
        return unit_vectors(vectors + np.array(added), count=len(vectors), dimensions=self.dimensions)


def batched(items: Sequence[T], size: int) -> Iterator[list[T]]:
    """Yield items in lists of so many, the last of what remains.

    >>> list(batched("abcde", 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    remaining = iter(items)
    while batch := list(islice(remaining, size)):
        yield batch
