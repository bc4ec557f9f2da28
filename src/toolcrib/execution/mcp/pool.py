"""The MCP servers of one program: started when wanted, called by name, one task each."""

import logging
import os
import secrets
from collections.abc import Awaitable, Callable, Hashable, Mapping
from contextvars import Context
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from toolcrib.concurrency.loop import in_thread
from toolcrib.errors import (
    BackendUnavailableError,
    InputValidationError,
    MissingExtraError,
    NoBackendError,
    ServerUnavailableError,
    ToolLoginRequiredError,
    ValidationError,
)
from toolcrib.execution.call import Answer, Call, CallContext
from toolcrib.execution.mcp.config import (
    ContentChange,
    OnContent,
    OnInput,
    OnTools,
    ServerConfig,
    named_config,
)
from toolcrib.execution.mcp.freshness import UNKNOWN, Freshness
from toolcrib.execution.mcp.gateways import declaration
from toolcrib.execution.mcp.personal import PersonalUpstreams, connect, person_key
from toolcrib.execution.mcp.server_health import Breaker, ServerStatus
from toolcrib.execution.oauth.persons import Person
from toolcrib.execution.oauth.shared import SharedLogins
from toolcrib.execution.principal import Principal
from toolcrib.model.backend import McpBackend, ToolBackend
from toolcrib.model.findings import ResultCheck, ResultFinding
from toolcrib.model.plain import is_large, measure
from toolcrib.model.suggest import did_you_mean
from toolcrib.model.tool import Tool
from toolcrib.redaction import host_of

if TYPE_CHECKING:
    from toolcrib.execution.mcp.calls import ServerReply
    from toolcrib.execution.mcp.tool_watcher import ToolListWatcher
    from toolcrib.execution.mcp.upstream import Upstream

_LOG = logging.getLogger(__name__)
_CLOSING = "toolcrib is closing"
_NOBODY = CallContext()
_UNWATCH_SECONDS = 5.0
"""Seconds that it may take to tell a server that a resource is watched no more."""
OnFindings = Callable[[str, str, tuple[ResultFinding, ...], Principal | None], None]
"""Takes the subject, as `server:address`, the method of MCP, the findings, and the principal."""
DRAIN_TIME = 30.0
"""For how many seconds the calls of a server that is replaced or removed may go on."""


class McpServers:
    """Runs the tools of MCP servers while its context is open.

    A server is started when its tools are first listed or called. One that dies, or is idle for a long time,
    is started again by the next call; one that cannot be started is left alone for a while. Each has a task
    of its own, so that none delays or breaks another.

    `on_tools` is called with the tools of a server, by its name, after every complete listing: the first
    after each start, and those that follow when the server says that its tools have changed. `on_input`
    answers a server that asks for input in the middle of a call; without it that capability is not declared,
    and a server that asks anyway fails the call. `gateway` is the id under which a gateway of these servers
    detects itself behind one of them.
    """

    def __init__(  # noqa: PLR0913 - options, by name
        self,
        servers: Mapping[str, ServerConfig | Mapping[str, Any]],
        *,
        environ: Mapping[str, str] | None = None,
        max_result_bytes: int = 16 * 2**20,
        on_tools: OnTools | None = None,
        on_input: OnInput | None = None,
        breaker: Callable[[], Breaker] = Breaker,
        gateway: str | None = None,
    ) -> None:
        self._configs = {name: named_config(name, config) for name, config in servers.items()}
        self._environ = os.environ if environ is None else environ
        self.max_result_bytes = max_result_bytes
        """The maximum size of the value of one result; it may be set at any time."""
        self.checks: Mapping[str, ResultCheck | None] = {}
        """The checks of results of servers, by the labels of their backends; they may be set at any time."""
        self.logins: SharedLogins | None = None
        """The logins that gateways share; must be set before the first call."""
        self.on_findings: OnFindings | None = None
        """Called with the findings in content other than tool results; it may be set at any time."""
        self._on_tools = on_tools
        self._on_input = on_input
        self._on_content: dict[object, OnContent] = {}
        self._watched: dict[str, dict[str, int]] = {}
        self._breaker = breaker
        self._upstreams: dict[str, Upstream] = {}
        self._persons = PersonalUpstreams(self._make_upstream, self._retire)
        self._retiring: set[Upstream] = set()
        self._paused: set[str] = set()
        self._tasks: TaskGroup | None = None
        self._closed = False
        self._gateway = gateway or secrets.token_hex(8)

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
                for upstream in (*self._upstreams.values(), *self._persons.take(), *self._retiring):
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
        """Add a server, or change one without failing the calls in progress.

        They have a few seconds to finish on the old connection; later calls use the new one. If the command
        or the URL is unchanged, the connection is kept, and only limits change.

        Raises:
            ConfigError: its settings are invalid.
        """
        wanted = named_config(name, config)
        known, self._configs[name] = self._configs.get(name), wanted
        upstream = self._upstreams.get(name)
        if upstream is None or known is None:
            return
        if wanted.disabled or not wanted.reaches_as(known):
            self._drain(name, "its settings have changed", within)
            if self._tasks is not None:
                for each in self._persons.replace_all(name, wanted):
                    Context().run(self._tasks.start_soon, connect, each)
        elif wanted != known:
            for each in (upstream, *self._persons.all_of(name)):
                each.adjust(wanted)

    def retire(self, name: str, *, within: float = DRAIN_TIME) -> None:
        """Remove a server; it is stopped when its calls have ended, or after a few seconds.

        Raises:
            ServerUnavailableError: there is no server of this name.
        """
        if name not in self._configs:
            raise ServerUnavailableError(name, self._explain_unknown(name))
        del self._configs[name]
        self._paused.discard(name)
        self._drain(name, "it was removed", within)

    def pause(self, name: str) -> None:
        """Stop a server when its calls have ended, and refuse others until it is started again.

        Raises:
            ServerUnavailableError: there is no server of this name, or it is disabled.
        """
        if (absence := self._why_unrunnable(name)) is not None and name not in self._paused:
            raise ServerUnavailableError(name, absence)
        self._paused.add(name)
        self._drain(name, "an operator stopped it", DRAIN_TIME)

    async def restart(self, name: str) -> None:
        """Start a server again, whether it runs, is paused, or is left alone after failures.

        Raises:
            ServerUnavailableError: there is no server of this name, it is disabled, or it cannot be started.
        """
        self._paused.discard(name)
        if (absence := self._why_unrunnable(name)) is not None:
            raise ServerUnavailableError(name, absence)
        self._drain(name, "it is started again", DRAIN_TIME)
        await self.tools(name)

    def _drain(self, name: str, reason: str, within: float) -> None:
        """Remove a server's upstreams from use, and stop each once it is no longer used."""
        upstream = self._upstreams.pop(name, None)
        for each in (*self._persons.take(name), *(() if upstream is None else (upstream,))):
            self._retire(each, reason, within)

    def _retire(
        self, upstream: "Upstream", reason: str = "it is not used", within: float = DRAIN_TIME
    ) -> None:
        """Stop a removed upstream when its calls have ended."""
        if self._tasks is None:
            return

        async def drain(leaving: "Upstream") -> None:
            await leaving.in_flight.wait_until_none(within)
            await leaving.stop(reason)
            self._retiring.discard(leaving)

        upstream.watcher.mute()
        upstream.changes.mute()
        self._retiring.add(upstream)
        Context().run(self._tasks.start_soon, drain, upstream)

    def status(self) -> dict[str, ServerStatus]:
        """Return the status of each server, by its name, without any requests."""
        return {name: self._status(name, config) for name, config in self._configs.items()}

    def _status(self, name: str, config: ServerConfig) -> ServerStatus:
        upstream = self._upstreams.get(name)
        if upstream is not None:
            return upstream.status()
        paused = True if name in self._paused else None
        state = "disabled" if config.disabled else "closed" if self._closed else "stopped"
        address = None if config.url is None else host_of(config.url)
        return ServerStatus(
            name=name, state=state, transport=config.transport, address=address, paused=paused
        )

    async def tools(self, name: str) -> tuple[Tool, ...]:
        """Return the tools of a server, from all pages of its listing, after starting it if needed.

        Their namespace is the server's name, with characters replaced that a tool id cannot contain. Invalid
        definitions are left out, and `status` gives the reasons.

        Raises:
            ServerUnavailableError: it cannot be started or listed.
        """
        return (await (await self.upstream(name)).list_tools()).tools

    async def upstream(self, name: str) -> "Upstream":
        """Return the upstream of a server, for requests other than tool calls.

        Raises:
            ServerUnavailableError: there is no such server, or it cannot be used now.
        """
        reason = self._why_unusable_now(name)
        if reason is not None:
            raise ServerUnavailableError(name, reason)
        if not self._upstreams:  # the SDK takes a second to load, in which others may go on
            await to_thread.run_sync(_load_sdk)
            if (reason := self._why_unusable_now(name)) is not None:
                raise ServerUnavailableError(name, reason)
        return self._get_or_start(name)

    async def upstream_of(self, name: str, context: CallContext) -> "Upstream":
        """Return the upstream for a caller's requests to a server.

        Raises:
            LoginRequiredError: each person has their own upstream, and the caller is unknown.
            ServerUnavailableError: there is no such server, or it cannot be used now.
        """
        upstream = await self.upstream(name)
        config = upstream.config
        return self._persons.find(name, config, context) if config.is_personal else upstream

    def person_key(self, name: str, principal: Principal | None) -> Hashable | None:
        """Return the key of the owner of a server's content for a principal; None if it is shared by all."""
        config = self._configs.get(name)
        return person_key(config, principal) if config is not None and config.is_personal else None

    def _known_upstream(self, name: str, principal: Principal | None) -> "Upstream | None":
        """Return the upstream of a principal's requests, their own or everybody's, if there is one."""
        key = self.person_key(name, principal)
        return self._upstreams.get(name) if key is None else self._persons.known(name, key)

    def capabilities(self, name: str, principal: Principal | None = None) -> dict[str, Any] | None:
        """Return the capabilities declared to a principal, or on the shared connection; None if unknown."""
        known = self._known_upstream(name, principal), self._upstreams.get(name)
        return next((each.capabilities for each in known if each and each.capabilities is not None), None)

    def tools_freshness(self, name: str) -> Freshness:
        """Return the freshness of a server's tool list."""
        upstream = self._upstreams.get(name)
        return UNKNOWN if upstream is None else upstream.watcher.freshness

    def is_listed(self, name: str) -> bool:
        """Return whether a server runs, and its listed tools are current."""
        upstream = self._upstreams.get(name)
        return upstream is not None and upstream.is_listed

    def instructions(self, name: str) -> str:
        """Return the instructions that a server sent at its last start."""
        upstream = self._upstreams.get(name)
        return "" if upstream is None else upstream.instructions

    def server_info(self, name: str) -> dict[str, Any]:
        """Return the `serverInfo` that a server sent at its last start."""
        upstream = self._upstreams.get(name)
        return {} if upstream is None else upstream.server_info

    def declared_gateways(self) -> dict[str, dict[str, Any]]:
        """Return the declaration of a gateway of these servers: its own id, and those behind it."""
        behind = frozenset[str]().union(*(each.watcher.gateways for each in self._upstreams.values()))
        return declaration(self._gateway, behind)

    def on_content(self, callback: OnContent) -> Callable[[], None]:
        """Add a listener for changes to resources and prompts; return a function that removes it.

        No server is started for this: running ones send notifications, and those about one resource only
        while it is watched.
        """
        key = object()
        self._on_content[key] = callback
        return lambda: self._on_content.pop(key, None) and None

    async def watch(
        self, name: str, uri: str, context: CallContext = _NOBODY
    ) -> Callable[[], Awaitable[None]]:
        """Subscribe to a resource, after starting the server if needed; return a function that ends it.

        The server gets one subscription for all watchers, which is renewed on each new connection.

        Raises:
            RequestRefusedError: the server does not support subscriptions, or too many resources are watched.
            ServerUnavailableError: it cannot be started.
        """
        principal = context.principal
        upstream = await self.upstream_of(name, context)
        self._persons.admit_watcher(upstream)
        await upstream.watch(uri, principal)
        pending = [uri]

        async def stop() -> None:
            while pending:  # the server may be another one by now, with the same resources watched
                known = self._known_upstream(name, principal) or upstream
                with anyio.move_on_after(_UNWATCH_SECONDS, shield=True):
                    await known.unwatch(pending.pop())

        return stop

    def _notify(self, owner: Hashable | None, change: ContentChange) -> None:
        change = change if owner is None else replace(change, owner=owner)
        for callback in list(self._on_content.values()):
            try:
                callback(change)
            except Exception:  # noqa: BLE001 - it is the user's code, and the others are to hear of it too
                _LOG.exception("on_content failed for server %r", change.server)

    def missing(self, backend: ToolBackend) -> str | None:
        """Return why a backend cannot run here at all; None if it can."""
        if not isinstance(backend, McpBackend):
            return f"a {backend.kind!r} backend is not an mcp server"
        return self._why_unrunnable(backend.server_name)

    def _why_unrunnable(self, name: str) -> str | None:
        config = self._configs.get(name)
        if config is None:
            return self._explain_unknown(name)
        if name in self._paused:
            return f"the server {name!r} was stopped at the console, and has to be started there again"
        return f"the server {name!r} is disabled in the configuration" if config.disabled else None

    async def call(self, call: Call) -> Answer:
        """Run a tool on its server and return its answer.

        Raises:
            InputValidationError: the arguments are not plain JSON; nothing was sent.
            ToolError: as in the contract of `Executor`.
        """
        backend = call.backend
        # A server that is known needs none of the checks of `_require_upstream`.
        upstream = self._upstreams.get(backend.server_name) if isinstance(backend, McpBackend) else None
        if upstream is None or self._tasks is None:
            upstream = self._require_upstream(call)
        try:
            if is_large(call.args):
                await in_thread(measure, call.args)
            else:
                measure(call.args)  # the SDK would send null for NaN, and a list for a set
        except ValidationError as error:
            raise InputValidationError(error.problems, tool_id=call.tool_id) from error
        from toolcrib.execution.mcp.calls import call_tool, read_answer  # noqa: PLC0415 - needs the extra

        result = await (
            self._call_as_person(upstream, call) if upstream.is_personal else call_tool(upstream, call)
        )
        return read_answer(call, result, self.max_result_bytes)

    async def _call_as_person(self, upstream: "Upstream", call: Call) -> "ServerReply":
        """Return the reply to a call with the account of its caller, who may have to log in first."""
        from toolcrib.execution.mcp.calls import call_tool, unsent  # noqa: PLC0415 - needs the extra

        async def attempt() -> "ServerReply":
            try:
                own = self._persons.find(upstream.name, upstream.config, call.context)
            except ServerUnavailableError as error:
                raise unsent(call, error) from error
            return await call_tool(own, call)

        try:
            return await attempt()
        except ToolLoginRequiredError as error:
            client = call.context.client
            with call.pause():
                if client is None or not await client.log_in(error):
                    raise
        return await attempt()

    def _require_upstream(self, call: Call) -> "Upstream":
        absent = self.missing(call.backend)
        if absent is not None or not isinstance(call.backend, McpBackend):
            raise NoBackendError(tool_id=call.tool_id, backend=call.backend.kind, reason=absent or "")
        name = call.backend.server_name
        reason = self._why_unusable_now(name)
        if reason is not None:
            raise BackendUnavailableError(
                tool_id=call.tool_id, backend=f"mcp:{name}", reason=reason, sent=False
            )
        return self._get_or_start(name)

    def _get_or_start(self, name: str) -> "Upstream":
        """Return the upstream of a server, after starting its task if needed."""
        if name not in self._upstreams:
            self._upstreams[name] = self._make_upstream(name)
        return self._upstreams[name]

    def _make_upstream(self, name: str, person: Person | None = None) -> "Upstream":
        """Return a new upstream; the tools and content of a person are for that person alone."""
        made, follow = _load_sdk()
        config, owner, watched = self._configs[name], None, self._watched.setdefault(name, {})
        if person is not None:
            owner, watched = person_key(config, person.principal), person.watched
        is_told = owner is not None or not config.is_personal
        upstream = made(
            name,
            config,
            environ=self._environ,
            watcher=follow(name, None if person else self._on_tools, self._gateway),
            breaker=self._breaker(),
            on_input=self._on_input,
            on_content=partial(self._notify, owner) if is_told else None,
            watched=watched,
            person=person,
            logins=self.logins,
        )
        assert self._tasks is not None  # noqa: S101 - `_why_unusable_now` has asked
        # In a context of its own: what the first caller has in its, such as a span, is not the server's.
        Context().run(self._tasks.start_soon, upstream.run)
        return upstream

    def _why_unusable_now(self, name: str) -> str | None:
        """Return why a server cannot be used at this moment."""
        if self._closed:
            return "toolcrib is closed"
        if self._tasks is None:
            return "the servers are not running: use them inside 'async with'"
        return self._why_unrunnable(name)

    def _explain_unknown(self, name: str) -> str:
        known = "" if self._configs else "; none is configured"
        return f"there is no server named {name!r}{did_you_mean(name, self._configs) or known}"


def _load_sdk() -> "tuple[type[Upstream], type[ToolListWatcher]]":
    """Return the classes that need the extra."""
    try:
        from toolcrib import mcp_internals  # noqa: F401, PLC0415 - it checks the SDK's version
        from toolcrib.execution.mcp.tool_watcher import ToolListWatcher  # noqa: PLC0415 - needs the extra
        from toolcrib.execution.mcp.upstream import Upstream  # noqa: PLC0415 - the same
    except MissingExtraError:
        raise
    except ImportError as error:
        raise MissingExtraError("calling mcp servers", "mcp") from error
    return Upstream, ToolListWatcher
