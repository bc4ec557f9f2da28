"""Static embeddings: a table with one int8 vector for each token; a text is the sum. Needs only numpy."""

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toolcrib.concurrency.loop import in_thread, stop_if_abandoned
from toolcrib.discovery.search.confidence import RelevanceClassifier, read_judge
from toolcrib.discovery.search.semantic.folder import (
    CHARACTERS_PER_TOKEN,
    check_at_least,
    check_folder,
    content_key,
)
from toolcrib.discovery.search.semantic.languages import ForeignQuestions, read_languages
from toolcrib.discovery.search.semantic.units import unit_vectors
from toolcrib.discovery.search.semantic.wordpiece import WordPiece
from toolcrib.errors import EmbeddingError

_VOCABULARY, _TABLE, _SCALES = _FILES = ("vocab.txt", "table.npy", "scales.npy")
_MAX_INT8 = 127


@dataclass(frozen=True, slots=True)
class _Model:
    pieces: WordPiece
    table: NDArray[np.int8]
    scales: NDArray[np.float32]


class StaticEmbedder:
    """Embeds a text as the normalised sum of the vectors of its tokens.

    The folder has `vocab.txt`, a wordpiece on each line, `table.npy`, an int8 row for each, and `scales.npy`,
    the factor of each row, which includes the weight of the token. Files are read at first use. A text
    without any known token becomes zeros.

    Raises:
        EmbeddingError: the folder or a file in it is missing; or, when it is used, the files do not match.
    """

    def __init__(self, folder: str | PathLike[str], *, max_tokens: int = 512) -> None:
        """Embed the first `max_tokens` tokens of each text with the table in a folder."""
        self._folder = check_folder(folder, *_FILES)
        check_at_least(1, self._name, max_tokens=max_tokens)
        self._max_tokens = max_tokens
        self._lock = threading.Lock()
        self._model: _Model | None = None
        self._key: str | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name}, max_tokens={self._max_tokens})"

    @property
    def key(self) -> str:
        """The cache key of the vectors: the content of the files, and the settings."""
        with self._lock:
            if self._key is None:
                self._key = content_key("static", [self._folder / name for name in _FILES], self._max_tokens)
            return self._key

    @cached_property
    def judge(self) -> RelevanceClassifier | None:
        """The relevance classifier in the folder; None if there is none."""
        return read_judge(self._folder)

    @cached_property
    def languages(self) -> ForeignQuestions | None:
        """Embeds questions in languages other than English; None if the model or the machine cannot."""
        return read_languages(self._folder, lambda: self.dimensions)

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        return int(self._load_once().table.shape[1])

    def encode(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        """Return a row of unit length for each text."""
        model = self._load_once()
        rows = np.zeros((len(texts), self.dimensions), np.float32)
        for row, text in zip(rows, texts, strict=True):
            stop_if_abandoned()
            read = text[: self._max_tokens * CHARACTERS_PER_TOKEN]
            ids = np.array(model.pieces.ids(read, limit=self._max_tokens), np.intp)
            row[:] = model.scales[ids] @ model.table[ids]
        return unit_vectors(rows, count=len(rows), dimensions=self.dimensions)

    async def embed(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        """Do the same as `encode` in a worker thread, which stops when the caller is cancelled."""
        return await in_thread(self.encode, texts)

    @classmethod
    def save(
        cls, folder: str | PathLike[str], vocabulary: Sequence[str], vectors: ArrayLike
    ) -> "StaticEmbedder":
        """Write a vector for each wordpiece into a folder, rounded to int8, and return its embedder.

        The files of a table that is already in the folder are replaced.

        Raises:
            EmbeddingError: the numbers of vectors and pieces differ, a number is not finite, or a piece is
                not one word or occurs twice.
        """
        rows = np.asarray(vectors, np.float32)
        name = repr(str(folder))
        if rows.ndim != 2 or len(rows) != len(vocabulary) or not rows.size:  # noqa: PLR2004 - a matrix
            reason = f"{len(vocabulary)} pieces need as many vectors, not an array of shape {rows.shape}"
            raise EmbeddingError(reason, name)
        if not np.isfinite(rows).all():
            raise EmbeddingError("every number of a vector must be finite", name)
        if len(set(vocabulary)) < len(vocabulary) or any(piece.split() != [piece] for piece in vocabulary):
            raise EmbeddingError("every piece must be one word, and occur once", name)
        scales = np.abs(rows).max(axis=1) / _MAX_INT8
        table = np.rint(np.divide(rows, scales[:, None], out=np.zeros_like(rows), where=scales[:, None] > 0))
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        _write_atomically(path / _VOCABULARY, "".join(f"{piece}\n" for piece in vocabulary).encode())
        _write_atomically(path / _TABLE, table.astype(np.int8))
        _write_atomically(path / _SCALES, scales.astype(np.float32))
        return cls(path)

    @property
    def _name(self) -> str:
        return repr(str(self._folder))

    def _load_once(self) -> _Model:
        with self._lock:
            if self._model is None:
                self._model = self._load()
            return self._model

    def _load(self) -> _Model:
        try:
            lines = (self._folder / _VOCABULARY).read_bytes().decode().split("\n")
            # A plain array view of the memory map: indexing a `memmap` makes objects that are slower.
            table = np.load(self._folder / _TABLE, mmap_mode="r", allow_pickle=False).view(np.ndarray)
            scales = np.load(self._folder / _SCALES, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise EmbeddingError(f"a file of the table cannot be read: {error}", self._name) from error
        vocabulary = [line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1])]
        self._check(len(vocabulary), table, scales)
        return _Model(WordPiece(vocabulary), table, scales.astype(np.float32))

    def _check(self, pieces: int, table: NDArray[Any], scales: NDArray[Any]) -> None:
        if table.dtype != np.int8 or table.ndim != 2 or not table.size:  # noqa: PLR2004 - a matrix
            reason = f"{_TABLE!r} must be a matrix of int8, not of shape {table.shape} and {table.dtype}"
        elif not np.issubdtype(scales.dtype, np.floating) or not np.isfinite(scales).all():
            reason = f"{_SCALES!r} must hold finite floats"
        elif scales.shape != (len(table),) or pieces != len(table):
            reason = (
                f"{_VOCABULARY!r} has {pieces} pieces, {_TABLE!r} {len(table)} rows and {_SCALES!r} the shape"
                f" {scales.shape}; there must be as many of each"
            )
        else:
            return
        raise EmbeddingError(reason, self._name)


def _write_atomically(path: Path, content: bytes | NDArray[Any]) -> None:
    """Replace a file atomically, so that a process that has mapped the old one keeps it unchanged."""
    scratch = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with scratch.open("wb") as file:
        if isinstance(content, bytes):
            file.write(content)
        else:
            np.save(file, content, allow_pickle=False)
    scratch.replace(path)
