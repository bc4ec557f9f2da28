"""What an embedding server answered: its vectors, its refusal, and when to ask again."""

import json
import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["read_refusal", "read_vectors", "seconds_to_wait"]

_MAX_WORDS = 300
"""How much of a server's words is repeated."""
_HINT = "is the url that of an embeddings API?"
_MATRIX = 2


def read_vectors(body: bytes, *, count: int) -> NDArray[np.float64]:
    """Return a row for each of `count` texts, in the order in which they were sent.

    >>> body = b'{"data": [{"index": 1, "embedding": [3]}, {"index": 0, "embedding": [2]}]}'
    >>> read_vectors(body, count=2).tolist()
    [[2.0], [3.0]]

    Raises:
        ValueError: the answer is something else; the text says what.
    """
    data = _data(body)
    if len(data) != count:
        raise ValueError(f"it gave {len(data)} vectors for {count} texts")
    try:
        places = [int(one.get("index", place)) for place, one in enumerate(data)]
        rows = np.asarray([one["embedding"] for one in data], np.float64)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise ValueError("its vectors are not rows of numbers, each with an index and as long") from error
    if sorted(places) != list(range(count)):
        raise ValueError(f"its vectors are not numbered from 0 to {count - 1}")
    if rows.ndim != _MATRIX or not rows.size:
        raise ValueError(f"it gave an array of shape {rows.shape} for {count} texts")
    if not np.isfinite(rows).all():
        raise ValueError("its vectors have numbers that are not finite")
    return rows[np.argsort(places)]


def _data(body: bytes) -> list[Any]:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it did not answer with JSON; {_HINT}") from error
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(data, list):
        raise ValueError(f"its answer has no list 'data'; {_HINT}")  # noqa: TRY004 - a value of the server's
    return data


def read_refusal(text: str) -> str:
    """Return what a server said when it refused, in a few words.

    >>> read_refusal('{"error": {"message": "no such model", "code": 7}}'), read_refusal("Bad  Gateway")
    ('no such model', 'Bad Gateway')
    """
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return _cut(text)
    for key in ("error", "message", "detail"):
        said = said.get(key, said) if isinstance(said, dict) else said
    return _cut(said if isinstance(said, str) else text)


def seconds_to_wait(retry_after: str | None) -> float | None:
    """Return how long a `Retry-After` header asks to wait, or nothing where it does not say.

    >>> seconds_to_wait("1.5"), seconds_to_wait("Wed, 21 Oct 2015 07:28:00 GMT"), seconds_to_wait("soon")
    (1.5, 0.0, None)
    """
    if retry_after is None:
        return None
    try:
        seconds = float(retry_after)
    except ValueError:
        try:
            moment = parsedate_to_datetime(retry_after)
        except ValueError:
            return None
        # A date without a zone is in UTC, as all dates of HTTP are.
        seconds = (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _cut(text: str) -> str:
    line = " ".join(text[: 4 * _MAX_WORDS].split())
    return line if len(line) <= _MAX_WORDS else f"{line[:_MAX_WORDS]}…"
