"""The vectors of documents: some from a cache, the others from an embedder, a batch at a time."""

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
from toolcrib.errors import EmbeddingError, ToolcribError

T = TypeVar("T")
TextOf = Callable[[Indexed], str]

MAX_BATCH = 1_000
"""How many texts an embedder is given at once, at most, and how many are in memory at a time."""
_MAX_TEXT = 100_000


@dataclass(frozen=True, slots=True)
class CallerHooks:
    """How the caller at hand waits."""

    embed: Callable[[Sequence[str]], Any]
    """Ask the embedder, and wait for it."""
    check: Callable[[], None] = lambda: None
    """Raise if the caller has given up."""
    report: Callable[[int, int], object] = lambda _done, _total: None
    """Say how many documents of how many have vectors."""


class VectorSource:
    """Makes vectors of documents and of questions; one thread at a time may `fetch`.

    Vectors are cached under the embedder's `key` and the text's; where either has none, they are not. Both
    are asked for at first use, because an embedder may have to read its model to tell.
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
        """How many numbers a vector has, once that is known."""

    @property
    def leading(self) -> int | None:
        """How many of the first numbers of a vector tell most of it, if the embedder knows."""
        count = getattr(self._embedder, "leading", None)
        return count if isinstance(count, int) and 0 < count < (self.dimensions or 0) else None

    def vectors(self, hooks: CallerHooks, texts: Sequence[str]) -> Floats:
        """Return the vectors of texts, each of the length one or of zeros.

        Raises:
            EmbeddingError: the embedder gave something else.
        """
        try:
            output = hooks.embed(texts)
        except ToolcribError:
            raise
        except Exception as error:  # anybody's code
            raise EmbeddingError(f"the embedder raised {type(error).__name__}: {error}") from error
        with self._lock:
            found = unit_vectors(output, count=len(texts), dimensions=self.dimensions)
            self.dimensions = found.shape[1]
        return found

    def fetch(self, hooks: CallerHooks, documents: Mapping[str, Indexed]) -> Mapping[str, bytes]:
        """Return the vectors of documents as bytes; both are keyed by content hash.

        What was made stays until `forget`, so that a caller who gave up loses nothing.
        """
        if documents and self._kind is not None and self.dimensions is None:
            self._learn_dimensions(hooks)
        done = 0
        for hashes in batched(sorted(documents), MAX_BATCH):
            hooks.check()
            self._restore([one for one in hashes if one not in self._made])
            missing = {one: documents[one] for one in hashes if one not in self._made}
            hooks.report(done + len(hashes) - len(missing), len(documents))
            for count in self._make(hooks, missing):
                hooks.report(done + len(hashes) - len(missing) + count, len(documents))
            done += len(hashes)
        return self._made

    def forget(self) -> None:
        """Let go of the vectors that were made."""
        self._made = {}

    @cached_property
    def _kind(self) -> str | None:
        """What vectors are cached as, or nothing if they are not."""
        keys = (getattr(self._embedder, "key", None), getattr(self._text, "key", None))
        return None if self._cache is None or None in keys else "/".join(("vectors", *map(str, keys)))

    def _learn_dimensions(self, hooks: CallerHooks) -> None:
        """Find out how long cached vectors must be; an embedder that does not say is given a word."""
        dimensions = getattr(self._embedder, "dimensions", None)
        if isinstance(dimensions, int):
            self.dimensions = dimensions
        else:
            self.vectors(hooks, ["tool"])

    def _restore(self, hashes: Sequence[str]) -> None:
        """Take what the cache has, as far as it can be a vector of this embedder."""
        if self._cache is not None and self._kind is not None and self.dimensions is not None and hashes:
            found = self._cache.derived(self._kind, hashes)
            size = self.dimensions
            self._made |= {key: blob for key, blob in found.items() if is_vector(blob, size)}

    def _make(self, hooks: CallerHooks, documents: Mapping[str, Indexed]) -> Iterator[int]:
        """Embed documents, and yield how many are done after each batch."""
        texts = {key: clean(self._text(one), _MAX_TEXT) for key, one in documents.items()}
        # Texts of like length waste no padding; the hash makes the batches, and so the vectors, the same
        # in whatever order the documents came.
        ordered = sorted(texts, key=lambda key: (len(texts[key]), key))
        for done, hashes in enumerate(batched(ordered, self._batch)):
            hooks.check()
            vectors = self.vectors(hooks, [texts[key] for key in hashes])
            vectors = self._add_topics(hooks, vectors, [documents[key] for key in hashes])
            made = dict(zip(hashes, to_bytes(vectors), strict=True))
            self._made |= made  # before they are cached: a full disk must not cost them
            if self._cache is not None and self._kind is not None:
                kept = [hashes[row] for row in np.flatnonzero(vectors.any(axis=1)).tolist()]
                self._cache.save_derived(self._kind, {key: made[key] for key in kept})
            yield done * self._batch + len(hashes)

    def _add_topics(self, hooks: CallerHooks, vectors: Floats, documents: Sequence[Indexed]) -> Floats:
        """Return vectors with those of the topics that the documents are filed under added."""
        topics_of = getattr(self._text, "topics", None)
        filed = [topics_of(one) for one in documents] if topics_of else []
        texts = list(dict.fromkeys(text for text, weight in filed if text and weight))
        if not texts:
            return vectors
        rows = dict(zip(texts, self.vectors(hooks, texts), strict=True))
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
