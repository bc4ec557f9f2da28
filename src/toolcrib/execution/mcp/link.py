"""One live connection to a server, from the handshake until it is gone."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import mcp_types as types
from mcp.client.session import ClientSession, IncomingMessage, LoggingFnT, MessageHandlerFnT
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    encode_header_value,
    mcp_param_headers,
    x_mcp_header_map,
)
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    CONNECTION_CLOSED,
    PROTOCOL_VERSION_META_KEY,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

import toolcrib
from toolcrib.execution.mcp.failures import is_lost_session
from toolcrib.execution.mcp.negotiation import agree
from toolcrib.execution.mcp.transport import Streams
from toolcrib.execution.mcp.wire import Wire

__all__ = ["Link", "Listeners", "open_link"]

_CLIENT = types.Implementation(name="toolcrib", version=toolcrib.__version__)
_ASKING: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}}
"""What a client can do that has somebody to ask."""


@dataclass(frozen=True, slots=True)
class Listeners:
    """Who is told what happens on a connection besides answers; none of them may wait for anything."""

    lost: Callable[[], None]
    """The other side is gone."""
    tools_changed: Callable[[], None]
    logged: Callable[[Any, str], None]
    """A log message, as data and level, which does not say what call it belongs to."""


class Link:
    """A connection that is ready for requests, which any task may send.

    Requests go to the SDK's dispatcher itself, not through its typed methods: those check results against the
    revision's own types and then against the output schema, which costs as much as the call. Results are read
    here for what is needed of them, and the runner validates the value.
    """

    def __init__(self, session: ClientSession, wire: Wire, *, transport: str, asks: bool) -> None:
        version = session.protocol_version or ""
        self.session = session
        self.transport = transport
        self.modern = version in MODERN_PROTOCOL_VERSIONS
        """Whether the server is of the stateless era."""
        self.listed = False
        """Whether its tools were ever listed."""
        self.called = False
        """Whether a call was ever sent."""
        self.useful = False
        """Whether a call was ever answered."""
        self.over = anyio.Event()
        """Set when the connection was given up and `farewell` is known."""
        self.farewell = ""
        """Why it ended."""
        self._wire = wire
        self._headers = {MCP_PROTOCOL_VERSION_HEADER: version}
        self._meta = {
            PROTOCOL_VERSION_META_KEY: version,
            CLIENT_INFO_META_KEY: _CLIENT.model_dump(by_alias=True, mode="json", exclude_none=True),
            CLIENT_CAPABILITIES_META_KEY: _ASKING if asks else {},
        }
        self._header_maps: dict[str, tuple[Any, dict[tuple[str, ...], str]]] = {}

    @property
    def gone(self) -> bool:
        """Return whether the other side is gone."""
        return self._wire.gone

    @property
    def fault(self) -> Exception | None:
        """Return what the transport last said was wrong."""
        return self._wire.fault

    def is_forgotten(self, error: MCPError) -> bool:
        """Return whether a server does not know our session; on a pipe, and without state, there is none."""
        return self.transport == "http" and not self.modern and is_lost_session(error)

    async def request(
        self,
        method: str,
        params: dict[str, Any],
        *,
        headers: dict[str, str] | None = None,
        on_progress: ProgressFnT | None = None,
    ) -> dict[str, Any]:
        """Return the result of a request, as it came; cancelling it tells the server.

        Raises:
            MCPError: the server refused it, or the connection ended.
        """
        said = self._headers | (headers or {})
        if self.modern:
            params = params | {"_meta": self._meta | params.get("_meta", {})}
            said[MCP_METHOD_HEADER] = method
        if on_progress is None:
            return await self._wire.ask(method, params, said)
        return await self._wire.send_raw_request(
            method, params, {"headers": said, "on_progress": on_progress}
        )

    def call_headers(self, name: str, schema: dict[str, Any], args: dict[str, Any]) -> dict[str, str] | None:
        """Return what a call says in headers too: the tool, and the arguments that its schema marks so."""
        if not self.modern or self.transport == "stdio":
            return None
        known = self._header_maps.get(name)
        if known is None or known[0] is not schema:
            known = self._header_maps[name] = (schema, x_mcp_header_map(schema))
        return {MCP_NAME_HEADER: encode_header_value(name)} | mcp_param_headers(known[1], args)


@asynccontextmanager
async def open_link(
    streams: Streams, listeners: Listeners, *, transport: str, probe: bool, patience: float, asks: bool
) -> AsyncIterator[Link]:
    """Enter the transport and greet the server; leaving closes both.

    `probe` and `patience` are those of `agree`; `asks` says that there is somebody to ask for input.

    Raises:
        Exception: what the transport raised, and what `agree` does.
    """
    async with streams as (read, write):
        wire = Wire(read, write, listeners.lost)
        session = ClientSession(
            dispatcher=wire,
            client_info=_CLIENT,
            message_handler=_hearing(listeners),
            logging_callback=_logging(listeners),
        )
        async with session:
            try:
                await agree(session, probe=probe, patience=patience)
            except MCPError as error:
                if error.code == CONNECTION_CLOSED and wire.fault is not None:
                    raise wire.fault from error
                raise
            yield Link(session, wire, transport=transport, asks=asks)


def _hearing(listeners: Listeners) -> MessageHandlerFnT:
    async def hear(message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            listeners.tools_changed()

    return hear


def _logging(listeners: Listeners) -> LoggingFnT:
    async def log(params: types.LoggingMessageNotificationParams) -> None:
        listeners.logged(params.data, params.level)

    return log
