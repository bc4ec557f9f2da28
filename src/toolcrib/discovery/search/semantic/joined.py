"""Ensemble of two embedding models."""

import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from toolcrib.concurrency.loop import in_thread
from toolcrib.discovery.protocols import LocalEmbedder
from toolcrib.discovery.search.confidence import RelevanceClassifier, read_judge
from toolcrib.discovery.search.semantic.languages import ForeignQuestions, read_languages
from toolcrib.discovery.search.semantic.units import unit_vectors
from toolcrib.errors import EmbeddingError


class JoinedEmbedder:
    """Embeds a text with two models and concatenates their vectors.

    The cosine of such vectors is the weighted mean of both models' cosines. A sentence model and a table
    of word vectors are wrong about different tools, so that together they are wrong less often.
    """

    def __init__(
        self,
        first: LocalEmbedder,
        second: LocalEmbedder,
        *,
        share: float = 0.3,
        folder: Path | None = None,
    ) -> None:
        """Embed with two models.

        Args:
            first: one of them.
            second: the other one.
            share: the weight of the second one, between 0 and 1.
            folder: the folder of `judge.npz` and `languages.npy`, which were fitted on the concatenated
                vectors.

        Raises:
            EmbeddingError: the share is out of bounds, or a model is not a `LocalEmbedder`.
        """
        if not 0 < share < 1:
            raise EmbeddingError(f"share must be between 0 and 1, not {share!r}")
        for one in (first, second):
            if not isinstance(one, LocalEmbedder):
                raise EmbeddingError(f"{type(one).__name__} cannot be joined: it has no `encode(texts)`")
        self._first, self._second, self._share, self._folder = first, second, share, folder

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._first!r}, {self._second!r}, share={self._share})"

    @property
    def key(self) -> str | None:
        """The cache key of the vectors; None if either model has no key."""
        keys = [getattr(one, "key", None) for one in (self._first, self._second)]
        if None in keys:
            return None
        return f"joined-{hashlib.sha256(repr((keys, self._share)).encode()).hexdigest()[:32]}"

    @cached_property
    def judge(self) -> RelevanceClassifier | None:
        """The relevance classifier in the folder; None if there is none."""
        return read_judge(self._folder) if self._folder else None

    @cached_property
    def languages(self) -> ForeignQuestions | None:
        """Embeds questions in languages other than English; None if the models or the machine cannot."""
        return read_languages(self._folder, lambda: self.dimensions) if self._folder else None

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        return int(self.encode(["text"]).shape[1])

    def encode(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        """Return a row of unit length for each text; zeros for a text that neither model can read.

        Raises:
            EmbeddingError: a model cannot be read or run, or returns something other than vectors.
        """
        first, second = (
            unit_vectors(one.encode(texts), count=len(texts)) for one in (self._first, self._second)
        )
        # Square roots, because the cosine multiplies the weights of two such vectors.
        both = np.hstack((np.sqrt(1 - self._share) * first, np.sqrt(self._share) * second))
        return unit_vectors(both, count=len(texts))

    async def embed(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        """Do the same as `encode` in a worker thread, which stops when the caller is cancelled."""
        return await in_thread(self.encode, texts)
