"""Vectors of an embedder: validation, normalisation to unit length, and serialization."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolcrib.discovery.search.semantic.vectors import Floats
from toolcrib.errors import EmbeddingError

MAX_DIMENSIONS = 16_384
"""The maximum length of a vector."""
_HALF = np.dtype("<f2")
_TOLERANCE = 0.01
"""How much the length of a vector may differ from 1 after rounding to half precision."""


def unit_vectors(output: object, *, count: int, dimensions: int | None = None) -> Floats:
    """Check the vectors that an embedder returned for `count` texts, and normalise them to unit length.

    A row with NaN or infinity, or of zeros, becomes zeros.

    >>> unit_vectors([[3, 4], [0, 0], [1, float("nan")]], count=3).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0], [0.0, 0.0]]

    Raises:
        EmbeddingError: the output is not an array of `count` rows with the expected number of dimensions.
    """
    rows = _to_array(output)
    if rows.ndim != 2 or len(rows) != count or not 0 < rows.shape[1] <= MAX_DIMENSIONS:  # noqa: PLR2004 - a matrix
        raise EmbeddingError(
            f"for {count} texts it gave an array of shape {rows.shape};"
            f" it must be ({count}, n) with n from 1 to {MAX_DIMENSIONS}"
        )
    if dimensions is not None and rows.shape[1] != dimensions:
        raise EmbeddingError(f"it gave vectors of {rows.shape[1]} dimensions where it has {dimensions}")
    # Divided by the largest number first, so that the squares in the norm cannot overflow.
    largest = np.abs(rows).max(axis=1, keepdims=True)
    sound = np.isfinite(largest) & (largest > 0)
    rows = np.divide(rows, largest, out=np.zeros_like(rows), where=sound)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    units: Floats = np.divide(rows, lengths, out=rows, where=sound).astype(np.float32)
    return units


def to_bytes(vectors: Floats) -> list[bytes]:
    """Serialize vectors in half precision, two bytes for each dimension, the same on every machine."""
    return [row.tobytes() for row in vectors.astype(_HALF)]


def is_vector(blob: object, dimensions: int) -> bool:
    """Return whether bytes are a serialized unit vector with this number of dimensions."""
    if not isinstance(blob, bytes) or len(blob) != dimensions * _HALF.itemsize:
        return False
    with np.errstate(all="ignore"):
        length = np.linalg.norm(np.frombuffer(blob, _HALF).astype(np.float32))
    return bool(abs(length - 1) <= _TOLERANCE)


def from_bytes(blobs: Sequence[bytes], dimensions: int) -> Floats:
    """Deserialize vectors that `to_bytes` serialized."""
    return np.frombuffer(b"".join(blobs), _HALF).reshape(len(blobs), dimensions).astype(np.float32)


def _to_array(output: object) -> NDArray[Any]:
    try:
        with np.errstate(all="ignore"):
            return np.asarray(output, np.float64)
    except (TypeError, ValueError) as error:
        raise EmbeddingError(
            f"it gave {type(output).__name__} where an array of numbers is expected"
        ) from error
