"""All that toolcrib uses of the MCP SDK beside its public API, and the versions of it that have that.

No other module may use a private name of the SDK. `docs/decisions.md` says why each is needed, and how to
move to another version.
"""

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from importlib.metadata import version
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from toolcrib.errors import UnsupportedPackageError

__all__ = [
    "SUPPORTED",
    "SessionManagerBase",
    "SessionTransport",
    "check_version",
    "connection_of",
    "next_request_within_origin",
    "request_within_origin",
    "sse_within_origin",
]

SUPPORTED = ">=2.3,<2.4"
"""The versions of the SDK whose insides are as they are used here; `pyproject.toml` asks for the same."""
_MINOR = ["2", "3"]
_LARGE = 64 * 1024
"""How many bytes of messages are worth forgetting when they are done with."""
_FORGETTING = 1.0
_SEEN = Exception("a large message is done with")
"""What the SDK's loops drop without a word."""


def check_version(installed: str) -> None:
    """Refuse an SDK with other insides.

    Raises:
        UnsupportedPackageError: toolcrib does not work with this version.
    """
    if installed.split(".")[:2] != _MINOR:
        raise UnsupportedPackageError("MCP", "mcp", "mcp", installed, SUPPORTED)


check_version(version("mcp"))  # before anything is imported that another version may not have

from mcp.server.connection import Connection  # noqa: E402
from mcp.server.session import ServerSession  # noqa: E402
from mcp.server.streamable_http import (  # noqa: E402
    REQUEST_CANCELLED,
    REQUEST_STREAM_BUFFER_SIZE,
    EventMessage,
    StreamableHTTPServerTransport,
)
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager  # noqa: E402
from mcp.shared._httpx_utils import (  # noqa: E402
    next_request_within_origin,
    request_within_origin,
    sse_within_origin,
)
from mcp.shared.message import ServerMessageMetadata, SessionMessage  # noqa: E402
from mcp_types import ErrorData, JSONRPCError, JSONRPCRequest, JSONRPCResponse, RequestId  # noqa: E402
from starlette.requests import Request  # noqa: E402
from starlette.types import Message, Receive, Scope, Send  # noqa: E402


def connection_of(session: ServerSession) -> Connection:
    """Return the connection that a request came over, which lives longer than the request."""
    return session._connection  # noqa: SLF001 - the SDK shows handlers no more of it


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
    _outgoing: Any = None

    async def answer(self, request: Request, send: Send) -> bool:
        """Answer a POST request, and return whether that was done; if not, the SDK does it."""
        raise NotImplementedError

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[tuple[Any, Any]]:
        """Give the streams that the server reads from and writes to."""
        async with super().connect() as streams:
            self._outgoing = streams[1]
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
        streams = anyio.create_memory_object_stream[EventMessage](REQUEST_STREAM_BUFFER_SIZE)
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
                with anyio.move_on_after(_FORGETTING, shield=True):
                    await self._forget()

    async def _forget(self) -> None:
        """Have the loops of a session, which hold on to the last message they saw, see small ones."""
        nothing = JSONRPCResponse(jsonrpc="2.0", id="", result={})  # of a request that there is not
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            if self._read_stream_writer is not None:
                await self._read_stream_writer.send(_SEEN)
            await self._outgoing.send(SessionMessage(nothing))

    async def _handle_post_request(
        self, scope: Scope, request: Request, receive: Receive, send: Send
    ) -> None:
        if not await self.answer(request, send):
            await super()._handle_post_request(scope, request, receive, send)


class SessionManagerBase(StreamableHTTPSessionManager):
    """The SDK's manager of sessions, whose transports a subclass makes."""

    def make_session(self, session_id: str) -> SessionTransport:
        """Return the transport of a new session."""
        raise NotImplementedError

    @property
    def sessions(self) -> Mapping[str, StreamableHTTPServerTransport]:
        """The sessions that are here, by their ids."""
        return self._server_instances

    @property
    def is_full(self) -> bool:
        """Whether there are as many sessions as there may be."""
        return self.max_sessions is not None and len(self._server_instances) >= self.max_sessions

    @property
    def has_idle(self) -> bool:
        """Whether a session could go for a newcomer: one that has no request in flight."""
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
        """Return the sessions that nothing is asked of, each after the moment at which it would end."""
        return [
            (session.idle_scope.deadline, session_id)
            for session_id, session in self._server_instances.items()
            if session.idle_scope is not None and not session._requests_in_flight  # noqa: SLF001 - the SDK shows no more of it
        ]

    def make_room(self) -> None:
        """End a session where there are as many as there may be; a newcomer is about to be admitted."""
        raise NotImplementedError

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
