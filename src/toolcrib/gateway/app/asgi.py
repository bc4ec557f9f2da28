"""ASGI types and responses, and the record of a request that is being answered."""

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import anyio.lowlevel
from anyio import CancelScope
from mcp.server.context import ServerRequestContext
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp_types import CONNECTION_CLOSED
from pydantic_core import from_json

from toolcrib.execution import Principal
from toolcrib.execution.principal import SubjectToken
from toolcrib.gateway.addresses import EndpointAddress

Scope = dict[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

SESSION_HEADER = MCP_SESSION_ID_HEADER.encode()
CLOSE: Headers = [(b"connection", b"close")]
"""Header of a response after which nothing more is read from the connection."""
TOO_LARGE = "a request may have at most {:,} bytes; see gateway.request_bytes"
"""Error for a request that is longer than the settings allow."""
_JSON = b"application/json"
PING = b": ping\r\n\r\n"
"""Comment that keeps a stream of events alive."""
STREAM: Headers = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]
"""Headers of a stream of events."""


async def reply(
    send: Send, status: int, content: str | dict[str, Any], headers: Headers | None = None
) -> None:
    """Send a JSON response; a text is sent as `{"error": ...}`."""
    body = json.dumps({"error": content} if isinstance(content, str) else content).encode()
    await send_bytes(send, status, body, _JSON, headers)


async def send_bytes(
    send: Send, status: int, body: bytes, kind: bytes, headers: Headers | None = None
) -> None:
    """Send a response with a body of the given content type."""
    start = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), *(headers or ())]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})


def make_closed_error(request_id: Any, text: str) -> dict[str, Any]:
    """Return the error response to a JSON-RPC request whose connection is closed."""
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": CONNECTION_CLOSED, "message": text}}


def encode_event(message: dict[str, Any]) -> bytes:
    """Return a JSON-RPC message as an event of a stream."""
    return b"event: message\r\ndata: " + json.dumps(message).encode() + b"\r\n\r\n"


class HttpRequest:
    """An HTTP request that is being answered, with its response, the token that it runs under and its calls.

    A call may continue after the response: as a task, or while it waits for input of the client. Both belong
    to the request whose token they run under (`background_scopes`), and end when that is revoked.
    """

    # Defaults of the class: most requests set few of these, and one is made for every call.
    address: EndpointAddress | None = None
    """The endpoint; None for other paths."""
    principal: Principal | None = None
    """The principal that the token named when the request began."""
    subject_token: SubjectToken | None = None
    """The token, if the issuer of logins made it."""
    extra_headers: Headers = []  # noqa: RUF012 - it is replaced, never changed
    """Headers that are added to the response."""
    body = b""
    """The body, once it has been read."""
    is_subscription = False
    """Whether the response is a stream without an end, so that it must not outlive its token."""
    is_answered = False
    """Whether the response is complete, so that only `background_scopes` are left."""
    elsewhere: int | None = None
    """The worker that holds what the request is about, and answers it; what is sent here is dropped."""
    still_allowed: Callable[["HttpRequest"], Awaitable[bool]]
    """Returns whether the token would be accepted now."""
    _head: Message | None = None
    _is_complete = False

    def __init__(self, send: Send, headers: dict[bytes, str]) -> None:
        self._send = send
        self.headers = headers
        """The headers that the gateway itself reads, by name."""
        self.cancel_scope = CancelScope()
        """Scope in which the request is answered."""
        self.background_scopes: set[CancelScope] = set()
        """Scopes of the tasks and the waiting calls that it has started."""

    @property
    def authorization(self) -> str | None:
        """The `Authorization` header."""
        return self.headers.get(b"authorization")

    async def send(self, message: Message) -> None:
        """Send a part of the response; of a subscription only while its token is accepted."""
        if self.elsewhere is not None:
            return
        if self.is_subscription and not await self.still_allowed(self):
            self.cancel_scope.cancel()
            await anyio.lowlevel.checkpoint()  # the cancellation takes effect here, before anything is sent
            return  # where it is shielded from that
        if message["type"] == "http.response.start":
            if self.extra_headers:
                message = {**message, "headers": [*message.get("headers", ()), *self.extra_headers]}
            self._head = message
        elif not message.get("more_body", False):
            self._is_complete = True
        await self._send(message)

    async def break_off(self, text: str, status: int = 503) -> None:
        """End the response early; a JSON-RPC request without a response gets an error with the reason."""
        self.is_subscription = False  # the closing message may be sent without a valid token
        if self._is_complete:
            return
        request_id = _request_id(self.body)
        if self._head is None:
            content: Any = text if request_id is None else make_closed_error(request_id, text)
            await reply(self.send, status, content, CLOSE)
        elif _is_event_stream(self._head):
            last = b"" if request_id is None else encode_event(make_closed_error(request_id, text))
            await self.send({"type": "http.response.body", "body": last})

    def cancel(self) -> None:
        """Cancel the request, and the tasks and calls that run under its token."""
        for scope in (self.cancel_scope, *self.background_scopes):
            scope.cancel()


def http_request_of(context: ServerRequestContext[Any, Any]) -> HttpRequest | None:
    """Return the HTTP request behind a request of MCP; None on a pipe."""
    found = None if context.request is None else context.request.scope.get("toolcrib.request")
    return found if isinstance(found, HttpRequest) else None


def name_at(name: str, worker: int | None) -> str:
    """Return a name that says which worker has what it names; the name itself where there is one process.

    >>> name_at("b7", None), name_at("b7", 2)
    ('b7', '2.b7')
    """
    return name if worker is None else f"{worker}.{name}"


def send_elsewhere(request: HttpRequest | None, name: str, worker: int | None) -> None:
    """Have a request without a session answered by the worker of a name, unless that is this one.

    One with a session stays: it would come back to the worker that holds the session, again and again.
    """
    if request is None or worker is None or SESSION_HEADER in request.headers:
        return
    number, dot, _ = name.partition(".")
    if dot and number.isdecimal() and int(number) != worker:
        request.elsewhere = int(number)


def _is_event_stream(head: Message) -> bool:
    kinds = [value for name, value in head.get("headers", ()) if name.lower() == b"content-type"]
    return any(kind.partition(b";")[0].strip() == b"text/event-stream" for kind in kinds)


def _request_id(body: bytes) -> Any:
    """Return the id of a JSON-RPC request; None if the body is no such request."""
    try:
        message = from_json(body)
    except ValueError:
        return None
    return message.get("id") if isinstance(message, dict) and "method" in message else None
