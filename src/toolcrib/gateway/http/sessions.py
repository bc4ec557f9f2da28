"""Sessions of the handshake era that answer a call as plain JSON, unless it takes long or has more to say.

The SDK answers every call of a session with a stream of events, which costs about as much as all else that
it does for the call. A stream is needed only for what comes before the answer: progress, and questions.
"""

import asyncio  # noqa: TID251 - anyio has no timers, and no tasks that a timer could start
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import anyio
import pydantic_core
from anyio.streams.memory import MemoryObjectReceiveStream
from mcp.server.connection import Connection
from mcp.server.lowlevel import Server
from mcp.server.runner import ServerRunner, aclose_shielded, modern_error_data
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER, EventMessage, check_accept_headers
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.inbound import (
    ERROR_CODE_HTTP_STATUS,
    MCP_PROTOCOL_VERSION_HEADER,
    InboundModernRoute,
    classify_inbound_request,
    find_duplicated_routing_header,
    validate_mcp_param_headers,
)
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_REQUEST,
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

from toolcrib.gateway.http.asgi import PING, STREAM, Headers, Receive, Send, event, reply, send_bytes
from toolcrib.mcp_internals import SessionManagerBase, SessionTransport

__all__ = ["SessionManager", "answer_call"]

_CALL = "tools/call"
_VERSION = MCP_PROTOCOL_VERSION_HEADER.encode()
_SESSION = MCP_SESSION_ID_HEADER.encode()
_Told = MemoryObjectReceiveStream[EventMessage]
_AT_ONCE = 0.02
"""Seconds within which most calls end; nobody watches over those."""


class SessionManager(SessionManagerBase):
    """The SDK's, with other sessions."""

    patience = 5.0
    """After how many silent seconds a call is answered with a stream, and then shows that it lives."""
    on_limited: Callable[[str], object] = staticmethod(lambda _: None)
    """Is called with the name of a limit that refused a newcomer, or ended a session for one."""

    def has(self, session_id: str) -> bool:
        """Return whether a session is here."""
        return session_id in self.sessions

    async def end(self) -> None:
        """End every session; calls in the middle are answered with an error."""
        with anyio.CancelScope(shield=True):
            for session in list(self.sessions.values()):
                await session.terminate()

    async def handle_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, whose body the guard has read, and found small enough."""
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
        """Return whether a request may open a session, where it would; the idlest one goes for a newcomer."""
        if not self.is_full or any(name == _SESSION for name, _ in scope["headers"]):
            return True
        if b"initialize" not in scope["toolcrib.body"] or not self.end_idlest():
            return False
        self.on_limited("idle_session")
        return True

    def make_session(self, session_id: str) -> SessionTransport:
        """Return the transport of a new session."""
        return _Session(
            session_id,
            security_settings=self.security_settings,
            idle_timeout=self.session_idle_timeout,
            patience=self.patience,
        )


class _Session(SessionTransport):
    """One session."""

    def __init__(self, session_id: str, *, patience: float, **options: Any) -> None:
        super().__init__(session_id, **options)
        self._patience = patience
        self._headers: Headers = [(_SESSION, session_id.encode())]

    async def answer(self, request: Request, send: Send) -> bool:
        """Answer a plain call of a tool, and return whether it was one."""
        call = _read_call(await request.body())
        if call is None or not all(check_accept_headers(request)):
            return False
        if request.headers.get(MCP_SESSION_ID_HEADER) != self.mcp_session_id:
            return False
        async with self.exchange(call, request) as events:
            if events is None:
                error = {"code": INVALID_REQUEST, "message": "Request id is in use"}
                await reply(send, 400, {"jsonrpc": "2.0", "id": None, "error": error}, self._headers)
                return True
            message = await self._next(call.id, events)
            if isinstance(message, JSONRPCResponse):
                body = message.model_dump_json(by_alias=True, exclude_unset=True).encode()
                await send_bytes(send, 200, body, b"application/json", self._headers)
            else:  # more will come; or it is an error, for which a client that cancelled may not listen
                await self._stream(call.id, message, events, send)
        return True

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


async def answer_call(server: Server[Any], request: Request, send: Send, patience: float) -> bool:
    """Answer a plain call of a tool, and return whether it was one; if not, nothing was answered.

    The SDK answers calls of the stateless era with two tasks and a stream each. Here a call runs in the
    task of its request, and one that does not end at once gets a task that watches for the client to
    leave; everything else is left to the SDK.

    Args:
        server: whose tool it is; it has no lifespan of its own.
        request: the request, whose body is in its scope.
        send: takes the answer.
        patience: after how many silent seconds it is answered with a stream, and shows that it lives.
    """
    found = _read(request)
    if found is None or not _agrees(server, found[0], request):
        return False
    call, verdict = found
    answer = _Answer(call, request, send, patience)
    connection = Connection.from_envelope(
        verdict.protocol_version, verdict.client_info, verdict.client_capabilities
    )
    runner = ServerRunner(server, connection, {})
    given: JSONRPCResponse | JSONRPCError | None = None
    try:
        with anyio.CancelScope() as scope, answer.watched(request.receive, scope):
            try:
                result = await runner.on_request(answer, call.method, call.params)
                given = JSONRPCResponse(jsonrpc="2.0", id=call.id, result=result)
            except Exception as error:  # noqa: BLE001 - whatever it is, the client gets an answer
                given = JSONRPCError(jsonrpc="2.0", id=call.id, error=modern_error_data(error))
        if given is not None:  # else the client has left
            await answer.end(given)
    finally:
        await aclose_shielded(connection)
    return True


def _agrees(server: Server[Any], call: JSONRPCRequest, request: Request) -> bool:
    """Return whether the headers of a call say what its arguments do, as far as its tool wants them to."""
    params = call.params or {}
    name, args = params.get("name"), params.get("arguments") or {}
    if server.get_tool_input_schema is None or not isinstance(name, str) or not isinstance(args, dict):
        return False
    try:
        schema = server.get_tool_input_schema(name)
    except Exception:  # noqa: BLE001 - frontends are foreign; the SDK says what is wrong, and goes on
        return False
    return schema is None or validate_mcp_param_headers(schema, args, request.headers) is None


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
    """What a call is answered with: JSON, or a stream once it has anything to say before that.

    To the server it is the context of the call: a `mcp.shared.dispatcher.DispatchContext`.
    """

    can_send_request = False

    def __init__(self, call: JSONRPCRequest, request: Request, send: Send, patience: float) -> None:
        self.transport = TransportContext(
            kind="streamable-http", can_send_request=False, headers=request.headers
        )
        self.request_id = call.id
        self.message_metadata = ServerMessageMetadata(request_context=request)
        self.cancel_requested = anyio.Event()
        self._progress_token = progress_token_from_params(call.params)
        self._send, self._patience = send, patience
        self._is_stream = False
        self._watcher: asyncio.Task[None] | None = None

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,  # noqa: ARG002 - the protocol has it
        opts: CallOptions | None = None,  # noqa: ARG002 - the same
    ) -> dict[str, Any]:
        """Refuse: in the stateless era a server asks nothing."""
        raise NoBackChannelError(method)

    async def notify(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,  # noqa: ARG002 - the protocol has it
    ) -> None:
        """Tell the client something before the answer."""
        message = {"jsonrpc": "2.0", "method": method}
        await self._tell(event(message if params is None else {**message, "params": dict(params)}))

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tell the client how far the call is, if it wants to know."""
        if self._progress_token is None:
            return
        params: dict[str, Any] = {"progressToken": self._progress_token, "progress": progress}
        more = {"total": total, "message": message}
        await self.notify("notifications/progress", params | {k: v for k, v in more.items() if v is not None})

    async def _tell(self, news: bytes) -> None:
        """Send something before the answer."""
        if not self._is_stream:
            self._is_stream = True
            await self._send({"type": "http.response.start", "status": 200, "headers": STREAM})
        await self._send({"type": "http.response.body", "body": news, "more_body": True})

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
            await self._tell(PING)

    async def end(self, given: JSONRPCResponse | JSONRPCError) -> None:
        """Send the answer."""
        if isinstance(given, JSONRPCResponse) and not self._is_stream:
            body = given.model_dump_json(by_alias=True, exclude_none=True).encode()
            await send_bytes(self._send, 200, body, b"application/json")
            return
        payload = given.model_dump(mode="json", by_alias=True, exclude_none=True)
        if isinstance(given, JSONRPCError) and not self._is_stream:
            await reply(self._send, ERROR_CODE_HTTP_STATUS.get(given.error.code, 200), payload)
        else:
            await self._send({"type": "http.response.body", "body": event(payload), "more_body": False})
