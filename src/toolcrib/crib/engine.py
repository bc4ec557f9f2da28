"""What works behind a crib: its parts, put together anew when it is opened, and the task they live in."""

import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial

import anyio
from anyio import to_thread

from toolcrib.crib.apis import Apis
from toolcrib.crib.catalogue import Catalogue, Kept, keep_only, missed_before
from toolcrib.crib.compose import make_discovery, make_middleware, make_observers, open_store
from toolcrib.crib.learning import Learning
from toolcrib.crib.listing import Listing, Origin, Tools
from toolcrib.crib.origins import enabled, server_origins
from toolcrib.crib.settings import Settings
from toolcrib.crib.waiting import Waiting
from toolcrib.discovery import Discovery, Store
from toolcrib.errors import ServerUnavailableError, StoreError, ToolcribError
from toolcrib.execution import LocalHandlers, Middleware, Observer, Policy, Runner
from toolcrib.execution.background import Background
from toolcrib.execution.mcp import McpServers, ServerStatus
from toolcrib.model import McpBackend, Tool, ToolBackend

__all__ = ["Doors", "Engine"]

_LOG = logging.getLogger("toolcrib.crib")
_CLOSING_TIME = 15.0
"""How many seconds everything together may take to stop."""
_WRITING_TIME = 10.0
"""How many of them may go into writing the catalogue."""


@dataclass(frozen=True, slots=True)
class Doors:
    """What a program adds to the settings."""

    policy: Policy | None = None
    middleware: Sequence[Middleware] = ()
    observers: Sequence[Observer] = ()
    environ: Mapping[str, str] | None = None


class Engine:
    """The catalogue, the runner, and the connections that are open between `open` and `close`.

    All that runs in the background belongs to one task of its own, so that it does not matter which task
    opens and which one closes.
    """

    def __init__(self, settings: Settings, doors: Doors, way_in: str) -> None:
        """Put the parts together; `way_in` is what a user writes to open it."""
        self.settings = settings
        self.waiting = Waiting(self, way_in)
        self.handlers = LocalHandlers()
        self.names = frozenset((*enabled(settings), *settings.openapi))
        """The namespaces whose tools come from servers and APIs."""
        self.listing: Listing | None = None
        self.servers: McpServers | None = None
        self._doors = doors
        self._apis = Apis(settings, doors.environ)
        self._own: dict[str, tuple[Tool, ToolBackend]] = {}
        self._observers = make_observers(settings)
        self._middleware = make_middleware(settings)
        self._closing = anyio.Event()
        self._ended = anyio.Event()
        self._life: Background | None = None
        self._failure: BaseException | None = None
        self._set_catalogue(None)
        self._set_runner()

    def _set_catalogue(self, store: Store | None) -> None:
        self.discovery, self._reach = make_discovery(self.settings, store, self._why_absent)
        self._learning = Learning(self.discovery)
        self.discovery.register_many(self._own.values())

    def _set_runner(self) -> None:
        self.runner = Runner(
            self._reach,
            local=self.handlers,
            mcp=self.servers,
            providers=self._apis.executors,
            policy=self._doors.policy,
            middleware=(*self._middleware, *self._doors.middleware),
            observers=(*self._observers, self._learning, *self._doors.observers),
            timeout=self.settings.timeout,
            timeout_of=self._timeout_of,
            prepare=self.waiting.for_tool,
        )

    def _timeout_of(self, backend: ToolBackend) -> float | None:
        server = self.settings.servers.get(backend.server_name) if isinstance(backend, McpBackend) else None
        return None if server is None else server.timeout

    def register(self, tool: Tool, backend: ToolBackend) -> None:
        """Add a tool of this process."""
        self.discovery.register(tool, backend)
        self._own[str(tool.id)] = tool, backend

    async def open(self) -> None:
        """Serve what was kept, and begin to ask all servers and APIs for their tools."""
        started = anyio.Event()
        self._life = Background(partial(self._live, started))
        try:
            await started.wait()
        except BaseException:
            await self.close()
            raise
        if self._failure is not None:
            raise self._failure

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

    async def _live(self, started: anyio.Event) -> None:
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
        if self.settings.servers:
            self.servers = McpServers(
                self.settings.servers,
                environ=self._doors.environ,
                max_result_bytes=self.settings.limits.result_bytes,
                on_tools=self._note,
            )
        origins = [
            *(server_origins(self.settings, self.servers) if self.servers else ()),
            *self._apis.origins(),
        ]
        catalogue = await to_thread.run_sync(self._open_catalogue, origins)
        stack.push_async_callback(self._close_catalogue, self.discovery, self._learning)
        self.listing = Listing(origins, partial(_take, catalogue), partial(_miss, catalogue))
        await stack.enter_async_context(self._apis)
        if self.servers is not None:
            await stack.enter_async_context(self.servers)
        tasks = await stack.enter_async_context(anyio.create_task_group())
        stack.callback(tasks.cancel_scope.cancel)
        tasks.start_soon(self.listing.run)
        tasks.start_soon(self._learning.run)

    def _open_catalogue(self, origins: Collection[Origin]) -> Catalogue:
        before = self.discovery, self._reach, self._learning
        try:
            kept, missed = self._read_catalogue({origin.key: origin.identity for origin in origins})
        except StoreError as error:
            if self.settings.store is not None:
                raise
            _LOG.warning("the catalogue is not kept: %s", error)
            self.discovery, self._reach, self._learning = before
            kept, missed = {}, frozenset()
        self._set_runner()
        for origin in origins:
            origin.kept = origin.key in kept
            origin.missed = bool(kept) and origin.key in missed
        return Catalogue(self.discovery, kept, missed)

    def _read_catalogue(self, identities: Mapping[str, str]) -> tuple[dict[str, Kept], frozenset[str]]:
        """Take up what the store holds of these origins, if there is a store, and who did not answer it."""
        store = open_store(self.settings, self._doors.environ)
        if store is None:
            return {}, frozenset()
        try:
            kept, missed = keep_only(store, identities), missed_before(store, identities)
            store.derived("any", ["any"])  # so that a table which is missing shows here
            self._set_catalogue(store)
        except BaseException:
            store.close()
            raise
        return kept, missed

    async def _close_catalogue(self, discovery: Discovery, learning: Learning) -> None:
        def write() -> None:
            learning.flush()
            discovery.close()

        with anyio.move_on_after(_WRITING_TIME, shield=True):
            try:
                await to_thread.run_sync(write, abandon_on_cancel=True)
            except ToolcribError as error:
                _LOG.warning("the catalogue is not written: %s", error)

    def status(self) -> dict[str, ServerStatus]:
        """Return how the servers and APIs are doing, by name, without asking them anything."""
        servers = {} if self.servers is None else self.servers.status()
        apis = {} if self.listing is None else self._apis.status(self.listing.origins)
        return {**servers, **apis}

    def _note(self, name: str, tools: Tools) -> None:
        if self.listing is not None:
            self.listing.note(name, tools)

    def _why_absent(self, namespace: str) -> tuple[str, ServerUnavailableError] | None:
        if namespace in self.settings.servers and namespace not in self.names:
            said = f"server {namespace!r} is disabled in the configuration"
            return f"mcp:{namespace}", ServerUnavailableError(namespace, said)
        origin = self.listing.origins.get(namespace) if self.listing else None
        if origin is None or self.listing is None or (origin.answered.is_set() and origin.error is None):
            return None
        return origin.key, self.listing.failure(origin)


def _take(catalogue: Catalogue, origin: Origin, tools: Tools) -> None:
    catalogue.replace(origin.key, tools, origin.identity)


def _miss(catalogue: Catalogue, origin: Origin) -> None:
    catalogue.miss(origin.key, origin.identity)
