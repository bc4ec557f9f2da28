"""All that toolcrib uses of the MCP SDK beside its public API, and the versions of it that have that.

No other module may use a private name of the SDK. `docs/decisions.md` says why each is needed, and how to
move to another version.
"""

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
from mcp_types import ErrorData, JSONRPCError, JSONRPCRequest, RequestId  # noqa: E402
from starlette.requests import Request  # noqa: E402
from starlette.types import Receive, Scope, Send  # noqa: E402


def connection_of(session: ServerSession) -> Connection:
    """Return the connection that a request came over, which lives longer than the request."""
    return session._connection  # noqa: SLF001 - the SDK shows handlers no more of it


class SessionTransport(StreamableHTTPServerTransport):
    """The SDK's transport of one session, with POST requests that a subclass may answer itself."""

    _outgoing: Any = None

    async def answer(self, request: Request, send: Send) -> bool:
        """Answer a POST request, and return whether that was done; if not, the SDK does it."""
        raise NotImplementedError

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[tuple[Any, Any]]:
        """Give the streams that the server reads from and writes to."""
        async with super().connect() as streams:
            self._outgoing = streams[1]
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
                # Where the session has ended, so has the stream.
                with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                    await writer.send(SessionMessage(call, metadata=metadata))
                yield streams[1]
            finally:
                self._request_streams.pop(key, None)

    async def _end_cancelled(self, request_id: RequestId) -> None:
        """Answer a request that was cancelled, behind what was said to it before."""
        error = ErrorData(code=REQUEST_CANCELLED, message="Request cancelled")
        await self._outgoing.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=request_id, error=error)))

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

    def _admit_session(self, requestor: Any) -> StreamableHTTPServerTransport | None:
        admitted = super()._admit_session(requestor)
        if admitted is not None and admitted.mcp_session_id is not None:
            session_id = admitted.mcp_session_id
            admitted = self._server_instances[session_id] = self.make_session(session_id)
        return admitted
