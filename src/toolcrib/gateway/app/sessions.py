"""Sessions of the handshake era that answer a request as plain JSON, unless it takes long or has more to say.

The SDK answers every request of a session with a stream of events, which costs about as much as all else that
it does for a call. A stream is needed only for what comes before the answer: progress, and questions. Where
there can be no questions, a request does without the SDK's tasks too.

A request ends when the connection that it came over does: this gateway numbers no events, so no client can
come back for the answer with `Last-Event-ID`, and work for nobody would keep the slots of servers taken.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import anyio
import pydantic_core
from anyio.streams.memory import MemoryObjectReceiveStream
from mcp.server.connection import Connection
from mcp.server.lowlevel import Server
from mcp.server.runner import ServerRunner
from mcp.server.streamable_http import (
    MCP_SESSION_ID_HEADER,
    REQUEST_CANCELLED,
    EventMessage,
    check_accept_headers,
)
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.shared.jsonrpc_dispatcher import cancelled_request_id_from_params
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_REQUEST,
    ClientCapabilities,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.types import Scope

from toolcrib.concurrency.background import Background
from toolcrib.execution import Principal
from toolcrib.gateway.app.asgi import PING, STREAM, Headers, Receive, Send, reply, send_bytes
from toolcrib.gateway.app.calls import SessionCall, answer_call
from toolcrib.mcp_internals import SessionManagerBase, SessionTransport

_INITIALIZE = "initialize"
_CANCELLED = "notifications/cancelled"
_VERSION = MCP_PROTOCOL_VERSION_HEADER.encode()
_SESSION = MCP_SESSION_ID_HEADER.encode()
_Told = MemoryObjectReceiveStream[EventMessage]
_ENDED = ErrorData(code=CONNECTION_CLOSED, message="the session ended before the call did")


class SessionManager(SessionManagerBase):
    """The SDK's, with other sessions."""

    patience = 5.0
    """After how many silent seconds a call is answered with a stream, and then shows that it lives."""
    on_limited: Callable[[str], object] = staticmethod(lambda _: None)
    """Is called with the name of a limit that refused a newcomer, or ended a session for one."""
    connections: Mapping[str, Connection] = {}
    """The connections of the clients that have greeted, by their sessions."""

    on_request: Callable[[str, Principal | None], object] = staticmethod(lambda *_: None)
    """Is called with the session that a request names, and whom its token does."""

    async def handle_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, whose body the guard has read, and found small enough."""
        session = next((value for name, value in scope["headers"] if name == _SESSION), b"")
        self.on_request(session.decode("latin-1"), scope.get("toolcrib.principal"))
        version = next((value for name, value in scope["headers"] if name == _VERSION), b"").decode("latin-1")
        if version and version not in HANDSHAKE_PROTOCOL_VERSIONS:
            request = Request(scope, receive)
            if await answer_call(self.app, request, send, self.patience):
                return
        elif not self._has_room(scope):
            self.on_limited("sessions")
            await reply(send, 503, "too many sessions are open", [(b"retry-after", b"60")])
            return
        await super().handle_request(scope, receive, send)

    def _has_room(self, scope: Scope) -> bool:
        """Return whether a request may open a session, where it would."""
        if not self.is_full or any(name == _SESSION for name, _ in scope["headers"]):
            return True
        return b"initialize" in scope["toolcrib.body"] and self.has_idle

    def make_room(self) -> None:
        """End the idlest session, and count it."""
        if self.end_idlest():
            self.on_limited("idle_session")

    def make_session(self, session_id: str) -> SessionTransport:
        """Return the transport of a new session."""
        return _Session(
            session_id,
            security_settings=self.security_settings,
            idle_timeout=self.session_idle_timeout,
            patience=self.patience,
            server=self.app,
            connections=self.connections,
        )


class _Session(SessionTransport):
    """One session."""

    def __init__(
        self,
        session_id: str,
        *,
        patience: float,
        server: Server[Any],
        connections: Mapping[str, Connection],
        **options: Any,
    ) -> None:
        super().__init__(session_id, **options)
        self._patience = patience
        self._headers: Headers = [(_SESSION, session_id.encode())]
        self._server, self._connections = server, connections
        self._runner: ServerRunner[Any] | None = None
        self._calls: dict[str, SessionCall] = {}
        """Those that run in the task of their request, by id."""

    async def answer(self, request: Request, send: Send) -> bool:
        """Answer a request within the session, and return whether it was one."""
        message = _read_message(await request.body())
        if isinstance(message, JSONRPCNotification):
            self._cancel(message)
        if not isinstance(message, JSONRPCRequest) or not all(check_accept_headers(request)):
            return False
        if request.headers.get(MCP_SESSION_ID_HEADER) != self.mcp_session_id:
            return False
        call, runner = message, self._own_runner()
        if str(call.id) in self._calls:
            await self._refuse(send)
        elif runner is not None:
            await self._run(call, request, send, runner)
        elif self.can_exchange:
            await self._exchange(call, request, send)
        else:
            return False
        return True

    async def terminate(self) -> None:
        """End the session, with its calls."""
        for call in list(self._calls.values()):
            call.cancel(_ENDED)
        await super().terminate()

    def _own_runner(self) -> ServerRunner[Any] | None:
        """Return what runs calls in the task of their request, where their client can be asked nothing."""
        connection = self._connections.get(self.mcp_session_id or "") if self._runner is None else None
        if connection is not None and not _can_be_asked(connection.client_capabilities):
            self._runner = ServerRunner(self._server, connection, {})
        return self._runner

    async def _run(
        self, call: JSONRPCRequest, request: Request, send: Send, runner: ServerRunner[Any]
    ) -> None:
        key = str(call.id)
        running = self._calls[key] = SessionCall(call, request, send, self._patience, self._headers)
        try:
            await running.answer(runner, request.receive)
        finally:
            del self._calls[key]

    def _cancel(self, notification: JSONRPCNotification) -> None:
        number = cancelled_request_id_from_params(notification.params)
        running = None if number is None else self._calls.get(str(number))
        if running is not None:
            running.cancel(ErrorData(code=REQUEST_CANCELLED, message="Request cancelled"))

    async def _refuse(self, send: Send) -> None:
        error = {"code": INVALID_REQUEST, "message": "Request id is in use"}
        await reply(send, 400, {"jsonrpc": "2.0", "id": None, "error": error}, self._headers)

    async def _exchange(self, call: JSONRPCRequest, request: Request, send: Send) -> None:
        """Answer a request by way of the SDK, which can also ask its client."""
        async with self.exchange(call, request) as events:
            if events is None:
                await self._refuse(send)
                return
            watching = Background(partial(self._cancel_when_gone, call.id, request.receive))
            try:
                await self._answer_from(events, call.id, send)
            finally:
                await watching.stop()

    async def _cancel_when_gone(self, call: RequestId, receive: Receive) -> None:
        """Cancel a request when its client has closed the connection."""
        while (await receive())["type"] != "http.disconnect":
            pass
        await self.cancel_request(call)

    async def _answer_from(self, events: _Told, call: RequestId, send: Send) -> None:
        message = await self._next(call, events)
        if isinstance(message, JSONRPCResponse):
            body = message.model_dump_json(by_alias=True, exclude_unset=True).encode()
            await send_bytes(send, 200, body, b"application/json", self._headers)
        else:  # more will come; or it is an error, for which a client that cancelled may not listen
            await self._stream(call, message, events, send)

    async def _stream(
        self, call: RequestId, message: JSONRPCMessage | None, events: _Told, send: Send
    ) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [*STREAM, *self._headers]})
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
            return JSONRPCError(jsonrpc="2.0", id=call, error=_ENDED)
        return None


def _can_be_asked(declared: ClientCapabilities | None) -> bool:
    """Return whether a client declares that servers can ask it something."""
    return declared is not None and any(
        part is not None for part in (declared.elicitation, declared.sampling, declared.roots)
    )


def _read_message(body: bytes) -> JSONRPCRequest | JSONRPCNotification | None:
    """Return the request within a session, or the end of one, that a body is; None for anything else."""
    try:
        message = jsonrpc_message_adapter.validate_python(pydantic_core.from_json(body), by_name=False)
    except ValueError:  # the SDK says what is wrong with it
        return None
    if isinstance(message, JSONRPCRequest) and message.method != _INITIALIZE:
        return message
    return message if isinstance(message, JSONRPCNotification) and message.method == _CANCELLED else None


def _event(message: JSONRPCMessage | None) -> bytes:
    if message is None:
        return PING
    data = message.model_dump_json(by_alias=True, exclude_unset=True).encode()
    return b"event: message\r\ndata: " + data + b"\r\n\r\n"
