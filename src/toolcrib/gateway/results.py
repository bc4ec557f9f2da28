"""Stores results that are too large to send, under addresses that cannot be guessed; serializes results."""

import hashlib
import json
import logging
import time
from base64 import b64decode
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from secrets import token_urlsafe
from threading import Lock
from typing import Any

import anyio.lowlevel
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pydantic_core import to_json

from toolcrib.concurrency.loop import in_thread
from toolcrib.concurrency.threads import Threads
from toolcrib.errors import StoreError
from toolcrib.execution import Principal
from toolcrib.execution.entries import SharedEntries
from toolcrib.gateway.identity.principals import Account, account_of, reader_of
from toolcrib.model.plain import parse_json

PREFIX = "toolcrib://results/"
"""Prefix of the addresses of stored results."""
_MAX_BYTES = 64 * 2**20
_MAX_AGE = 15 * 60.0
_TEXT = "text/plain"
_LINK = "The whole result, which is too large to be sent at once"
_PREVIEW = 2_000
"""Characters of a stored result that are shown."""
_TURN = 1 << 18
"""Bytes that are serialized between two turns of the event loop."""
_PIECE = 200
"""Cost of a piece besides its length, in bytes."""
_LEVELS = 4
"""Depth of containers down to which a value is split: to the items of a step of a chain."""
_MAX_DEPTH = 100
"""Depth of containers down to which a value is repaired."""


_SHARED = "results"
"""The collection of results in the store that gateways share."""
_SHARING_THREADS = 2
_MAX_SHARED = 16 * 2**20
"""Larger results can be read only where they are."""
_NONCE = bytes(12)
"""Each key seals one result."""
_LOG = logging.getLogger("toolcrib.gateway")


@dataclass(frozen=True, slots=True)
class KeptResult:
    """A stored result: a text, or bytes."""

    uri: str
    data: str | bytes
    mime_type: str
    size: int
    """Size in bytes."""
    owner: Principal | None = None
    """The only principal that can read it."""


class KeptResults:
    """Stores the newest large results, up to a number of bytes and for a number of seconds.

    Over the limit, the oldest results of the account with most bytes are dropped: no account loses one to an
    account with more.

    An address is random, and given to the caller alone; results of a principal with an issuer can be read by
    it alone. Safe to use from many threads.

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
        shared: Callable[[], SharedEntries | None] = lambda: None,
    ) -> None:
        """Store results in memory; `shared` returns the store in which other gateways find them too."""
        self._shared = shared
        self._threads = Threads(_SHARING_THREADS)
        self._max_bytes = max_bytes
        self._max_age = max_age
        self._clock = clock
        self._kept: OrderedDict[str, tuple[float, KeptResult]] = OrderedDict()
        self._bytes: Counter[Account | None] = Counter()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, data: str | bytes, mime_type: str, principal: Principal | None = None) -> str | None:
        """Store a result for a principal and return its address; None if it is larger than the limit."""
        owner = reader_of(principal)
        kept = KeptResult(f"{PREFIX}{token_urlsafe(24)}", data, mime_type, size_of(data), owner)
        if kept.size > self._max_bytes:
            return None
        with self._lock:
            self._kept[kept.uri] = self._clock(), kept
            self._bytes[account_of(owner)] += kept.size
            self._forget()
            is_kept = kept.uri in self._kept
        store = self._shared()
        if is_kept and store is not None and kept.size <= _MAX_SHARED:
            self._threads.submit(partial(self._share, store, kept))
        return kept.uri if is_kept else None

    def _share(self, store: SharedEntries, kept: KeptResult) -> None:
        name, cipher = _sealing(kept.uri)
        is_text = isinstance(kept.data, str)
        data = kept.data.encode("utf-8", "surrogatepass") if isinstance(kept.data, str) else kept.data
        head = to_json({"type": kept.mime_type, "text": is_text, "owner": _facts_of(kept.owner)})
        sealed = cipher.encrypt(_NONCE, b"%d %s%s" % (len(head), head, data), None)
        try:
            store.put_entry(_SHARED, name, sealed, self._max_age)
        except StoreError as error:
            _LOG.warning("other gateways cannot read a large result: %s", error)

    async def find(self, uri: str, principal: Principal | None = None) -> KeptResult | None:
        """Return the result at an address, also one that another gateway has stored.

        Raises:
            StoreError: it is not here, and the store of all gateways cannot be read.
        """
        found, store = self.read(uri, principal), self._shared()
        if found is not None or store is None or not uri.startswith(PREFIX):
            return found
        name, cipher = _sealing(uri)
        sealed = await in_thread(store.entry, _SHARED, name)
        if sealed is None:
            return None
        length, _, rest = cipher.decrypt(_NONCE, sealed, None).partition(b" ")
        head, data = parse_json(rest[: int(length)]), rest[int(length) :]
        owner = reader_of(principal)
        if head["owner"] != _facts_of(owner):
            return None
        held = data.decode("utf-8", "surrogatepass") if head["text"] else data
        return KeptResult(uri, held, head["type"], len(data), owner)

    def read(self, uri: str, principal: Principal | None = None) -> KeptResult | None:
        """Return the result at an address; None if there is none for the principal, or no longer."""
        with self._lock:
            self._forget()
            found = self._kept.get(uri)
        return None if found is None or found[1].owner != reader_of(principal) else found[1]

    def keep_block(
        self, block: Mapping[str, Any], data: str, principal: Principal | None
    ) -> Mapping[str, Any]:
        """Store the data of a block, and return a link to it."""
        kind = _media_type(block)
        held: str | bytes = data
        if kind != _TEXT:
            try:
                held = b64decode(data, validate=True)
            except ValueError:  # a server's own idea of base64
                kind = _TEXT
        size, uri = size_of(held), self.keep(held, kind, principal)
        if uri is None:
            return {"type": "text", "text": f"({kind} of {size:,} bytes, too large to be sent)"}
        return link_to(uri, kind, size)

    def _forget(self) -> None:
        """Drop expired results, and over the limit the oldest of the account with most bytes."""
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


def _sealing(uri: str) -> tuple[str, AESGCM]:
    """Return the name and the cipher of a shared result: who has the database alone cannot read it."""
    digest = hashlib.sha512(uri.encode(errors="replace")).digest()
    return digest[:32].hex(), AESGCM(digest[32:])


def _facts_of(owner: Principal | None) -> list[Any] | None:
    """Return all that a principal is equal by, as JSON."""
    if owner is None:
        return None
    return [owner.issuer, owner.subject, owner.client, sorted(owner.groups), sorted(owner.scopes)]


def size_of(data: str | bytes) -> int:
    """Return the size of data in bytes, of a text as UTF-8.

    >>> size_of("naïve"), size_of(b"naive")
    (6, 5)
    """
    if isinstance(data, bytes) or data.isascii():
        return len(data)
    return len(data.encode("utf-8", "replace"))


def encoded(value: Any) -> str:
    """Serialize a value as compact JSON.

    >>> encoded({"a": [1, None]})
    '{"a":[1,null]}'

    Raises:
        ValueError: JSON cannot carry it; see `sendable`.
    """
    return to_json(value, inf_nan_mode="null", fallback=str).decode()


async def encoded_in_turns(value: Any) -> str:
    """Serialize a value like `encoded`, with turns of the event loop for large values.

    Raises:
        ValueError: as there.
    """
    pieces: list[str] = []
    size = 0
    for piece in _write_pieces(value, _LEVELS):
        pieces.append(piece)
        size += _PIECE + len(piece)
        if size > _TURN:
            size = 0
            await anyio.lowlevel.cancel_shielded_checkpoint()
    return "".join(pieces)


def _write_pieces(value: Any, levels: int) -> Iterator[str]:
    """Yield the JSON of a value in pieces: the members of its outer containers."""
    if levels and type(value) is dict and value:
        for place, (name, member) in enumerate(value.items()):
            yield f"{',' if place else '{'}{encoded(name)}:"
            yield from _write_pieces(member, levels - 1)
        yield "}"
    elif levels and type(value) is list and value:
        for place, member in enumerate(value):
            yield "," if place else "["
            yield from _write_pieces(member, levels - 1)
        yield "]"
    else:
        yield encoded(value)


def sendable(value: Any, depth: int = 0) -> Any:
    r"""Repair a value that `encoded` refuses.

    Invalid characters are escaped, and a value that is nested too deep becomes the text of its JSON.

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
    """Return the summary of a stored result; its address is empty if it could not be stored."""
    return {"bytes": size, "uri": uri or "", "preview": text[:_PREVIEW]}


def _media_type(block: Mapping[str, Any]) -> str:
    if block.get("type") == "text":
        return _TEXT
    resource = block.get("resource")
    holder = resource if block.get("type") == "resource" and isinstance(resource, Mapping) else block
    return str(holder.get("mimeType") or "application/octet-stream")


def block_data(block: Mapping[str, Any], *, texts: bool) -> str:
    """Return the data of a block that counts for its size; texts count only with `texts`."""
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
    """Return the beginning of a stored result, with the address of the whole."""
    where = (
        f"read the whole at {payload['uri']}"
        if payload["uri"]
        else "it ran, and the rest is not kept; ask for less next time"
    )
    return f"{payload['preview']}…\n(This is the beginning of {payload['bytes']:,} bytes; {where}.)"
