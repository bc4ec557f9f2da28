"""All that toolcrib uses of the MCP SDK beside its public API, and its public way where a name is missing.

No other module may use a private name of the SDK. They make sessions of the handshake era faster and bound
them better; no call needs one. `MISSING_INTERNALS` has those that the installed SDK lacks, or has with
another signature: each turns off only the feature that needs it. `docs/decisions.md` says why each is used.
"""

import inspect
import logging
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from importlib.metadata import version
from typing import Any, ClassVar

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from toolcrib.errors import UnsupportedPackageError

_LOG = logging.getLogger("toolcrib.mcp")
SUPPORTED = ">=2.3,<3"
"""The versions of the SDK whose public API is used here; `pyproject.toml` asks for the same."""
_FLOOR = (2, 3)
_LARGE = 64 * 1024
"""The SDK's loops keep their last message; one of so many bytes is worth releasing."""
_RELEASE_TIMEOUT = 1.0
_STREAM_BUFFER = 16
"""How many messages of a request the server may write before they are read, as in the SDK."""
_BAD_REQUEST = 400
_NOT_FOUND = 404
_RELEASE = Exception("release the last message")
"""Sent into the SDK's loops, which drop it, so that they let go of a large message before it."""


def check_version(installed: str) -> None:
    """Refuse an SDK with another public API.

    Raises:
        UnsupportedPackageError: toolcrib does not work with this version.
    """
    major_minor = tuple(map(int, re.findall(r"\d+", installed)[:2]))
    if not _FLOOR <= major_minor < (3,):
        raise UnsupportedPackageError("MCP", "mcp", "mcp", installed, SUPPORTED)


check_version(version("mcp"))  # before anything is imported that another version may not have

from mcp.server.connection import Connection  # noqa: E402
from mcp.server.lowlevel import Server  # noqa: E402
from mcp.server.session import ServerSession  # noqa: E402
from mcp.server.streamable_http import (  # noqa: E402
    MCP_SESSION_ID_HEADER,
    REQUEST_CANCELLED,
    EventMessage,
    StreamableHTTPServerTransport,
)
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager  # noqa: E402
from mcp.shared.dispatcher import coerce_request_id  # noqa: E402
from mcp.shared.message import ServerMessageMetadata, SessionMessage  # noqa: E402
from mcp_types import (  # noqa: E402
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)
from starlette.requests import Request  # noqa: E402
from starlette.types import Message, Receive, Scope, Send  # noqa: E402

_SESSION = MCP_SESSION_ID_HEADER.encode()
_METHODS = {
    "_admit_session": (StreamableHTTPSessionManager, ["self", "requestor"]),
    "_handle_post_request": (
        StreamableHTTPServerTransport,
        ["self", "scope", "request", "receive", "send"],
    ),
}
"""The private methods that are overridden, with their classes and parameters."""
_USES = {
    "_admit_session": "sessions are those of the SDK, and a full gateway refuses newcomers",
    "_handle_post_request": "calls of sessions are answered with event streams",
    "_read_stream_writer": "calls of clients that can be asked are answered with event streams",
    "_request_streams": "calls of clients that can be asked are answered with event streams",
    "_requests_in_flight": "a full gateway refuses newcomers instead of ending an idle session",
    "_server_instances": "sessions are those of the SDK, and a full gateway refuses newcomers",
}
"""The private names, and what is so without them."""


def _find_missing() -> frozenset[str]:
    """Return the private names that the SDK does not have, or has with another signature."""
    instances = (
        StreamableHTTPServerTransport("probe", idle_timeout=1),
        StreamableHTTPSessionManager(Server("probe")),
    )
    return frozenset(
        name for name in _USES if not any(hasattr(each, name) for each in instances) or _has_changed(name)
    )


def _has_changed(name: str) -> bool:
    owner, wanted = _METHODS.get(name, (None, []))
    return owner is not None and list(inspect.signature(getattr(owner, name)).parameters) != wanted


MISSING_INTERNALS = _find_missing()
"""The private names that the installed SDK lacks, or has with another signature."""
_HAS_OWN_SESSIONS = not MISSING_INTERNALS & {"_admit_session", "_server_instances"}
_KNOWS_IDLE_SESSIONS = _HAS_OWN_SESSIONS and "_requests_in_flight" not in MISSING_INTERNALS
for _name in sorted(MISSING_INTERNALS):
    _LOG.warning("mcp %s has no %s as toolcrib knows it: %s", version("mcp"), _name, _USES[_name])


def connection_of(session: ServerSession) -> Connection:
    """Return the connection that a request came over, which lives longer than the request.

    The SDK does not show it to handlers. Where a session does not have it either, a stand-in without a
    channel takes its place for the request: the client is called as any other, but gets no notifications.
    """
    for value in vars(session).values():
        if isinstance(value, Connection):
            return value
    stand_in = Connection.from_envelope(session.protocol_version, None, None)
    stand_in.initialized = anyio.Event()
    stand_in.client_params = session.client_params
    stand_in.client_capabilities = session.client_capabilities
    return stand_in


def number_requests_from(connection: Connection, first: int) -> None:
    """Number the requests to a client from a number on, so that no two sessions of it use the same ones."""
    if hasattr(connection.outbound, "_next_id"):
        connection.outbound._next_id = first  # noqa: SLF001 - the SDK always begins with 1


def is_waiting_for(connection: Connection, request_id: RequestId) -> bool:
    """Return whether a request to the client of a session waits for its answer."""
    pending = getattr(connection.outbound, "_pending", None)
    return pending is None or coerce_request_id(request_id) in pending


class _Incoming:
    """Hands messages to the server of a session; where it has just ended, the streams of its requests do too.

    The SDK would log a traceback, and answer a second time.
    """

    def __init__(self, transport: StreamableHTTPServerTransport, writer: Any) -> None:
        self._transport = transport
        self._writer = writer

    async def send(self, message: Any) -> None:
        """Send a message, or close the streams of all requests."""
        try:
            await self._writer.send(message)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            await self._transport.terminate()

    async def aclose(self) -> None:
        """Send no more."""
        await self._writer.aclose()


class SessionTransport(StreamableHTTPServerTransport):
    """The SDK's transport of one session, with POST requests that a subclass may answer itself."""

    account: tuple[str | None, str | None] | None = None
    """Whose it is, by issuer and subject; None for nobody in particular."""
    can_exchange: ClassVar[bool] = not MISSING_INTERNALS & {"_read_stream_writer", "_request_streams"}
    """Whether `exchange` works with this SDK."""
    _outgoing: Any = None

    async def answer(self, request: Request, send: Send) -> bool:
        """Answer a POST request, and return whether that was done; if not, the SDK does it."""
        raise NotImplementedError

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[tuple[Any, Any]]:
        """Give the streams that the server reads from and writes to."""
        async with super().connect() as streams:
            self._outgoing = streams[1]
            if "_read_stream_writer" not in MISSING_INTERNALS:
                incoming: Any = _Incoming(self, self._read_stream_writer)
                self._read_stream_writer = incoming
            yield streams

    @asynccontextmanager
    async def exchange(
        self, call: JSONRPCRequest, request: Request
    ) -> AsyncIterator[MemoryObjectReceiveStream[EventMessage] | None]:
        """Hand a request to the server, and give what it says to it; None where its id is in use.

        The stream ends without an answer when the session does.
        """
        writer, key = self._read_stream_writer, str(call.id)
        if writer is None or key in self._request_streams:
            yield None
            return
        streams = anyio.create_memory_object_stream[EventMessage](_STREAM_BUFFER)
        self._request_streams[key] = streams
        metadata = ServerMessageMetadata(
            request_context=request, on_request_unanswered=partial(self._end_cancelled, call.id)
        )
        with streams[0], streams[1]:
            try:
                await writer.send(SessionMessage(call, metadata=metadata))
                yield streams[1]
            finally:
                self._request_streams.pop(key, None)

    async def cancel_request(self, request_id: RequestId) -> None:
        """Cancel a request that `exchange` has handed to the server; it is answered with an error."""
        params = {"requestId": request_id, "reason": "its client has closed the connection"}
        note = JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params=params)
        if self._read_stream_writer is not None:
            await self._read_stream_writer.send(SessionMessage(note))

    async def _end_cancelled(self, request_id: RequestId) -> None:
        """Answer a request that was cancelled, after what was sent before."""
        error = ErrorData(code=REQUEST_CANCELLED, message="Request cancelled")
        await self._outgoing.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=request_id, error=error)))

    async def handle_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; of one that is large, or has a large answer, nothing is kept."""
        size = len(scope.get("toolcrib.body", b""))

        async def counted(message: Message) -> None:
            nonlocal size
            size += len(message.get("body", b""))
            await send(message)

        try:
            await super().handle_request(scope, receive, counted)
        finally:
            if size > _LARGE:
                with anyio.move_on_after(_RELEASE_TIMEOUT, shield=True):
                    await self._forget()

    async def _forget(self) -> None:
        """Have the loops of a session, which hold on to the last message they saw, see small ones."""
        nothing = JSONRPCResponse(jsonrpc="2.0", id="", result={})  # of a request that there is not
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            if "_read_stream_writer" not in MISSING_INTERNALS and self._read_stream_writer is not None:
                await self._read_stream_writer.send(_RELEASE)
            await self._outgoing.send(SessionMessage(nothing))

    if "_handle_post_request" not in MISSING_INTERNALS:

        async def _handle_post_request(
            self, scope: Scope, request: Request, receive: Receive, send: Send
        ) -> None:
            if not await self.answer(request, send):
                await super()._handle_post_request(scope, request, receive, send)


class SessionManagerBase(StreamableHTTPSessionManager):
    """The SDK's manager of sessions, whose transports a subclass makes."""

    def __init__(self, app: Server[Any], **options: Any) -> None:
        super().__init__(app, **options)
        self._opened: dict[str, Any] = {}
        """Sessions that responses have named, with their users; used where the SDK's own are not known."""

    def make_session(self, session_id: str) -> SessionTransport:
        """Return the transport of a new session."""
        raise NotImplementedError

    def has(self, session_id: str) -> bool:
        """Return whether a session is here."""
        return session_id in (
            self._opened if "_server_instances" in MISSING_INTERNALS else self._server_instances
        )

    async def end(self) -> None:
        """End every session; calls in the middle are answered with an error."""
        with anyio.CancelScope(shield=True):
            for session_id, user in list(self._opened.items()):
                await self._delete(session_id, user)
            if "_server_instances" not in MISSING_INTERNALS:
                for session in list(self._server_instances.values()):
                    await session.terminate()

    async def handle_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; where the SDK does not show its sessions, note those that responses name."""
        if "_server_instances" not in MISSING_INTERNALS:
            await super().handle_request(scope, receive, send)
            return

        async def note(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._note_session(scope, message)
            await send(message)

        await super().handle_request(scope, receive, note)

    def _note_session(self, scope: Scope, response: Message) -> None:
        asked, named = dict(scope["headers"]).get(_SESSION), dict(response["headers"]).get(_SESSION)
        if asked is None and named is not None and response["status"] < _BAD_REQUEST:
            self._opened[named.decode("latin-1")] = scope.get("user")
        elif asked is not None and (scope["method"] == "DELETE" or response["status"] == _NOT_FOUND):
            self._opened.pop(asked.decode("latin-1"), None)

    async def _delete(self, session_id: str, user: Any) -> None:
        """End a session as its client would."""
        headers = [(_SESSION, session_id.encode())]
        scope = {"type": "http", "method": "DELETE", "path": "/", "query_string": b"", "headers": headers}

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(_: Message) -> None:
            """Nobody reads the answer."""

        await self.handle_request(scope if user is None else scope | {"user": user}, receive, send)

    @property
    def is_full(self) -> bool:
        """Whether there are as many sessions as there may be; False where only the SDK knows, and refuses."""
        if self.max_sessions is None or "_server_instances" in MISSING_INTERNALS:
            return False
        return len(self._server_instances) >= self.max_sessions

    @property
    def has_idle(self) -> bool:
        """Whether a session could be ended for a new one: one that has no request in flight."""
        return bool(self._idle())

    def end_idlest(self) -> bool:
        """End the session that was not used for longest, of whoever has most; return whether one was idle."""
        idle = self._idle()
        if not idle:
            return False
        accounts = {name: getattr(each, "account", None) for name, each in self._server_instances.items()}
        counts = Counter(accounts.values())
        _, session_id = min(idle, key=lambda each: (-counts[accounts[each[1]]], each))
        scope = self._server_instances.pop(session_id).idle_scope
        if scope is not None:
            scope.cancel()  # which the SDK takes for the end of its patience
        return True

    def _idle(self) -> list[tuple[float, str]]:
        """Return the sessions that have no request in flight, each after the moment at which it would end."""
        if not _KNOWS_IDLE_SESSIONS:
            return []
        return [
            (session.idle_scope.deadline, session_id)
            for session_id, session in self._server_instances.items()
            if session.idle_scope is not None and not session._requests_in_flight  # noqa: SLF001 - the SDK shows no more of it
        ]

    def make_room(self) -> None:
        """End a session where there are as many as there may be; a newcomer is about to be admitted."""
        raise NotImplementedError

    if _HAS_OWN_SESSIONS:

        def _admit_session(self, requestor: Any) -> StreamableHTTPServerTransport | None:
            if self.is_full:
                self.make_room()
            admitted = super()._admit_session(requestor)
            if admitted is not None and admitted.mcp_session_id is not None:
                session_id = admitted.mcp_session_id
                session = self._server_instances[session_id] = self.make_session(session_id)
                session.account = requestor and (requestor["issuer"], requestor["subject"])
                return session
            return admitted
