"""Embeddings from a table: one int8 vector for each token, added up; it needs numpy and nothing else."""

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
from toolcrib.discovery.search.relevance import RelevanceClassifier, read_judge
from toolcrib.discovery.search.semantic.folder import CHARACTERS_PER_TOKEN, at_least, key_of, whole
from toolcrib.discovery.search.semantic.units import unit_vectors
from toolcrib.discovery.search.semantic.wordpiece import WordPiece
from toolcrib.errors import EmbeddingError

_VOCABULARY, _TABLE, _SCALES = _FILES = ("vocab.txt", "table.npy", "scales.npy")
_LARGEST = 127
_MOST = 0.4
"""What a quarter of the numbers holds of the rows, where sums of them have more than half of it there."""
_SAMPLE = 16
"""One row in so many is looked at for what the whole table is like."""


@dataclass(frozen=True, slots=True)
class _Model:
    pieces: WordPiece
    table: NDArray[np.int8]
    scales: NDArray[np.float32]


class StaticEmbedder:
    """Embeds a text as the direction of the sum of its tokens' vectors.

    The folder holds `vocab.txt`, a wordpiece on each line, `table.npy`, an int8 row for each, and
    `scales.npy`, what each row is multiplied with; the weight of a token is part of its scale. Files are read
    at first use. A text without any known token becomes zeros.

    Raises:
        EmbeddingError: the folder or a file of it is missing; when it is used, if they do not fit.
    """

    def __init__(self, folder: str | PathLike[str], *, max_tokens: int = 512) -> None:
        """Embed with the table of a folder, the first `max_tokens` tokens of each text."""
        self._folder = whole(folder, *_FILES)
        at_least(1, self._name, max_tokens=max_tokens)
        self._max_tokens = max_tokens
        self._lock = threading.Lock()
        self._model: _Model | None = None
        self._key: str | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name}, max_tokens={self._max_tokens})"

    @property
    def key(self) -> str:
        """What the vectors are kept under: the content of the files, and the settings."""
        with self._lock:
            if self._key is None:
                self._key = key_of("static", [self._folder / name for name in _FILES], self._max_tokens)
            return self._key

    @cached_property
    def judge(self) -> RelevanceClassifier | None:
        """What tells whether a tool does what a question asks, if the folder holds it."""
        return read_judge(self._folder)

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has."""
        return int(self._load_once().table.shape[1])

    @cached_property
    def leading(self) -> int | None:
        """How many of the first numbers of a vector tell most of it: a quarter, where that holds most."""
        model = self._load_once()
        some = model.table[::_SAMPLE].astype(np.float32) * model.scales[::_SAMPLE, None]
        quarter = self.dimensions // 4
        share = float((some[:, :quarter] ** 2).sum() / max(float((some**2).sum()), 1e-12))
        return quarter if quarter and share >= _MOST else None

    def encode(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        """Return a row of unit length for each text."""
        model = self._load_once()
        rows = np.zeros((len(texts), self.dimensions), np.float32)
        for row, text in zip(rows, texts, strict=True):
            stop_if_abandoned()
            ids = model.pieces.ids(text[: self._max_tokens * CHARACTERS_PER_TOKEN], limit=self._max_tokens)
            row[:] = model.scales[ids] @ model.table[ids]
        return unit_vectors(rows, count=len(rows), dimensions=self.dimensions)

    async def embed(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        """Return what `encode` would, computed in a worker thread, which stops where the caller gives up."""
        return await in_thread(self.encode, texts)

    @classmethod
    def save(
        cls, folder: str | PathLike[str], vocabulary: Sequence[str], vectors: ArrayLike
    ) -> "StaticEmbedder":
        """Write a vector for each wordpiece into a folder, rounded to int8, and return the embedder of it.

        A folder that holds a table already gets this one in its place, file by file.

        Raises:
            EmbeddingError: there are not as many vectors as pieces, a number is not finite, or a piece is not
                one word or occurs twice.
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
        scales = np.abs(rows).max(axis=1) / _LARGEST
        table = np.rint(np.divide(rows, scales[:, None], out=np.zeros_like(rows), where=scales[:, None] > 0))
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        _write(path / _VOCABULARY, "".join(f"{piece}\n" for piece in vocabulary).encode())
        _write(path / _TABLE, table.astype(np.int8))
        _write(path / _SCALES, scales.astype(np.float32))
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
            # A view of the plain kind: rows of a memory map are maps themselves, and slower to make.
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


def _write(path: Path, content: bytes | NDArray[Any]) -> None:
    """Put a file in its place at once, so that a reader who has mapped the old one keeps it whole."""
    scratch = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with scratch.open("wb") as file:
        if isinstance(content, bytes):
            file.write(content)
        else:
            np.save(file, content, allow_pickle=False)
    scratch.replace(path)
