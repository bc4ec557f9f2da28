"""One server and the task that owns its connection: it starts, follows, reaps and restarts it.

The owner alone enters and leaves the transport, so that no cancellation of a caller can reach it. Callers
send their requests through the connection from their own tasks, and wait for a start together.
"""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from math import inf
from typing import Any

import anyio
from mcp.shared.exceptions import MCPError

from toolcrib.concurrency.in_flight import InFlight
from toolcrib.errors import ServerUnavailableError
from toolcrib.execution.mcp.config import ServerConfig
from toolcrib.execution.mcp.connection import Connection, ConnectionListeners, Start, open_link, transport_to
from toolcrib.execution.mcp.errors import hung_up, is_unreachable, reason_of
from toolcrib.execution.mcp.process import StderrTail
from toolcrib.execution.mcp.server_health import Breaker, ServerHealth
from toolcrib.execution.mcp.status import ServerStatus
from toolcrib.execution.mcp.tool_watcher import ToolListing, ToolListWatcher
from toolcrib.execution.mcp.updates import Updates, log_update
from toolcrib.redaction import host_of

__all__ = ["Upstream"]

_STOP_GRACE = 5.0
"""Seconds that a connection has to close by itself before it is broken off."""
_SILENCE = 3.0
"""Seconds after which a server on a pipe that does not answer a question is taken not to understand it."""
_HANDSHAKE_WORDS = ("initializ", "handshake")
"""What a server says that hung up because it was not greeted as it expected."""


class Upstream:
    """A server that is started when it is first wanted, and again when it is wanted after it went away."""

    def __init__(
        self,
        name: str,
        config: ServerConfig,
        *,
        environ: Mapping[str, str],
        following: ToolListWatcher,
        breaker: Breaker,
        asks: bool = False,
    ) -> None:
        self.name = name
        self.config = config
        self.following = following
        self.slots = anyio.Semaphore(config.max_concurrency, fast_acquire=True)
        """Taken by calls while they run."""
        self.visits = InFlight()
        """The calls under way, also those that wait for a slot or for a start."""
        self.running: dict[object, Updates | None] = {}
        """The calls under way, and where their updates go."""
        self.closed: str | None = None
        """Why it will never be started again."""
        self.cancels = False
        """Whether calls that this ended were cancelled, rather than failed by the server."""
        self._environ = environ
        self._asks = asks
        self._standing = ServerHealth(breaker)
        self._stderr = StderrTail()
        self._link: Connection | None = None
        self._start: Start | None = None
        self._handshake = False
        self._stirred = anyio.Event()
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()
        self._used = 0.0

    async def connected(self, deadline: float = inf) -> Connection:
        """Return the live connection, after starting the server if need be.

        Raises:
            ServerUnavailableError: it cannot be started, or is not to be tried again yet; or it is still
                starting shortly before the deadline of whoever wants it.
        """
        if self.closed is not None:
            raise ServerUnavailableError(self.name, self.closed)
        link = self._link
        if link is not None and not link.gone:
            return link
        if self._start is None:
            if (objection := self._standing.objection) is not None:
                raise ServerUnavailableError(self.name, objection, self.last_words())
            self._start = Start(self._standing.pause + self.config.start_timeout)
            self._stirred.set()
        start = self._start
        # A server that is late may take its time to end as well: that is not for callers to wait for.
        link = await start.wait(deadline)
        if link is None:
            reason = f"it is still starting after {start.age:.2g} s"
            if start.overdue:
                self._give_up(start)
                reason = self._late()
            raise ServerUnavailableError(self.name, reason, self.last_words())
        return link

    def adjust(self, config: ServerConfig) -> None:
        """Take up settings that need no other connection: how long, and how many at once."""
        if config.max_concurrency != self.config.max_concurrency:  # those under way leave the slots they took
            self.slots = anyio.Semaphore(config.max_concurrency, fast_acquire=True)
        self.config = config
        self._stirred.set()

    def _give_up(self, start: Start) -> None:
        """Note that a start is late, though it may take long until what was begun before has ended."""
        if self._start is start:  # the first of those who waited for it says so
            self._start = None
            self._standing.failed(self._late())

    async def listed(self) -> ToolListing:
        """Return what a listing gives that is made, or under way, now.

        Raises:
            ServerUnavailableError: it cannot be started or listed.
        """
        try:
            return await self._listing()
        except ServerUnavailableError as error:
            link, cause = self._link, error.__cause__
            if link is None or not isinstance(cause, MCPError) or not self.discarded(link, cause):
                raise
        return await self._listing()

    async def _listing(self) -> ToolListing:
        link = await self.connected()
        while self._link is not link:  # it is over already, and so is whoever would do the listing
            link = await self.connected()
        catalogue = await self.following.fresh()
        self._used = anyio.current_time()
        return catalogue

    def discarded(self, link: Connection, error: MCPError) -> bool:
        """Return whether a connection is of no use after such an error; if so, it is closed.

        Either its session is forgotten, or nobody can be reached, while no call that was heard needs it any
        more; then it is for the breaker to say when to try again.
        """
        useless = link.is_forgotten(error) or (is_unreachable(error) and not self.running)
        if useless and self._link is link:
            self._let_go(link, error.message)
            self._stirred.set()
        return useless

    def _let_go(self, link: Connection, farewell: str) -> None:
        """End a connection: from this step on nobody is given it, though closing it takes a while."""
        link.farewell = farewell
        self._link = None
        self._standing.state = "stopped"

    def began(self, key: object, updates: Updates | None) -> None:
        """Note that a call runs."""
        self.running[key] = updates
        if self._link is not None:
            self._link.called = True

    def finished(self, key: object, link: Connection, *, answered: bool) -> None:
        """Note that a call has ended, and whether the server answered it."""
        del self.running[key]
        self._used = anyio.current_time()
        if answered and not link.useful:
            link.useful = True
            self._standing.served()

    def last_words(self) -> str:
        """Return the last lines of its standard error."""
        return "\n".join(self._stderr.text().splitlines()[-5:])[-1000:]

    def status(self) -> ServerStatus:
        """Return how it is doing."""
        link = self._link
        info = link.session.server_info if link is not None else None
        catalogue = self.following.catalogue
        pause = self._standing.pause if self._standing.state == "failed" else 0.0
        return ServerStatus(
            name=self.name,
            state=self._standing.state,
            transport=self.config.transport,
            address=None if self.config.url is None else host_of(self.config.url),
            protocol_version=link.session.protocol_version if link is not None else None,
            server_info=info.model_dump(by_alias=True, mode="json", exclude_none=True) if info else None,
            tools=None if catalogue is None else len(catalogue.tools),
            listed_ago=self.following.age,
            refused={} if catalogue is None else dict(catalogue.refused),
            pid=self._stderr.pid if link is not None else None,
            last_error=self._standing.last_error,
            stderr=self._stderr.text(),
            in_flight=len(self.running),
            starts=self._standing.starts,
            next_try_in=pause or None,
        )

    async def run(self) -> None:
        """Own the connection until stopped; this never raises, whatever the server does."""
        try:
            with self._scope:
                while self.closed is None:
                    self._stirred = anyio.Event()
                    if self._start is None:
                        await self._stirred.wait()
                    else:
                        await self._live()
        finally:
            if self.closed is None:  # whoever entered us was cancelled
                self.closed, self.cancels = "toolcrib is closing", True
            self._standing.state = "closed"
            ending = ServerUnavailableError(self.name, self.closed)
            self._told(ending)
            self.following.over(ending)
            self._ended.set()

    async def stop(self, reason: str, *, cancels: bool = False) -> None:
        """End the connection for good, and return when it is gone.

        `cancels` tells the calls under way that they were cancelled, not that the server failed them.
        """
        if self.closed is None:
            self.closed, self.cancels = reason, cancels
        self._stirred.set()
        if self._standing.state in {"starting", "failed"}:  # it may be late, and tried still
            self._scope.cancel()
        with anyio.move_on_after(_STOP_GRACE):
            await self._ended.wait()
        self._scope.cancel()
        await self._ended.wait()

    async def _live(self) -> None:
        """Start the server, and keep it until it is gone, idle, given up or stopped."""
        start, self._standing.state = self._start, "starting"
        await anyio.sleep(self._standing.pause)
        link, failure = await self._connection(probe=not self._handshake)
        if link is None and not self._handshake and self._wants_handshake(failure):
            link, failure = await self._connection(probe=False)
        if link is not None:
            self._standing.state = "stopped"
            self._part(link, failure)
        elif self._start is start:
            self._standing.failed(self._late() if failure is None else reason_of(failure))
            reported = ServerUnavailableError(self.name, self._standing.last_error or "", self.last_words())
            reported.__cause__ = failure
            self._told(reported)

    def _wants_handshake(self, failure: Exception | None) -> bool:
        """Return whether a server hung up, and may have done so because it was not greeted as it expected."""
        words = self._stderr.text().lower()
        expected = not words or any(word in words for word in _HANDSHAKE_WORDS)
        return self.config.transport == "stdio" and expected and failure is not None and hung_up(failure)

    async def _connection(self, *, probe: bool) -> tuple[Connection | None, Exception | None]:
        """Have one connection, from start to end; return it, if it came to be, and what went wrong."""
        self._standing.starts += 1
        self._stderr = StderrTail()
        link: Connection | None = None
        failure: Exception | None = None
        with anyio.CancelScope(deadline=anyio.current_time() + self.config.start_timeout) as scope:
            try:
                config = self.config.expanded(self._environ)
                async with self._linked(config, probe=probe) as link:
                    scope.deadline = inf
                    await self._serve(link)
                    scope.deadline = anyio.current_time() + _STOP_GRACE
            except Exception as error:  # noqa: BLE001 - whatever a transport raises is the failure of this server
                failure = error
        if scope.cancelled_caught and link is None and self.config.transport == "stdio":
            self._handshake = probe  # what it was asked may have stopped it: the next start asks otherwise
        return link, failure

    def _linked(self, config: ServerConfig, *, probe: bool) -> AbstractAsyncContextManager[Connection]:
        streams = transport_to(config, name=self.name, stderr=self._stderr)
        listeners = ConnectionListeners(
            lost=self._lost, tools_changed=self.following.changed, logged=self._hear
        )
        # Over HTTP every request is answered, if only with a status; over a pipe silence is possible.
        patience = min(_SILENCE, config.start_timeout / 3) if config.transport == "stdio" else inf
        return open_link(
            streams,
            listeners,
            transport=config.transport,
            probe=probe,
            patience=patience,
            asks=self._asks,
        )

    async def _serve(self, link: Connection) -> None:
        """Let callers use a connection until it is over."""
        self._handshake = not link.modern
        self._standing.state = "ready"
        self._link = link
        self._standing.last_error = None
        self._used = anyio.current_time()
        start, self._start = self._start, None
        if start is not None:
            start.succeed(link)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(partial(self.following.follow, link, within=self.config.start_timeout))
                tasks.start_soon(self.following.subscribe, link)
                await self._until_over(link)
                tasks.cancel_scope.cancel()
        finally:
            if self._link is link:
                self._link = None

    async def _until_over(self, link: Connection) -> None:
        while self._link is link and not link.gone and self.closed is None:
            self._stirred = anyio.Event()
            left = self._idle_left()
            if left <= 0:
                self._let_go(link, "it was not used for a while")
                return
            with anyio.move_on_after(left):
                await self._stirred.wait()

    def _idle_left(self) -> float:
        """Return the seconds until the server has been idle for too long."""
        limit = self.config.idle_timeout
        if limit is None:
            return inf
        if self.running or self.following.busy:
            return limit
        return self._used + limit - anyio.current_time()

    def _part(self, link: Connection, failure: Exception | None) -> None:
        """Tell those who used a connection why it ended; one that was of no use to anybody is a failure."""
        expected = bool(link.farewell) or self.closed is not None
        if not link.farewell:
            fault = failure or link.fault
            link.farewell = self.closed or (reason_of(fault) if fault else "it closed the connection")
        link.over.set()
        self.following.over(ServerUnavailableError(self.name, link.farewell, self.last_words()))
        if expected:
            return
        if link.useful:
            self._standing.last_error = link.farewell
        elif link.listed or link.called:
            self._standing.died(link.farewell)
        else:
            self._standing.failed(link.farewell)

    def _lost(self) -> None:
        self._stirred.set()

    def _told(self, failure: ServerUnavailableError) -> None:
        """Tell those who wait for a start that it failed."""
        start, self._start = self._start, None
        if start is not None:
            start.fail(failure)

    def _hear(self, data: Any, level: str) -> None:
        """Give a log message to the call that it must belong to; where several are possible, to none."""
        link = self._link
        heard = list(self.running.values())
        if link is not None and link.modern:  # there only a call that asked for messages gets any
            heard = [updates for updates in heard if updates is not None]
        if len(heard) == 1 and heard[0] is not None:
            heard[0].put(log_update(data, level))

    def _late(self) -> str:
        return f"it did not start within {self.config.start_timeout:g} s"
