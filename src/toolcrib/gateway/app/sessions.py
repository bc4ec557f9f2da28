"""Sessions of the handshake era that answer a request as plain JSON, unless it takes long or sends messages.

The SDK answers every request of a session with a stream of events, which costs about as much as all else that
it does for a call. A stream is needed only for what comes before the answer: progress, and questions. Where
there can be no questions, a request does without the SDK's tasks too.

A request ends when the connection that it came over does: this gateway numbers no events, so no client can
come back for the answer with `Last-Event-ID`, and work for nobody would keep the slots of servers taken.
"""

import math
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any

import anyio
import pydantic_core
from anyio.abc import TaskGroup, TaskStatus
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
from toolcrib.concurrency.in_flight import InFlight
from toolcrib.crib import GatewaySettings
from toolcrib.execution import Principal
from toolcrib.gateway.addresses import EndpointAddress
from toolcrib.gateway.app.asgi import (
    PING,
    SESSION_HEADER,
    STREAM,
    Headers,
    HttpRequest,
    Message,
    Receive,
    Send,
    reply,
    send_bytes,
)
from toolcrib.gateway.app.calls import SessionCall, answer_call
from toolcrib.gateway.endpoint import McpEndpoint
from toolcrib.gateway.endpoints import Endpoints
from toolcrib.mcp_internals import SessionManagerBase, SessionTransport

_INITIALIZE = "initialize"
_CANCELLED = "notifications/cancelled"
_VERSION = MCP_PROTOCOL_VERSION_HEADER.encode()
_Events = MemoryObjectReceiveStream[EventMessage]
_ENDED = ErrorData(code=CONNECTION_CLOSED, message="the session ended before the call did")


class SessionManagers:
    """The session managers of all endpoints; each runs in the task group until its endpoint is closed."""

    def __init__(
        self,
        endpoints: Endpoints,
        settings: Callable[[], GatewaySettings],
        on_limited: Callable[[str], object],
        tasks: TaskGroup,
    ) -> None:
        """Serve these endpoints; `on_limited` is called with the name of a limit that was met."""
        self._endpoints, self._settings = endpoints, settings
        self._on_limited, self._tasks = on_limited, tasks
        self._by_address: dict[EndpointAddress, SessionManager] = {}
        """The manager of each endpoint that was used; of a closed one, until it is used again."""
        self._running: set[SessionManager] = set()
        """All that run; the sessions of a closed endpoint continue until their calls have ended."""
        self._starting = anyio.Lock()

    async def handle_request(
        self, address: EndpointAddress, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer a request to an endpoint in this process."""
        session = scope["toolcrib.request"].headers.get(SESSION_HEADER)
        manager = self._by_address.get(address)
        if manager is None or manager.closed.is_set() or not (session is None or manager.has(session)):
            manager = await self._find(address, session)
        if manager is None:
            await reply(send, 404, f"there is no toolset {address.name[:100]!r} here")
        else:
            await manager.handle_request(scope, receive, send)

    async def has_session(self, address: EndpointAddress, session: str) -> bool:
        """Return whether this process holds a session of an endpoint."""
        manager = await self._find(address, session)
        return manager is not None and manager.has(session)

    async def wait_answered(self) -> None:
        """Wait until all requests are answered, except subscription streams."""
        for manager in list(self._running):
            await manager.wait_answered()

    async def end(self) -> None:
        """End all sessions with their running requests."""
        for manager in list(self._running):
            await manager.end()

    async def _find(self, address: EndpointAddress, session: str | None) -> "SessionManager | None":
        """Return the manager of an endpoint, or the one that it had when a session began."""
        manager = self._by_address.get(address)
        if manager is None or manager.closed.is_set():
            manager = await self._start(address)
        if session is not None and (manager is None or not manager.has(session)):
            others = (each for each in self._running if each.address == address and each.has(session))
            manager = next(others, manager)
        return manager

    async def _start(self, address: EndpointAddress) -> "SessionManager | None":
        """Return the manager of an endpoint, started if needed; None if there is no endpoint."""
        async with self._starting:
            known = self._by_address.get(address)
            if known is not None and not known.closed.is_set():
                return known
            endpoint = self._endpoints.find(address)
            if endpoint is None:
                return None
            manager: SessionManager = await self._tasks.start(self._run, address, endpoint)
            self._by_address[address] = manager
            return manager

    async def _run(
        self, address: EndpointAddress, endpoint: McpEndpoint, *, task_status: TaskStatus["SessionManager"]
    ) -> None:
        """Run the sessions of an endpoint until it is closed, and until its running requests have ended."""
        settings = self._settings()
        manager = SessionManager(
            endpoint.server,
            address=address,
            closed=endpoint.closed,
            connections=endpoint.connections,
            on_limited=self._on_limited,
            on_request=endpoint.refresh_principal,
            max_request_body_size=sys.maxsize,  # the guard has checked it
            session_idle_timeout=settings.session_timeout,
            max_sessions=settings.sessions,
        )
        self._running.add(manager)
        try:
            async with manager.run():
                task_status.started(manager)
                await endpoint.closed.wait()
                await manager.wait_answered(settings.shutdown_timeout)
                await manager.end()
        finally:
            self._running.discard(manager)
            if self._by_address.get(address) is manager:
                del self._by_address[address]


class SessionManager(SessionManagerBase):
    """Session manager that answers calls without a stream as plain JSON."""

    patience = 5.0
    """Silent seconds after which a call gets a stream as its response, and then a sign of life."""

    def __init__(
        self,
        app: Server[Any],
        *,
        address: EndpointAddress,
        closed: anyio.Event,
        connections: Mapping[str, Connection],
        on_limited: Callable[[str], object],
        on_request: Callable[[str, Principal | None], object],
        **options: Any,
    ) -> None:
        """Serve an endpoint.

        Args:
            app: its server.
            address: its address.
            closed: set when it is closed.
            connections: its initialized connections, by session id.
            on_limited: called with the name of a limit that refused a session, or ended an idle one.
            on_request: called with the session id of a request, and the principal of its token.
            options: those of the SDK.
        """
        super().__init__(app, **options)
        self.address, self.closed = address, closed
        self._connections = connections
        self._on_limited, self._on_request = on_limited, on_request
        self._answering = InFlight()

    async def handle_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request whose body the guard has read."""
        request: HttpRequest = scope["toolcrib.request"]
        session = request.headers.get(SESSION_HEADER)
        if session is not None:
            self._on_request(session, request.principal)
        version = request.headers.get(_VERSION)
        # Streams of changes, which a client gets by GET, never end by themselves: nothing waits for them.
        with self._answering if scope["method"] == "POST" else nullcontext():
            if version and version not in HANDSHAKE_PROTOCOL_VERSIONS:
                if await answer_call(self.app, Request(scope, receive), request, self.patience):
                    return
            elif session is None and self.is_full and not (b"initialize" in request.body and self.has_idle):
                self._on_limited("sessions")
                await reply(send, 503, "too many sessions are open", [(b"retry-after", b"60")])
                return
            await super().handle_request(scope, _replay_body(request.body, receive), send)

    async def wait_answered(self, within: float = math.inf) -> None:
        """Wait until no POST request is being answered, for at most so many seconds."""
        await self._answering.wait_until_none(within)

    def make_room(self) -> None:
        """End the session that is idle for longest, and count that."""
        if self.end_idlest():
            self._on_limited("idle_session")

    def make_session(self, session_id: str) -> SessionTransport:
        """Create the transport of a new session."""
        return _Session(
            session_id,
            security_settings=self.security_settings,
            idle_timeout=self.session_idle_timeout,
            patience=self.patience,
            server=self.app,
            connections=self._connections,
        )


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` for the SDK that gives the body again, which the guard has read."""
    is_replayed = False

    async def receive_again() -> Message:
        nonlocal is_replayed
        if is_replayed:
            return await receive()
        is_replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


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
        self._headers: Headers = [(SESSION_HEADER, session_id.encode())]
        self._server, self._connections = server, connections
        self._runner: ServerRunner[Any] | None = None
        self._calls: dict[str, SessionCall] = {}
        """Calls that run in the task of their request, by id."""

    async def answer(self, request: Request, send: Send) -> bool:
        """Answer a request within the session; return False for other messages."""
        message = _read_message(await request.body())
        if isinstance(message, JSONRPCNotification):
            self._cancel_call(message)
        if not isinstance(message, JSONRPCRequest) or not all(check_accept_headers(request)):
            return False
        if request.headers.get(MCP_SESSION_ID_HEADER) != self.mcp_session_id:
            return False
        call, runner = message, self._find_runner()
        if str(call.id) in self._calls:
            await self._refuse_id(send)
        elif runner is not None:
            await self._run_call(call, request, send, runner)
        elif self.can_exchange:
            await self._exchange_call(call, request, send)
        else:
            return False
        return True

    async def terminate(self) -> None:
        """End the session, with its calls."""
        for call in list(self._calls.values()):
            call.cancel(_ENDED)
        await super().terminate()

    def _find_runner(self) -> ServerRunner[Any] | None:
        """Return the runner for calls in the task of their request; None if their client takes requests."""
        connection = self._connections.get(self.mcp_session_id or "") if self._runner is None else None
        if connection is not None and not _can_be_asked(connection.client_capabilities):
            self._runner = ServerRunner(self._server, connection, {})
        return self._runner

    async def _run_call(
        self, call: JSONRPCRequest, request: Request, send: Send, runner: ServerRunner[Any]
    ) -> None:
        key = str(call.id)
        running = self._calls[key] = SessionCall(call, request, send, self._patience, self._headers)
        try:
            await running.answer(runner, request.receive)
        finally:
            del self._calls[key]

    def _cancel_call(self, notification: JSONRPCNotification) -> None:
        number = cancelled_request_id_from_params(notification.params)
        running = None if number is None else self._calls.get(str(number))
        if running is not None:
            running.cancel(ErrorData(code=REQUEST_CANCELLED, message="Request cancelled"))

    async def _refuse_id(self, send: Send) -> None:
        error = {"code": INVALID_REQUEST, "message": "Request id is in use"}
        await reply(send, 400, {"jsonrpc": "2.0", "id": None, "error": error}, self._headers)

    async def _exchange_call(self, call: JSONRPCRequest, request: Request, send: Send) -> None:
        """Answer a request through the SDK, which can send requests to its client."""
        async with self.exchange(call, request) as events:
            if events is None:
                await self._refuse_id(send)
                return
            watching = Background(partial(self._cancel_when_gone, call.id, request.receive))
            try:
                await self._send_answer(events, call.id, send)
            finally:
                await watching.stop()

    async def _cancel_when_gone(self, call: RequestId, receive: Receive) -> None:
        """Cancel a request when its client has closed the connection."""
        while (await receive())["type"] != "http.disconnect":
            pass
        await self.cancel_request(call)

    async def _send_answer(self, events: _Events, call: RequestId, send: Send) -> None:
        message = await self._next_message(call, events)
        if isinstance(message, JSONRPCResponse):
            body = message.model_dump_json(by_alias=True, exclude_unset=True).encode()
            await send_bytes(send, 200, body, b"application/json", self._headers)
        else:  # more will come; or it is an error, for which a client that cancelled may not listen
            await self._send_stream(call, message, events, send)

    async def _send_stream(
        self, call: RequestId, message: JSONRPCMessage | None, events: _Events, send: Send
    ) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [*STREAM, *self._headers]})
        while not isinstance(message, JSONRPCResponse | JSONRPCError):
            await send({"type": "http.response.body", "body": _event(message), "more_body": True})
            message = await self._next_message(call, events)
        await send({"type": "http.response.body", "body": _event(message), "more_body": False})

    async def _next_message(self, call: RequestId, events: _Events) -> JSONRPCMessage | None:
        """Return the next message of a call; None if there is none for a while."""
        try:
            with anyio.move_on_after(self._patience):
                return (await events.receive()).message
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            return JSONRPCError(jsonrpc="2.0", id=call, error=_ENDED)
        return None


def _can_be_asked(declared: ClientCapabilities | None) -> bool:
    """Return whether a client declares that it takes requests of servers."""
    return declared is not None and any(
        part is not None for part in (declared.elicitation, declared.sampling, declared.roots)
    )


def _read_message(body: bytes) -> JSONRPCRequest | JSONRPCNotification | None:
    """Return the request or the cancellation in a body; None for any other message."""
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
