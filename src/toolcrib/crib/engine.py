"""The engine behind a crib: its parts, rebuilt when it is opened or reloaded, and their task group."""

import logging
import os
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from anyio import to_thread

from toolcrib.concurrency.background import Background
from toolcrib.concurrency.lru import LruCache
from toolcrib.crib.compose import (
    Hooks,
    choose_embedder,
    issuers_of,
    make_checks,
    make_middleware,
    make_observers,
    make_rules,
    make_searcher,
    must_write,
    open_audit,
    open_buckets,
    open_store,
)
from toolcrib.crib.config.settings import Settings
from toolcrib.crib.learning import Learning
from toolcrib.crib.reload import Reload, differences, layers, left_for_later, replaced
from toolcrib.crib.scans import ToolScans
from toolcrib.crib.shaped import ShapedScope, ShapedTools
from toolcrib.crib.sources.apis import Apis
from toolcrib.crib.sources.catalogue import (
    CatalogueWriter,
    StoredSource,
    keep_only,
    make_admission,
    missed_before,
)
from toolcrib.crib.sources.content import ContentLists, KeptLists, Source, drop_lists, load_lists
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
from toolcrib.crib.visible import DocumentedTools, VisibleTools
from toolcrib.discovery import Discovery, DocStore, Embedder, Index, MemoryStore, Scope, Searcher, Store
from toolcrib.discovery.protocols import Derived
from toolcrib.discovery.store import PostgresStore, StoreChanges
from toolcrib.discovery.store.connection import is_damage, set_aside
from toolcrib.discovery.store.queued import QueuedStore
from toolcrib.errors import CribStateError, ServerUnavailableError, StoreError, ToolcribError
from toolcrib.execution import LocalHandlers, Observer, Principal, Runner
from toolcrib.execution.audit.records import content_record
from toolcrib.execution.entries import FileEntries
from toolcrib.execution.mcp import McpServers, ServerStatus
from toolcrib.execution.mcp.content import ContentKind, ServerContent
from toolcrib.execution.oauth.shared import COLLECTION as LOGINS
from toolcrib.execution.oauth.shared import SharedLogins
from toolcrib.execution.policy.rates import MemoryBuckets, RateLimiter
from toolcrib.model import DefaultValidator, SchemaValidator, Tool, ToolBackend
from toolcrib.model.findings import ResultFinding
from toolcrib.model.token_buckets import TokenBuckets
from toolcrib.postgres import is_postgres

if TYPE_CHECKING:
    from toolcrib.crib.gate import TrustGate
    from toolcrib.execution.oauth.vault import LoginVault
    from toolcrib.trust import Withheld

_LOG = logging.getLogger("toolcrib.crib")
_CATALOGUE_LOG = logging.getLogger("toolcrib.crib.catalogue")
"""The command shows this log as well."""
_CLOSING_TIME = 15.0
"""Seconds that the whole engine may take to stop."""
_WRITING_TIME = 10.0
"""Seconds, of these, for writing the catalogue."""
_FLUSHING_TIME = 2.0
"""Seconds, of these, for flushing the audit."""
_MAX_SHAPED = 64
"""Indexes of toolsets with shapes of their own."""
_MAX_VISIBLE = 256
"""Cached `VisibleTools`, one for each scope and set of rules."""


def _name_of(origin: str) -> str:
    """Return the name of a server or an API by its key in the catalogue, such as `mcp:github`."""
    return origin.partition(":")[2]


class Engine:
    """The catalogue, the runner, and the connections that are open between `open` and `close`.

    All background work belongs to one task of the engine, so that different tasks can open and close it: a
    task group must be left by the task that entered it.
    """

    def __init__(self, settings: Settings, hooks: Hooks, way_in: str) -> None:
        """Create the engine; `way_in` is the code that a user writes to open it, for errors."""
        self.settings = settings
        self.way_in = way_in
        """The code that a user writes to open it."""
        self.handlers = LocalHandlers()
        self.names = names_of(settings)
        """The namespaces whose tools come from servers and APIs; another set after a reload."""
        self.listing: ToolLister | None = None
        self.servers: McpServers | None = None
        self.scans = ToolScans()
        """What the scan finds in the tools."""
        self.lists = ContentLists()
        """The resources and prompts of the servers."""
        self.gate: TrustGate | None = None
        """Screens what servers and APIs list; None where nothing is asked of them."""
        self.hooks = hooks
        self.validator: SchemaValidator = hooks.validator or DefaultValidator()
        """The one validator of the crib, so that each schema is compiled once."""
        self._depth, self._opened = 0, settings
        self._apis = Apis(settings, hooks.environ)
        self._local_tools: dict[str, tuple[Tool, ToolBackend]] = {}
        self.audit = open_audit(settings, hooks.environ)
        self.rules = make_rules(self.settings, self.hooks, self.validator)
        """The rules of the settings about who may run which tools; None without rules."""
        self._observers = make_observers(settings, self.audit)
        self._middleware = make_middleware(settings)
        self._own_buckets = MemoryBuckets()
        self._file_buckets: FileEntries | None = None
        self._catalogue: CatalogueWriter | None = None
        self._changing = anyio.Lock(fast_acquire=True)
        self._closing = anyio.Event()
        self._ended = anyio.Event()
        self._life: Background | None = None
        self._failure: BaseException | None = None
        self._vault: LoginVault | None = None
        """The vault that is shared with other gateways, if it is."""
        self._revision = 0
        """The revision of a shared store, from which on its changes are read."""
        self.on_texts: Callable[[Collection[str]], object] = lambda _: None
        """Called in a thread with the collections of texts that another gateway has changed."""
        self._visible: LruCache[Hashable, VisibleTools] = LruCache(_MAX_VISIBLE)
        self._shaped: LruCache[str, ShapedTools] = LruCache(_MAX_SHAPED)
        self.tools = VisibleTools(self)
        """All tools."""
        self._set_catalogue(hooks.store)
        self.runner = self._make_runner()

    def _set_catalogue(self, store: Store | None) -> None:
        # Toolsets that shape their tools have searchers of their own: the model and what it has computed are
        # common to all of them.
        is_shaped = any(each.shared("tools") for each in self.settings.toolsets.values())
        self._search_cache: Derived | None = MemoryStore() if store is None and is_shaped else store
        self._embedder: Embedder | None = None
        searcher = self.hooks.searcher or self._make_searcher()
        index = Index(searcher, store=store, validator=self.validator)
        owned = None if self.hooks.store is not None else store  # the program prunes and closes its own store
        self.discovery = Discovery(index, DocStore(DocumentedTools(self.tools), texts=store), store=owned)
        self.store = store if isinstance(store, QueuedStore) else None
        """The store of an open crib's catalogue; None if it is not stored."""
        self.learning = Learning(self.discovery, lambda: self.settings.search)
        """Learns from searches and calls."""
        self.discovery.register_many(self._local_tools.values())

    def _make_searcher(self) -> Searcher:
        """Make a searcher of the settings, with the one embedder of the crib."""
        if self._embedder is None:
            self._embedder = choose_embedder(self.settings.search, self.hooks.embedder)
        return make_searcher(self._embedder, self._search_cache)

    def visible(self, scope: Scope | None, principal: Principal | None) -> VisibleTools:
        """Return the tools that a scope and the rules let a principal reach.

        Principals with the same rules share one object.
        """
        if scope is None and principal is None:
            return self.tools
        who = principal if self.rules is None else self.rules.grants(principal).key
        # By identity: toolsets that admit the same tools still learn results separately. The entry keeps
        # the scope alive, so that its id is not reused.
        key = id(scope), who
        found = self._visible.get(key)
        if found is None:
            found = VisibleTools(self, scope, principal)
            self._visible.put(key, found)
        return found

    def shaped(self, scope: ShapedScope) -> ShapedTools:
        """Return the index of the tools of a scope in their shapes; equal scopes share one."""
        found = self._shaped.get(scope.key)
        if found is None or found.whole is not self.discovery.index:
            if found is not None:
                found.close()
            index = Index(self._make_searcher(), validator=self.validator)
            found = ShapedTools(self.discovery.index, scope, index, self.validator)
            for dropped in self._shaped.put(scope.key, found):
                dropped.close()
        return found

    def _make_runner(self) -> Runner:
        server_timeouts = ((name, server.timeout) for name, server in self.settings.servers.items())
        return Runner(
            self.tools,
            local=self.handlers,
            mcp=self.servers if self.settings.servers else None,
            providers=self._apis.executors,
            validator=self.validator,
            rules=lambda: self.rules,
            policy=self.hooks.policy,
            limiter=self._make_limiter(),
            middleware=(*must_write(self.audit), *self._middleware, *self.hooks.middleware),
            observers=(*self._observers, self.learning, *self.hooks.observers),
            timeout=self.settings.timeout,
            timeouts={f"mcp:{name}": limit for name, limit in server_timeouts if limit is not None},
        )

    def _make_limiter(self) -> RateLimiter | None:
        """Make what counts calls; None without rate limits. What was counted is kept in the buckets."""
        limits = self.settings.rate_limits
        if not limits:
            return None
        return RateLimiter(limits, issuers_of(self.settings), self._own_buckets, self._find_buckets)

    def _find_buckets(self) -> TokenBuckets | None:
        """Return the token buckets that processes share; None if there are none, or it is not open."""
        return self._file_buckets if self.store is None or self.store.shared is None else self.store.shared

    def _open_buckets(self, settings: Settings) -> None:
        """Open the file of the token buckets, if there are rate limits and no database has them."""
        if not settings.rate_limits or self._file_buckets is not None or self._is_shared:
            return
        try:
            self._file_buckets = open_buckets(self.settings, self.hooks.environ)
        except StoreError as error:
            _LOG.warning("rate limits are counted by this process alone: %s", error)

    def _close_buckets(self) -> None:
        if self._file_buckets is not None:
            self._file_buckets.close()

    def register(self, tool: Tool, backend: ToolBackend) -> None:
        """Add a tool of this process."""
        self.discovery.register(tool, backend)
        self._local_tools[str(tool.id)] = tool, backend

    async def open(self) -> None:
        """Load the stored catalogue, and start to list the tools of all servers and APIs."""
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
        """Apply other settings, and return the differences; call `on_switched` as soon as they are in force.

        Unchanged servers and APIs keep their connections and tools. The tools of removed and changed ones are
        not found any more; running calls on them have a bounded time to end. Before `open`, everything is
        replaced.

        Raises:
            CribStateError: the engine is closed.
            StoreError: the audit file cannot be written; nothing has changed.
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
            await to_thread.run_sync(self._read_trust, settings)
            await to_thread.run_sync(self._open_buckets, settings)
            self._observers = observers
            renewed, dropped = self._switch_running(settings, changes, self.listing, self.servers)
            on_switched()
            await dropped.wait()
            await self._screen_again()
            if former is not None and former is not audit:
                await to_thread.run_sync(former.flush, _FLUSHING_TIME)
            changed = tuple(sorted({*changes.changed, *renewed}))
            return changes.replace(changed=changed, later=left_for_later(self._opened, settings))

    async def reread_lock(self) -> None:
        """Read the lock of approved tools again, and screen all that servers and APIs have listed."""
        async with self._changing:
            await to_thread.run_sync(self._read_trust, self.settings)
            await self._screen_again()

    def _read_trust(self, settings: Settings) -> None:
        """Read the lock; without one, the code of the gate is not loaded."""
        if self.gate is not None:
            self.gate.adopt(settings)
        elif settings.asks_for_trust:
            from toolcrib.crib.gate import TrustGate  # noqa: PLC0415 - most need nothing of it

            self.gate = TrustGate(settings, self.hooks.environ)
            self.lists.screen = self._screen_content

    async def _screen_again(self) -> None:
        """Screen the tools, prompts and templates of all servers and APIs by the lock as it is now."""
        gate, catalogue = self.gate, self._catalogue
        if gate is not None and catalogue is not None:
            await to_thread.run_sync(catalogue.screen_again, self._withheld_of)
            await self.lists.screen_again()

    def is_current(self, name: str) -> bool:
        """Return whether the tools of a server or an API are known as it lists them now, or none need be.

        Where a lock governs it, what an earlier run has stored, or an earlier process of the server listed,
        may be found, but not called: it may have changed since.
        """
        gate, listing, servers = self.gate, self.listing, self.servers
        if gate is None or listing is None or servers is None or name not in gate.governed:
            return True
        if name in gate.connected:
            return servers.is_listed(name) and listing.is_taken(name)
        return name not in listing.origins or listing.is_taken(name)  # a person's connection lists no tools

    async def confirm(self, name: str) -> None:
        """Have a server or an API list its tools again, and wait until they are in the catalogue.

        Raises:
            ServerUnavailableError: it does not.
        """
        listing, servers = self.listing, self.servers
        if listing is None or servers is None:
            return
        if name in self.settings.servers:
            await servers.tools(name)
            await listing.wait_taken(name)
        else:
            await listing.wait_again(name)

    def listed_tools(self) -> dict[str, tuple[Tool, ...]]:
        """Return all tools that servers and APIs have listed in this run, by the names of those."""
        listing, catalogue = self.listing, self._catalogue
        if listing is None or catalogue is None:
            raise CribStateError(f"its servers are not started; use it within `{self.way_in}`")
        return {
            name: (*catalogue.tools(origin.key), *self._withheld_of(origin.key))
            for name, origin in listing.origins.items()
            if origin.is_well
        }

    def _withheld_of(self, origin: str) -> list[Tool]:
        known = {} if self.gate is None else self.gate.withheld_tools(_name_of(origin))
        return [each.tool for each in known.values() if each.tool is not None]

    def _screen_tools(self, origin: str, tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
        name = _name_of(origin)
        return tools if self.gate is None else self.gate.screen_tools(name, tools, self._facts_of(name))

    def _facts_of(self, name: str) -> tuple[dict[str, Any], str] | None:
        """Return the server's own information and instructions; None if it has not answered in this run."""
        servers = self.servers
        if name in self.settings.openapi:
            return ({}, "") if self._apis.is_read(name) else None
        if servers is None or servers.capabilities(name) is None:
            return None
        return servers.server_info(name), servers.instructions(name)

    def _screen_content(
        self, source: Source, kind: ContentKind, items: tuple[Any, ...]
    ) -> "tuple[tuple[Any, ...], Mapping[str, Withheld]]":
        if self.gate is None:
            return items, {}
        is_noted = source[1] is None and self._facts_of(source[0]) is not None
        return self.gate.screen_content(source[0], kind, items, is_noted=is_noted)

    def _replace_settings(self, settings: Settings, observers: Sequence[Observer]) -> None:
        """Replace the settings of an engine that is not open."""
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
        """Replace the settings of an open engine without an `await`, so that no task sees a mixture.

        Running calls keep the objects that they began with. Returns the APIs that are read again, and an
        event that is set once the tools of removed servers and APIs are gone.
        """
        before, self.settings = self.settings, settings
        self.names = names_of(settings)
        if settings.policy != before.policy or issuers_of(settings) != issuers_of(before):
            self.rules = make_rules(self.settings, self.hooks, self.validator)
        if (
            layers(settings) != layers(before) or reload.changed or reload.removed
        ):  # the cache may have results of other servers
            self._middleware = make_middleware(settings)
        servers.max_result_bytes = settings.limits.result_bytes
        servers.checks = make_checks(settings)
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
        """Stop the engine, within a bounded time."""
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
        except Exception as error:  # noqa: BLE001 - `open` raises it; later it is logged
            self._failure = error
            if started.is_set():
                _LOG.exception("the crib has stopped")
        finally:
            started.set()
            self._ended.set()

    async def _start(self, stack: AsyncExitStack) -> None:
        stack.callback(self._close_buckets)
        stack.push_async_callback(self._flush_audit)
        self._depth = read_depth(self.hooks.environ)
        self._gateway = choose_gateway_id(self.settings, self.hooks.environ)
        await to_thread.run_sync(self._read_trust, self.settings)
        self.servers = servers = McpServers(
            nest_servers(self.settings, self._depth, self._gateway),
            gateway=self._gateway,
            environ=self.hooks.environ,
            max_result_bytes=self.settings.limits.result_bytes,
            on_tools=self._note_tools,
            on_input=self.hooks.on_input,
        )
        servers.checks, servers.on_findings = make_checks(self.settings), self._note_findings
        origins = self._origins(servers).values()
        catalogue, kept = await to_thread.run_sync(self._open_catalogue, origins)
        await to_thread.run_sync(self._open_buckets, self.settings)
        self._catalogue = catalogue
        stack.push_async_callback(self._close_catalogue, self.discovery, self.learning)
        identities = shared_identities(self.settings)
        self.lists.serve(ServerContent(servers), identities, self.discovery.index.store, kept)
        await self._screen_again()  # what is kept of an earlier run
        self.listing = ToolLister(
            origins,
            take=lambda origin, tools: catalogue.replace(origin.key, tools, origin.identity),
            miss=lambda origin: catalogue.miss(origin.key, origin.identity),
            drop=self._drop,
            on_demand=self.hooks.on_demand,
        )
        if self.store is not None and self.store.shared is not None:
            await self._share_logins(self.store.shared, servers)
        await stack.enter_async_context(self._apis)
        await stack.enter_async_context(servers)
        tasks = await stack.enter_async_context(anyio.create_task_group())
        stack.callback(tasks.cancel_scope.cancel)
        await tasks.start(self.lists.run)
        tasks.start_soon(self.listing.run)
        if self.store is not None and self.store.shared is not None:
            tasks.start_soon(self._follow_store, self.store.shared, catalogue)
        tasks.start_soon(self.learning.run)

    @property
    def shared_key(self) -> bytes | None:
        """A key that all gateways on one database have; None without a database or a key of the vault."""
        is_shared = isinstance(self.hooks.store, PostgresStore) or is_postgres(self.settings.store or "")
        if not is_shared:
            return None
        from toolcrib.execution.oauth.vault import shared_key  # noqa: PLC0415 - it loads ciphers

        return shared_key(os.environ if self.hooks.environ is None else self.hooks.environ)

    async def _share_logins(self, shared: PostgresStore, servers: McpServers) -> None:
        """Share the vault of logins with other gateways, which can read it if they all have its key."""
        from toolcrib.execution.oauth.vault import KEY_VARIABLE, LoginVault  # noqa: PLC0415 - it loads ciphers

        environ = os.environ if self.hooks.environ is None else self.hooks.environ
        if not environ.get(KEY_VARIABLE):
            _LOG.info("logins are not shared with other gateways: %s is not set", KEY_VARIABLE)
            return
        servers.logins = SharedLogins(shared)
        self._vault = LoginVault(environ, servers.logins)
        await to_thread.run_sync(self._synchronize_logins)

    def _synchronize_logins(self) -> None:
        try:
            if self._vault is not None:
                self._vault.synchronize()
        except StoreError as error:
            _LOG.warning("the logins of other gateways are not used: %s", error)

    async def _follow_store(self, shared: PostgresStore, catalogue: CatalogueWriter) -> None:
        """Apply the changes of other gateways to the store, for as long as the engine is open."""
        revision, is_lost = self._revision, False
        while True:
            wait = partial(shared.wait_for_change, self.settings.postgres.poll)
            await to_thread.run_sync(wait, abandon_on_cancel=True)
            try:
                read = partial(shared.changes, revision)
                changes = await to_thread.run_sync(read, abandon_on_cancel=True)
                if changes is not None:
                    await to_thread.run_sync(self._adopt, changes, catalogue)
                    revision = changes.revision
                is_lost = False
            except StoreError as error:
                if not is_lost:
                    _CATALOGUE_LOG.warning("changes by other gateways cannot be read at present: %s", error)
                is_lost = True

    def _adopt(self, changes: StoreChanges, catalogue: CatalogueWriter) -> None:
        """Take over changes of tools; those of servers that a lock governs come from these servers alone."""
        origins = {} if self.listing is None else dict(self.listing.origins)
        governed = frozenset[str]() if self.gate is None else self.gate.governed
        free = {each.key: each.identity for each in origins.values() if each.name not in governed}
        catalogue.adopt(changes, free)
        if LOGINS in changes.collections:
            self._synchronize_logins()
        self.on_texts(changes.collections)

    def _drop(self, origin: Origin) -> None:
        """Delete the stored tools and lists of a removed server or API."""
        if self._catalogue is not None:
            self._catalogue.drop(origin.key)
        if self.gate is not None and origin.name not in self.names:
            self.gate.forget(origin.name)
        store = self.discovery.index.store
        if store is not None and not self._is_shared:
            drop_lists(store, origin.name)

    @property
    def _is_shared(self) -> bool:
        """Whether gateways with other configurations may write to the store."""
        return self.store is not None and self.store.shared is not None

    def _open_catalogue(self, origins: Collection[Origin]) -> tuple[CatalogueWriter, KeptLists]:
        before = self.discovery, self.learning, self.store
        lists: KeptLists = {}
        try:
            kept, missed, lists = self._read_or_rebuild({each.key: each.identity for each in origins})
        except StoreError as error:
            if self._is_store_named:
                raise
            _LOG.warning("the catalogue is not stored: %s", error)
            self.discovery, self.learning, self.store = before
            kept, missed = {}, frozenset()
        self.runner = self._make_runner()
        for origin in origins:
            origin.kept = origin.key in kept
            origin.missed = bool(kept) and origin.key in missed
            if origin.missed:
                self.lists.note_late((origin.name, None))
        writer = CatalogueWriter(self.discovery, kept, missed, self._screen_tools, is_shared=self._is_shared)
        return writer, lists

    @property
    def _is_store_named(self) -> bool:
        """Whether the store was chosen explicitly; then a failure to open it is an error."""
        return self.settings.store is not None or self.hooks.store is not None

    def _read_or_rebuild(
        self, identities: Mapping[str, str]
    ) -> tuple[dict[str, StoredSource], frozenset[str], KeptLists]:
        """Load the stored catalogue; a damaged file in the default place is moved aside first."""
        try:
            return self._read_catalogue(identities)
        except StoreError as error:
            if self._is_store_named or not is_damage(error):
                raise
            aside = str(set_aside(Path(error.path)))
            _CATALOGUE_LOG.warning("the file of the catalogue was damaged, and was moved to %r", aside)
        return self._read_catalogue(identities)

    def _read_catalogue(
        self, identities: Mapping[str, str]
    ) -> tuple[dict[str, StoredSource], frozenset[str], KeptLists]:
        """Load the stored tools of these origins, the origins that failed before, and the stored lists."""
        kept_in = self.hooks.store or open_store(self.settings, self.hooks.environ)
        if kept_in is None:
            return {}, frozenset(), {}
        store = QueuedStore(kept_in, owned=kept_in is not self.hooks.store)
        try:
            is_own = store.shared is None
            if store.shared is not None:
                self._revision = (
                    store.shared.revision()
                )  # before it is read: what comes meanwhile is read again
                store.admit = make_admission(store, identities)
            kept = keep_only(store, identities, delete_others=is_own)
            missed = missed_before(store, identities, delete_others=is_own)
            lists = load_lists(store, shared_identities(self.settings))
            kept_in.derived("any", ["any"])  # fails here if a table is missing
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
                _LOG.warning("the catalogue could not be written: %s", error)

    async def _flush_audit(self) -> None:
        """Flush the audit, within a bounded time."""
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
        """Return the status of the servers and APIs by name, without a request to them."""
        servers = {} if self.servers is None else self.servers.status()
        if self.listing is None:
            return servers
        origins = self.listing.origins
        known = {name: self._with_origin(status, origins.get(name)) for name, status in servers.items()}
        apis = self._apis.status(origins)
        return known | {name: self._with_origin(status, origins[name]) for name, status in apis.items()}

    def _with_origin(self, status: ServerStatus, origin: Origin | None) -> ServerStatus:
        """Add the catalogue's facts about a server to its status."""
        if origin is None or self._catalogue is None:
            return status
        described = self._catalogue.described(status, origin)
        known = {} if self.gate is None else self.gate.withheld_tools(origin.name)
        reasons = {each.tool.name: f"withheld: {each.reason}" for each in known.values() if each.tool}
        return described.replace(refused={**described.refused, **reasons}) if reasons else described

    def absent(self) -> tuple[Absence, ...]:
        """Return the servers and APIs whose tools may be missing from lists and searches."""
        missing = () if self.listing is None else self.listing.absent()
        if self.gate is None:
            return missing
        faults = {
            name: fault
            for name in sorted(self.gate.governed & self.names)
            if (fault := self.gate.fault(name))
        }
        withheld = [Absence(name=name, state="failed", reason=fault) for name, fault in faults.items()]
        return (*withheld, *(each for each in missing if each.name not in faults))

    def withheld(self, ref: str) -> "Withheld | None":
        """Return the tool that a reference means if it may not be used, and why."""
        return None if self.gate is None else self.gate.find_withheld(ref)

    def approved_ids(self, name: str) -> tuple[str, ...]:
        """Return the ids, without versions, of tools of a name that the lock has."""
        return () if self.gate is None else self.gate.approved_ids(name)

    def _note_findings(
        self, subject: str, method: str, findings: tuple[ResultFinding, ...], principal: Principal | None
    ) -> None:
        """Record the findings in a resource or a prompt in the audit."""
        if self.audit is not None:
            self.audit.write(content_record(subject, method, findings, principal))

    def _note_tools(self, name: str, tools: Tools) -> None:
        if self.listing is not None:
            self.listing.note(name, tools)
        self.lists.note_tools(name)

    def why_absent(self, namespace: str) -> tuple[str, ServerUnavailableError] | None:
        """Return the backend of a namespace that has not listed its tools, and the failure; else None."""
        if namespace in self.settings.servers and namespace not in self.names:
            is_off = f"server {namespace!r} is disabled in the configuration"
            return f"mcp:{namespace}", ServerUnavailableError(namespace, is_off)
        origin = self.listing.origins.get(namespace) if self.listing else None
        if origin is None or self.listing is None or origin.is_well:
            return None
        if origin.kept and origin.error is None:  # its stored tools are served until it answers
            return None
        return origin.key, self.listing.failure(origin)
