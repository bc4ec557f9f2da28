"""The MCP server of one address, for clients of both eras of the protocol."""

import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

import anyio
import mcp_types
from mcp.server.caching import CacheHint
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import x_mcp_header_map
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from opentelemetry import trace

from toolcrib import __version__
from toolcrib.concurrency.background import Loop
from toolcrib.concurrency.lru import LruCache
from toolcrib.crib import Settings, View
from toolcrib.execution import Principal
from toolcrib.execution.entries import SharedEntries
from toolcrib.execution.mcp.config import ContentChange
from toolcrib.gateway.frontends.shared.frontend import (
    Frontend,
    SettlingFrontend,
    StartedTask,
    ToolDefinition,
)
from toolcrib.gateway.identity.principals import (
    account_of,
    authenticated_principal,
    principal_of,
)
from toolcrib.gateway.limits import MAX_STREAMS
from toolcrib.gateway.passing import PassOn, wire
from toolcrib.gateway.request.client import ObtainLogin, RequestClient, set_log_level
from toolcrib.gateway.request.confirmation_tokens import ConfirmationTokens
from toolcrib.gateway.request.held import COMPOSED, MAX_HELD, TASK_AFTER, HeldCall, HeldCalls
from toolcrib.gateway.resources.handlers import ContentHandlers, Declared
from toolcrib.gateway.resources.lists import page
from toolcrib.gateway.resources.subscriptions import ChangeBus, PrincipalBus, Subscriptions
from toolcrib.gateway.tasks.handlers import TaskHandlers
from toolcrib.mcp_internals import connection_of, number_requests_from

_LOG = logging.getLogger("toolcrib.gateway")
_PATIENCE = 300.0
"""Seconds to wait for the answer of a person."""
_DEBOUNCE = 0.1
"""Seconds for which changes are collected before clients are notified."""
_NOTIFY_TIMEOUT = 5.0
"""Seconds that a client has to accept a notification."""
_LIST_FRESH = 60_000
"""Milliseconds for which a client may cache a list; clients that listen are notified of changes."""
_MAX_REQUEST_ID = 2**50
"""All clients can represent it; they may read a number as a double."""
_MAX_BY_RULES = 32
"""Sets of rules whose frontends are cached."""
_MAX_SCHEMAS = 64
"""Frontends whose schemas with arguments in headers are cached."""
_Context = ServerRequestContext[Any, Any]
_Answer = Callable[[Mapping[str, Any], RequestClient], Awaitable[dict[str, Any]]]
_Handler = Callable[[_Context, Any], Awaitable[Any]]


class McpEndpoint:
    """The MCP server of one address, over a frontend that can be replaced.

    `run` notifies clients of changes, while it runs.
    """

    def __init__(  # noqa: PLR0913 - parts that only the gateway combines
        self,
        frontend: Frontend,
        *,
        name: str = "",
        description: str = "",
        content: ContentHandlers | None = None,
        security: RequestStateSecurity | None = None,
        middleware: Sequence[ServerMiddleware[Any]] = (),
        patience: float = _PATIENCE,
        max_held: int = MAX_HELD,
        obtain_login: ObtainLogin | None = None,
        view: View | None = None,
        make_frontend: Callable[[View], Frontend] | None = None,
        gateways: Callable[[], dict[str, dict[str, Any]]] = dict,
        shared: Callable[[], SharedEntries | None] = lambda: None,
        worker: int | None = None,
        restores_sessions: bool = False,
    ) -> None:
        """Create the server; `name` is of its address, `description` of its toolset.

        Where `view` has rules, each principal has a frontend that `make_frontend` makes of its own view; else
        all use `frontend`. `gateways` returns the ids of gateways to declare, by which nested gateways find
        cycles. `shared` returns the store of all gateways, in which an answer counts once. `worker` is the
        number of this process among those that serve the same address. With `restores_sessions` another
        process may have the same session.
        """
        self._view, self._make_frontend, self._gateways = view, make_frontend, gateways
        self._by_rules: LruCache[str, tuple[Settings, Frontend]] = LruCache(_MAX_BY_RULES)
        """Frontends of principals by the key of their rules, with the settings that they were made of."""
        self.name = name
        self.closed = anyio.Event()
        """Set when the endpoint is closed: its address refuses requests, and running ones may end."""
        self._frontend, self._description = frontend, description
        self._content = ContentHandlers() if content is None else content
        self._bus = ChangeBus()
        self._subscriptions = Subscriptions(self._content, self._bus)
        self._content_changes: dict[ContentChange, None] = {}
        security = security or RequestStateSecurity.ephemeral()
        self._calls = HeldCalls(
            ConfirmationTokens(security.ttl, shared=shared), patience, max_held, obtain_login, worker=worker
        )
        self._tasks = TaskHandlers(self._content, self._calls, self._frontend_seen_by, worker=worker)
        self._restores_sessions = restores_sessions
        self._sessions: WeakKeyDictionary[Connection, Principal] = WeakKeyDictionary()
        self.connections: WeakValueDictionary[str, Connection] = WeakValueDictionary()
        """Initialized connections of the handshake era over HTTP, by session id."""
        self._streams: set[ListenHandler] = set()
        """Handlers of the open subscription streams, one for each."""
        self._changed = anyio.Event()
        self._is_noted = False
        self._loop: Loop | None = None
        self._find_marked_schemas = lru_cache(_MAX_SCHEMAS)(_marked_schemas)
        self._announced: dict[int, tuple[Frontend, tuple[ToolDefinition, ...]]] = {}
        """The tools last shown to clients, by the id of the frontend."""
        self._note_shown(frontend)
        self._stop_hearing = frontend.on_change(self._note_change)
        self._stop_content = self._content.on_change(self.note_content)
        self.server = self._make_server()
        boundary = RequestStateBoundary(security, default_audience=f"toolcrib/{name}")
        spans = self.server.middleware
        # The boundary unseals the state of a request, so it precedes `PassOn`, which may answer by itself.
        passing = PassOn(self.server, self._content.extensions)
        self.server.middleware = [*map(_OptionalTracing, spans), *middleware, boundary, passing]
        self.server.add_notification_handler(
            "notifications/initialized", mcp_types.NotificationParams, self._register_session
        )
        self.server.add_request_handler("logging/setLevel", mcp_types.SetLevelRequestParams, set_log_level)
        self._tasks.add_to(self.server)

    def _make_server(self) -> "_Server":
        return _Server(
            declared=lambda: self._content.declared(authenticated_principal()),
            extensions=lambda: self._tasks.extensions() | self._content.extensions(),
            experimental=self._gateways,
            instructions=self._instructions,
            name="toolcrib",
            version=__version__,
            title=f"toolcrib: {self.name}" if self.name else "toolcrib",
            cache_hints={
                "tools/list": CacheHint(_LIST_FRESH, "private"),
                "server/discover": CacheHint(_LIST_FRESH, "private"),
                "resources/list": CacheHint(_LIST_FRESH, "private"),
                "resources/templates/list": CacheHint(_LIST_FRESH, "private"),
                "prompts/list": CacheHint(_LIST_FRESH, "private"),
            },
            get_tool_input_schema=self._header_schema,
            on_list_tools=self._make_handler(self._list_tools),
            on_call_tool=self._call_tool,
            on_list_resources=self._make_handler(self._content.resources),
            on_list_resource_templates=self._make_handler(self._content.templates),
            on_read_resource=self._make_handler(self._content.read),
            on_list_prompts=self._make_handler(self._content.prompts),
            on_get_prompt=self._make_handler(self._content.prompt),
            on_completion=self._make_handler(self._content.complete),
            on_subscribe_resource=self._subscribe,
            on_unsubscribe_resource=self._unsubscribe,
            on_subscriptions_listen=self._stream_changes,
        )

    @property
    def sessions(self) -> int:
        """Number of connected clients of the handshake era."""
        return len(self._sessions)

    def replace(self, frontend: Frontend, description: str = "") -> None:
        """Replace the frontend, also for connected clients."""
        self._stop_hearing()
        self._frontend, self._stop_hearing = frontend, frontend.on_change(self._note_change)
        self._description = description
        self._announced = {}  # with other rules, clients may see other tools
        self._note_change()

    def close(self) -> None:
        """Close the endpoint, and end its streams."""
        self._stop_hearing()
        self._stop_content()
        self.end_listening()
        self._calls.close()
        self.closed.set()

    def end_listening(self) -> None:
        """End the streams of clients that listen, which never end by themselves."""
        for stream in self._streams:
            stream.close()

    async def run(self) -> None:
        """Notify clients of changes, until cancelled; changes within a short time are sent together."""
        self._loop = Loop()
        while True:
            await self._changed.wait()
            await anyio.sleep(_DEBOUNCE)
            self._changed = anyio.Event()
            self._is_noted = False  # before the comparison, so that a later change is noted again
            try:
                await self._notify_changes()
            except Exception:  # noqa: BLE001 - frontends may be user code; later changes must still be sent
                _LOG.exception(
                    "the clients of %s could not be notified of a change", self.name or "the gateway"
                )

    def note_content(self, change: ContentChange) -> None:
        """Note a change of resources or prompts; called in the event loop."""
        self._content_changes[change] = None
        self._changed.set()

    def _note_change(self) -> None:
        """Note that the tools may have changed; it may be called from any thread, any number of times."""
        if self._is_noted:
            return
        self._is_noted = True
        loop = self._loop
        if loop is None or loop.is_current_thread:
            self._changed.set()
        else:
            loop.start(self._set_changed)

    async def _set_changed(self) -> None:
        self._changed.set()

    async def _notify_changes(self) -> None:
        """Notify the clients whose visible tools or content have changed."""
        self._find_marked_schemas.cache_clear()
        before, self._announced = self._announced, {}
        changes, self._content_changes = self._content_changes, {}

        def sees_others(principal: Principal | None) -> bool:
            frontend = self._frontend_seen_by(principal)
            return before.get(id(frontend)) != self._note_shown(frontend)

        async with anyio.create_task_group() as tasks:
            sessions = dict(self._sessions)
            for session in filter(lambda each: sees_others(sessions[each]), sessions):
                tasks.start_soon(_notify, session.send_tool_list_changed)
            tasks.start_soon(self._bus.publish, ToolsListChanged(), sees_others)
            for notify in self._subscriptions.notifications(changes, sessions):
                tasks.start_soon(_notify, notify)

    def _note_shown(self, frontend: Frontend) -> tuple[Frontend, tuple[ToolDefinition, ...]]:
        """Store the tools of a frontend as known to its clients, unless some are stored; return them."""
        key = id(frontend)  # unique while the frontend is stored
        if key not in self._announced:
            self._announced[key] = frontend, tuple(frontend.tools())
        return self._announced[key]

    def _instructions(self) -> str:
        about = self._frontend_seen_by(authenticated_principal()).about()
        return f"{self._description} {about}".strip()

    def _frontend_seen_by(self, principal: Principal | None) -> Frontend:
        """Return the frontend of a principal; principals with equal rules share one."""
        rules = None if self._view is None else self._view.rules
        if self._view is None or self._make_frontend is None or rules is None:
            return self._frontend
        key, settings = rules.grants(principal).key, self._view.settings
        known = self._by_rules.get(key)
        if known is None or known[0] is not settings:
            known = settings, self._make_frontend(self._view.seen_by(principal or Principal()))
            self._by_rules.put(key, known)
        return known[1]

    def _header_schema(self, name: str) -> dict[str, Any] | None:
        """Return the schema of a tool with arguments in headers, which the SDK compares with the body.

        A tool that is hidden from the principal of the request has none.
        """
        return self._find_marked_schemas(self._frontend_seen_by(authenticated_principal())).get(name)

    async def _register_session(self, context: _Context, _: mcp_types.NotificationParams) -> None:
        connection = connection_of(context.session)
        if connection.has_standalone_channel:
            if (
                self._restores_sessions
            ):  # an answer must not be taken for that to a question of another process
                number_requests_from(connection, secrets.randbelow(_MAX_REQUEST_ID))
            self._sessions[connection] = principal_of(context)
            self._note_shown(self._frontend_seen_by(self._sessions[connection]))
            if connection.session_id is not None:
                self.connections[connection.session_id] = connection
            connection.exit_stack.callback(self._sessions.pop, connection, None)

    def refresh_principal(self, session_id: str, principal: Principal | None) -> None:
        """Store the groups and scopes of the latest token of a session's account."""
        connection = self.connections.get(session_id)
        known = None if connection is None else self._sessions.get(connection)
        if connection is None or principal is None or account_of(known) != account_of(principal):
            return
        self._sessions[connection] = principal

    async def _stream_changes(
        self, context: _Context, params: mcp_types.SubscriptionsListenRequestParams
    ) -> mcp_types.SubscriptionsListenResult:
        """Send a client the changes that it requests, as far as the servers support them."""
        client = self._calls.client_of(context)
        wanted, declared = params.notifications, self._content.declared(client.principal)
        if client.request is not None:
            client.request.is_subscription = True
        if len(self._streams) >= MAX_STREAMS:
            raise MCPError(mcp_types.INTERNAL_ERROR, "Subscription limit reached")
        self._note_shown(self._frontend_seen_by(client.principal))
        stream = ListenHandler(PrincipalBus(self._bus, client.principal))
        self._streams.add(stream)
        try:
            subscribed = self._subscriptions.stream(wanted.resource_subscriptions or (), client)
            async with subscribed as uris:
                heard = mcp_types.SubscriptionFilter(
                    tools_list_changed=wanted.tools_list_changed,
                    prompts_list_changed=wanted.prompts_list_changed if declared.prompts else None,
                    resources_list_changed=wanted.resources_list_changed,
                    resource_subscriptions=uris or None,
                )
                return await stream(context, params.model_copy(update={"notifications": heard}))
        finally:
            self._streams.discard(stream)

    async def _subscribe(
        self, context: _Context, params: mcp_types.SubscribeRequestParams
    ) -> mcp_types.EmptyResult:
        client = self._calls.client_of(context)
        await self._subscriptions.subscribe(connection_of(context.session), str(params.uri), client)
        return mcp_types.EmptyResult()

    async def _unsubscribe(
        self, context: _Context, params: mcp_types.UnsubscribeRequestParams
    ) -> mcp_types.EmptyResult:
        await self._subscriptions.unsubscribe(connection_of(context.session), str(params.uri))
        return mcp_types.EmptyResult()

    async def _list_tools(self, params: Mapping[str, Any], client: RequestClient) -> dict[str, Any]:
        frontend = self._frontend_seen_by(client.principal)
        fresh = await frontend.settled() if isinstance(frontend, SettlingFrontend) else {}
        tools = {tool["name"]: tool for tool in map(wire, frontend.tools())}
        listed = page("tools", tools, params, client.principal) | fresh
        declared = self._gateways()
        return listed | {"_meta": declared} if declared else listed

    async def _call_tool(self, context: _Context, params: mcp_types.CallToolRequestParams) -> dict[str, Any]:
        """Call a tool, and return the result in the format of the stateless era."""
        is_single = params.name not in COMPOSED
        client = self._calls.client_of(context, params, is_single=is_single)
        takes_tasks = client.knows_tasks and self._tasks.has_room(client)
        client.takes_tasks = takes_tasks and is_single

        def call() -> Awaitable[Any]:
            frontend = self._frontend_seen_by(client.principal)
            return frontend.call(params.name, params.arguments or {}, client)

        within = TASK_AFTER if takes_tasks and not is_single else None
        given: Any = await self._calls.answer(context, client, params, call, within=within)
        if isinstance(given, HeldCall | StartedTask):
            return self._tasks.add_task(given, client.principal, params.name)
        return wire(given)

    def _make_handler(self, answer: _Answer) -> _Handler:
        """Return a handler for a method of the protocol; servers may ask its client for input."""

        async def handle(context: _Context, params: Any) -> dict[str, Any]:
            payload, asked = context.params or {}, _input_params(context, params)
            if asked is None:
                client = self._calls.client_of(context)
                return self._mark_private(await answer(payload, client), client)
            client = self._calls.client_of(context, asked, is_single=True)
            given = await self._calls.answer(context, client, asked, lambda: answer(payload, client))
            return self._mark_private(wire(given), client)

        return handle

    def _mark_private(self, answer: dict[str, Any], client: RequestClient) -> dict[str, Any]:
        """Mark a result as private to its client, unless all principals see the same."""
        is_same = (
            authenticated_principal() is None and self._frontend_seen_by(client.principal) is self._frontend
        )
        return answer if is_same or "cacheScope" not in answer else answer | {"cacheScope": "private"}


def _marked_schemas(frontend: Frontend) -> dict[str, dict[str, Any]]:
    """Return the schemas of the tools with arguments in headers, by the names of the tools."""
    schemas = {tool["name"]: tool["inputSchema"] for tool in map(wire, frontend.tools())}
    return {name: schema for name, schema in schemas.items() if x_mcp_header_map(schema)}


def _input_params(context: _Context, params: Any) -> mcp_types.InputResponseRequestParams | None:
    """Return the responses in a request; None if servers cannot ask for input during such a request.

    In the stateless era some requests can be answered with a question. In the handshake era a server can send
    its question during any relayed request, including completions.
    """
    if isinstance(params, mcp_types.InputResponseRequestParams):
        return params
    is_legacy = context.protocol_version not in MODERN_PROTOCOL_VERSIONS
    is_completion = isinstance(params, mcp_types.CompleteRequestParams)
    return mcp_types.InputResponseRequestParams() if is_legacy and is_completion else None


class _Server(Server[Any]):
    """The SDK's server, with instructions and capabilities that are computed for each request."""

    def __init__(
        self,
        *,
        declared: Callable[[], Declared],
        extensions: Callable[[], dict[str, dict[str, Any]]],
        experimental: Callable[[], dict[str, dict[str, Any]]],
        instructions: Callable[[], str],
        **options: Any,
    ) -> None:
        self._declared, self._extensions, self._instructions = declared, extensions, instructions
        self._experimental = experimental
        super().__init__(**options)

    @property
    def instructions(self) -> str | None:
        """The instructions that a client gets when it connects."""
        return self._instructions()

    @instructions.setter
    def instructions(self, value: str | None) -> None:
        """Ignore the SDK's assignment: instructions change with the catalogue."""

    def get_capabilities(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
        *,
        protocol_version: str | None = None,
    ) -> mcp_types.ServerCapabilities:
        """Return the capabilities of the servers at this moment."""
        capabilities = super().get_capabilities(
            notification_options, experimental_capabilities, extensions, protocol_version=protocol_version
        )
        declared = self._declared()
        capabilities.experimental = {**(capabilities.experimental or {}), **self._experimental()} or None
        capabilities.tools = mcp_types.ToolsCapability(list_changed=True)
        capabilities.resources = mcp_types.ResourcesCapability(
            subscribe=declared.subscribe, list_changed=declared.changes
        )
        capabilities.logging = capabilities.logging if declared.logging else None
        prompts = mcp_types.PromptsCapability(list_changed=declared.changes)
        capabilities.prompts = prompts if declared.prompts else None
        capabilities.completions = mcp_types.CompletionsCapability() if declared.completions else None
        if protocol_version in MODERN_PROTOCOL_VERSIONS:
            capabilities.extensions = self._extensions() or None
        return capabilities


class _OptionalTracing:
    """Runs a tracing middleware only if a tracer provider is set, since spans cost time."""

    def __init__(self, middleware: ServerMiddleware[Any]) -> None:
        self._middleware = middleware

    async def __call__(self, ctx: _Context, call_next: CallNext) -> HandlerResult:
        if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            return await call_next(ctx)
        return await self._middleware(ctx, call_next)


async def _notify(send: Callable[[], Awaitable[None]]) -> None:
    with anyio.move_on_after(_NOTIFY_TIMEOUT):
        await send()  # does nothing for a broken session
