"""A crib that MCP clients can reach: one endpoint for everything, and one for each toolset."""

import logging
from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, Self

import anyio
from anyio.abc import TaskGroup
from mcp.server.request_state import RequestStateSecurity

from toolcrib.crib import Config, Crib, GatewaySettings, Settings, ToolsetSettings, load
from toolcrib.errors import ConfigError, CribStateError, Problem, ToolcribError
from toolcrib.execution.background import Background
from toolcrib.gateway.endpoint import Endpoint
from toolcrib.gateway.face import Face
from toolcrib.gateway.health import Health
from toolcrib.gateway.http.rules import Rules, is_loopback, token_of
from toolcrib.gateway.meta import KeptResults, MetaFace, policy
from toolcrib.gateway.metrics import Metrics
from toolcrib.gateway.relay import relay_input
from toolcrib.gateway.signals import stop_signals
from toolcrib.gateway.stdio import serve_streams, taken_over
from toolcrib.gateway.watch import mark_of
from toolcrib.gateway.watch import watch as watch_file
from toolcrib.model import LocalTool, Tool
from toolcrib.model.suggest import did_you_mean

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

    from toolcrib.crib import View

__all__ = ["Faces", "Gateway"]

_LOG = logging.getLogger("toolcrib.gateway")
_NAMED = 40
"""How many namespaces are named to a model that begins to use an endpoint."""
Faces = Callable[["View", GatewaySettings, KeptResults], Face]
"""Makes what clients see of a view."""


class Gateway:
    """Serves a crib to MCP clients, over stdio or HTTP.

    Entering it opens its crib. `serve_stdio` and `serve_http` return when they are told to stop.
    """

    def __init__(
        self,
        config: Config = None,
        *,
        tools: Iterable[Tool | LocalTool[..., Any] | Callable[..., Any]] = (),
        watch: bool | None = None,
        environ: Mapping[str, str] | None = None,
        faces: Faces | None = None,
    ) -> None:
        """Read a configuration; nothing is started.

        Args:
            config: as for `Crib`.
            tools: functions and tools of this process to serve as well.
            watch: whether the configuration is read again when its file changes; None: as it says itself.
            environ: where variables in the configuration are looked up, instead of the process's environment.
            faces: makes what clients see, instead of the meta-tools.

        Raises:
            ConfigError: with every problem found.
        """
        self._health = Health(lambda: self.crib, self._count_sessions)
        self._metrics = Metrics(self._health)
        self._environ, self._watch, self._faces = environ, watch, faces or _meta
        self._security = RequestStateSecurity.ephemeral()
        self._kept = KeptResults()
        self._mark = mark_of(config) if isinstance(config, str | PathLike) else None
        self.crib = Crib(
            load(config),
            policy=policy,
            observers=(self._metrics,),
            environ=environ,
            on_input=relay_input,
        )
        for each in tools:
            self.crib.add(each)
        self._endpoints: dict[str | None, Endpoint] = {}
        self._shown: dict[str | None, Any] = {}
        self._life: Background | None = None
        self._tasks: TaskGroup | None = None
        self._bound = "127.0.0.1"
        self._ruled: tuple[GatewaySettings, Rules] | None = None

    @property
    def settings(self) -> GatewaySettings:
        """How clients reach the tools, as the configuration says at this moment."""
        return self.crib.settings.gateway

    @property
    def toolsets(self) -> tuple[str, ...]:
        """The toolsets that have an endpoint."""
        return tuple(name for name in self._endpoints if name is not None)

    async def __aenter__(self) -> Self:
        self._rules_of(self.crib.settings)
        await self.crib.__aenter__()
        try:
            self._follow()
            started = anyio.Event()
            self._life = Background(lambda: self._live(started))
            await started.wait()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        for endpoint in self._endpoints.values():
            endpoint.close()
        if self._life is not None:
            await self._life.stop()
        await self.crib.__aexit__(*exc_info)

    def endpoint(self, toolset: str | None = None) -> "Server[Any]":
        """Return the MCP server of a toolset, or of everything.

        Raises:
            ConfigError: there is no such toolset.
            CribStateError: the gateway is not open.
        """
        found = self.find(toolset)
        if found is not None:
            return found.server
        if None not in self._endpoints:
            raise CribStateError("this gateway is not open; write 'async with gateway:'")
        options = self.toolsets
        hint = did_you_mean(str(toolset), options) or (f"; there are {', '.join(options)}" if options else "")
        problem = Problem("/toolsets", "unknown", f"there is no toolset {toolset!r}{hint}")
        raise ConfigError(self.crib.settings.source or "configuration", (problem,))

    def find(self, toolset: str | None) -> Endpoint | None:
        """Return what clients of a toolset, or of everything, talk to; None where there is none."""
        return self._endpoints.get(toolset)

    async def serve_stdio(self, toolset: str | None = None) -> None:
        """Serve one client over standard input and output, until it leaves or a signal says so.

        What tools print meanwhile goes to standard error.
        """
        server = self.endpoint(toolset)
        async with stop_signals() as stop:
            with taken_over() as (stdin, stdout):
                async with anyio.create_task_group() as tasks:

                    async def serve() -> None:
                        await serve_streams(server, stdin, stdout)
                        tasks.cancel_scope.cancel()

                    tasks.start_soon(serve)
                    await stop.asked.wait()
                    tasks.cancel_scope.cancel()

    async def serve_http(
        self,
        host: str | None = None,
        port: int | None = None,
        on_ready: Callable[[str], Any] | None = None,
    ) -> None:
        """Serve clients over HTTP, until a signal says so; calls that run may end, a second one ends them.

        Args:
            host: where to listen; None: as the configuration says.
            port: likewise; 0 takes any that is free.
            on_ready: is called with the address when it listens.

        Raises:
            ConfigError: the address cannot be had, or others could reach it and there is no token.
        """
        from toolcrib.gateway.http.server import listen, serve  # noqa: PLC0415 - over stdio it is not needed

        self.endpoint()
        host = self.settings.host if host is None else host
        port = self.settings.port if port is None else port
        guarded = token_of(self.settings, self._source, self._environ) is not None
        listener = listen(host, port, guarded=guarded, source=self._source)
        self._bound, self._ruled = host, None
        async with stop_signals() as stop:
            await serve(self, listener, stop, on_ready)

    def rules(self) -> Rules:
        """Return who may call over HTTP at this moment."""
        settings = self.settings
        if self._ruled is None or self._ruled[0] is not settings:
            self._ruled = settings, self._rules_of(self.crib.settings)
        return self._ruled[1]

    def status(self) -> Any:
        """Return how the servers and APIs are doing, by name."""
        return self._health.status()

    def unready(self) -> dict[str, str]:
        """Return the servers that are required and not well, and in which state they are."""
        return self._health.unready()

    def metrics(self) -> tuple[bytes, str]:
        """Return what is counted, as Prometheus reads it, and what kind of text that is."""
        return self._metrics.text()

    def end_listening(self) -> None:
        """End the streams that carry news alone."""
        for endpoint in self._endpoints.values():
            endpoint.end_listening()

    @property
    def _source(self) -> str:
        return self.crib.settings.source or "configuration"

    def _rules_of(self, settings: Settings) -> Rules:
        """Return who may call, by these settings.

        Raises:
            ConfigError: the token cannot be made out, or is missing where others can call.
        """
        source = settings.source or "configuration"
        token = token_of(settings.gateway, source, self._environ)
        if token is None and not is_loopback(self._bound):
            reason = f"{self._bound!r} can be reached from other machines, so it needs a token"
            raise ConfigError(source, (Problem("/gateway/token", "missing", reason),))
        return Rules.of(settings.gateway, token, self._bound)

    async def _live(self, started: anyio.Event) -> None:
        """Keep the endpoints, and follow the configuration, until cancelled."""
        try:
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                for endpoint in self._endpoints.values():
                    tasks.start_soon(_run, endpoint)
                started.set()
                source = self.crib.settings.source
                wanted = self.settings.watch if self._watch is None else self._watch
                if source and wanted:
                    tasks.start_soon(watch_file, source, self._mark, self.reload)
                await anyio.sleep_forever()
        finally:
            started.set()

    async def reload(self) -> None:
        """Read the configuration's file again; one that cannot be used changes nothing, and is logged."""
        source = self.crib.settings.source
        if not source:
            return
        try:
            settings = load(source)
            self._rules_of(settings)
            result = await self.crib.reload(settings)
            self._follow()
        except ToolcribError as error:
            _LOG.error("the configuration stays as it was: %s", error)
            return
        _LOG.info("the configuration was read again: %s", result)

    def _follow(self) -> None:
        """Have the endpoints that the settings ask for; those that are as they were are left alone."""
        settings = self.crib.settings
        wanted: dict[str | None, ToolsetSettings | None] = {None: None}
        wanted.update(settings.toolsets)
        for name in [name for name in self._endpoints if name not in wanted]:
            self._endpoints.pop(name).close()
            del self._shown[name]
        for name, toolset in wanted.items():
            shown = settings.gateway, toolset
            if name not in self._endpoints:
                self._add(name)
            elif self._shown[name] != shown:
                self._endpoints[name].replace(self._face(name))
            self._shown[name] = shown

    def _add(self, name: str | None) -> None:
        endpoint = Endpoint(
            self._face(name),
            name=name or "",
            about=lambda: self._about(name),
            kept=self._kept,
            security=self._security,
            middleware=(self._metrics,),
        )
        self._endpoints[name] = endpoint
        if self._tasks is not None:
            self._tasks.start_soon(_run, endpoint)

    def _face(self, name: str | None) -> Face:
        return self._faces(self._view(name), self.settings, self._kept)

    def _view(self, name: str | None) -> "View":
        return self.crib if name is None else self.crib.view(name)

    def _about(self, name: str | None) -> str:
        """Return what a model should know before it uses an endpoint."""
        toolset = None if name is None else self.crib.settings.toolsets.get(name)
        what = f"{toolset.description} " if toolset is not None and toolset.description else ""
        namespaces = [each for each in self._view(name).index.namespaces() if each]
        named = ", ".join(namespaces[:_NAMED]) + (", ..." if len(namespaces) > _NAMED else "")
        reach = f"It reaches tools of: {named}. " if named else ""
        several = "run_chain and execute_code do" if self.settings.code else "run_chain does"
        return (
            f"{what}{reach}Say what you want to do to search_tools, read the arguments of what it finds with "
            f"describe_tool, and call it with run_tool; {several} several steps at once."
        )

    def _count_sessions(self) -> int:
        return sum(endpoint.sessions for endpoint in self._endpoints.values())


def _meta(view: "View", settings: GatewaySettings, kept: KeptResults) -> Face:
    return MetaFace(view, settings, kept=kept)


async def _run(endpoint: Endpoint) -> None:
    """Have an endpoint tell its clients of changes until it is closed."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(endpoint.run)
        await endpoint.closed.wait()
        tasks.cancel_scope.cancel()
