"""Sessions of the handshake era that answer a call as plain JSON, unless it takes long or has more to say.

The SDK answers every call of a session with a stream of events, which costs about as much as all else that
it does for the call. A stream is needed only for what comes before the answer: progress, and questions.
"""

from functools import partial
from http import HTTPStatus
from typing import Any

import anyio
import pydantic_core
from anyio.streams.memory import MemoryObjectReceiveStream
from mcp.server.streamable_http import (
    MCP_SESSION_ID_HEADER,
    REQUEST_STREAM_BUFFER_SIZE,
    EventMessage,
    StreamableHTTPServerTransport,
    check_accept_headers,
)
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCRequest, JSONRPCResponse, jsonrpc_message_adapter
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

__all__ = ["Sessions"]

_CALL = "tools/call"
_PATIENCE = 5.0
"""After how many seconds without a word a call is answered with a stream, and then shows that it lives."""
_STREAM = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]
_ENDED = object()
"""Stands for the end of a session in the middle of a call."""


class Sessions(StreamableHTTPSessionManager):
    """The SDK's, with other sessions."""

    def _admit_session(self, requestor: Any) -> StreamableHTTPServerTransport | None:
        admitted = super()._admit_session(requestor)
        if admitted is None or admitted.mcp_session_id is None:
            return admitted
        session = _Session(
            admitted.mcp_session_id,
            security_settings=self.security_settings,
            idle_timeout=self.session_idle_timeout,
        )
        self._server_instances[admitted.mcp_session_id] = session
        return session


class _Session(StreamableHTTPServerTransport):
    """One session."""

    async def _handle_post_request(
        self, scope: Scope, request: Request, receive: Receive, send: Send
    ) -> None:
        writer, call = self._read_stream_writer, _read_call(await request.body())
        if call is None or writer is None or not all(check_accept_headers(request)):
            await super()._handle_post_request(scope, request, receive, send)
            return
        if not await self._validate_request_headers(request, send):
            return
        answering = str(call.id)
        if answering in self._request_streams:
            twice = self._create_error_response("Request id is in use", HTTPStatus.BAD_REQUEST)
            await twice(scope, receive, send)
            return
        streams = anyio.create_memory_object_stream[EventMessage](REQUEST_STREAM_BUFFER_SIZE)
        self._request_streams[answering] = streams
        metadata = self._message_metadata(
            request, on_request_unanswered=partial(self._terminate_unanswered_request, call.id)
        )
        try:
            await writer.send(SessionMessage(call, metadata=metadata))
            await self._answer(streams[1], scope, receive, send)
        finally:
            await self._clean_up_memory_streams(answering)

    async def _answer(
        self, told: MemoryObjectReceiveStream[EventMessage], scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Send what a call gives: its answer alone, or all that it tells."""
        message = await _next(told)
        if message is _ENDED:
            reason = "The session has ended, or the request id was used again"
            ended = self._create_error_response(reason, HTTPStatus.BAD_REQUEST)
            await ended(scope, receive, send)
        elif isinstance(message, JSONRPCResponse):  # a client that has cancelled may not listen any more
            await self._create_json_response(message)(scope, receive, send)
        else:
            await self._stream(message, told, send)

    async def _stream(
        self, message: JSONRPCMessage | None, told: MemoryObjectReceiveStream[EventMessage], send: Send
    ) -> None:
        session = (MCP_SESSION_ID_HEADER.encode(), str(self.mcp_session_id).encode())
        await send({"type": "http.response.start", "status": 200, "headers": [*_STREAM, session]})
        while not _is_last(message):
            await send({"type": "http.response.body", "body": _event(message), "more_body": True})
            message = await _next(told)
        await send({"type": "http.response.body", "body": _event(message), "more_body": False})


def _read_call(body: bytes) -> JSONRPCRequest | None:
    """Return the call of a tool that a request is; None where it is anything else."""
    if b"tools/call" not in body:
        return None
    try:
        message = jsonrpc_message_adapter.validate_python(pydantic_core.from_json(body), by_name=False)
    except ValueError:  # the SDK says what is wrong with it
        return None
    return message if isinstance(message, JSONRPCRequest) and message.method == _CALL else None


async def _next(told: MemoryObjectReceiveStream[EventMessage]) -> Any:
    """Return the next message; None where there is none for a while, `_ENDED` where there will be none."""
    try:
        with anyio.move_on_after(_PATIENCE):
            return (await told.receive()).message
    except (anyio.EndOfStream, anyio.ClosedResourceError):
        return _ENDED
    return None


def _is_last(message: Any) -> bool:
    return message is _ENDED or isinstance(message, JSONRPCResponse | JSONRPCError)


def _event(message: Any) -> bytes:
    if message is None or message is _ENDED:
        return b": ping\r\n\r\n"
    data: bytes = message.model_dump_json(by_alias=True, exclude_unset=True).encode()
    return b"event: message\r\ndata: " + data + b"\r\n\r\n"
