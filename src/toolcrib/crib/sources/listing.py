"""Ask every server and API for its tools, some at a time, and know who has answered."""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import Context

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from toolcrib.concurrency.backoff import Backoff
from toolcrib.crib.sources.origins import Absence, Origin, Tools
from toolcrib.crib.sources.priority import PriorityLimiter
from toolcrib.errors import ConfigError, ServerUnavailableError, ToolcribError
from toolcrib.redaction import hide_secrets

_LOG = logging.getLogger("toolcrib.crib")
_GRACE = 1.0
"""For how many seconds longer its answer is waited for: one that is late says so itself, and why."""
_COURTESY = 10.0
"""For how many seconds a search waits for the others, once the tools of one are there.

Slow ones on a busy machine take that long to start; one that hangs is not to hold up what is there."""
_GLANCE = 2.0
"""For how many of them it waits for one that did not answer in an earlier run: it may be well again."""
_AT_ONCE = 8
"""How many of which nothing is known are asked at once: each may be a process to start."""
_REFRESHED_AT_ONCE = 2
"""How many are, whose tools are known from an earlier run."""
_REST = 1.0
"""After how many seconds the first of these is: what a user asks for at the start comes before."""
_LONGEST_TURN = 5.0
"""For how many seconds one that does not answer keeps others from being asked."""
_FIRST_RETRY_SECONDS = 5.0
_LONGEST_RETRY_SECONDS = 300.0
"""The pause before a server that failed is asked again doubles up to this."""


class ToolLister:
    """Keeps the catalogue as the origins say; one that fails or is slow holds up nobody else for long.

    Those whose tools are known from an earlier run are asked later, and fewer of them at once. One that
    somebody needs is asked out of turn. A lister `on_demand` asks those alone that somebody waits for.

    Answers are put into the catalogue by a worker thread, one after the other. Of several answers of one
    origin that wait for their turn, the last counts.
    """

    def __init__(
        self,
        origins: Iterable[Origin],
        take: Callable[[Origin, Tools], object],
        miss: Callable[[Origin], object] = lambda _: None,
        drop: Callable[[Origin], object] = lambda _: None,
        *,
        courtesy: float = _COURTESY,
        on_demand: bool = False,
    ) -> None:
        """Prepare to ask origins.

        `take` puts an answer into the catalogue, `miss` notes that none came, and `drop` removes the tools of
        an origin that is gone. `courtesy` is for how many seconds those who need nobody in particular wait
        for the others, once the tools of one are there.
        """
        self.origins = {origin.name: origin for origin in origins}
        self._take = take
        self._miss = miss
        self._drop = drop
        self._answers: dict[str, Tools] = {}
        self._leaving: list[tuple[Origin, anyio.Event]] = []
        self._arrived = anyio.Event()
        self._tasks: TaskGroup | None = None
        self._unknown, self._known = PriorityLimiter(_AT_ONCE), PriorityLimiter(0)
        self._is_hurried = False
        self._courtesy = courtesy
        self._on_demand = on_demand
        self._waits: dict[anyio.CancelScope, tuple[Origin, frozenset[str]]] = {}
        """Who waits for an origin that is only one of several; the time left is less once one is there."""

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
        if not self._on_demand:
            for origin in coming.values():
                self._begin(origin)
        if not self._leaving:
            done = anyio.Event()
            done.set()
            return done
        self._arrived.set()
        return self._leaving[-1][1]

    async def run(self) -> None:
        """Ask the origins, all or those that are needed, and again those that failed, until cancelled."""
        try:
            async with anyio.create_task_group() as self._tasks:
                self._tasks.start_soon(self._take_answers)
                for origin in self.origins.values():
                    if origin.needed or not self._on_demand:
                        self._begin(origin)
                await anyio.sleep(_REST)
                self._known.widen(_REFRESHED_AT_ONCE)
        finally:
            self._tasks = None
            self._end()

    def _begin(self, origin: Origin) -> None:
        """Ask an origin from now on, or as soon as `run` does; a second time does nothing."""
        origin.needed = True
        if self._tasks is not None and not origin.begun:
            origin.begun = True
            # In a context of its own: what a caller has in its, such as a span, is not the server's.
            Context().run(self._tasks.start_soon, self._ask_until_answered, origin)

    def _end(self) -> None:
        """Keep nobody waiting for what will not come."""
        for origin in self.origins.values():
            origin.asked.set()
            origin.taken.set()
            if not origin.answered.is_set():
                origin.error = ServerUnavailableError(origin.name, "toolcrib is closing")
                origin.answered.set()
        for _, done in self._leaving:
            done.set()

    async def wait(self, names: Collection[str], *, first: bool = False) -> None:
        """Wait for the first answers of origins that nothing is known of, each for as long as it may take.

        Once the tools of one of them are known, the others are given a few seconds more; one that does not
        answer in these is noted as missing, and not waited for that long the next time. `first` asks these
        before all others, and waits for each of them in any case.
        """
        among = frozenset() if first else frozenset(names)
        for unknown in [self.origins[name] for name in names if name in self.origins]:
            if not unknown.kept:  # all of them before the first is waited for
                self._begin(unknown)
        for name in names:
            origin = self.origins.get(name)
            while origin is not None and not origin.kept and not origin.answered.is_set():
                self._begin(origin)  # it may have come in the place of another meanwhile
                if first:
                    self._turns(origin).hasten(origin)
                await self._answer_of(origin, among)
                if among and not origin.answered.is_set():
                    await self._note_miss(origin)
                heir = self.origins.get(name)
                origin = None if heir is origin else heir

    async def _answer_of(self, origin: Origin, among: frozenset[str] = frozenset()) -> None:
        await origin.asked.wait()
        with anyio.move_on_at(self._latest(origin, among)) as wait, self._shortened(wait, origin, among):
            await origin.answered.wait()

    def _latest(self, origin: Origin, among: frozenset[str]) -> float:
        """Return until when an answer is waited for by somebody who could do with those of some others."""
        end = origin.since + origin.patience + _GRACE
        if among and origin.missed:
            return min(end, origin.since + _GLANCE)
        others = [self.origins[name] for name in among if name in self.origins]
        known = [0.0 if each.kept else each.known_at or 0.0 for each in others if each.is_known]
        return min(end, max(origin.since, min(known)) + self._courtesy) if known else end

    @contextmanager
    def _shortened(self, wait: anyio.CancelScope, origin: Origin, among: frozenset[str]) -> Iterator[None]:
        """Let a wait become shorter when another of those answers that it could do with."""
        self._waits[wait] = origin, among
        try:
            yield
        finally:
            del self._waits[wait]

    async def wait_again(self, name: str) -> None:
        """Wait for an origin whose tools are needed and not all there: for its answer, or for another."""
        origin = self.origins.get(name)
        if origin is None:
            return
        if not origin.answered.is_set():
            self._begin(origin)
            self._turns(origin).hasten(origin)
            await self._answer_of(origin)
        elif origin.error is not None:
            with anyio.move_on_after(origin.patience + _GRACE):
                await self._ask(origin)
                await self.wait_taken(name)

    async def wait_taken(self, name: str) -> None:
        """Wait until what an origin has answered is in the catalogue."""
        origin = self.origins.get(name)
        if origin is not None and name in self._answers:
            await origin.taken.wait()

    async def wait_all(self, timeout: float | None) -> None:  # noqa: ASYNC109 - status says what is missing then
        """Wait until every origin has answered or failed.

        Raises:
            ServerUnavailableError: one that is required has not answered.
        """
        if not self._is_hurried:
            self._is_hurried = True
            self._known.widen(_AT_ONCE - _REFRESHED_AT_ONCE)
        for origin in self.origins.values():
            self._begin(origin)
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
                return type(error)(error.server, error.reason, error.stderr)
            case None:
                waited = anyio.current_time() - origin.since if origin.asked.is_set() else 0.0
                return ServerUnavailableError(
                    origin.name, f"it has not listed its tools within {waited:.3g} s"
                )
            case error:
                return ServerUnavailableError(origin.name, str(error))

    def absent(self) -> tuple[Absence, ...]:
        """Return of whom tools may be missing, in the order of the names."""
        return tuple(
            absence
            for name in sorted(self.origins)
            if (absence := self._absence(self.origins[name])) is not None
        )

    def _absence(self, origin: Origin) -> Absence | None:
        if origin.error is not None:
            reason = hide_secrets(self.failure(origin).reason)
            return Absence(name=origin.name, state="failed", reason=reason, kept=origin.is_known)
        if origin.is_known:
            return None
        return Absence(name=origin.name, state="missed" if origin.missed else "starting")

    async def _ask_until_answered(self, origin: Origin) -> None:
        backoff = Backoff(_FIRST_RETRY_SECONDS, _LONGEST_RETRY_SECONDS)
        with origin.scope:
            while not await self._ask_in_turn(origin):
                await backoff.sleep()

    def _turns(self, origin: Origin) -> PriorityLimiter:
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

    def _note_known(self, origin: Origin) -> None:
        origin.error = None
        if origin.known_at is None:
            origin.known_at = anyio.current_time()
            for wait, (awaited, among) in self._waits.items():
                wait.deadline = self._latest(awaited, among)

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
            self._note_known(origin)
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
