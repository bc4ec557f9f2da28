"""The words of ASGI: how an application is asked, and what it answers with."""

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from mcp_types import CONNECTION_CLOSED
from pydantic_core import from_json

Scope = dict[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

CLOSE: Headers = [(b"connection", b"close")]
"""Says that nothing more is read from a connection."""
TOO_LARGE = "a request may have {:,} bytes; see gateway.request_bytes"
"""What a request is refused with that is longer than the settings allow."""
_JSON = b"application/json"
PING = b": ping\r\n\r\n"
"""What a stream of events shows that it lives with."""
STREAM: Headers = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]
"""What says that an answer is a stream of events."""


async def reply(
    send: Send, status: int, content: str | dict[str, Any], headers: Headers | None = None
) -> None:
    """Answer with JSON: a fault as `{"error": ...}`, or what is given."""
    body = json.dumps({"error": content} if isinstance(content, str) else content).encode()
    await send_bytes(send, status, body, _JSON, headers)


async def send_bytes(
    send: Send, status: int, body: bytes, kind: bytes, headers: Headers | None = None
) -> None:
    """Answer with a body of some kind."""
    start = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), *(headers or ())]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})


def error(request_id: Any, text: str) -> dict[str, Any]:
    """Return what a JSON-RPC request is answered with that is broken off."""
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": CONNECTION_CLOSED, "message": text}}


def event(message: dict[str, Any]) -> bytes:
    """Return a JSON-RPC message as one of a stream of events."""
    return b"event: message\r\ndata: " + json.dumps(message).encode() + b"\r\n\r\n"


class ResponseSender:
    """Sends a response, and knows how far it is, so that it can be broken off."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._begun: Message | None = None
        self._whole = False

    async def __call__(self, message: Message) -> None:
        """Send a part of it."""
        if message["type"] == "http.response.start":
            self._begun = message
        elif not message.get("more_body", False):
            self._whole = True
        await self._send(message)

    async def break_off(self, asked: bytes, text: str, status: int = 503) -> None:
        """End it in the middle; a JSON-RPC request that waits for its answer is answered with the reason."""
        if self._whole:
            return
        request_id = _id_of(asked)
        if self._begun is None:
            content: Any = text if request_id is None else error(request_id, text)
            await reply(self, status, content, CLOSE)
        elif STREAM[0] in _kinds(self._begun):
            last = b"" if request_id is None else event(error(request_id, text))
            await self({"type": "http.response.body", "body": last})


def _kinds(begun: Message) -> Headers:
    """Return what kind of response it is, without parameters such as the charset."""
    return [(name.lower(), value.partition(b";")[0].strip()) for name, value in begun.get("headers", ())]


def _id_of(asked: bytes) -> Any:
    """Return the id of a JSON-RPC request; None where it is none."""
    try:
        message = from_json(asked)
    except ValueError:
        return None
    return message.get("id") if isinstance(message, dict) and "method" in message else None
