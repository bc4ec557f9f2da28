"""Results that are too large to send: kept for a while, under addresses that nobody can guess."""

import json
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from secrets import token_urlsafe
from threading import Lock
from typing import Any

import anyio.lowlevel
from pydantic_core import to_json

__all__ = [
    "PREFIX",
    "KeptResult",
    "KeptResults",
    "encoded",
    "encoded_in_turns",
    "sendable",
    "size_of",
    "truncated",
]

PREFIX = "toolcrib://results/"
"""How the addresses of kept results begin."""
_MAX_BYTES = 64 * 2**20
_MAX_AGE = 15 * 60.0
_PREVIEW = 2_000
"""How many characters of a result that is not sent are shown."""
_TURN = 1 << 18
"""How many bytes are written between two turns of the event loop."""
_PIECE = 200
"""How many bytes it costs to write a piece, however short it is."""
_LEVELS = 4
"""How many containers deep what is written in turns is taken apart: to the items of a step of a chain."""
_MAX_DEPTH = 100
"""How many containers deep a value is sent that cannot be written as it is."""


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

    Raises:
        ValueError: JSON cannot carry it; see `sendable`.
    """
    return to_json(value, inf_nan_mode="null", fallback=str).decode()


async def encoded_in_turns(value: Any) -> str:
    """Return the same as `encoded`, letting the event loop turn while something large is written.

    Raises:
        ValueError: as there.
    """
    pieces: list[str] = []
    size = 0
    for piece in _pieces(value, _LEVELS):
        pieces.append(piece)
        size += _PIECE + len(piece)
        if size > _TURN:
            size = 0
            await anyio.lowlevel.cancel_shielded_checkpoint()
    return "".join(pieces)


def _pieces(value: Any, levels: int) -> Iterator[str]:
    """Yield the JSON of a value, the members of its outer containers one by one."""
    if levels and type(value) is dict and value:
        for place, (name, member) in enumerate(value.items()):
            yield f"{',' if place else '{'}{encoded(name)}:"
            yield from _pieces(member, levels - 1)
        yield "}"
    elif levels and type(value) is list and value:
        for place, member in enumerate(value):
            yield "," if place else "["
            yield from _pieces(member, levels - 1)
        yield "]"
    else:
        yield encoded(value)


def sendable(value: Any, depth: int = 0) -> Any:
    r"""Return a value that `encoded` refuses as one that it takes.

    Characters that no text may hold are escaped, and what is nested too deep is the text of its JSON.

    >>> sendable({"name": "a\ud800"})
    {'name': 'a\\ud800'}
    """
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if not isinstance(value, dict | list):
        return value
    if depth == _MAX_DEPTH:
        try:
            return json.dumps(value, default=str)
        except (RecursionError, ValueError):
            return "(nested too deep to be written)"
    if isinstance(value, list):
        return [sendable(member, depth + 1) for member in value]
    return {sendable(str(name)): sendable(member, depth + 1) for name, member in value.items()}


def truncated(text: str, uri: str | None, size: int) -> dict[str, Any]:
    """Return the summary of a result that is not sent whole; the address is empty where it is not kept."""
    return {"bytes": size, "uri": uri or "", "preview": text[:_PREVIEW]}
