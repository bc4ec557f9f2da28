"""Results that are too large to send: kept for a while, under addresses that nobody can guess."""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from secrets import token_urlsafe
from threading import Lock
from typing import Any

from pydantic_core import to_json

__all__ = ["PREFIX", "KeptResult", "KeptResults", "encoded", "size_of", "truncated"]

PREFIX = "toolcrib://results/"
"""How the addresses of kept results begin."""
_MAX_BYTES = 64 * 2**20
_MAX_AGE = 15 * 60.0
_PREVIEW = 2_000
"""How many characters of a result that is not sent are shown."""


@dataclass(frozen=True, slots=True)
class KeptResult:
    """A result as it is read: a text, or bytes of another kind."""

    uri: str
    data: str | bytes
    mime_type: str
    size: int
    """How many bytes it takes."""


class KeptResults:
    """Keeps large results, the newest, up to so many bytes and for so many seconds.

    Whoever knows the address may read one; it is random, and given to the caller alone. Safe to use from many
    threads.

    >>> kept = KeptResults()
    >>> uri = kept.keep("a long text", "text/plain")
    >>> kept.read(uri).data
    'a long text'
    """

    def __init__(
        self,
        max_bytes: int = _MAX_BYTES,
        max_age: float = _MAX_AGE,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_bytes = max_bytes
        self._max_age = max_age
        self._clock = clock
        self._kept: OrderedDict[str, tuple[float, KeptResult]] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, data: str | bytes, mime_type: str) -> str | None:
        """Keep a result and return its address; None where it is larger than all that may be kept."""
        kept = KeptResult(f"{PREFIX}{token_urlsafe(24)}", data, mime_type, size_of(data))
        if kept.size > self._max_bytes:
            return None
        with self._lock:
            self._kept[kept.uri] = self._clock(), kept
            self._bytes += kept.size
            self._forget()
        return kept.uri

    def read(self, uri: str) -> KeptResult | None:
        """Return the result at an address; None where there is none, or none any more."""
        with self._lock:
            self._forget()
            found = self._kept.get(uri)
        return None if found is None else found[1]

    def _forget(self) -> None:
        """Drop what is too old, and the oldest of what is too much."""
        oldest = self._clock() - self._max_age
        while self._kept:
            since, first = next(iter(self._kept.values()))
            if since >= oldest and self._bytes <= self._max_bytes:
                return
            del self._kept[first.uri]
            self._bytes -= first.size


def size_of(data: str | bytes) -> int:
    """Return how many bytes something takes when it is sent or read, a text as UTF-8.

    >>> size_of("naïve"), size_of(b"naive")
    (6, 5)
    """
    if isinstance(data, bytes) or data.isascii():
        return len(data)
    return len(data.encode("utf-8", "replace"))


def encoded(value: Any) -> str:
    """Return a value as compact JSON.

    >>> encoded({"a": [1, None]})
    '{"a":[1,null]}'
    """
    return to_json(value, inf_nan_mode="null", fallback=str).decode()


def truncated(text: str, uri: str | None, size: int) -> dict[str, Any]:
    """Return the summary of a result that is not sent whole; the address is empty where it is not kept."""
    return {"bytes": size, "uri": uri or "", "preview": text[:_PREVIEW]}
