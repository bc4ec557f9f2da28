"""Sessions of the handshake era that answer a call as plain JSON, unless it takes long or has more to say.

The SDK answers every call of a session with a stream of events, which costs about as much as all else that
it does for the call. A stream is needed only for what comes before the answer: progress, and questions.
"""

import asyncio  # noqa: TID251 - anyio has no timers, and no tasks that a timer could start
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http import HTTPStatus
from typing import Any

import anyio
import pydantic_core
from anyio.streams.memory import MemoryObjectReceiveStream
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
from mcp.server.streamable_http import (
    MCP_SESSION_ID_HEADER,
    REQUEST_STREAM_BUFFER_SIZE,
    EventMessage,
    StreamableHTTPServerTransport,
    check_accept_headers,
)
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.inbound import (
    MCP_PROTOCOL_VERSION_HEADER,
    InboundModernRoute,
    classify_inbound_request,
    find_duplicated_routing_header,
)
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp.shared.transport_context import TransportContext
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
from pydantic_core import from_json
from starlette.requests import Request
from starlette.types import Scope

from toolcrib.gateway.http.asgi import PING, STREAM, Headers, Receive, Send, send_bytes

__all__ = ["SessionManager", "answer_call"]

_CALL = "tools/call"
_VERSION = MCP_PROTOCOL_VERSION_HEADER.encode()
_Told = MemoryObjectReceiveStream[EventMessage]
_AT_ONCE = 0.02
"""Seconds within which most calls end; nobody watches over those."""


class SessionManager(StreamableHTTPSessionManager):
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

    async def _stream(
        self, call: RequestId, message: JSONRPCMessage | None, events: _Told, send: Send
    ) -> None:
        session = (MCP_SESSION_ID_HEADER.encode(), str(self.mcp_session_id).encode())
        await send({"type": "http.response.start", "status": 200, "headers": [*STREAM, session]})
        while not isinstance(message, JSONRPCResponse | JSONRPCError):
            await send({"type": "http.response.body", "body": _event(message), "more_body": True})
            message = await self._next(call, events)
        await send({"type": "http.response.body", "body": _event(message), "more_body": False})

    async def _next(self, call: RequestId, events: _Told) -> JSONRPCMessage | None:
        """Return the next message of a call; None where there is none for a while."""
        try:
            with anyio.move_on_after(self._patience):
                return (await events.receive()).message
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


async def answer_call(server: Server[Any], state: Any, request: Request, send: Send, patience: float) -> bool:
    """Answer a plain call of a tool, and return whether it was one; if not, nothing was answered.

    The SDK answers calls of the stateless era with two tasks and a stream each. Here a call runs in the
    task of its request, and one that does not end at once gets a task that watches for the client to
    leave; everything else is left to the SDK.

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
        payload = from_json(body)
        call = JSONRPCRequest.model_validate(payload)
    except ValueError:
        return None
    verdict = classify_inbound_request(payload, headers=dict(headers))
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
