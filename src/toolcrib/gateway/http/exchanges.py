"""Calls of the stateless era: each a request by itself, answered as JSON unless it has more to say.

The SDK answers them so too, by two tasks and a stream for each call. Here a call runs in the task of its
request, beside one that watches for the client to leave; everything but a plain call is left to the SDK.
"""

import json
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
from mcp.server.runner import serve_one
from mcp.server.streamable_http import check_accept_headers
from mcp.shared.inbound import InboundModernRoute, classify_inbound_request, find_duplicated_routing_header
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types import JSONRPCError, JSONRPCRequest, JSONRPCResponse
from pydantic import ValidationError
from starlette.requests import Request

from toolcrib.gateway.http.asgi import PING, STREAM, Receive, Send, send_bytes

__all__ = ["answer_call"]


async def answer_call(server: Server[Any], state: Any, request: Request, send: Send, patience: float) -> bool:
    """Answer a plain call of a tool, and return whether it was one; if not, nothing was answered.

    Args:
        server: whose tool it is.
        state: what the server's lifespan gave.
        request: the request, whose body has not been read, or is kept.
        send: takes the answer.
        patience: after how many silent seconds it is answered with a stream, and shows that it lives.
    """
    call, said = await _read(request)
    if call is None:
        return False
    verdict = classify_inbound_request(said, headers=dict(request.headers))
    if not isinstance(verdict, InboundModernRoute):
        return False
    if await _mcp_param_rejection(server, request, call, verdict, state) is not None:
        return False
    answer = _Answer(send, patience)
    connection = Connection.from_envelope(
        verdict.protocol_version, verdict.client_info, verdict.client_capabilities
    )
    context = _SingleExchangeDispatchContext(
        transport=TransportContext(kind="streamable-http", can_send_request=False, headers=request.headers),
        request_id=call.id,
        message_metadata=ServerMessageMetadata(request_context=request),
        progress_token=progress_token_from_params(call.params),
        sink=answer,  # type: ignore[arg-type] # it uses `send` alone
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(answer.watch, request.receive, tasks.cancel_scope)
        given = await _to_jsonrpc_response(
            call.id,
            serve_one(server, context, call.method, call.params, connection=connection, lifespan_state=state),
        )
        await answer.end(given, request)
        tasks.cancel_scope.cancel()
    return True


async def _read(request: Request) -> tuple[JSONRPCRequest | None, Any]:
    """Return the call that a request is, and as it came; None where it is anything else, or wrong."""
    kind = request.headers.get("content-type", "")
    is_plain = request.method == "POST" and kind.startswith("application/json")
    if not is_plain or not all(check_accept_headers(request)):
        return None, None
    body = await request.body()
    if b"tools/call" not in body or find_duplicated_routing_header(request.headers.items()) is not None:
        return None, None
    try:
        said = json.loads(body)
        call = JSONRPCRequest.model_validate(said)
    except (ValidationError, ValueError, RecursionError):
        return None, None
    return (call if call.method == "tools/call" else None), said


class _Answer:
    """What a call is answered with: JSON, or a stream once it has anything to say before that."""

    def __init__(self, send: Send, patience: float) -> None:
        self._send, self._patience = send, patience
        self._is_stream = False

    async def send(self, event: bytes) -> None:
        """Send something before the answer."""
        if not self._is_stream:
            self._is_stream = True
            await self._send({"type": "http.response.start", "status": 200, "headers": STREAM})
        await self._send({"type": "http.response.body", "body": event, "more_body": True})

    async def watch(self, receive: Receive, scope: anyio.CancelScope) -> None:
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
