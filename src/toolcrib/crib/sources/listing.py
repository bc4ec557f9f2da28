"""Ask every server and API for its tools, some at a time, and know who has answered."""

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextvars import Context
from dataclasses import dataclass, field

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from toolcrib.crib.sources.turns import Turns
from toolcrib.errors import ConfigError, ServerUnavailableError, ToolcribError
from toolcrib.model import Tool

__all__ = ["Listing", "Origin"]

_LOG = logging.getLogger("toolcrib.crib")
_GRACE = 1.0
"""For how many seconds longer its answer is waited for: one that is late says so itself, and why."""
_COURTESY = 5.0
"""For how many seconds a search waits for one that came while others were there already."""
_AT_ONCE = 8
"""How many of which nothing is known are asked at once: each may be a process to start."""
_REFRESHED_AT_ONCE = 2
"""How many are, whose tools are known from an earlier run."""
_REST = 1.0
"""After how many seconds the first of these is: what a user asks for at the start comes before."""
_LONGEST_TURN = 5.0
"""For how many seconds one that does not answer keeps others from being asked."""
_FIRST_PAUSE, _LONGEST_PAUSE = 5.0, 300.0
"""After how many seconds one that failed is asked again: doubled each time, up to the second."""

Tools = tuple[Tool, ...]


@dataclass(slots=True, eq=False)
class Origin:
    """Where tools come from: a server, or an API."""

    name: str
    """The namespace of its tools."""
    key: str
    """What the catalogue and errors call it, such as `mcp:github`."""
    identity: str
    """What it is started or reached by; stored tools are served only where that is the same."""
    list_tools: Callable[[], Awaitable[Tools]]
    """Asks it; raises a `ToolcribError`, or tells `Listing.note` too."""
    patience: float = 30.0
    """For how many seconds after it is asked anybody waits for its first answer."""
    required: bool = False
    prefix: str = ""
    """What stands before an error of it in the log, where that does not name it."""
    kept: bool = False
    """Whether the catalogue has its tools from an earlier run."""
    missed: bool = False
    """Whether it did not answer in an earlier run that the catalogue has others from."""
    is_late: bool = False
    """Whether it came while others were there already."""
    asked: anyio.Event = field(default_factory=anyio.Event)
    """Set when it is asked for the first time."""
    since: float = 0.0
    """When that was."""
    answered: anyio.Event = field(default_factory=anyio.Event)
    """Set when its first answer is in the catalogue, or has failed to come."""
    taken: anyio.Event = field(default_factory=anyio.Event)
    """Set when its latest answer is in the catalogue."""
    error: ToolcribError | None = None
    """Why it did not answer the last time; None once it does."""
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    """Ends the asking."""

    @property
    def is_well(self) -> bool:
        """Whether its latest answer is in the catalogue, as far as one was wanted."""
        return self.answered.is_set() and self.error is None


class Listing:
    """Keeps the catalogue as the origins say; one that fails or is slow holds up nobody else for long.

    Those whose tools are known from an earlier run are asked later, and fewer of them at once. One that
    somebody needs is asked out of turn.

    Answers are put into the catalogue by a worker thread, one after the other. Of several answers of one
    origin that wait for their turn, the last counts.
    """

    def __init__(
        self,
        origins: Iterable[Origin],
        take: Callable[[Origin, Tools], object],
        miss: Callable[[Origin], object] = lambda _: None,
        drop: Callable[[Origin], object] = lambda _: None,
    ) -> None:
        """Prepare to ask origins.

        `take` puts an answer into the catalogue, `miss` notes that none came, and `drop` removes the tools of
        an origin that is gone.
        """
        self.origins = {origin.name: origin for origin in origins}
        self._take = take
        self._miss = miss
        self._drop = drop
        self._answers: dict[str, Tools] = {}
        self._leaving: list[tuple[Origin, anyio.Event]] = []
        self._arrived = anyio.Event()
        self._tasks: TaskGroup | None = None
        self._unknown, self._known = Turns(_AT_ONCE), Turns(0)
        self._is_hurried = False

    def note(self, name: str, tools: Tools) -> None:
        """Note what an origin has, at its first answer or because that has changed."""
        origin = self.origins.get(name)
        if origin is not None:
            if origin.taken.is_set():
                origin.taken = anyio.Event()
            self._answers[name] = tools
            self._arrived.set()

    def swap(self, leave: Iterable[str], join: Iterable[Origin]) -> anyio.Event:
        """Let some origins go and others come, which may have the same names; return what is set when done.

        From this step on nobody waits for those that go, and their answers count no more. Their tools go from
        the catalogue, unless one with the same name and identity comes: that keeps them until it answers.
        """
        coming = {origin.name: origin for origin in join}
        for name in leave:
            gone, heir = self.origins.pop(name), coming.get(name)
            gone.scope.cancel()
            for event in (gone.asked, gone.answered, gone.taken):
                event.set()
            self._answers.pop(name, None)
            if heir is not None and heir.identity and heir.identity == gone.identity:
                heir.kept = gone.kept or gone.is_well
            else:
                self._leaving.append((gone, anyio.Event()))
        self.origins |= coming
        for origin in coming.values():
            origin.is_late = True
            self._begin(origin)
        if not self._leaving:
            done = anyio.Event()
            done.set()
            return done
        self._arrived.set()
        return self._leaving[-1][1]

    async def run(self) -> None:
        """Ask all origins, and again those that failed, until cancelled."""
        try:
            async with anyio.create_task_group() as self._tasks:
                self._tasks.start_soon(self._take_answers)
                for origin in self.origins.values():
                    self._begin(origin)
                await anyio.sleep(_REST)
                self._known.widen(_REFRESHED_AT_ONCE)
        finally:
            self._tasks = None
            self._end()

    def _begin(self, origin: Origin) -> None:
        if self._tasks is not None:
            # In a context of its own: what a caller has in its, such as a span, is not the server's.
            Context().run(self._tasks.start_soon, self._ask_until_answered, origin)

    def _end(self) -> None:
        """Keep nobody waiting for what will not come."""
        for origin in self.origins.values():
            origin.asked.set()
            if not origin.answered.is_set():
                origin.error = ServerUnavailableError(origin.name, "toolcrib is closing")
                origin.answered.set()
        for _, done in self._leaving:
            done.set()

    async def wait(self, names: Collection[str], *, first: bool = False) -> None:
        """Wait for the first answers of origins that nothing is known of, each for as long as it may take.

        `first` asks these before all others, and waits for late ones as for any.
        """
        for name in names:
            origin = self.origins.get(name)
            while origin is not None and not origin.kept and not origin.answered.is_set():
                await self._answer_of(origin, first=first)
                heir = self.origins.get(name)
                origin = None if heir is origin else heir

    async def _answer_of(self, origin: Origin, *, first: bool) -> None:
        if first:
            self._turns(origin).hasten(origin)
        await origin.asked.wait()
        patience = origin.patience if first or not origin.is_late else min(origin.patience, _COURTESY)
        with anyio.move_on_at(origin.since + patience + _GRACE):
            await origin.answered.wait()

    async def wait_again(self, name: str) -> None:
        """Wait for an origin whose tools are needed and not all there: for its answer, or for another."""
        origin = self.origins.get(name)
        if origin is None:
            return
        if not origin.answered.is_set():
            await self._answer_of(origin, first=True)
        elif origin.error is not None:
            with anyio.move_on_after(origin.patience + _GRACE):
                await self._ask(origin)
                if origin.name in self._answers:
                    await origin.taken.wait()

    async def wait_all(self, timeout: float | None) -> None:  # noqa: ASYNC109 - what is missing then is told
        """Wait until every origin has answered or failed.

        Raises:
            ServerUnavailableError: one that is required has not answered.
        """
        if not self._is_hurried:
            self._is_hurried = True
            self._known.widen(_AT_ONCE - _REFRESHED_AT_ONCE)
        with anyio.move_on_after(timeout):
            while late := [each for each in self.origins.values() if not each.answered.is_set()]:
                await late[0].answered.wait()
        for origin in self.origins.values():
            if origin.required and (origin.error is not None or not origin.answered.is_set()):
                raise self.failure(origin)

    def failure(self, origin: Origin) -> ServerUnavailableError:
        """Return why the tools of an origin are not known."""
        match origin.error:
            case ServerUnavailableError() as error:
                return ServerUnavailableError(error.server, error.reason, error.stderr)
            case None:
                waited = anyio.current_time() - origin.since if origin.asked.is_set() else 0.0
                return ServerUnavailableError(
                    origin.name, f"it has not listed its tools within {waited:.3g} s"
                )
            case error:
                return ServerUnavailableError(origin.name, str(error))

    async def _ask_until_answered(self, origin: Origin) -> None:
        pause = _FIRST_PAUSE
        with origin.scope:
            while not await self._ask_in_turn(origin):
                await anyio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    def _turns(self, origin: Origin) -> Turns:
        return self._known if origin.kept else self._unknown

    async def _ask_in_turn(self, origin: Origin) -> bool:
        """Ask an origin when it is its turn, unless it has answered by then because somebody called it."""
        turns = self._turns(origin)

        async def make_room() -> None:
            await anyio.sleep(_LONGEST_TURN)
            turns.leave(origin)

        try:
            await turns.join(origin).wait()
            if origin.is_well:
                return True
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(make_room)
                is_over = await self._ask(origin)
                tasks.cancel_scope.cancel()
            return is_over
        finally:
            turns.leave(origin)

    async def _ask(self, origin: Origin) -> bool:
        """Ask an origin once, and return whether it is of no use to ask again."""
        if not origin.asked.is_set():
            origin.since = anyio.current_time()
            origin.asked.set()
        try:
            tools = await origin.list_tools()
        except ConfigError as error:
            self._fail(origin, error)
            return True
        except ToolcribError as error:
            await self._note_miss(origin)
            self._fail(origin, error)
            return False
        except Exception as error:  # noqa: BLE001 - a server is foreign code, and must not take others along
            _LOG.exception("listing the tools of %r failed", origin.name)
            reason = f"listing its tools failed: {type(error).__name__}"
            await self._note_miss(origin)
            self._fail(origin, ServerUnavailableError(origin.name, reason))
            return False
        if origin.name not in self._answers and not origin.is_well and self._is_here(origin):
            self.note(origin.name, tools)
        return True

    def _is_here(self, origin: Origin) -> bool:
        return self.origins.get(origin.name) is origin

    async def _note_miss(self, origin: Origin) -> None:
        if not self._is_here(origin):
            return
        try:
            await to_thread.run_sync(self._miss, origin)
        except ToolcribError as error:
            _LOG.warning("that %r did not answer is not kept: %s", origin.name, error)

    def _fail(self, origin: Origin, error: ToolcribError) -> None:
        is_known = not self._is_here(origin) or str(origin.error) == str(error)
        _LOG.log(logging.DEBUG if is_known else logging.WARNING, "%s%s", origin.prefix, error)
        origin.error = error
        origin.answered.set()

    async def _take_answers(self) -> None:
        while True:
            await self._arrived.wait()
            self._arrived = anyio.Event()
            while self._leaving or self._answers:
                if self._leaving:  # first: what comes may have the name of what goes
                    await self._take_leave(*self._leaving[0])
                else:
                    await self._take_answer(self.origins[next(iter(self._answers))])

    async def _take_leave(self, origin: Origin, done: anyio.Event) -> None:
        try:
            await to_thread.run_sync(self._drop, origin)
        except ToolcribError as error:
            _LOG.warning("that %r is gone is not kept: %s", origin.name, error)
        finally:
            self._leaving.pop(0)
            done.set()

    async def _take_answer(self, origin: Origin) -> None:
        tools = self._answers[origin.name]
        try:
            await to_thread.run_sync(self._take, origin, tools)
            origin.error = None
        except ToolcribError as error:
            self._fail(origin, error)
        except Exception as error:  # noqa: BLE001 - one answer must not take the others along
            _LOG.exception("the tools of %r cannot be kept", origin.name)
            reason = f"its tools cannot be kept: {type(error).__name__}"
            self._fail(origin, ServerUnavailableError(origin.name, reason))
        if self._answers.get(origin.name) is tools:
            del self._answers[origin.name]
            origin.taken.set()
        origin.answered.set()
