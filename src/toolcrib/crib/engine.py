"""The engine behind a crib: its parts, composed again each time it is opened, and their task group."""

import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import anyio
from anyio import to_thread

from toolcrib.concurrency.background import Background
from toolcrib.crib.compose import (
    Hooks,
    issuers_of,
    make_index,
    make_middleware,
    make_observers,
    make_rules,
    must_write,
    open_audit,
    open_store,
)
from toolcrib.crib.config.settings import Settings
from toolcrib.crib.learning import Learning
from toolcrib.crib.reload import Reload, differences, layers, left_for_later, replaced
from toolcrib.crib.sources.apis import Apis
from toolcrib.crib.sources.catalogue import CatalogueWriter, StoredSource, keep_only, missed_before
from toolcrib.crib.sources.content import ContentLists, KeptLists, drop_lists, load_lists
from toolcrib.crib.sources.listing import ToolLister
from toolcrib.crib.sources.nesting import choose_gateway_id, nest_servers, read_depth
from toolcrib.crib.sources.origins import (
    Absence,
    Origin,
    Tools,
    names_of,
    server_origins,
    shared_identities,
)
from toolcrib.crib.visible import AvailabilityResolver, VisibleTools
from toolcrib.discovery import Discovery, DocStore, Index, Scope, Store
from toolcrib.discovery.store.connection import is_damage, set_aside
from toolcrib.discovery.store.queued import QueuedStore
from toolcrib.errors import CribStateError, ServerUnavailableError, StoreError, ToolcribError
from toolcrib.execution import LocalHandlers, Observer, Principal, Runner
from toolcrib.execution.mcp import McpServers, ServerStatus
from toolcrib.execution.mcp.content import ServerContent
from toolcrib.model import DefaultValidator, McpBackend, SchemaValidator, Tool, ToolBackend

_LOG = logging.getLogger("toolcrib.crib")
_CATALOGUE_LOG = logging.getLogger("toolcrib.crib.catalogue")
"""What the command shows too."""
_CLOSING_TIME = 15.0
"""How many seconds everything together may take to stop."""
_WRITING_TIME, _FLUSHING_TIME = 10.0, 2.0
"""How many of them the catalogue and the audit may take to be written."""
_MAX_VISIBLE = 256
"""For how many scopes and sets of rules it is kept what they let callers see."""


class Engine:
    """The catalogue, the runner, and the connections that are open between `open` and `close`.

    All that runs in the background belongs to one task of its own, so that it does not matter which task
    opens and which one closes.
    """

    def __init__(self, settings: Settings, hooks: Hooks, way_in: str) -> None:
        """Put the parts together; `way_in` is what a user writes to open it."""
        self.settings = settings
        self.way_in = way_in
        """What a user writes to open it."""
        self.handlers = LocalHandlers()
        self.names = names_of(settings)
        """The namespaces whose tools come from servers and APIs; another set after a reload."""
        self.listing: ToolLister | None = None
        self.servers: McpServers | None = None
        self.lists = ContentLists()
        """What servers list of resources and prompts."""
        self.hooks = hooks
        self.validator: SchemaValidator = hooks.validator or DefaultValidator()
        """The one validator of the crib: it compiles each schema once, whoever asks."""
        self._depth, self._opened = 0, settings
        self._apis = Apis(settings, hooks.environ)
        self._local_tools: dict[str, tuple[Tool, ToolBackend]] = {}
        self.audit = open_audit(settings, hooks.environ)
        self.rules = make_rules(self.settings, self.hooks, self.validator)
        """Who may run what, where the settings say so."""
        self._observers = make_observers(settings, self.audit)
        self._middleware = make_middleware(settings)
        self._catalogue: CatalogueWriter | None = None
        self._changing = anyio.Lock(fast_acquire=True)
        self._closing = anyio.Event()
        self._ended = anyio.Event()
        self._life: Background | None = None
        self._failure: BaseException | None = None
        self._visible: OrderedDict[Hashable, VisibleTools] = OrderedDict()
        self.tools = VisibleTools(self)
        """All tools."""
        self._set_catalogue(hooks.store)
        self.runner = self._make_runner()

    def _set_catalogue(self, store: Store | None) -> None:
        index = make_index(self.settings, store, self.hooks.searcher, self.hooks.embedder, self.validator)
        self.resolver = AvailabilityResolver(index, self.why_absent)
        owned = None if self.hooks.store is not None else store  # whoever gave a store prunes and closes it
        self.discovery = Discovery(index, DocStore(self.resolver, texts=store), store=owned)
        self.store = store if isinstance(store, QueuedStore) else None
        """What keeps the catalogue of an open crib; None where it is not kept."""
        self._learning = Learning(self.discovery)
        self.discovery.register_many(self._local_tools.values())

    def visible(self, scope: Scope | None, principal: Principal | None) -> VisibleTools:
        """Return the tools that a scope and the rules let a principal reach.

        All principals whom the same rules are about share them.
        """
        if scope is None and principal is None:
            return self.tools
        who = principal if self.rules is None else self.rules.grants(principal).key
        # Two toolsets that admit the same tools still learn results apart, so the very scope is the key; it
        # lives as long as the entry, so that no other has its id meanwhile.
        key = id(scope), who
        found = self._visible.pop(key, None) or VisibleTools(self, scope, principal)
        self._visible[key] = found
        if len(self._visible) > _MAX_VISIBLE:
            self._visible.popitem(last=False)
        return found

    def _make_runner(self) -> Runner:
        return Runner(
            self.tools,
            local=self.handlers,
            mcp=self.servers if self.settings.servers else None,
            providers=self._apis.executors,
            validator=self.validator,
            rules=self.rules,
            policy=self.hooks.policy,
            middleware=(*must_write(self.audit), *self._middleware, *self.hooks.middleware),
            observers=(*self._observers, self._learning, *self.hooks.observers),
            timeout=self.settings.timeout,
            timeout_of=self._timeout_of,
        )

    def _timeout_of(self, backend: ToolBackend) -> float | None:
        server = self.settings.servers.get(backend.server_name) if isinstance(backend, McpBackend) else None
        return None if server is None else server.timeout

    def register(self, tool: Tool, backend: ToolBackend) -> None:
        """Add a tool of this process."""
        self.discovery.register(tool, backend)
        self._local_tools[str(tool.id)] = tool, backend

    async def open(self) -> None:
        """Serve what was kept, and begin to ask all servers and APIs for their tools."""
        started = anyio.Event()
        async with self._changing:
            self._opened = self.settings
            self._life = Background(partial(self._run_until_closed, started))
            try:
                await started.wait()
            except BaseException:
                await self.close()
                raise
        if self._failure is not None:
            raise self._failure

    async def reload(self, settings: Settings, on_switched: Callable[[], object] = lambda: None) -> Reload:
        """Take up other settings, and return what differs; say so at once when they hold.

        Servers and APIs that stay as they are keep their connections and tools. The tools of those that are
        gone, or are others, are not found any more; the calls that run on them may end, within a bounded
        time. Before `open` nothing runs, and everything is taken up.

        Raises:
            CribStateError: it is closed.
            StoreError: the audit cannot be written there; nothing has changed.
        """
        async with self._changing:
            if self._closing.is_set() or self._ended.is_set():
                raise CribStateError("this crib is closed; make another")
            changes = differences(self.settings, settings)
            same_audit = settings.audit == self.settings.audit
            audit = self.audit if same_audit else open_audit(settings, self.hooks.environ)
            observers = self._observers if same_audit else make_observers(settings, audit)
            former, self.audit = self.audit, audit
            if self.listing is None or self.servers is None:
                self._replace_settings(settings, observers)
                on_switched()
                return changes
            self._observers = observers
            renewed, dropped = self._switch_running(settings, changes, self.listing, self.servers)
            on_switched()
            await dropped.wait()
            if former is not None and former is not audit:
                await to_thread.run_sync(former.flush, _FLUSHING_TIME)
            changed = tuple(sorted({*changes.changed, *renewed}))
            return changes.replace(changed=changed, later=left_for_later(self._opened, settings))

    def _replace_settings(self, settings: Settings, observers: Sequence[Observer]) -> None:
        """Be as if made of other settings; nothing is running."""
        before, self.settings = self.settings, settings
        if settings.search != before.search:
            try:
                self._set_catalogue(self.hooks.store)
            except BaseException:
                self.settings = before
                raise
        self.names, self.rules = names_of(settings), make_rules(self.settings, self.hooks, self.validator)
        self._apis = Apis(settings, self.hooks.environ)
        self._observers, self._middleware = observers, make_middleware(settings)
        self.runner = self._make_runner()

    def _switch_running(
        self, settings: Settings, reload: Reload, listing: ToolLister, servers: McpServers
    ) -> tuple[set[str], anyio.Event]:
        """Change everything in one step: no task runs meanwhile, and calls under way have what they need.

        Returns the APIs that are read again, and what is set when the tools of all that left are gone.
        """
        before, self.settings = self.settings, settings
        self.names = names_of(settings)
        if settings.policy != before.policy or issuers_of(settings) != issuers_of(before):
            self.rules = make_rules(self.settings, self.hooks, self.validator)
        if layers(settings) != layers(before) or reload.changed or reload.removed:  # what they gave is cached
            self._middleware = make_middleware(settings)
        servers.max_result_bytes = settings.limits.result_bytes
        for name in before.servers.keys() - settings.servers.keys():
            servers.retire(name)
        for name, config in nest_servers(settings, self._depth, self._gateway).items():
            servers.replace(name, config)
        gone_servers, fresh_servers = replaced(before, settings)
        gone_apis, fresh_apis = self._apis.change(settings)
        self.runner = self._make_runner()
        origins = self._origins(servers)
        fresh = fresh_servers | fresh_apis
        for name, known in listing.origins.items():
            if name in origins and name not in fresh:
                known.patience, known.required = origins[name].patience, origins[name].required
        dropped = listing.swap(gone_servers | gone_apis, [origins[name] for name in sorted(fresh)])
        self.lists.swap(gone_servers, shared_identities(settings))
        return gone_apis & fresh_apis, dropped

    def _origins(self, servers: McpServers) -> dict[str, Origin]:
        return {**server_origins(self.settings, servers), **self._apis.origins()}

    async def close(self) -> None:
        """Stop everything, within a bounded time."""
        if self._life is None:
            return
        self._closing.set()
        with anyio.move_on_after(_CLOSING_TIME, shield=True):
            await self._ended.wait()
        if not self._ended.is_set():
            _LOG.warning("the crib did not stop within %g s", _CLOSING_TIME)
            await self._life.stop()

    async def _run_until_closed(self, started: anyio.Event) -> None:
        try:
            async with AsyncExitStack() as stack:
                await self._start(stack)
                started.set()
                await self._closing.wait()
        except Exception as error:  # noqa: BLE001 - for whoever opens; after that it is logged
            self._failure = error
            if started.is_set():
                _LOG.exception("the crib has stopped")
        finally:
            started.set()
            self._ended.set()

    async def _start(self, stack: AsyncExitStack) -> None:
        stack.push_async_callback(self._flush_audit)
        self._depth = read_depth(self.hooks.environ)
        self._gateway = choose_gateway_id(self.settings, self.hooks.environ)
        self.servers = servers = McpServers(
            nest_servers(self.settings, self._depth, self._gateway),
            gateway=self._gateway,
            environ=self.hooks.environ,
            max_result_bytes=self.settings.limits.result_bytes,
            on_tools=self._note_tools,
            on_input=self.hooks.on_input,
        )
        origins = self._origins(servers).values()
        catalogue, kept = await to_thread.run_sync(self._open_catalogue, origins)
        self._catalogue = catalogue
        stack.push_async_callback(self._close_catalogue, self.discovery, self._learning)
        identities = shared_identities(self.settings)
        self.lists.serve(ServerContent(servers), identities, self.discovery.index.store, kept)
        self.listing = ToolLister(
            origins,
            take=lambda origin, tools: catalogue.replace(origin.key, tools, origin.identity),
            miss=lambda origin: catalogue.miss(origin.key, origin.identity),
            drop=self._drop,
            on_demand=self.hooks.on_demand,
        )
        await stack.enter_async_context(self._apis)
        await stack.enter_async_context(servers)
        tasks = await stack.enter_async_context(anyio.create_task_group())
        stack.callback(tasks.cancel_scope.cancel)
        await tasks.start(self.lists.run)
        tasks.start_soon(self.listing.run)
        tasks.start_soon(self._learning.run)

    def _drop(self, origin: Origin) -> None:
        """Forget what is kept of a server or an API that is gone."""
        if self._catalogue is not None:
            self._catalogue.drop(origin.key)
        store = self.discovery.index.store
        if store is not None:
            drop_lists(store, origin.name)

    def _open_catalogue(self, origins: Collection[Origin]) -> tuple[CatalogueWriter, KeptLists]:
        before = self.discovery, self.resolver, self._learning, self.store
        lists: KeptLists = {}
        try:
            kept, missed, lists = self._read_or_rebuild({each.key: each.identity for each in origins})
        except StoreError as error:
            if self._is_store_named:
                raise
            _LOG.warning("the catalogue is not kept: %s", error)
            self.discovery, self.resolver, self._learning, self.store = before
            kept, missed = {}, frozenset()
        self.runner = self._make_runner()
        for origin in origins:
            origin.kept = origin.key in kept
            origin.missed = bool(kept) and origin.key in missed
            if origin.missed:
                self.lists.note_late((origin.name, None))
        return CatalogueWriter(self.discovery, kept, missed), lists

    @property
    def _is_store_named(self) -> bool:
        """Whether the user or the program says where the catalogue is kept, which then must work."""
        return self.settings.store is not None or self.hooks.store is not None

    def _read_or_rebuild(
        self, identities: Mapping[str, str]
    ) -> tuple[dict[str, StoredSource], frozenset[str], KeptLists]:
        """Take up what the store holds; a file of our own that is damaged is moved aside first."""
        try:
            return self._read_catalogue(identities)
        except StoreError as error:
            if self._is_store_named or not is_damage(error):
                raise
            aside = str(set_aside(Path(error.path)))
            _CATALOGUE_LOG.warning("the file of the catalogue was damaged; it is now %r", aside)
        return self._read_catalogue(identities)

    def _read_catalogue(
        self, identities: Mapping[str, str]
    ) -> tuple[dict[str, StoredSource], frozenset[str], KeptLists]:
        """Take up what the store holds of these origins, if there is a store, and who did not answer it."""
        kept_in = self.hooks.store or open_store(self.settings, self.hooks.environ)
        if kept_in is None:
            return {}, frozenset(), {}
        store = QueuedStore(kept_in, owned=kept_in is not self.hooks.store)
        try:
            kept, missed = keep_only(store, identities), missed_before(store, identities)
            lists = load_lists(store, shared_identities(self.settings))
            kept_in.derived("any", ["any"])  # so that a table which is missing shows here
            self._set_catalogue(store)
        except BaseException:
            store.close()
            raise
        return kept, missed, lists

    async def _close_catalogue(self, discovery: Discovery, learning: Learning) -> None:
        def write() -> None:
            try:
                learning.flush()
                discovery.close()
            finally:
                if self.store is not None:
                    self.store.close()

        with anyio.move_on_after(_WRITING_TIME, shield=True):
            try:
                await to_thread.run_sync(write, abandon_on_cancel=True)
            except ToolcribError as error:
                _LOG.warning("the catalogue is not written: %s", error)

    async def _flush_audit(self) -> None:
        """Have everything written that is to be, within a bounded time."""
        if self.audit is not None:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(self.audit.flush, _FLUSHING_TIME)

    @property
    def index(self) -> Index:
        """The catalogue; another one once the engine is opened with a store."""
        return self.discovery.index

    def content_servers(self) -> tuple[str, ...]:
        """Return the MCP servers, which may have resources and prompts."""
        return tuple(name for name, config in self.settings.servers.items() if not config.disabled)

    def status(self) -> dict[str, ServerStatus]:
        """Return how the servers and APIs are doing, by name, without asking them anything."""
        servers = {} if self.servers is None else self.servers.status()
        if self.listing is None:
            return servers
        origins = self.listing.origins
        known = {name: self._with_origin(status, origins.get(name)) for name, status in servers.items()}
        apis = self._apis.status(origins)
        return known | {name: self._with_origin(status, origins[name]) for name, status in apis.items()}

    def _with_origin(self, status: ServerStatus, origin: Origin | None) -> ServerStatus:
        """Return how a server is doing, with what the catalogue knows of it."""
        if origin is None or self._catalogue is None:
            return status
        return self._catalogue.described(status, origin)

    def absent(self) -> tuple[Absence, ...]:
        """Return the servers and APIs whose tools may be missing from lists and searches at this moment."""
        return () if self.listing is None else self.listing.absent()

    def _note_tools(self, name: str, tools: Tools) -> None:
        if self.listing is not None:
            self.listing.note(name, tools)
        self.lists.note_tools(name)

    def why_absent(self, namespace: str) -> tuple[str, ServerUnavailableError] | None:
        """Return which server or API does not give the tools of a namespace, and why; None where it does."""
        if namespace in self.settings.servers and namespace not in self.names:
            is_off = f"server {namespace!r} is disabled in the configuration"
            return f"mcp:{namespace}", ServerUnavailableError(namespace, is_off)
        origin = self.listing.origins.get(namespace) if self.listing else None
        if origin is None or self.listing is None or origin.is_well:
            return None
        if origin.kept and origin.error is None:  # what it has is known, as far as anybody can tell
            return None
        return origin.key, self.listing.failure(origin)
