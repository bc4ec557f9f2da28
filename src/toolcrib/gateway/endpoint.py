"""One MCP server over a frontend: what clients of one address talk to, in both eras of the protocol."""

import logging
from base64 import b64encode
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from weakref import WeakSet

import anyio
import mcp_types
from mcp.server.caching import CacheHint
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import x_mcp_header_map
from mcp_types import SERVER_INFO_META_KEY
from mcp_types.methods import validate_client_request
from opentelemetry import trace

from toolcrib import __version__
from toolcrib.concurrency.background import Loop
from toolcrib.gateway.client import CURRENT, ConfirmationTokens, RequestClient
from toolcrib.gateway.frontend import Frontend, InputNeeded
from toolcrib.gateway.results import PREFIX, KeptResults
from toolcrib.mcp_internals import connection_of

__all__ = ["McpEndpoint"]

_LOG = logging.getLogger("toolcrib.gateway")
_PATIENCE = 300.0
"""For how many seconds a person may think about a question."""
_CALM = 0.1
"""For how many seconds changes are gathered before clients are notified."""
_TELLING = 5.0
"""Within how many seconds a client must take the news."""
_LIST_FRESH = 60_000
"""For how many milliseconds a client may keep a list of tools; those that listen are notified of changes."""
_READ_FRESH = 600_000
"""For how many milliseconds it may keep a result, which never changes."""
_TEMPLATE = mcp_types.ResourceTemplate(
    name="result",
    uri_template=f"{PREFIX}{{id}}",
    description="A result that was too large to send whole; the result itself tells its address",
)
_HEADERLESS = {"type": "object"}
_WORDS = "2026-07-28"
"""The revision of the stateless era."""
_Context = ServerRequestContext[Any, Any]
_Given = mcp_types.CallToolResult | mcp_types.InputRequiredResult
_Call = Callable[[_Context, mcp_types.CallToolRequestParams], Awaitable[_Given]]


class McpEndpoint:
    """What clients of one address talk to: an MCP server, over a frontend that may be exchanged.

    `run` tells clients that the tools have changed, for as long as it runs.
    """

    def __init__(  # noqa: PLR0913 - each is a part that only the gateway puts together
        self,
        frontend: Frontend,
        *,
        name: str = "",
        description: str = "",
        kept: KeptResults | None = None,
        security: RequestStateSecurity | None = None,
        middleware: Sequence[ServerMiddleware[Any]] = (),
        patience: float = _PATIENCE,
    ) -> None:
        """Make the server; the name and the description are the toolset's."""
        self.name = name
        self.closed = anyio.Event()
        """Set when it is gone: its address answers no more, and what runs may end."""
        self._frontend, self._description, self._kept, self._patience = frontend, description, kept, patience
        security = security or RequestStateSecurity.ephemeral()
        self._tickets = ConfirmationTokens(security.ttl)
        self._sessions: WeakSet[Connection] = WeakSet()
        self._bus = InMemorySubscriptionBus()
        self._listen = ListenHandler(self._bus)
        self._changed = anyio.Event()
        self._is_noted = False
        self._loop: Loop | None = None
        self._schemas: dict[str, dict[str, Any]] | None = None
        self._told = tuple(frontend.tools())
        self._unsubscribe = frontend.on_change(self._note)
        self.server = self._make_server()
        boundary = RequestStateBoundary(security, default_audience=f"toolcrib/{name}")
        spans = self.server.middleware
        worded = _SkipRevalidation(self._call, self.server.server_info_stamp)
        self.server.middleware = [*map(_WhereTraced, spans), *middleware, boundary, worded]
        self.server.add_notification_handler(
            "notifications/initialized", mcp_types.NotificationParams, self._greet
        )

    def _make_server(self) -> "_Server":
        return _Server(
            "toolcrib",
            version=__version__,
            title=f"toolcrib: {self.name}" if self.name else "toolcrib",
            instructions=self._instructions(),
            cache_hints={
                "tools/list": CacheHint(_LIST_FRESH, "private"),
                "server/discover": CacheHint(_LIST_FRESH, "private"),
                "resources/list": CacheHint(_READ_FRESH, "private"),
                "resources/templates/list": CacheHint(_READ_FRESH, "private"),
                "resources/read": CacheHint(_READ_FRESH, "private"),
            },
            get_tool_input_schema=self._schema,
            on_list_tools=self._list,
            on_call_tool=self._call,
            on_list_resources=self._resources,
            on_list_resource_templates=self._templates,
            on_read_resource=self._read,
            on_subscriptions_listen=self._subscribe,
        )

    @property
    def sessions(self) -> int:
        """How many clients of the handshake era are there."""
        return len(self._sessions)

    def replace(self, frontend: Frontend, description: str = "") -> None:
        """Show another frontend, to those that are here too."""
        self._unsubscribe()
        self._frontend, self._unsubscribe = frontend, frontend.on_change(self._note)
        self._description = description
        self._note()

    def close(self) -> None:
        """Say that it is gone, and end the streams of those that listen."""
        self._unsubscribe()
        self.end_listening()
        self.closed.set()

    def end_listening(self) -> None:
        """End the streams of those that listen, which else never end."""
        self._listen.close()

    async def run(self) -> None:
        """Tell clients of changes, a moment after the first of several, whatever goes wrong with one."""
        self._loop = Loop()
        while True:
            await self._changed.wait()
            await anyio.sleep(_CALM)
            self._changed = anyio.Event()
            self._is_noted = False  # before the look: what changes after it is noted again
            try:
                await self._tell_changes()
            except Exception:  # noqa: BLE001 - frontends are foreign, and the next change must be sent all the same
                _LOG.exception(
                    "the clients of %s could not be notified of a change", self.name or "the gateway"
                )

    def _note(self) -> None:
        """Note that the tools may have changed; it may be called from any thread, any number of times."""
        if self._is_noted:
            return
        self._is_noted = True
        loop = self._loop
        if loop is None or loop.is_here:
            self._changed.set()
        else:
            loop.start(self._set_changed)

    async def _set_changed(self) -> None:
        self._changed.set()

    async def _tell_changes(self) -> None:
        """Tell clients, if what they see has changed."""
        self._schemas = None
        self.server.instructions = self._instructions()
        before, self._told = self._told, tuple(self._frontend.tools())
        if self._told == before:
            return
        await self._bus.publish(ToolsListChanged())
        async with anyio.create_task_group() as telling:
            for session in list(self._sessions):
                telling.start_soon(_tell, session)

    def _instructions(self) -> str:
        return f"{self._description} {self._frontend.about()}".strip()

    def _schema(self, name: str) -> dict[str, Any] | None:
        """Return the schema of a tool, for the SDK to find in it which arguments are in headers too."""
        if self._schemas is None:
            schemas = {tool.name: tool.input_schema for tool in self._frontend.tools()}
            # It looks through all of a schema with each call: where there is nothing to find, not for long.
            self._schemas = {
                name: schema if x_mcp_header_map(schema) else _HEADERLESS for name, schema in schemas.items()
            }
        return self._schemas.get(name)

    async def _greet(self, context: _Context, _: mcp_types.NotificationParams) -> None:
        connection = connection_of(context.session)
        if connection.has_standalone_channel:
            self._sessions.add(connection)
            connection.exit_stack.callback(self._sessions.discard, connection)

    async def _subscribe(
        self, context: _Context, params: mcp_types.SubscriptionsListenRequestParams
    ) -> mcp_types.SubscriptionsListenResult:
        """Tell a client of changed tools; there is nothing else to subscribe to, so nothing else is kept."""
        wanted = mcp_types.SubscriptionFilter(tools_list_changed=params.notifications.tools_list_changed)
        return await self._listen(context, params.model_copy(update={"notifications": wanted}))

    async def _list(
        self, _: _Context, params: mcp_types.PaginatedRequestParams | None
    ) -> mcp_types.ListToolsResult:
        _check_cursor(params)
        return mcp_types.ListToolsResult(tools=list(self._frontend.tools()))

    async def _call(self, context: _Context, params: mcp_types.CallToolRequestParams) -> _Given:
        client = RequestClient(context, params, self._tickets, self._patience)
        token = CURRENT.set(client)
        try:
            return await self._frontend.call(params.name, params.arguments or {}, client)
        except InputNeeded as needed:
            return needed.result
        finally:
            CURRENT.reset(token)

    async def _resources(
        self, _: _Context, params: mcp_types.PaginatedRequestParams | None
    ) -> mcp_types.ListResourcesResult:
        _check_cursor(params)
        return mcp_types.ListResourcesResult(resources=[])  # whoever has the address may read it, nobody else

    async def _templates(
        self, _: _Context, params: mcp_types.PaginatedRequestParams | None
    ) -> mcp_types.ListResourceTemplatesResult:
        _check_cursor(params)
        return mcp_types.ListResourceTemplatesResult(resource_templates=[_TEMPLATE])

    async def _read(
        self, _: _Context, params: mcp_types.ReadResourceRequestParams
    ) -> mcp_types.ReadResourceResult:
        uri = str(params.uri)
        found = None if self._kept is None else self._kept.read(uri)
        if found is None:
            message = (
                f"nothing is kept at {uri[:200]!r}, or not any more; run again only what changes nothing"
            )
            raise MCPError(mcp_types.INVALID_PARAMS, message, {"uri": uri[:200]})
        content: mcp_types.TextResourceContents | mcp_types.BlobResourceContents
        if isinstance(found.data, str):
            content = mcp_types.TextResourceContents(uri=uri, mime_type=found.mime_type, text=found.data)
        else:
            blob = b64encode(found.data).decode()
            content = mcp_types.BlobResourceContents(uri=uri, mime_type=found.mime_type, blob=blob)
        return mcp_types.ReadResourceResult(contents=[content])


class _Server(Server[Any]):
    """The SDK's server, declaring true capabilities: tools change, resources are not subscribed to."""

    def get_capabilities(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
        *,
        protocol_version: str | None = None,
    ) -> mcp_types.ServerCapabilities:
        """Return what clients may ask for."""
        capabilities = super().get_capabilities(
            notification_options, experimental_capabilities, extensions, protocol_version=protocol_version
        )
        capabilities.tools = mcp_types.ToolsCapability(list_changed=True)
        if capabilities.resources is not None:
            capabilities.resources = mcp_types.ResourcesCapability(subscribe=False, list_changed=False)
        return capabilities


class _WhereTraced:
    """Does what a tracing middleware does, where spans go anywhere; else a call does not pay for them."""

    def __init__(self, middleware: ServerMiddleware[Any]) -> None:
        self._middleware = middleware

    async def __call__(self, ctx: _Context, call_next: CallNext) -> HandlerResult:
        if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            return await call_next(ctx)
        return await self._middleware(ctx, call_next)


class _SkipRevalidation:
    """Answers calls of the stateless era itself, since what a frontend gives is in the words of that already.

    The SDK would make it of their types once more, and copy who answers, for 0.1 ms of each call.
    """

    def __init__(self, call: _Call, info: dict[str, Any]) -> None:
        self._call, self._info = call, info

    async def __call__(self, ctx: _Context, call_next: CallNext) -> HandlerResult:
        if ctx.method != "tools/call" or ctx.protocol_version != _WORDS:
            return await call_next(ctx)
        validate_client_request(ctx.method, _WORDS, ctx.params)
        params = mcp_types.CallToolRequestParams.model_validate(ctx.params, by_name=False)
        given = await self._call(ctx, params)
        payload = given.model_dump(by_alias=True, mode="json", exclude_none=True)
        return payload | {"_meta": {SERVER_INFO_META_KEY: self._info} | payload.get("_meta", {})}


def _check_cursor(params: mcp_types.PaginatedRequestParams | None) -> None:
    if params is not None and params.cursor is not None:
        raise MCPError(mcp_types.INVALID_PARAMS, "no such page: the list is one page; ask without a cursor")


async def _tell(session: Connection) -> None:
    with anyio.move_on_after(_TELLING):
        await session.send_tool_list_changed()  # a session that is broken makes it do nothing
