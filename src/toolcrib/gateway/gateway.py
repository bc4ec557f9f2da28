"""A crib that MCP clients can reach: endpoints for everything and for each toolset."""

import logging
import os
import secrets
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Self

import anyio
from anyio import to_thread
from anyio.abc import TaskStatus

from toolcrib.concurrency.background import Background
from toolcrib.crib import Config, Crib, GatewaySettings, Reload, Settings, View, load
from toolcrib.crib.config.gateway import is_loopback, token_of
from toolcrib.discovery import Embedder, Searcher, Store, StoreStatus
from toolcrib.errors import ConfigError, CribStateError, Problem, ToolcribError
from toolcrib.execution import Middleware, Observer, Policy, Principal
from toolcrib.execution.audit import AuditStatus
from toolcrib.execution.entries import FileEntries
from toolcrib.execution.mcp.config import WORKERS_FOLDER
from toolcrib.gateway.addresses import EndpointAddress, Surface
from toolcrib.gateway.api.approvals import Approvals
from toolcrib.gateway.api.calls import CallLog
from toolcrib.gateway.api.site import ConsoleSite
from toolcrib.gateway.api.webhook import ApprovalWebhook
from toolcrib.gateway.app.connect import LoginPages
from toolcrib.gateway.app.guard import AccessRules
from toolcrib.gateway.app.sealed import SessionSeal
from toolcrib.gateway.endpoint import McpEndpoint
from toolcrib.gateway.endpoints import Endpoints, Frontends
from toolcrib.gateway.frontends.auto import AutoTools
from toolcrib.gateway.frontends.meta import MetaTools
from toolcrib.gateway.frontends.passthrough import PassthroughTools
from toolcrib.gateway.frontends.shared.frontend import Frontend
from toolcrib.gateway.health import Health
from toolcrib.gateway.limits import ClientLimits
from toolcrib.gateway.metrics import Metrics
from toolcrib.gateway.request.client import relay_input
from toolcrib.gateway.request.login import LoginRequests
from toolcrib.gateway.results import KeptResults
from toolcrib.gateway.signals import Stop, stop_signals
from toolcrib.gateway.stdio import is_toolcrib, serve_streams, taken_over
from toolcrib.gateway.watch import mark_of, watch_any
from toolcrib.gateway.watch import watch as watch_file
from toolcrib.gateway.workers.fleet import Fleet
from toolcrib.gateway.workers.links import Links
from toolcrib.gateway.workers.supervisor import Worker
from toolcrib.model import LocalTool, SchemaValidator, Tool
from toolcrib.model.suggest import choose
from toolcrib.runtime import Sandbox

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server
    from mcp_types import JSONRPCMessage

_LOG = logging.getLogger("toolcrib.gateway")
_AT_START = frozenset({"host", "port", "watch", "request_bytes", "request_timeout", "sessions"})


class Gateway:
    """Serves a crib to MCP clients, over stdio or HTTP.

    Entering it opens its crib. `serve_stdio` and `serve_http` return when they are asked to stop.
    """

    def __init__(  # noqa: PLR0913 - what a program may replace, each by its name
        self,
        config: Config = None,
        *,
        tools: Iterable[Tool | LocalTool[..., Any] | Callable[..., Any]] = (),
        watch: bool | None = None,
        expose: Literal["meta", "auto", "all"] | None = None,
        console: bool | None = None,
        environ: Mapping[str, str] | None = None,
        frontends: Frontends | None = None,
        policy: Policy | None = None,
        middleware: Sequence[Middleware] = (),
        observers: Sequence[Observer] = (),
        validator: SchemaValidator | None = None,
        searcher: Searcher | None = None,
        embedder: Embedder | None = None,
        store: Store | None = None,
        sandboxes: Sequence[Sandbox] = (),
        worker: Worker | None = None,
    ) -> None:
        """Read a configuration; nothing is started.

        Args:
            config: as for `Crib`.
            tools: functions and tools of this process to serve as well.
            watch: whether the configuration is read again when its file changes; None: as the configuration
                says.
            expose: the tools that clients see if the address does not select them, instead of those in the
                settings.
            console: whether to serve the console in the browser; None: as the configuration says, else on a
                loopback address.
            environ: where variables in the configuration are looked up, instead of the process's environment.
            frontends: creates the frontends of endpoints, instead of those that `expose` or an address
                selects.
            policy: decides whether a call may run, in addition to the confirmation of destructive tools.
            middleware: as for `Crib`, like the parameters below.
            observers: watch each call.
            validator: checks arguments and results.
            searcher: ranks tools.
            embedder: makes the vectors of the default search.
            store: keeps the catalogue.
            sandboxes: run code.
            worker: this process, where several serve one address; see `toolcrib serve --workers`.

        Raises:
            ConfigError: with every problem found.
        """
        self._health = Health(lambda: self.crib, lambda: self.endpoints.sessions)
        self._metrics = Metrics(self._health, lambda: self.crib)
        if worker is not None:  # by which servers that are shared find each other
            environ = {**(os.environ if environ is None else environ), WORKERS_FOLDER: str(worker.folder)}
        self._environ, self._watch = environ, watch
        self._mark = mark_of(config) if isinstance(config, str | PathLike) else None
        self._address: str | None = None
        self._listens_at: str | None = None
        self.logins = LoginPages(
            lambda: self.crib.settings,
            self._browsers_address,
            environ,
            shared=lambda: self.crib.shared_logins,
            key=None if worker is None else worker.key,
        )
        self._calls = CallLog()
        self.approvals = Approvals(
            lambda: self.crib.settings.console.approval_timeout,
            lambda: self.console.is_staffed(),  # noqa: PLW0108 - it is made later
            ApprovalWebhook(
                lambda: self.crib.settings, lambda: self._browsers_address() or self._listens_at, environ
            ),
        )
        settings = load(config)
        self._lock_mark = None if settings.lock_file is None else mark_of(settings.lock_file)
        wanted = settings.console.enabled if console is None else console  # None: it depends on the address
        self.crib = Crib(
            settings,
            policy=policy,
            approve=None if wanted is False else self.approvals,
            middleware=middleware,
            observers=(self._metrics, *(() if wanted is False else (self._calls,)), *observers),
            environ=environ,
            on_input=relay_input,
            validator=validator,
            searcher=searcher,
            embedder=embedder,
            store=store,
            sandboxes=sandboxes,
        )
        for each in tools:
            self.crib.add(each)
        self._started = self.settings
        self.links = None if worker is None else Links(worker)
        self._entries = None if worker is None else FileEntries(worker.folder / "entries.db")
        limits = ClientLimits(self._metrics.limited)
        self.endpoints = Endpoints(
            self.crib,
            frontends or _make_frontend,
            (self._metrics, limits),
            LoginRequests(self.logins).obtain,
            expose=expose,
            has_surfaces=frontends is None,
            worker=worker,
            entries=self._entries,
        )
        self.fleet = Fleet(self.crib, self.approvals, self._calls, self.logins, self.links)
        """Acts on all workers of this gateway."""
        self.console = ConsoleSite(
            self.crib,
            lambda: self.rules().identities,
            self.logins,
            lambda: self.endpoints.sessions,
            enabled=wanted,
            calls=self._calls,
            approvals=self.approvals,
            fleet=self.fleet,
        )
        self.seal = self._make_seal()
        self._life: Background | None = None
        self._has_failed = False
        self._bound = "127.0.0.1"
        self._rules: AccessRules | None = None

    def _make_seal(self) -> SessionSeal | None:
        """Return what seals sessions, if other gateways or workers have the key to restore them."""
        worker = None if self.links is None else self.links.worker
        key = self.crib.shared_key or (None if worker is None else worker.key)
        if key is None:
            return None
        holder = secrets.token_hex(8) if worker is None else worker.generation
        number = 0 if worker is None else worker.number
        return SessionSeal(
            key,
            holder,
            number,
            lambda: self.crib.shared_store or self._entries,
            lambda: self.crib.shared_store is not None,
        )

    @property
    def settings(self) -> GatewaySettings:
        """The current settings of the gateway."""
        return self.crib.settings.gateway

    @property
    def toolsets(self) -> tuple[str, ...]:
        """The toolsets that have an endpoint."""
        return self.endpoints.toolsets

    async def __aenter__(self) -> Self:
        self._make_rules(self.crib.settings)
        if self.approvals.webhook.is_set:
            self.approvals.webhook.read_secret()
        await self.crib.__aenter__()
        try:
            self.endpoints.follow()
            started = anyio.Event()
            self._life = Background(lambda: self._run_endpoints(started))
            await started.wait()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.endpoints.close()
        if self._life is not None:
            await self._life.stop()
        await self.crib.__aexit__(*exc_info)
        if self._entries is not None:
            self._entries.close()

    def endpoint(self, toolset: str | None = None, expose: Surface | None = None) -> "Server[Any]":
        """Return the MCP server of a toolset, or of everything.

        Args:
            toolset: its name; None for everything.
            expose: the tools that clients see: `all` of them, or with `meta` those that find and run them;
                None: as in the settings.

        Raises:
            ConfigError: there is no such toolset.
            CribStateError: the gateway is not open.
        """
        found = self.find(EndpointAddress(toolset, expose))
        if found is not None:
            return found.server
        if self.find(EndpointAddress()) is None:
            raise CribStateError("this gateway is not open; write 'async with gateway:'")
        message = f"there is no toolset {toolset!r}{choose(str(toolset), self.toolsets)}"
        raise ConfigError(self.crib.settings.origin, (Problem("/toolsets", "unknown", message),))

    def has(self, address: EndpointAddress) -> bool:
        """Return whether there is an endpoint at an address."""
        return self.endpoints.has(address)

    def find(self, address: EndpointAddress) -> McpEndpoint | None:
        """Return the MCP endpoint at an address; None if there is none."""
        return self.endpoints.find(address)

    async def serve_stdio(self, toolset: str | None = None) -> None:
        """Serve one client over standard input and output, until it disconnects or a signal arrives.

        Running calls may then finish, within the time in the settings; a second signal cancels them. Anything
        that tools print meanwhile goes to standard error.
        """
        self.endpoint(toolset)

        def choose(first: "JSONRPCMessage") -> "Server[Any]":
            is_passthrough = is_toolcrib(first) and self.has(EndpointAddress(toolset, "all"))
            return self.endpoint(toolset, "all" if is_passthrough else None)

        async with stop_signals() as stop, anyio.create_task_group() as tasks:

            async def end_listening() -> None:
                await stop.asked.wait()
                self.end_listening()

            tasks.start_soon(end_listening)
            with taken_over() as (stdin, stdout):
                within = self.settings.shutdown_timeout
                await serve_streams(choose, stdin, stdout, stop=stop, within=within)
            tasks.cancel_scope.cancel()

    async def serve_http(
        self,
        host: str | None = None,
        port: int | None = None,
        on_ready: Callable[[str], Any] | None = None,
    ) -> None:
        """Serve clients over HTTP until a signal arrives; running calls may finish until a second signal.

        Args:
            host: where to listen; None: as the configuration says.
            port: likewise; 0 takes any free port.
            on_ready: called with the address once the server is listening.

        Raises:
            ConfigError: the address cannot be bound, or other machines could reach it and there is no token.
        """
        from toolcrib.gateway.app.server import address_of, listen, serve  # noqa: PLC0415 - over stdio it is not needed

        self.endpoint()
        host = self.settings.host if host is None else host
        port = self.settings.port if port is None else port
        self._make_rules(self.crib.settings, host)
        worker = None if self.links is None else self.links.worker
        listener = listen(host, port, self.crib.settings.origin) if worker is None else worker.listener
        self._bound, self._rules = host, None
        self.console.bind(host)
        self._listens_at = address_of(listener)
        self._address = self._listens_at if is_loopback(host) else None
        async with stop_signals() as stop, anyio.create_task_group() as tasks:
            if worker is not None:
                await tasks.start(self._follow_parent, worker, stop)
            await serve(self, listener, stop, on_ready)
            tasks.cancel_scope.cancel()

    async def _follow_parent(self, worker: Worker, stop: Stop, *, task_status: TaskStatus[None]) -> None:
        """Read the configuration again when the parent says so, and stop when it has ended."""
        async with anyio.create_task_group() as tasks:

            async def stop_with_parent() -> None:
                await anyio.wait_readable(worker.life)
                stop.ask()

            tasks.start_soon(stop_with_parent)
            with anyio.open_signal_receiver(signal.SIGHUP) as signals:
                task_status.started()
                async for _ in signals:
                    await self.reload()

    def _browsers_address(self) -> str | None:
        """Return where browsers reach it; None where that is not known, or not safe."""
        settings = self.settings
        if settings.public_url is not None:
            return settings.public_url.rstrip("/")
        if settings.auth is not None:
            return settings.auth.audience.rstrip("/").removesuffix("/mcp")
        return self._address

    def make_console_link(self) -> str | None:
        """Return a one-time address of the console for the user of this machine; None if it is off."""
        address = self._browsers_address() or self._listens_at
        return self.console.make_link(address) if address is not None and self.console.is_on else None

    def rules(self) -> AccessRules:
        """Return the current access rules for HTTP requests."""
        settings = self.crib.settings
        if self._rules is None or self._rules.settings is not settings.gateway:
            self._rules = self._make_rules(settings)
        return self._rules

    def status(self) -> Any:
        """Return the status of the servers and APIs, by name."""
        return self._health.status()

    def visible_to(self, principal: Principal | None) -> frozenset[str] | None:
        """Return the servers and APIs whose names a principal may see; None where it may see all names."""
        return self._health.visible_to(principal)

    def audit(self) -> AuditStatus | None:
        """Return the status of the audit file; None if calls are not recorded."""
        return self._health.audit()

    def catalogue(self) -> StoreStatus | None:
        """Return the status of the catalogue's file; None if the catalogue is not persisted."""
        return self._health.catalogue()

    def unready(self) -> dict[str, str]:
        """Return the required servers and APIs that do not work, by name, with their state."""
        failed = {"gateway": "it no longer follows changes; see its log"} if self._has_failed else {}
        return self._health.unready() | failed

    def metrics(self, principal: Principal | None = None) -> tuple[bytes, str]:
        """Return the Prometheus metrics and their content type; with a principal, those that it may see."""
        return self._metrics.text(principal)

    def limited(self, limit: str) -> None:
        """Count a request that a limit refused or ended."""
        self._metrics.limited(limit)

    def end_listening(self) -> None:
        """End the subscription streams."""
        self.endpoints.end_listening()
        self.console.close()

    def _make_rules(self, settings: Settings, host: str | None = None) -> AccessRules:
        """Return who may call, by these settings, at an address, or at the one that it listens on.

        Raises:
            ConfigError: the token cannot be made out, or is missing where others can call.
        """
        token = token_of(settings.gateway, settings.origin, self._environ)
        host = self._bound if host is None else host
        if not settings.gateway.asks_for_token and not is_loopback(host):
            reason = (
                f"{host!r} can be reached from other machines, so it needs a token: set gateway.token to "
                "'${TOOLCRIB_TOKEN}' and that to a secret (openssl rand -hex 32), make one for each person "
                "with 'toolcrib token add', name a login in gateway.auth, or listen on 127.0.0.1"
            )
            raise ConfigError(settings.origin, (Problem("/gateway/token", "missing", reason),))
        return AccessRules.of(settings.gateway, token, host, self._rules)

    async def _run_endpoints(self, started: anyio.Event) -> None:
        """Run the endpoints, and watch the configuration file, until cancelled."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self.endpoints.run, started)
                tasks.start_soon(self._calls.run)
                source = self.crib.settings.source
                wanted = self.settings.watch if self._watch is None else self._watch
                if source and wanted:
                    tasks.start_soon(watch_file, source, self._mark, self.reload)
                    lock = self.crib.settings.lock_file
                    assert lock is not None  # noqa: S101 - it stands beside the source
                    tasks.start_soon(watch_any, lock, self._lock_mark, self._reread_lock)
        except Exception:  # noqa: BLE001 - the end of a task that nobody waits for: somebody must hear of it
            self._has_failed = True
            _LOG.exception("the gateway no longer follows changes of tools and configuration")
        finally:
            started.set()

    async def _reread_lock(self) -> None:
        await self.crib.trust.reread()
        _LOG.warning("the lock of approved tools was read again: %s", self.crib.settings.lock_file)

    async def reload(self) -> None:
        """Read the configuration file again; one that cannot be used changes nothing, and is logged."""
        source = self.crib.settings.source
        if not source:
            return
        before = self.crib.settings
        try:
            settings = await to_thread.run_sync(load, source, abandon_on_cancel=True)
            self._make_rules(settings)
            result = await self.crib.reload(settings, on_switched=self._update_endpoints)
        except ToolcribError as error:
            _LOG.error("the configuration stays as it was: %s", error)
            return
        after = self.crib.settings
        different = reload_summary(before, after, result, self._started)
        # What changed is worth a line at the level that is usual; that nothing did is not.
        _LOG.log(
            logging.INFO if different == _SAME else logging.WARNING,
            "the configuration was read again: %s",
            different,
        )
        if before.gateway.asks_for_token and not after.gateway.asks_for_token:
            _LOG.warning("the gateway no longer requires a token from clients")
        closed = after.gateway.closed_reason()
        if closed is not None and before.gateway.closed_reason() is None:
            remedy = after.gateway.opening_remedy
            _LOG.warning("nobody can call the gateway over HTTP any more: %s; %s", closed, remedy)

    def _update_endpoints(self) -> None:
        """Update the endpoints to the settings, which hold already even if this fails."""
        try:
            self.endpoints.follow()
        except Exception:  # noqa: BLE001 - what makes frontends is foreign
            _LOG.exception("the configuration was applied, but not by all endpoints")


def _make_frontend(view: View, settings: GatewaySettings, kept: KeptResults) -> Frontend:
    kinds = {"meta": MetaTools, "auto": AutoTools, "all": PassthroughTools}
    frontend: Frontend = kinds[settings.expose](view, settings, kept=kept)
    return frontend


_SAME = "nothing that concerns the gateway has changed"
_AT_START |= {"session_timeout", "shutdown_timeout"}
"""Settings of a gateway that hold, at least in part, from its start to its end."""


def reload_summary(before: Settings, after: Settings, result: Reload, started: GatewaySettings) -> str:
    """Return what is different, by name and without values, which may be secret.

    Args:
        before: the settings that held.
        after: those that hold.
        result: what the crib says of its servers.
        started: what the gateway was started with.

    >>> other = Settings(toolsets={"office": {"tags": ["mail"]}}, gateway={"confirm": False, "port": 1})
    >>> reload_summary(Settings(), other, Reload(removed=("git",)), GatewaySettings())
    'removed git; other toolsets: office; other gateway settings: confirm; after a restart: gateway.port'
    """
    later = [f"gateway.{name}" for name in sorted(_AT_START) if _is_changed(started, after.gateway, name)]
    parts = {
        "added": result.added,
        "changed": result.changed,
        "removed": result.removed,
        "other toolsets:": sorted(_changed_toolsets(before, after)),
        "other gateway settings:": list(_changed_settings(before.gateway, after.gateway)),
        "after a restart:": [*result.later, *later],
    }
    text = "; ".join(f"{what} {', '.join(names)}" for what, names in parts.items() if names)
    return text or _SAME


def _changed_toolsets(before: Settings, after: Settings) -> Iterator[str]:
    for name in before.toolsets.keys() | after.toolsets.keys():
        if before.toolsets.get(name) != after.toolsets.get(name):
            yield name


def _changed_settings(before: GatewaySettings, after: GatewaySettings) -> Iterator[str]:
    for name in GatewaySettings.model_fields:
        if name not in _AT_START and _is_changed(before, after, name):
            yield name


def _is_changed(before: GatewaySettings, after: GatewaySettings, name: str) -> bool:
    return bool(getattr(before, name) != getattr(after, name))
