"""The MCP servers of one program: started when wanted, called by name, one task each."""

import os
from collections.abc import Callable, Mapping
from contextvars import Context
from typing import TYPE_CHECKING, Any, Self

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from toolcrib.errors import (
    BackendUnavailableError,
    ConfigError,
    InputValidationError,
    MissingExtraError,
    NoBackendError,
    Problem,
    ServerUnavailableError,
    ValidationError,
)
from toolcrib.execution.mcp.config import OnInput, OnTools, ServerConfig
from toolcrib.execution.mcp.server_health import Breaker, ServerStatus
from toolcrib.execution.records import Answer, Call
from toolcrib.model.backend import McpBackend, ToolBackend
from toolcrib.model.plain import measure
from toolcrib.model.suggest import did_you_mean
from toolcrib.model.tool import Tool
from toolcrib.redaction import host_of

if TYPE_CHECKING:
    from toolcrib.execution.mcp.tool_watcher import ToolListWatcher
    from toolcrib.execution.mcp.upstream import Upstream

__all__ = ["DRAIN_TIME", "McpServers"]

_CLOSING = "toolcrib is closing"
DRAIN_TIME = 30.0
"""For how many seconds the calls of a server that is replaced or removed may go on."""


class McpServers:
    """Runs the tools of MCP servers, for as long as it is entered.

    Nothing is started until a tool or a listing of a server is wanted. A server that dies, or is idle for
    long, is started again by the next call; one that cannot be started is left alone for a while. Each has a
    task of its own, so that none delays or breaks another.

    `on_tools` is called with the tools of a server, by its name, after every complete listing: the first
    after each start, and those that follow when the server says that its tools have changed. `on_input`
    answers a server of the stateless era that asks for input in the middle of a call; without it such a call
    fails.
    """

    def __init__(
        self,
        servers: Mapping[str, ServerConfig | Mapping[str, Any]],
        *,
        environ: Mapping[str, str] | None = None,
        max_result_bytes: int = 16 * 2**20,
        on_tools: OnTools | None = None,
        on_input: OnInput | None = None,
        breaker: Callable[[], Breaker] = Breaker,
    ) -> None:
        self._configs = {name: _config(name, config) for name, config in servers.items()}
        self._environ = os.environ if environ is None else environ
        self.max_result_bytes = max_result_bytes
        """How large the value of one result may be; it may be set at any time."""
        self._on_tools = on_tools
        self._on_input = on_input
        self._breaker = breaker
        self._upstreams: dict[str, Upstream] = {}
        self._retiring: set[Upstream] = set()
        self._tasks: TaskGroup | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        if self._tasks is not None or self._closed:
            raise RuntimeError("servers can be entered once; make another McpServers")
        tasks = anyio.create_task_group()
        await tasks.__aenter__()
        self._tasks = tasks
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks, self._tasks, self._closed = self._tasks, None, True
        if tasks is None:  # it was left before
            return
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as stopping:
                for upstream in (*self._upstreams.values(), *self._retiring):
                    stopping.start_soon(lambda each: each.stop(_CLOSING, cancels=True), upstream)
        tasks.cancel_scope.cancel()  # who waits for the calls of one that is gone need not
        # What the block raised stays out of the group, which would wrap it.
        await tasks.__aexit__(None, None, None)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the servers that can be called, in the order they were given."""
        return tuple(name for name, config in self._configs.items() if not config.disabled)

    def replace(
        self, name: str, config: ServerConfig | Mapping[str, Any], *, within: float = DRAIN_TIME
    ) -> None:
        """Add a server, or change one without failing the calls under way.

        They end on the connection that they began on, if they do so within some seconds; later ones go to
        another. Where the same is started or reached, the connection stays, and only limits change.

        Raises:
            ConfigError: its settings cannot work.
        """
        wanted = _config(name, config)
        known, self._configs[name] = self._configs.get(name), wanted
        upstream = self._upstreams.get(name)
        if upstream is None or known is None:
            return
        if wanted.disabled or not wanted.reaches_as(known):
            self._drain(name, "its settings have changed", within)
        elif wanted != known:
            upstream.adjust(wanted)

    def retire(self, name: str, *, within: float = DRAIN_TIME) -> None:
        """Forget a server at once; it is stopped when its calls have ended, or after some seconds.

        Raises:
            ServerUnavailableError: there is none of this name.
        """
        if name not in self._configs:
            raise ServerUnavailableError(name, self._unknown(name))
        del self._configs[name]
        self._drain(name, "it was removed", within)

    def _drain(self, name: str, reason: str, within: float) -> None:
        """Stop a server when it is no longer used, and let nobody find it meanwhile."""
        upstream = self._upstreams.pop(name, None)
        if upstream is None or self._tasks is None:
            return

        async def drain(leaving: "Upstream") -> None:
            await leaving.visits.over(within)
            await leaving.stop(reason)
            self._retiring.discard(leaving)

        upstream.watcher.mute()
        self._retiring.add(upstream)
        Context().run(self._tasks.start_soon, drain, upstream)

    def status(self) -> dict[str, ServerStatus]:
        """Return how each server is doing, by its name; nothing is asked of any of them."""
        return {name: self._status(name, config) for name, config in self._configs.items()}

    def _status(self, name: str, config: ServerConfig) -> ServerStatus:
        upstream = self._upstreams.get(name)
        if upstream is not None:
            return upstream.status()
        state = "disabled" if config.disabled else "closed" if self._closed else "stopped"
        address = None if config.url is None else host_of(config.url)
        return ServerStatus(name=name, state=state, transport=config.transport, address=address)

    async def tools(self, name: str) -> tuple[Tool, ...]:
        """Return the tools of a server, from all pages of its listing, after starting it if need be.

        Their namespace is the server's name, mended where a tool id could not carry it. Definitions that are
        no tools are left out, and `status` says why.

        Raises:
            ServerUnavailableError: it cannot be started or listed.
        """
        return (await (await self.upstream(name)).listed()).tools

    async def upstream(self, name: str) -> "Upstream":
        """Return the owner of a server's connection, for requests beside calls of its tools.

        Raises:
            ServerUnavailableError: there is no such server, or it cannot be used now.
        """
        reason = self._reason_against(name)
        if reason is not None:
            raise ServerUnavailableError(name, reason)
        if not self._upstreams:  # the SDK takes a second to load, in which others may go on
            await to_thread.run_sync(_load)
            if (reason := self._reason_against(name)) is not None:
                raise ServerUnavailableError(name, reason)
        return self._upstream(name)

    def missing(self, backend: ToolBackend) -> str | None:
        """Return why a backend cannot run here at all; None if it can."""
        if not isinstance(backend, McpBackend):
            return f"a {backend.kind!r} backend is no mcp server"
        return self._absence(backend.server_name)

    def _absence(self, name: str) -> str | None:
        config = self._configs.get(name)
        if config is None:
            return self._unknown(name)
        return f"the server {name!r} is disabled in the configuration" if config.disabled else None

    async def call(self, call: Call) -> Answer:
        """Run a tool on its server and return what it gave.

        Raises:
            InputValidationError: the arguments are not plain JSON; nothing was sent.
            ToolError: as the contract of `Executor` has it.
        """
        backend = call.backend
        upstream = self._upstreams.get(backend.server_name) if isinstance(backend, McpBackend) else None
        if upstream is None or self._tasks is None:
            upstream = self._upstream_for(call)
        try:
            measure(call.args)  # the SDK would send null for NaN, and a list for a set
        except ValidationError as error:
            raise InputValidationError(error.problems, tool_id=call.tool_id) from error
        from toolcrib.execution.mcp.calls import dispatch, read_answer  # noqa: PLC0415 - needs the extra

        result = await dispatch(upstream, call, self._on_input)
        return read_answer(call, result, self.max_result_bytes)

    def _upstream_for(self, call: Call) -> "Upstream":
        absent = self.missing(call.backend)
        if absent is not None or not isinstance(call.backend, McpBackend):
            raise NoBackendError(tool_id=call.tool_id, backend=call.backend.kind, reason=absent or "")
        name = call.backend.server_name
        reason = self._reason_against(name)
        if reason is not None:
            raise BackendUnavailableError(
                tool_id=call.tool_id, backend=f"mcp:{name}", reason=reason, sent=False
            )
        return self._upstream(name)

    def _upstream(self, name: str) -> "Upstream":
        """Return the owner of a server's connection, whose task is started with it."""
        known = self._upstreams.get(name)
        if known is not None:
            return known
        made, follow = _load()
        upstream = self._upstreams[name] = made(
            name,
            self._configs[name],
            environ=self._environ,
            watcher=follow(name, self._on_tools),
            breaker=self._breaker(),
            asks=self._on_input is not None,
        )
        assert self._tasks is not None  # noqa: S101 - `_reason_against` has asked
        # In a context of its own: what the first caller has in its, such as a span, is not the server's.
        Context().run(self._tasks.start_soon, upstream.run)
        return upstream

    def _reason_against(self, name: str) -> str | None:
        """Return why a server cannot be used at this moment."""
        if self._closed:
            return "toolcrib is closed"
        if self._tasks is None:
            return "the servers are not running: use them inside 'async with'"
        return self._absence(name)

    def _unknown(self, name: str) -> str:
        known = "" if self._configs else "; none is configured"
        return f"there is no server named {name!r}{did_you_mean(name, self._configs) or known}"


def _load() -> "tuple[type[Upstream], type[ToolListWatcher]]":
    """Return what needs the extra."""
    try:
        from toolcrib import mcp_internals  # noqa: F401, PLC0415 - it checks the SDK's version
        from toolcrib.execution.mcp.tool_watcher import ToolListWatcher  # noqa: PLC0415 - needs the extra
        from toolcrib.execution.mcp.upstream import Upstream  # noqa: PLC0415 - the same
    except MissingExtraError:
        raise
    except ImportError as error:
        raise MissingExtraError("calling mcp servers", "mcp") from error
    return Upstream, ToolListWatcher


def _config(name: str, config: ServerConfig | Mapping[str, Any]) -> ServerConfig:
    """Return the settings of a server; problems are reported with its name."""
    if not name:
        raise ConfigError("mcpServers", (Problem("", "name", "the name of a server must not be empty"),))
    if isinstance(config, ServerConfig):
        return config
    try:
        return ServerConfig(**config)
    except ConfigError as error:
        raise ConfigError(f"server {name!r}", error.problems) from error
