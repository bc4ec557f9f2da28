"""Session ids that carry the state of their session, sealed, so that another gateway can restore it.

A session of the handshake era is its client's part of `initialize`, and what was sent over it since. With a
key that several workers or gateways share, its id is the first, encrypted. Where the session itself is not,
because its worker has ended or a load balancer has chosen another gateway, the same `initialize` makes it
anew. What was sent since is lost with the session's holder: subscriptions of resources, the log level, and
calls that run.
"""

import json
import secrets
import time
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from toolcrib.concurrency.loop import in_thread
from toolcrib.concurrency.lru import LruCache
from toolcrib.errors import StoreError
from toolcrib.execution.entries import SharedEntries
from toolcrib.gateway.identity.principals import Account

_NONCE = 12
_MAX_ID = 4_096
"""Longest session id; proxies bound the headers of a request."""
_MAX_NAME = 200
_MAX_STATE = 64 * 1024
_LIFETIME = 24 * 60 * 60.0
"""Seconds for which a session can be restored."""
_SEEN = 10_000
_ENDED = "sessions-ended"
"""The collection of ended sessions in the store that gateways or workers share."""


@dataclass(frozen=True, slots=True)
class SealedSession:
    """The content of a session id."""

    session: str
    """The id of the session at its holder."""
    holder: str
    """The gateway or the generation of workers that made it."""
    worker: int
    began: float
    """Seconds since 1970."""
    params: dict[str, Any]
    """The parameters of its `initialize`."""

    @property
    def is_restorable(self) -> bool:
        """Whether it is young enough to be restored."""
        return time.time() - self.began < _LIFETIME


class SessionSeal:
    """Seals the state of sessions into their ids, and remembers those that their clients have ended."""

    def __init__(
        self,
        key: bytes,
        holder: str,
        worker: int,
        shared: Callable[[], SharedEntries | None],
        has_other_holders: Callable[[], bool],
    ) -> None:
        """Seal for a holder of sessions; `shared` returns the store in which all find the ended ones.

        `has_other_holders` returns whether another gateway may have restored a session that is held here.
        """
        self.has_other_holders = has_other_holders
        self._cipher = AESGCM(sha256(b"toolcrib session" + key).digest())
        self.holder, self.worker, self._shared = holder, worker, shared
        self._opened: LruCache[tuple[str, str, Account | None], SealedSession] = LruCache(_SEEN)
        self._ended: LruCache[str, bool] = LruCache(_SEEN)

    def seal(self, session: str, place: str, account: Account | None, params: dict[str, Any]) -> str | None:
        """Return the id of a session for its client; None if its state is too long for one.

        It is valid at one place, the name of an endpoint, and for one account. Of a client that says much of
        itself only the name, the version and the capabilities are kept.
        """
        for kept in (params, _shorten(params)):
            content = json.dumps([session, self.holder, self.worker, time.time(), kept]).encode()
            nonce = secrets.token_bytes(_NONCE)
            sealed = nonce + self._cipher.encrypt(nonce, zlib.compress(content), _bind(place, account))
            name = urlsafe_b64encode(sealed).decode().rstrip("=")
            if len(name) <= _MAX_ID:
                return name
        return None

    def open(self, name: str, place: str, account: Account | None) -> SealedSession | None:
        """Return the content of an id; None if it is not one, or that of another place or account."""
        key = name, place, account
        found = self._opened.get(key)
        if found is None and len(name) <= _MAX_ID:
            try:
                raw = urlsafe_b64decode(name + "=" * (-len(name) % 4))
                content = self._cipher.decrypt(raw[:_NONCE], raw[_NONCE:], _bind(place, account))
            except (ValueError, InvalidTag):
                return None
            found = SealedSession(*json.loads(zlib.decompressobj().decompress(content, _MAX_STATE)))
            self._opened.put(key, found)
        return found

    async def note_ended(self, name: str) -> None:
        """Remember that a client has ended a session, so that it is not restored.

        Raises:
            StoreError: the other gateways cannot be told; it has not ended.
        """
        digest, store = sha256(name.encode()).hexdigest(), self._shared()
        if store is not None:
            await in_thread(store.put_entry, _ENDED, digest, b"", _LIFETIME)
        self._ended.put(digest, value=True)

    async def has_ended(self, name: str) -> bool:
        """Return whether a client has ended a session, as far as that is known."""
        digest, store = sha256(name.encode()).hexdigest(), self._shared()
        if digest in self._ended or store is None:
            return digest in self._ended
        try:
            return await in_thread(store.entry, _ENDED, digest) is not None
        except StoreError:  # it can be restored all the same, as without such a store
            return False


def _shorten(params: dict[str, Any]) -> dict[str, Any]:
    info = params.get("clientInfo")
    known = info if isinstance(info, dict) else {}
    about = {name: str(known.get(name, ""))[:_MAX_NAME] for name in ("name", "version")}
    kept: dict[str, Any] = {
        name: params[name] for name in ("protocolVersion", "capabilities") if name in params
    }
    return {**kept, "clientInfo": about}


def _bind(place: str, account: Account | None) -> bytes:
    return json.dumps([place, account]).encode()
