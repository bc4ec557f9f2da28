"""Sessions of the handshake era that answer a call as plain JSON, unless it takes long or has more to say.

The SDK answers every call of a session with a stream of events, which costs about as much as all else that
it does for the call. A stream is needed only for what comes before the answer: progress, and questions.
"""

from contextlib import suppress
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
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.shared.message import SessionMessage
from mcp_types import (
    CONNECTION_CLOSED,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from toolcrib.gateway.http.asgi import PING, STREAM
from toolcrib.gateway.http.exchanges import answer_call

__all__ = ["Sessions"]

_CALL = "tools/call"
_VERSION = MCP_PROTOCOL_VERSION_HEADER.encode()
_Told = MemoryObjectReceiveStream[EventMessage]


class Sessions(StreamableHTTPSessionManager):
    """The SDK's, with other sessions."""

    patience = 5.0
    """After how many silent seconds a call is answered with a stream, and then shows that it lives."""

    def has(self, session_id: str) -> bool:
        """Return whether a session is here."""
        return session_id in self._server_instances

    async def end(self) -> None:
        """End every session; calls in the middle are answered with an error."""
        for session_id, session in list(self._server_instances.items()):
            await self._discard_session(session_id, session)

    async def handle_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, whose body the guard has read, and found small enough."""
        version = next((value for name, value in scope["headers"] if name == _VERSION), b"").decode("latin-1")
        if version and version not in HANDSHAKE_PROTOCOL_VERSIONS:
            request = Request(scope, receive)
            if await answer_call(self.app, self._lifespan_state, request, send, self.patience):
                return
        await self._handle_request(scope, receive, send)

    def _admit_session(self, requestor: Any) -> StreamableHTTPServerTransport | None:
        admitted = super()._admit_session(requestor)
        if admitted is None or admitted.mcp_session_id is None:
            return admitted
        session = _Session(
            admitted.mcp_session_id,
            security_settings=self.security_settings,
            idle_timeout=self.session_idle_timeout,
            patience=self.patience,
        )
        self._server_instances[admitted.mcp_session_id] = session
        return session


class _Session(StreamableHTTPServerTransport):
    """One session."""

    def __init__(self, session_id: str, *, patience: float, **options: Any) -> None:
        super().__init__(session_id, **options)
        self._patience = patience

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
            with suppress(
                anyio.ClosedResourceError, anyio.BrokenResourceError
            ):  # then the answer is an error
                await writer.send(SessionMessage(call, metadata=metadata))
            message = await self._next(call.id, streams[1])
            if isinstance(message, JSONRPCResponse):
                await self._create_json_response(message)(scope, receive, send)
            else:  # more will come; or it is an error, for which a client that cancelled may not listen
                await self._stream(call.id, message, streams[1], send)
        finally:
            await self._clean_up_memory_streams(answering)

    async def _stream(self, call: RequestId, message: JSONRPCMessage | None, told: _Told, send: Send) -> None:
        session = (MCP_SESSION_ID_HEADER.encode(), str(self.mcp_session_id).encode())
        await send({"type": "http.response.start", "status": 200, "headers": [*STREAM, session]})
        while not isinstance(message, JSONRPCResponse | JSONRPCError):
            await send({"type": "http.response.body", "body": _event(message), "more_body": True})
            message = await self._next(call, told)
        await send({"type": "http.response.body", "body": _event(message), "more_body": False})

    async def _next(self, call: RequestId, told: _Told) -> JSONRPCMessage | None:
        """Return the next message of a call; None where there is none for a while."""
        try:
            with anyio.move_on_after(self._patience):
                return (await told.receive()).message
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            ended = ErrorData(code=CONNECTION_CLOSED, message="the session ended before the call did")
            return JSONRPCError(jsonrpc="2.0", id=call, error=ended)
        return None


def _read_call(body: bytes) -> JSONRPCRequest | None:
    """Return the call of a tool that a request is; None where it is anything else."""
    if b"tools/call" not in body:
        return None
    try:
        message = jsonrpc_message_adapter.validate_python(pydantic_core.from_json(body), by_name=False)
    except ValueError:  # the SDK says what is wrong with it
        return None
    return message if isinstance(message, JSONRPCRequest) and message.method == _CALL else None


def _event(message: JSONRPCMessage | None) -> bytes:
    if message is None:
        return PING
    data = message.model_dump_json(by_alias=True, exclude_unset=True).encode()
    return b"event: message\r\ndata: " + data + b"\r\n\r\n"
