"""What stands before everything that is served over HTTP, and what a request must be to get past it."""

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import anyio

from toolcrib.crib import GatewaySettings
from toolcrib.gateway.http.rules import Rules

__all__ = ["Guard", "reply"]

Scope = dict[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_OPEN = frozenset({"/health", "/ready"})
"""What may be asked without a token."""
_ALLOWED_HEADERS = (
    b"authorization, content-type, accept, last-event-id, mcp-session-id, mcp-protocol-version, "
    b"mcp-method, mcp-name"
)
_READ = frozenset({b"host", b"origin", b"authorization", b"content-length", b"transfer-encoding"})
_JSON = b"application/json"


class Guard:
    """Lets requests through that have a right name, origin and token, and arrive whole and in time."""

    def __init__(self, app: App, current: Callable[[], tuple[GatewaySettings, Rules]]) -> None:
        """Stand before an application; `current` says what holds at this moment."""
        self._app = app
        self._current = current
        self.leaving = False
        """Whether requests are being broken off, so that their ends are no surprise."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or have it answered."""
        try:
            await self._answer(scope, receive, send)
        except anyio.get_cancelled_exc_class():
            if not self.leaving:  # else nobody waits for this task any more
                raise

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        settings, rules = self._current()
        headers = _single(scope["headers"])
        origin = headers.get(b"origin")
        if origin is not None:
            if not rules.allows_origin(origin):
                await reply(
                    send, 403, f"the origin {origin[:100]!r} is not allowed; see gateway.allowed_origins"
                )
                return
            send = _for_pages(send, origin)
        if not rules.allows_host(headers.get(b"host")):
            said = f"it is not called {headers.get(b'host', '')[:100]!r} here; see gateway.allowed_hosts"
            await reply(send, 421, said)
            return
        if scope["method"] == "OPTIONS" and origin is not None:
            await _preflight(send)
            return
        known = rules.allows_token(headers.get(b"authorization"))
        if not known and scope["path"] not in _OPEN:
            await reply(send, 401, "send the token as 'Authorization: Bearer ...'", _challenge(headers))
            return
        scope["toolcrib.known"] = known
        body = await _body(headers, receive, send, settings)
        if body is not None:
            await self._app(scope, _replay(body, receive), send)


def _single(headers: list[tuple[bytes, bytes]]) -> dict[bytes, str]:
    """Return the headers that are looked at, by name; one that is there twice is what nobody allows."""
    found: dict[bytes, str] = {}
    for name, value in headers:
        if name in _READ:
            text = value.decode("latin-1")
            found[name] = f"{found[name]}, {text}" if name in found else text
    return found


def _challenge(headers: dict[bytes, str]) -> list[tuple[bytes, bytes]]:
    wrong = b', error="invalid_token"' if b"authorization" in headers else b""
    return [(b"www-authenticate", b'Bearer realm="toolcrib"' + wrong)]


async def _body(
    headers: dict[bytes, str], receive: Receive, send: Send, settings: GatewaySettings
) -> bytes | None:
    """Return what a request says; None where it was refused, or its sender is gone."""
    limit = settings.request_bytes
    said = f"a request may have {limit:,} bytes; see gateway.request_bytes"
    length = headers.get(b"content-length", "")
    if length.isdecimal() and len(length) < 20 and int(length) > limit:  # noqa: PLR2004 - digits of any real size
        await reply(send, 413, said, _CLOSE)
        return None
    if not length and b"transfer-encoding" not in headers:
        return b""
    parts: list[bytes] = []
    size = 0
    with anyio.move_on_after(settings.request_timeout):
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return None
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > limit:
                await reply(send, 413, said, _CLOSE)
                return None
            if not message.get("more_body", False):
                return parts[0] if len(parts) == 1 else b"".join(parts)
    late = f"the request did not arrive within {settings.request_timeout:g} s; see gateway.request_timeout"
    await reply(send, 408, late, _CLOSE)
    return None


_CLOSE = [(b"connection", b"close")]


def _replay(body: bytes, receive: Receive) -> Receive:
    told = False

    async def again() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _for_pages(send: Send, origin: str) -> Send:
    """Return what lets a web page read the response."""
    extra = [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-expose-headers", b"mcp-session-id, www-authenticate"),
        (b"vary", b"origin"),
    ]

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *extra]}
        await send(message)

    return sending


async def _preflight(send: Send) -> None:
    allowed = [
        (b"access-control-allow-methods", b"GET, POST, DELETE"),
        (b"access-control-allow-headers", _ALLOWED_HEADERS),
        (b"access-control-max-age", b"600"),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": allowed})
    await send({"type": "http.response.body", "body": b""})


async def reply(
    send: Send, status: int, said: str | dict[str, Any], headers: list[tuple[bytes, bytes]] | None = None
) -> None:
    """Answer with JSON: a fault as `{"error": ...}`, or what is given."""
    body = json.dumps({"error": said} if isinstance(said, str) else said).encode()
    start = [(b"content-type", _JSON), (b"content-length", str(len(body)).encode()), *(headers or ())]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})
