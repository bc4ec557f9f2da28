"""Calls of the stateless era: each a request by itself, answered as JSON unless it has more to say.

The SDK answers them so too, by two tasks and a stream for each call. Here a call runs in the task of its
request, and one that does not end at once beside a task that watches for the client to leave; everything but
a plain call is left to the SDK.
"""

import asyncio  # noqa: TID251 - anyio has no timers, and no tasks that a timer could start
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio
from mcp.server._streamable_http_modern import (
    _mcp_param_rejection,
    _SingleExchangeDispatchContext,
    _sse_event,
    _to_jsonrpc_response,
    _write,
)
from mcp.server.connection import Connection
from mcp.server.lowlevel import Server
from mcp.server.runner import ServerRunner, aclose_shielded
from mcp.server.streamable_http import check_accept_headers
from mcp.shared.inbound import InboundModernRoute, classify_inbound_request, find_duplicated_routing_header
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types import JSONRPCError, JSONRPCRequest, JSONRPCResponse
from pydantic_core import from_json
from starlette.requests import Request

from toolcrib.gateway.http.asgi import PING, STREAM, Headers, Receive, Send, send_bytes

__all__ = ["answer_call"]

_AT_ONCE = 0.02
"""Seconds within which most calls end; nobody watches over those."""


async def answer_call(server: Server[Any], state: Any, request: Request, send: Send, patience: float) -> bool:
    """Answer a plain call of a tool, and return whether it was one; if not, nothing was answered.

    Args:
        server: whose tool it is.
        state: what the server's lifespan gave.
        request: the request, whose body is in its scope.
        send: takes the answer.
        patience: after how many silent seconds it is answered with a stream, and shows that it lives.
    """
    found = _read(request)
    if found is None:
        return False
    call, verdict = found
    if await _mcp_param_rejection(server, request, call, verdict, state) is not None:
        return False
    answer = _Answer(send, patience)
    connection = Connection.from_envelope(
        verdict.protocol_version, verdict.client_info, verdict.client_capabilities
    )
    runner = ServerRunner(server, connection, state)
    given = None
    try:
        with anyio.CancelScope() as scope, answer.watched(request.receive, scope):
            asked = runner.on_request(_context(call, request, answer), call.method, call.params)
            given = await _to_jsonrpc_response(call.id, asked)
        if given is not None:  # else the client has left
            await answer.end(given, request)
    finally:
        await aclose_shielded(connection)
    return True


def _context(call: JSONRPCRequest, request: Request, answer: "_Answer") -> _SingleExchangeDispatchContext:
    """Return what the server knows of where a call came from."""
    return _SingleExchangeDispatchContext(
        transport=TransportContext(kind="streamable-http", can_send_request=False, headers=request.headers),
        request_id=call.id,
        message_metadata=ServerMessageMetadata(request_context=request),
        progress_token=progress_token_from_params(call.params),
        sink=answer,  # type: ignore[arg-type] # it uses `send` alone
    )


def _read(request: Request) -> tuple[JSONRPCRequest, InboundModernRoute] | None:
    """Return the call that a request is, and who makes it; None where it is anything else, or wrong."""
    kind = request.headers.get("content-type", "")
    is_plain = request.method == "POST" and kind.startswith("application/json")
    if not is_plain or not all(check_accept_headers(request)):
        return None
    body, headers = request.scope["toolcrib.body"], _routing(request.scope["headers"])
    if b"tools/call" not in body or find_duplicated_routing_header(headers) is not None:
        return None
    try:
        said = from_json(body)
        call = JSONRPCRequest.model_validate(said)
    except ValueError:
        return None
    verdict = classify_inbound_request(said, headers=dict(headers))
    if call.method != "tools/call" or not isinstance(verdict, InboundModernRoute):
        return None
    return call, verdict


def _routing(headers: Headers) -> list[tuple[str, str]]:
    """Return the headers that say what a request is."""
    return [
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, value in headers
        if name.startswith(b"mcp-")
    ]


class _Answer:
    """What a call is answered with: JSON, or a stream once it has anything to say before that."""

    def __init__(self, send: Send, patience: float) -> None:
        self._send, self._patience = send, patience
        self._is_stream = False
        self._watcher: asyncio.Task[None] | None = None

    async def send(self, event: bytes) -> None:
        """Send something before the answer."""
        if not self._is_stream:
            self._is_stream = True
            await self._send({"type": "http.response.start", "status": 200, "headers": STREAM})
        await self._send({"type": "http.response.body", "body": event, "more_body": True})

    @contextmanager
    def watched(self, receive: Receive, scope: anyio.CancelScope) -> Iterator[None]:
        """Let a call of the block that does not end at once be watched over, in a task of its own."""
        # A task group for each call would take longer than all else that is done here.
        timer = asyncio.get_running_loop().call_later(_AT_ONCE, self._begin_watch, receive, scope)
        try:
            yield
        finally:
            timer.cancel()
            if self._watcher is not None:
                self._watcher.cancel()

    def _begin_watch(self, receive: Receive, scope: anyio.CancelScope) -> None:
        self._watcher = asyncio.get_running_loop().create_task(self._watch(receive, scope))

    async def _watch(self, receive: Receive, scope: anyio.CancelScope) -> None:
        """End the call when the client leaves; show that it lives meanwhile."""
        while True:
            with anyio.move_on_after(self._patience):
                while (await receive())["type"] != "http.disconnect":
                    pass
                scope.cancel()
                return
            await self.send(PING)

    async def end(self, given: JSONRPCResponse | JSONRPCError, request: Request) -> None:
        """Send the answer."""
        if self._is_stream:
            await self._send({"type": "http.response.body", "body": _sse_event(given), "more_body": False})
        elif isinstance(given, JSONRPCResponse):
            body = given.model_dump_json(by_alias=True, exclude_none=True).encode()
            await send_bytes(self._send, 200, body, b"application/json")
        else:
            await _write(given, request.scope, request.receive, self._send)
