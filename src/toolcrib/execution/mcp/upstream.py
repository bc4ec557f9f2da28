"""One server, and the task that owns its connection: `run` starts, serves, stops and restarts it.

Only the owner task enters and leaves the transport. A cancel scope belongs to one task, so that a caller who
entered it could, by being cancelled, break the connection of all others. Callers send requests from their own
tasks through the `Connection`, and wait for a start together (`Start`). `_wake` makes the owner look again:
somebody wants a connection, the other side is gone, or the upstream is stopped.

One turn of the owner: `_start_and_serve` waits out the breaker's pause, `_run_connection` opens the transport
and negotiates, `_serve` lets callers use the connection until it is lost, idle or discarded, and
`_on_disconnected` decides whether that counts as a failure of the server.

A server may speak both eras of the protocol. It is connected to in the modern era, where it cannot send
requests. Requests of clients that can only be asked by such requests go over a second, legacy connection: an
`Upstream` that belongs to the first one, opened for the first of these requests, closed when idle, and
stopped with the first one. Lists are read over the first connection alone, which is kept for as long as the
second is used.
"""

import logging
import os
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from contextvars import Context
from functools import partial
from math import inf
from typing import Any

import anyio
import httpx2
from anyio.abc import TaskGroup
from mcp.shared.exceptions import MCPError

from toolcrib.concurrency.fair_slots import FairSlots
from toolcrib.concurrency.in_flight import InFlight
from toolcrib.errors import ConfigError, LoginRequiredError, ServerUnavailableError, ToolExecutionError
from toolcrib.execution.call import CallClient
from toolcrib.execution.mcp.change_listener import ChangeListener
from toolcrib.execution.mcp.client_relay import RelayedCall, RunningCalls
from toolcrib.execution.mcp.config import OnContent, OnInput, ServerConfig
from toolcrib.execution.mcp.connection import (
    Connection,
    ConnectionListeners,
    Start,
    open_connection,
    transport_to,
)
from toolcrib.execution.mcp.errors import (
    hung_up,
    is_exhausted,
    is_unreachable,
    needs_login,
    place,
    reason_of,
    refuses_handshake,
    was_answered,
)
from toolcrib.execution.mcp.server_health import Breaker, ServerHealth, ServerStatus, telling_lines
from toolcrib.execution.mcp.tool_watcher import ToolListing, ToolListWatcher
from toolcrib.execution.mcp.transport.environment import describe_withheld
from toolcrib.execution.mcp.transport.lines import DroppedMessages
from toolcrib.execution.mcp.transport.process import StderrTail
from toolcrib.execution.mcp.walls.advice import describe_hidden
from toolcrib.execution.oauth.persons import Person
from toolcrib.execution.oauth.shared import SharedLogins
from toolcrib.execution.principal import Principal, slot_owner
from toolcrib.execution.variables import has_variables
from toolcrib.redaction import KnownSecrets, host_of

_ANSWER_SECONDS = 60.0
"""Seconds that a server has to answer a request beside calls, unless its settings say otherwise."""
_STOP_SECONDS = 5.0
"""Seconds that a connection has to close by itself before it is broken off."""
_PROBE_SECONDS = 3.0
"""Seconds after which a server on a pipe that does not answer a question is taken not to understand it."""
_FIRST_RETRY_SECONDS = 10.0
_LONGEST_RETRY_SECONDS = 600.0
"""The pause before a second connection is tried again doubles up to this."""
_HANDSHAKE_WORDS = ("initializ", "handshake")
"""Words in the message of a server that closed the connection for lack of a handshake."""
_LOGIN_OR_QUERY = re.compile(r"(?<=://)[^/@]*@|[?#].*", re.DOTALL)
_log = logging.getLogger(__name__)


class Upstream:
    """A server that is started when it is first wanted, and again when it is wanted after it went away."""

    def __init__(  # noqa: PLR0913 - each is a part that only its servers put together
        self,
        name: str,
        config: ServerConfig,
        *,
        environ: Mapping[str, str],
        watcher: ToolListWatcher,
        breaker: Breaker,
        on_input: OnInput | None = None,
        on_content: OnContent | None = None,
        watched: dict[str, int] | None = None,
        person: Person | None = None,
        first: "Upstream | None" = None,
        logins: SharedLogins | None = None,
    ) -> None:
        """Make an upstream that connects when wanted; with `first`, the second connection of that one."""
        self.name, self._person, self._first = name, person, first
        self.config = config
        self.is_personal = config.is_personal
        """Whether each person has an upstream of their own; it cannot change while the connection stays."""
        self.watcher = watcher
        self.on_input = on_input
        """Gives it input; without that it is not told that it can ask."""
        self.changes = ChangeListener(name, watcher.note_change, on_content, watched)
        """What it tells of changes, and the resources that are watched."""
        self._slots = FairSlots(config.max_concurrency)
        self.in_flight = InFlight()
        """The calls under way, also those that wait for a slot or for a start."""
        self.running = RunningCalls()
        """The requests under way, and where their updates and questions go."""
        self.close_reason: str | None = None
        """Why it will never be started again; None while it may."""
        self.cancels_calls = False
        """Whether calls that this ended were cancelled, rather than failed by the server."""
        self.capabilities: dict[str, Any] | None = None
        """What it declared when it was last started."""
        self.instructions = ""
        self.server_info: dict[str, Any] = {}
        """What it said then of how to use it."""
        self._environ, self._logins = environ, logins
        self._health = ServerHealth(breaker)
        self._secrets = KnownSecrets()
        self._stderr = StderrTail(self._secrets)
        self._dropped = DroppedMessages(name)
        self._connection: Connection | None = None
        self._start: Start | None = None
        self._handshake = first is not None
        self._legacy_twin: Upstream | None = None
        self._refused_on: Connection | None = None
        """The connection of a server that has refused the handshake since that was opened."""
        self._tasks: TaskGroup | None = None
        self._wake = anyio.Event()
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()
        self.last_used = 0.0
        """When a call last ended, or a connection was made, by the clock of the event loop."""
        self._needed = 0.0

    async def connect(self, deadline: float = inf) -> Connection:
        """Return the live connection, after starting the server if need be.

        Raises:
            ServerUnavailableError: it cannot be started, or is not to be tried again yet; or it is still
                starting shortly before the deadline of whoever wants it.
        """
        if self.close_reason is not None:
            raise ServerUnavailableError(self.name, self.close_reason)
        connection = self._connection
        if connection is not None and not connection.gone:
            return connection
        if self._start is None:
            if (objection := self._health.objection) is not None:
                raise ServerUnavailableError(
                    self.name, objection, self.stderr_tail(), advice=self._health.advice
                )
            self._start = Start(self._health.pause + self.config.start_limit)
            self._wake.set()
        start = self._start
        # A late server may also be slow to shut down; callers do not wait for that.
        connection = await start.wait(deadline)
        if connection is None:
            reason, advice = f"it is still starting after {start.age:.2g} s", self.config.download
            if start.overdue:
                self._abandon_start(start)
                reason, advice = self._late_reason, self._advise(is_late=True)
            raise ServerUnavailableError(self.name, reason, self.stderr_tail(), advice=advice)
        return connection

    async def connect_for(
        self, client: CallClient | None, deadline: float = inf
    ) -> "tuple[Upstream, Connection]":
        """Return the connection that a client's request goes over, and the upstream that has it.

        It is the second one where the server may have to ask the client by requests of its own. A server that
        cannot be connected to in that way gets the request over the first, and cannot ask.

        Raises:
            ServerUnavailableError: as `connect` has it.
        """
        connection = await self.connect(deadline)
        if client is None or not client.takes_server_requests or not connection.modern:
            return self, connection
        if self._refused_on is connection:
            return self, connection
        if self._legacy_twin is None:
            self._legacy_twin = self._make_legacy_twin()
        try:
            return self._legacy_twin, await self._legacy_twin.connect(deadline)
        except ServerUnavailableError as error:
            if (
                self.close_reason is not None or self._legacy_twin.is_starting
            ):  # the caller has no time to wait for it
                raise
            if refuses_handshake(error.__cause__):
                self._refused_on = connection
            return self, connection

    def _make_legacy_twin(self) -> "Upstream":
        """Return the upstream of the second connection, and run it."""
        # A server on a pipe is then two processes, and what changes in one of them the other may not know.
        watched = self.changes.watched if self.config.transport == "stdio" else None
        second = Upstream(
            self.name,
            self.config,
            environ=self._environ,
            watcher=ToolListWatcher(self.name, None, self.watcher.gateway),
            breaker=Breaker(threshold=1, base=_FIRST_RETRY_SECONDS, cap=_LONGEST_RETRY_SECONDS),
            on_input=self.on_input,
            watched=watched,
            person=self._person,
            first=self,
            logins=self._logins,
        )
        assert self._tasks is not None  # noqa: S101 - there is a connection, so `run` runs
        # In a context of its own: the first caller's context, such as a span, is not the server's.
        Context().run(self._tasks.start_soon, second.run)
        return second

    @property
    def is_starting(self) -> bool:
        """Return whether a start is under way."""
        return self._start is not None

    @asynccontextmanager
    async def slot(self, principal: Principal | None, *, within: float = inf) -> AsyncIterator[None]:
        """Hold one of the `max_concurrency` slots, which every request of a client to the server takes.

        A principal, or all clients that nobody vouches for together, cannot take all of them.

        Raises:
            ServerUnavailableError: none became free within so many seconds.
        """
        with self.in_flight:
            slots, owner = self._slots, slot_owner(principal)  # `adjust` may replace them meanwhile
            with anyio.move_on_after(within) as waiting:
                await slots.acquire(owner)
            if waiting.cancelled_caught:
                reason = f"no slot became free within {within:g} s ({slots.total} in all)"
                raise ServerUnavailableError(self.name, f"{reason}; try again later")
            try:
                yield
            finally:
                slots.release(owner)

    @property
    def patience(self) -> float:
        """Seconds that a request beside a call may wait for its slot, and then for its answer."""
        return self.config.timeout or _ANSWER_SECONDS

    def unanswered(self, method: str) -> ServerUnavailableError:
        """Return the error for a request that the server did not answer within `patience`."""
        return ServerUnavailableError(self.name, f"it did not answer {method} within {self.patience:g} s")

    async def watch(self, uri: str, principal: Principal | None) -> None:
        """Have the server report the changes of a resource, over all its connections.

        Raises:
            RequestRefusedError: it does not, or too many resources are watched.
            ServerUnavailableError: it cannot be started, or does not answer in time.
        """
        async with self.slot(principal, within=self.patience):
            connection = await self.connect()
            try:
                with anyio.fail_after(self.patience):
                    await self.changes.watch(connection, uri)
                    if self._legacy_twin is not None:
                        await self._legacy_twin.changes.synchronize(uri)
            except TimeoutError:
                raise self.unanswered("resources/subscribe") from None

    async def unwatch(self, uri: str) -> None:
        """Undo one `watch`."""
        await self.changes.unwatch(uri)
        if self._legacy_twin is not None:
            await self._legacy_twin.changes.synchronize(uri)

    def adjust(self, config: ServerConfig) -> None:
        """Apply settings that need no new connection: timeouts and concurrency."""
        if config.max_concurrency != self.config.max_concurrency:  # those under way leave the slots they took
            self._slots = FairSlots(config.max_concurrency)
        self.config = config
        self._wake.set()
        if self._legacy_twin is not None:
            self._legacy_twin.adjust(config)

    def _abandon_start(self, start: Start) -> None:
        """Record that a start is late, though it may take long to end."""
        if self._start is start:  # the first of those who waited for it says so
            self._start = None
            self._health.failed(self._late_reason, advice=self._advise(is_late=True))

    @property
    def is_listed(self) -> bool:
        """Whether the listed tools of the present connection are current."""
        connection = self._connection
        return connection is not None and not connection.gone and self.watcher.is_current

    async def list_tools(self) -> ToolListing:
        """Return the result of a listing in progress, or of a new one.

        Raises:
            ServerUnavailableError: it cannot be started or listed.
        """
        try:
            return await self._list_tools()
        except ServerUnavailableError as error:
            connection, cause = self._connection, error.__cause__
            if connection is None or not isinstance(cause, MCPError) or not self.discard(connection, cause):
                raise
        return await self._list_tools()

    async def _list_tools(self) -> ToolListing:
        connection = await self.connect()
        while (
            self._connection is not connection
        ):  # it is over already, and so is whoever would do the listing
            connection = await self.connect()
        catalogue = await self.watcher.wait_for_listing()
        self.last_used = anyio.current_time()
        return catalogue

    def discard(self, connection: Connection, error: MCPError) -> bool:
        """Close a connection that is of no use after such an error; return whether it is.

        Either its session is forgotten, or nobody can be reached, while no call that was heard needs it any
        more; then it is for the breaker to say when to try again. Or something holds all its connections for
        good, which counts as a failure of the server.
        """
        exhausted = is_exhausted(error)
        unreachable = is_unreachable(error) and not self.running
        useless = connection.is_forgotten(error) or exhausted or unreachable
        if useless and self._connection is connection:
            connection.failed = exhausted
            self._detach(connection, error.message)
            self._wake.set()
        return useless

    def _detach(self, connection: Connection, close_reason: str) -> None:
        """End a connection: from this step on nobody is given it, though closing it takes a while."""
        connection.close_reason = close_reason
        self._connection = None
        self._health.state = "stopped"

    @contextmanager
    def track(self, running: RelayedCall, connection: Connection) -> Iterator[None]:
        """Note that a request runs for the length of the block, and afterwards whether it was answered."""
        connection.called = True
        is_answered = False
        with self.running.track(running):
            try:
                yield
                is_answered = True
            except (MCPError, ToolExecutionError) as error:
                # The latter is an answer that cannot be used, such as a question for nobody.
                is_answered = not isinstance(error, MCPError) or was_answered(error)
                raise
            finally:
                running.is_abandoned = not is_answered and not connection.gone
                self.last_used = anyio.current_time()
                if is_answered and not connection.useful:
                    connection.useful = True
                    self._health.served()

    def stderr_tail(self) -> str:
        """Return the last lines of its standard error."""
        return telling_lines(self._stderr.text())[-1000:]

    @property
    def needs_login(self) -> bool:
        """Return whether the last start failed for want of a login."""
        return self._health.needs_login and self._health.state == "failed"

    def status(self) -> ServerStatus:
        """Return how it is doing."""
        connection = self._connection
        catalogue = self.watcher.catalogue
        pause = self._health.pause if self._health.state == "failed" else 0.0
        return ServerStatus(
            name=self.name,
            state=self._health.state,
            transport=self.config.transport,
            address=None if self.config.url is None else host_of(self.config.url),
            protocol_version=connection.session.protocol_version if connection is not None else None,
            server_info=(self.server_info or None) if connection is not None else None,
            tools=None if catalogue is None else len(catalogue.tools),
            listed_ago=self.watcher.age,
            refused={} if catalogue is None else dict(catalogue.refused),
            pid=self._stderr.pid if connection is not None else None,
            last_error=self._health.last_error,
            advice=(self._health.last_error and self._health.advice) or None,
            needs_login=self.needs_login or None,
            stderr=self._stderr.text(),
            in_flight=len(self.running)
            + (0 if self._legacy_twin is None else len(self._legacy_twin.running)),
            starts=self._health.starts,
            next_try_in=pause or None,
        )

    async def run(self) -> None:
        """Own the connection until stopped; this never raises, whatever the server does."""
        try:
            async with anyio.create_task_group() as self._tasks:
                with self._scope:
                    while self.close_reason is None:
                        self._wake = anyio.Event()
                        if self._start is None:
                            await self._wake.wait()
                        else:
                            await self._start_and_serve()
        finally:
            if self.close_reason is None:  # whoever entered us was cancelled
                self.close_reason, self.cancels_calls = "toolcrib is closing", True
            self._health.state = "closed"
            ending = ServerUnavailableError(self.name, self.close_reason)
            self._fail_start(ending)
            self.watcher.fail_waiters(ending)
            self._ended.set()

    async def stop(self, reason: str, *, cancels: bool = False) -> None:
        """End the connection for good, and return when it is gone.

        `cancels` tells the calls under way that they were cancelled, not that the server failed them.
        """
        if self.close_reason is None:
            self.close_reason, self.cancels_calls = reason, cancels
        async with anyio.create_task_group() as stopping:
            if self._legacy_twin is not None:
                stopping.start_soon(partial(self._legacy_twin.stop, reason, cancels=cancels))
            await self._stop_own_connection()

    async def _stop_own_connection(self) -> None:
        self._wake.set()
        if self._health.state in {"starting", "failed"}:  # it may be late, and tried still
            self._scope.cancel()
        with anyio.move_on_after(_STOP_SECONDS):
            await self._ended.wait()
        self._scope.cancel()
        await self._ended.wait()

    async def _start_and_serve(self) -> None:
        """Start the server, and keep it until it is gone, idle, given up or stopped."""
        start, self._health.state = self._start, "starting"
        await anyio.sleep(self._health.pause)
        connection, failure = await self._run_connection(probe=not self._handshake)
        if connection is None and not self._handshake and self._wants_handshake(failure):
            connection, failure = await self._run_connection(probe=False)
        if connection is not None:
            self._health.state = "stopped"
            self._on_disconnected(connection, failure)
        elif self._start is start:
            wanted = needs_login(failure)
            reason = self._late_reason if failure is None else reason_of(failure, self._secrets)
            advice = self._advise(is_late=failure is None)
            self._health.failed(reason, needs_login=wanted, advice=advice)
            unavailable = (LoginRequiredError if wanted else ServerUnavailableError)(
                self.name, reason, self.stderr_tail(), advice=advice
            )
            unavailable.__cause__ = failure
            if self._first is not None and not refuses_handshake(failure):
                lost = "its own requests do not reach clients"
                _log.warning(
                    "server %r cannot be connected to with the older protocol, so %s: %s",
                    self.name,
                    lost,
                    reason,
                )
            self._fail_start(unavailable)

    def _wants_handshake(self, failure: Exception | None) -> bool:
        """Return whether a server hung up, and may have done so because it was not greeted as it expected."""
        words = self._stderr.text().lower()
        expected = not words or any(word in words for word in _HANDSHAKE_WORDS)
        return self.config.transport == "stdio" and expected and failure is not None and hung_up(failure)

    async def _run_connection(self, *, probe: bool) -> tuple[Connection | None, Exception | None]:
        """Run one connection, from start to end; return it, if it was opened, and the failure."""
        self._health.starts += 1
        self._secrets = self._collect_secrets()
        self._stderr = StderrTail(self._secrets)
        connection: Connection | None = None
        failure: Exception | None = None
        with anyio.CancelScope(deadline=anyio.current_time() + self.config.start_limit) as scope:
            try:
                config = self.config.expanded(self._environ)
                async with self._open_connection(config, probe=probe) as connection:
                    scope.deadline = inf
                    await self._serve(connection)
                    scope.deadline = anyio.current_time() + _STOP_SECONDS
            except Exception as error:  # noqa: BLE001 - whatever a transport raises is the failure of this server
                failure = error
        if scope.cancelled_caught and connection is None and self.config.transport == "stdio":
            # What it was asked may have stopped it: the next start asks otherwise.
            self._handshake = probe or self._first is not None
        return connection, failure

    def _open_connection(
        self, config: ServerConfig, *, probe: bool
    ) -> AbstractAsyncContextManager[Connection]:
        streams = transport_to(
            config,
            name=self.name,
            stderr=self._stderr,
            dropped=self._dropped,
            environ=self._environ,
            written=self.config,
            secrets=self._secrets,
            person=self._person,
            logins=self._logins,
        )
        heard = self._first or self  # whose tools and content these are
        listeners = ConnectionListeners(
            lost=lambda: self._wake.set(),  # noqa: PLW0108 - it is another by then
            tools_changed=heard.watcher.note_change,
            content_changed=heard.changes.notify,
            logged=self._relay_log,
            elicited=self.running.complete,
            dropped=self._dropped,
            asked=None if self.on_input is None else self.running.answer,
        )
        # Over HTTP every request is answered, if only with a status; over a pipe silence is possible.
        patience = min(_PROBE_SECONDS, config.start_limit / 3) if config.transport == "stdio" else inf
        return open_connection(
            streams,
            listeners,
            transport=config.transport,
            probe=probe,
            patience=patience,
            handshake_only=self._first is not None,
            gateway=self.watcher.gateway,
            secrets=self._secrets,
        )

    def _collect_secrets(self) -> KnownSecrets:
        """Return the secrets of the settings, with the address shown as it is written there."""
        secrets, written = self.config.known_secrets(self._environ, os.environ), self.config.url
        if written is not None and has_variables(written):
            with suppress(ConfigError, httpx2.InvalidURL):  # the start says what is wrong with it
                shown = _LOGIN_OR_QUERY.sub("", written)
                secrets.show_as(place(self.config.expanded(self._environ).url or ""), shown)
        return secrets

    async def _serve(self, connection: Connection) -> None:
        """Let callers use a connection until it is over."""
        self._handshake = not connection.modern
        self._health.state = "ready"
        self._connection = connection
        declared = connection.session.server_capabilities
        self.capabilities = {} if declared is None else declared.model_dump(by_alias=True, exclude_none=True)
        self.instructions = connection.session.instructions or ""
        info = connection.session.server_info
        self.server_info = info.model_dump(by_alias=True, mode="json", exclude_none=True) if info else {}
        self._health.last_error, self._health.advice = None, ""
        self.last_used = anyio.current_time()
        start, self._start = self._start, None
        if start is not None:
            start.succeed(connection)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(partial(self.watcher.follow, connection, within=self.config.start_limit))
                tasks.start_soon(self.changes.run, connection)
                await self._wait_until_over(connection)
                tasks.cancel_scope.cancel()
        finally:
            if self._connection is connection:
                self._connection = None

    async def _wait_until_over(self, connection: Connection) -> None:
        while self._connection is connection and not connection.gone and self.close_reason is None:
            self._wake = anyio.Event()
            left = self._idle_seconds_left()
            if left <= 0:
                self._detach(connection, "it was idle")
                return
            with anyio.move_on_after(left):
                await self._wake.wait()

    def _idle_seconds_left(self) -> float:
        """Return the seconds until the server has been idle for too long."""
        limit, second = None if self.config.is_shared else self.config.idle_timeout, self._legacy_twin
        if limit is None:
            return inf
        if self.running or self.watcher.busy or (self.changes.busy and self._first is None):
            return limit
        if second is not None and second.running:
            return limit
        last_used = self.last_used if second is None else max(self.last_used, second.last_used)
        return max(last_used + limit, self._needed) - anyio.current_time()

    def keep_for(self, seconds: float) -> None:
        """Keep the server running for some time, without calls too: a task of it may be queried."""
        self._needed = max(self._needed, anyio.current_time() + seconds)

    def _on_disconnected(self, connection: Connection, failure: Exception | None) -> None:
        """Tell those who used a connection why it ended; one that was of no use to anybody is a failure."""
        expected = bool(connection.close_reason) or self.close_reason is not None
        if not connection.close_reason:
            fault = failure or connection.fault
            ended = reason_of(fault, self._secrets) if fault else "it closed the connection"
            connection.close_reason = self.close_reason or ended
        connection.over.set()
        error = ServerUnavailableError(self.name, connection.close_reason, self.stderr_tail())
        self.watcher.fail_waiters(error)
        if connection.failed:
            self._health.failed(connection.close_reason)
        elif expected:
            return
        elif connection.useful:
            self._health.last_error = connection.close_reason
        elif connection.listed or connection.called:
            self._health.died(connection.close_reason)
        else:
            self._health.failed(connection.close_reason)

    def _fail_start(self, failure: ServerUnavailableError) -> None:
        """Tell those who wait for a start that it failed."""
        start, self._start = self._start, None
        if start is not None:
            start.fail(failure)

    def _relay_log(self, params: dict[str, Any]) -> None:
        connection = self._connection
        self.running.log(params, modern=connection is not None and connection.modern)

    @property
    def _late_reason(self) -> str:
        return f"it did not start within {self.config.start_limit:g} s"

    def _advise(self, *, is_late: bool) -> str:
        """Return what a process that did not start may have missed: variables, files, or time."""
        if self._stderr.pid is None:  # there was no process
            return ""
        stderr = self._stderr.text()
        withheld = describe_withheld(os.environ, self.config, stderr)
        hidden = ""
        with suppress(ConfigError):  # which is the reason by itself
            hidden = describe_hidden(self.name, self.config.expanded(self._environ), stderr)
        download = self.config.download if is_late else ""
        return "; ".join(filter(None, (download, withheld, hidden)))
