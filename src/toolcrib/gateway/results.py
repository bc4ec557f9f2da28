"""Results that are too large to send: kept for a while, under addresses that nobody can guess."""

import json
import time
from base64 import b64decode
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from secrets import token_urlsafe
from threading import Lock
from typing import Any

import anyio.lowlevel
from pydantic_core import to_json

from toolcrib.execution import Principal
from toolcrib.gateway.identity.principals import PRINCIPAL, Account, account_of, reader_of

PREFIX = "toolcrib://results/"
"""How the addresses of kept results begin."""
_MAX_BYTES = 64 * 2**20
_MAX_AGE = 15 * 60.0
_TEXT = "text/plain"
_LINK = "The whole result, which is too large to be sent at once"
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
    owner: Principal | None = None
    """Whose it is: nobody else can read it."""


class KeptResults:
    """Keeps large results, the newest, up to so many bytes and for so many seconds.

    Where they are too many, the oldest go of whoever has most: nobody loses one to the results of another who
    has more.

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
        self._bytes: Counter[Account | None] = Counter()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, data: str | bytes, mime_type: str) -> str | None:
        """Keep a result and return its address; None where it is larger than all that its owner may keep."""
        owner = reader_of(PRINCIPAL.get())
        kept = KeptResult(f"{PREFIX}{token_urlsafe(24)}", data, mime_type, size_of(data), owner)
        if kept.size > self._max_bytes:
            return None
        with self._lock:
            self._kept[kept.uri] = self._clock(), kept
            self._bytes[account_of(owner)] += kept.size
            self._forget()
            return kept.uri if kept.uri in self._kept else None

    def read(self, uri: str) -> KeptResult | None:
        """Return the result at an address; None where there is none, or none any more."""
        with self._lock:
            self._forget()
            found = self._kept.get(uri)
        return None if found is None or found[1].owner != reader_of(PRINCIPAL.get()) else found[1]

    def linked(self, block: Mapping[str, Any], data: str) -> Mapping[str, Any]:
        """Return a link to what a block holds."""
        kind = _kind(block)
        held: str | bytes = data
        if kind != _TEXT:
            try:
                held = b64decode(data, validate=True)
            except ValueError:  # a server's own idea of base64
                kind = _TEXT
        size, uri = size_of(held), self.keep(held, kind)
        if uri is None:
            return {"type": "text", "text": f"({kind} of {size:,} bytes, too large to be sent)"}
        return link_to(uri, kind, size)

    def _forget(self) -> None:
        """Drop what is too old, and the oldest of whoever has most of what is too much."""
        oldest = self._clock() - self._max_age
        while self._kept and (first := next(iter(self._kept.values())))[0] < oldest:
            self._drop(first[1])
        while self._bytes.total() > self._max_bytes:
            largest = max(self._bytes, key=self._bytes.__getitem__)
            self._drop(next(kept for _, kept in self._kept.values() if account_of(kept.owner) == largest))

    def _drop(self, kept: KeptResult) -> None:
        account = account_of(kept.owner)
        del self._kept[kept.uri]
        self._bytes[account] -= kept.size
        if not self._bytes[account]:
            del self._bytes[account]


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


def _kind(block: Mapping[str, Any]) -> str:
    if block.get("type") == "text":
        return _TEXT
    resource = block.get("resource")
    holder = resource if block.get("type") == "resource" and isinstance(resource, Mapping) else block
    return str(holder.get("mimeType") or "application/octet-stream")


def block_data(block: Mapping[str, Any], *, texts: bool) -> str:
    """Return what makes a block large; of a text nothing where the value holds it too."""
    held: Any = block.get("data")
    if block.get("type") == "text" and texts:
        held = block.get("text")
    if block.get("type") == "resource" and isinstance(block.get("resource"), Mapping):
        held = block["resource"].get("blob")
    return held if isinstance(held, str) else ""


def link_to(uri: str, kind: str, size: int) -> dict[str, Any]:
    """Return the block that links to a kept result."""
    return {
        "type": "resource_link",
        "uri": uri,
        "name": uri.rpartition("/")[2],
        "description": _LINK,
        "mimeType": kind,
        "size": size,
    }


def preview_of(payload: Mapping[str, Any]) -> str:
    """Return the beginning of a result that is kept, and where the whole is."""
    where = (
        f"read the whole at {payload['uri']}"
        if payload["uri"]
        else "it ran, and the rest is not kept; ask for less next time"
    )
    return f"{payload['preview']}…\n(This is the beginning of {payload['bytes']:,} bytes; {where}.)"
