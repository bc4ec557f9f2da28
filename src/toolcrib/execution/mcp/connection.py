"""One live connection to a server: transport, negotiation of the protocol revision, life and end."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
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
from toolcrib.errors import ServerUnavailableError
from toolcrib.execution.mcp.client_relay import APPS
from toolcrib.execution.mcp.config import WORKERS_FOLDER, ChangeKind, ServerConfig
from toolcrib.execution.mcp.errors import is_lost_session
from toolcrib.execution.mcp.gateways import CLIENT_NAME, declared_gateways
from toolcrib.execution.mcp.negotiation import negotiate
from toolcrib.execution.mcp.own_names import own_name
from toolcrib.execution.mcp.transport.dispatcher import Dispatcher, OnAsked, TransportStreams
from toolcrib.execution.mcp.transport.http import http_transport, sse_transport
from toolcrib.execution.mcp.transport.lines import DroppedMessages
from toolcrib.execution.mcp.transport.process import StderrTail
from toolcrib.execution.mcp.transport.stdio import stdio_transport
from toolcrib.execution.oauth.bearer import bearer_auth
from toolcrib.execution.oauth.persons import Person
from toolcrib.execution.oauth.shared import SharedLogins
from toolcrib.model.tool import Tool
from toolcrib.redaction import KnownSecrets

Streams = AbstractAsyncContextManager[TransportStreams]
"""A transport: a context manager that yields the streams."""
_CLIENT = types.Implementation(name=CLIENT_NAME, version=toolcrib.__version__)
_SAMPLING = types.SamplingCapability(
    context=types.SamplingContextCapability(), tools=types.SamplingToolsCapability()
)
_DECLARED_EXTENSIONS: dict[str, dict[str, Any]] = {APPS: {"mimeTypes": ["text/html;profile=mcp-app"]}}
"""Extensions that clients of a gateway may have; a legacy server gets them in the handshake."""
_INPUT_CAPABILITIES: dict[str, Any] = {
    "extensions": _DECLARED_EXTENSIONS,
    "elicitation": {"form": {}, "url": {}},
    "roots": {},
    "sampling": {"context": {}, "tools": {}},
}
"""Client capabilities declared when input can be relayed."""
_MAX_MARGIN_SECONDS = 0.25
"""A caller gets its error so long before its own deadline."""
_MAX_MARGIN_SHARE = 0.1
"""The margin takes at most this part of the time that is left to the caller."""


def transport_to(  # noqa: PLR0913 - each is another fact of the connection
    config: ServerConfig,
    *,
    name: str,
    stderr: StderrTail,
    dropped: DroppedMessages,
    environ: Mapping[str, str],
    written: ServerConfig,
    secrets: KnownSecrets,
    person: Person | None = None,
    logins: SharedLogins | None = None,
) -> Streams:
    """Return the transport to a server, with the access of a person, if one is given; not yet entered.

    The settings must be expanded; `written` has them as they were before, for messages. Access tokens are
    added to the secrets when they are sent.
    """
    if config.transport == "stdio":
        folder = environ.get(WORKERS_FOLDER) if config.is_shared else None
        return stdio_transport(config, name=name, stderr=stderr, written=written, workers=folder)
    auth = bearer_auth(name, config, environ, person, secrets, logins)
    if config.transport == "http":
        return http_transport(config, auth=auth, dropped=dropped)
    return sse_transport(config, auth=auth, dropped=dropped)


@dataclass(frozen=True, slots=True)
class ConnectionListeners:
    """Callbacks for events on a connection besides responses; none of them may block."""

    lost: Callable[[], None]
    """The other side is gone."""
    tools_changed: Callable[[], None]
    content_changed: Callable[[ChangeKind, str | None], None]
    """Something about its resources or prompts, in the legacy era."""
    logged: Callable[[dict[str, Any]], None]
    """Receives the parameters of a log message, which do not name its call."""
    elicited: Callable[[str], None]
    """A page that a client was sent to is done with, in the legacy era."""
    dropped: DroppedMessages
    """Counts the messages that are of no use."""
    asked: OnAsked | None = None
    """Answers requests of the server; None without a client that can."""


class Connection:
    """A connection that is ready for requests, which any task may send.

    Requests go to the SDK's dispatcher itself, not through its typed methods: those check results against the
    revision's own types and then against the output schema, which costs as much as the call. Results are read
    here for what is needed of them, and the runner validates the value.
    """

    def __init__(self, session: ClientSession, dispatcher: Dispatcher, *, transport: str, asks: bool) -> None:
        version = session.protocol_version or ""
        self.session = session
        self.transport = transport
        self.modern = version in MODERN_PROTOCOL_VERSIONS
        """Whether the server is modern (stateless), and not legacy (with a handshake)."""
        self.sends_logs = (
            session.server_capabilities is not None and session.server_capabilities.logging is not None
        )
        """Whether the server declares that it sends log messages."""
        self.has_call_headers = self.modern and transport != "stdio"
        """Whether calls name their tool, and arguments that its schema marks, in HTTP headers too."""
        self.listed = False
        """Whether its tools were ever listed."""
        self.called = False
        """Whether a call was ever sent."""
        self.useful = False
        """Whether a call was ever answered."""
        self.over = anyio.Event()
        """Set when the connection was given up and `close_reason` is known."""
        self.close_reason = ""
        """Why it ended."""
        self.log_level: str | None = None
        """The level that a legacy server was told."""
        self.subscribed: set[str] = set()
        """The resources that a legacy server was asked to tell of."""
        self.failed = False
        """Whether it was given up for what the server did, which counts against that."""
        self.gateways: frozenset[str] = frozenset()
        """The gateways that the server declares to be, or to have behind it."""
        self._dispatcher = dispatcher
        self._headers = {MCP_PROTOCOL_VERSION_HEADER: version}
        self._meta = {
            PROTOCOL_VERSION_META_KEY: version,
            CLIENT_INFO_META_KEY: _CLIENT.model_dump(by_alias=True, mode="json", exclude_none=True),
            CLIENT_CAPABILITIES_META_KEY: _INPUT_CAPABILITIES if asks else {},
        }
        self._called: dict[str, _CalledTool] = {}
        """The tools that were called, by name, as they were defined then."""

    @property
    def gone(self) -> bool:
        """Return whether the other side is gone."""
        return self._dispatcher.gone

    @property
    def fault(self) -> Exception | None:
        """Return the last fault of the transport."""
        return self._dispatcher.fault

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
        sent_headers = self._headers | (headers or {})
        if self.modern:
            params = params | {"_meta": self._meta | params.get("_meta", {})}
            sent_headers[MCP_METHOD_HEADER] = method
        if on_progress is None:
            return await self._dispatcher.send_plain(method, params, sent_headers)
        return await self._dispatcher.send_raw_request(
            method, params, {"headers": sent_headers, "on_progress": on_progress}
        )

    def describe_call(self, tool: Tool, args: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str] | None]:
        """Return the parameters of a call, and its HTTP headers: the tool, and arguments that it marks so."""
        called = self._called.get(tool.name)
        if called is None or called.tool is not tool:
            marked = x_mcp_header_map(tool.shared("input_schema")) if self.has_call_headers else {}
            called = self._called[tool.name] = _CalledTool(tool, own_name(tool), marked)
        params = {"name": called.name, "arguments": args}
        if not self.has_call_headers:
            return params, None
        headers = {MCP_NAME_HEADER: encode_header_value(called.name)}
        return params, headers | mcp_param_headers(called.marked, args)


@dataclass(frozen=True, slots=True)
class _CalledTool:
    """The parts that all calls of a tool share while its definition is unchanged."""

    tool: Tool
    name: str
    """Its name at the server."""
    marked: dict[tuple[str, ...], str]
    """The headers of the arguments that its schema marks, by their paths."""


@asynccontextmanager
async def open_connection(  # noqa: PLR0913 - each is another fact of the connection
    streams: Streams,
    listeners: ConnectionListeners,
    *,
    transport: str,
    probe: bool,
    patience: float,
    handshake_only: bool = False,
    gateway: str = "",
    secrets: KnownSecrets | None = None,
) -> AsyncIterator[Connection]:
    """Enter the transport and greet the server; leaving closes both.

    `probe`, `patience` and `handshake_only` are those of `negotiate`; `gateway` is the id of the gateway that
    connects, and `secrets` are hidden in all that the server sends.

    Raises:
        GatewayLoopError: the server is that gateway, or leads back to it.
        Exception: what the transport raised, and what `negotiate` does.
    """
    async with streams as (read, write):
        dispatcher = Dispatcher(
            read, write, listeners.lost, listeners.dropped, listeners.asked, secrets=secrets
        )
        asks = listeners.asked is not None
        session = ClientSession(
            dispatcher=dispatcher,
            client_info=_CLIENT,
            message_handler=_make_message_handler(listeners),
            logging_callback=_make_log_handler(listeners),
            sampling_capabilities=_SAMPLING,
            # With these the SDK declares what can be asked; the dispatcher answers it.
            sampling_callback=_refuse if asks else None,
            elicitation_callback=_refuse if asks else None,
            list_roots_callback=_refuse if asks else None,
            extensions=_DECLARED_EXTENSIONS if asks else None,
        )
        async with session:
            try:
                await negotiate(session, probe=probe, patience=patience, handshake_only=handshake_only)
            except MCPError as error:
                if error.code == CONNECTION_CLOSED and dispatcher.fault is not None:
                    raise dispatcher.fault from error
                raise
            dispatcher.revision = session.protocol_version or dispatcher.revision
            connection = Connection(session, dispatcher, transport=transport, asks=asks)
            declared = session.server_capabilities
            connection.gateways = declared_gateways(declared and declared.experimental, gateway)
            yield connection


async def _refuse(context: Any, params: Any = None) -> types.ErrorData:  # noqa: ARG001 - as the SDK calls it
    return types.ErrorData(code=types.INVALID_REQUEST, message="no client can be asked")


def _make_message_handler(listeners: ConnectionListeners) -> MessageHandlerFnT:
    async def hear(message: IncomingMessage) -> None:
        match message:
            case types.ToolListChangedNotification():
                listeners.tools_changed()
            case types.ResourceListChangedNotification():
                listeners.content_changed("resources", None)
            case types.PromptListChangedNotification():
                listeners.content_changed("prompts", None)
            case types.ResourceUpdatedNotification(params=params):
                listeners.content_changed("updated", str(params.uri))
            case types.ElicitCompleteNotification(params=params):
                listeners.elicited(params.elicitation_id)
            case _:
                return

    return hear


def _make_log_handler(listeners: ConnectionListeners) -> LoggingFnT:
    async def log(params: types.LoggingMessageNotificationParams) -> None:
        listeners.logged(params.model_dump(by_alias=True, mode="json", exclude_none=True))

    return log


class Start:
    """A start that is over when there is a connection, or a failure, or at a deadline."""

    def __init__(self, within: float) -> None:
        self.connection: Connection | None = None
        self._began = anyio.current_time()
        self._deadline = self._began + within
        self._failure: ServerUnavailableError | None = None
        self._done = anyio.Event()

    def succeed(self, connection: Connection) -> None:
        """Give a connection to those who wait."""
        self.connection = connection
        self._done.set()

    def fail(self, failure: ServerUnavailableError) -> None:
        """Tell those who wait that there will be none."""
        self._failure = failure
        self._done.set()

    @property
    def overdue(self) -> bool:
        """Return whether its deadline has passed."""
        return anyio.current_time() >= self._deadline

    @property
    def age(self) -> float:
        """Return the seconds since it began."""
        return anyio.current_time() - self._began

    async def wait(self, deadline: float) -> Connection | None:
        """Return the connection; None if there is neither one nor a failure at the deadline.

        Whoever has a deadline of its own gets its error a moment before it, while that can still be heard.

        Raises:
            ServerUnavailableError: the start has failed.
        """
        margin = max(0.0, min(_MAX_MARGIN_SECONDS, _MAX_MARGIN_SHARE * (deadline - anyio.current_time())))
        with anyio.CancelScope(deadline=min(self._deadline, deadline - margin)):
            await self._done.wait()
        failure = self._failure
        if failure is None:
            return self.connection
        # Each gets an exception of its own: a shared one would collect the tracebacks of all.
        raise replace(failure) from failure.__cause__
