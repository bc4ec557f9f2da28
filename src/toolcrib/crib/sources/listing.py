"""List the tools of every server and API, a few at a time, and let calls and searches wait for the answers.

Why it is not one `gather`: each server may be a process to start, some are slow, and some hang. So the lister
limits how many are asked at once, and each waiter decides how long it waits.

1. `run` starts a task for each origin. Origins without stored tools go first, up to eight at a time; those
   whose tools are stored are refreshed after a second, two at a time. `PriorityLimiter` keeps both orders; an
   origin that a call needs skips the queue, and one that is slow gives its place to the next after 5 s.
2. A task asks its origin until it answers, with growing pauses after failures. The answer is only noted.
3. One other task passes the noted answers to the catalogue, in a worker thread and one by one, because an
   update of the index blocks. If an origin answers again before its turn, only its latest answer is stored.
4. `wait` is for searches: once the tools of one origin are there, the others get a few seconds more, and
   those that miss them are noted in the store, so that the next run waits for them only briefly.
   `wait_again` is for a call: it waits for its own origin as long as that may take.

`swap` replaces origins while all of this goes on. A replaced origin releases its waiters at once, and they
look up its successor by name.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import Context
from dataclasses import replace
from typing import Literal

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from toolcrib.concurrency.backoff import Backoff
from toolcrib.crib.sources.origins import Absence, Origin, Tools
from toolcrib.crib.sources.priority import PriorityLimiter
from toolcrib.errors import ConfigError, ServerUnavailableError, ToolcribError
from toolcrib.errors.text import describe_failure
from toolcrib.redaction import hide_secrets

_LOG = logging.getLogger("toolcrib.crib")
_GRACE_SECONDS = 1.0
"""Waiters allow this much more than the patience of an origin, which reports its own timeout first."""
_WAIT_FOR_OTHERS_SECONDS = 10.0
"""How long a search waits for further origins once the tools of one are there.

Slow servers on a busy machine take that long to start; one that hangs must not delay the results."""
_WAIT_FOR_MISSED_SECONDS = 2.0
"""The same for an origin that did not answer in an earlier run: it may work again."""
_MAX_UNKNOWN_AT_ONCE = 8
"""Limit for origins without stored tools: each may be a process to start."""
_MAX_REFRESHED_AT_ONCE = 2
"""Limit for origins whose tools are stored by an earlier run."""
_REFRESH_AFTER_SECONDS = 1.0
"""Delay before the first refresh, so that it does not slow down the user's first requests."""
_LONGEST_TURN_SECONDS = 5.0
"""An origin that has not answered after this gives its place to the next."""
_FIRST_RETRY_SECONDS = 5.0
_LONGEST_RETRY_SECONDS = 300.0
"""Upper limit of the pause before a failed server is tried again, which doubles each time."""


class ToolLister:
    """Keeps the catalogue in step with the origins; a slow or broken one does not delay the others for long.

    With `on_demand` it asks only the origins that somebody waits for.
    """

    def __init__(
        self,
        origins: Iterable[Origin],
        take: Callable[[Origin, Tools], object],
        miss: Callable[[Origin], object] = lambda _: None,
        drop: Callable[[Origin], object] = lambda _: None,
        *,
        courtesy: float = _WAIT_FOR_OTHERS_SECONDS,
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
        self._unknown, self._known = PriorityLimiter(_MAX_UNKNOWN_AT_ONCE), PriorityLimiter(0)
        self._asks_all_at_once = False
        self._courtesy = courtesy
        self._on_demand = on_demand
        self._waits: dict[anyio.CancelScope, tuple[Origin, frozenset[str]]] = {}
        """Waits of searches, by cancel scope; a deadline moves forward when one of the origins answers."""

    def note(self, name: str, tools: Tools) -> None:
        """Queue an answer of an origin for the catalogue: its first, or one with changes."""
        origin = self.origins.get(name)
        if origin is not None:
            if origin.taken.is_set():
                origin.taken = anyio.Event()
            self._answers[name] = tools
            self._arrived.set()

    def swap(self, leave: Iterable[str], join: Iterable[Origin]) -> anyio.Event:
        """Replace origins, perhaps by others of the same names; return an event that is set when it is done.

        At once nobody waits for those that leave, and their answers are ignored. Their tools leave the
        catalogue, unless an origin with the same name and identity joins: it keeps them until it answers.
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
                self._start_asking(origin)
        if not self._leaving:
            done = anyio.Event()
            done.set()
            return done
        self._arrived.set()
        return self._leaving[-1][1]

    async def run(self) -> None:
        """Ask the origins until cancelled: all or the needed ones, and those that failed again."""
        try:
            async with anyio.create_task_group() as self._tasks:
                self._tasks.start_soon(self._store_answers)
                for origin in self.origins.values():
                    if origin.needed or not self._on_demand:
                        self._start_asking(origin)
                await anyio.sleep(_REFRESH_AFTER_SECONDS)
                self._known.widen(_MAX_REFRESHED_AT_ONCE)
        finally:
            self._tasks = None
            self._release_waiters()

    def _start_asking(self, origin: Origin) -> None:
        """Start the task that asks an origin, now or when `run` starts; a second call does nothing."""
        origin.needed = True
        if self._tasks is not None and not origin.begun:
            origin.begun = True
            # In an empty context, or spans of a long-lived server would be children of the first caller's.
            Context().run(self._tasks.start_soon, self._ask_until_answered, origin)

    def _release_waiters(self) -> None:
        """Release all waiters, as no more requests will be sent."""
        for origin in self.origins.values():
            origin.asked.set()
            origin.taken.set()
            if not origin.answered.is_set():
                origin.error = ServerUnavailableError(origin.name, "toolcrib is closing")
                origin.answered.set()
        for _, done in self._leaving:
            done.set()

    async def wait(self, names: Collection[str], *, first: bool = False) -> None:
        """Wait for the first answers of origins without stored tools, each for as long as its patience.

        Once the tools of one of them are known, the others are given a few seconds more; one that does not
        answer in these is noted as missing, and not waited for that long the next time. `first` asks these
        before all others, and waits for each of them in any case.
        """
        among = frozenset() if first else frozenset(names)
        for unknown in [self.origins[name] for name in names if name in self.origins]:
            if not unknown.kept:  # all of them before the first is waited for
                self._start_asking(unknown)
        for name in names:
            origin = self.origins.get(name)
            while origin is not None and not origin.kept and not origin.answered.is_set():
                self._start_asking(origin)  # it may have come in the place of another meanwhile
                if first:
                    self._limiter_for(origin).hasten(origin)
                await self._wait_for_answer(origin, among)
                if among and not origin.answered.is_set():
                    await self._note_miss(origin)
                heir = self.origins.get(name)
                origin = None if heir is origin else heir

    async def _wait_for_answer(self, origin: Origin, among: frozenset[str] = frozenset()) -> None:
        await origin.asked.wait()
        with (
            anyio.move_on_at(self._patience_ends_at(origin, among)) as wait,
            self._register_wait(wait, origin, among),
        ):
            await origin.answered.wait()

    def _patience_ends_at(self, origin: Origin, among: frozenset[str]) -> float:
        """Return the time at which a waiter gives up an origin, given the other origins that it asked for."""
        end = origin.since + origin.patience + _GRACE_SECONDS
        if among and origin.missed:
            return min(end, origin.since + _WAIT_FOR_MISSED_SECONDS)
        others = [self.origins[name] for name in among if name in self.origins]
        known = [0.0 if each.kept else each.known_at or 0.0 for each in others if each.is_known]
        return min(end, max(origin.since, min(known)) + self._courtesy) if known else end

    @contextmanager
    def _register_wait(
        self, wait: anyio.CancelScope, origin: Origin, among: frozenset[str]
    ) -> Iterator[None]:
        """Register a wait, so that its deadline moves forward when another of its origins answers."""
        self._waits[wait] = origin, among
        try:
            yield
        finally:
            del self._waits[wait]

    async def wait_again(self, name: str) -> None:
        """Wait for an origin whose tools a call needs: its first answer, or after a failure the next."""
        origin = self.origins.get(name)
        if origin is None:
            return
        if not origin.answered.is_set():
            self._start_asking(origin)
            self._limiter_for(origin).hasten(origin)
            await self._wait_for_answer(origin)
        elif origin.error is not None:
            with anyio.move_on_after(origin.patience + _GRACE_SECONDS):
                await self._ask(origin)
                await self.wait_taken(name)

    def is_taken(self, name: str) -> bool:
        """Return whether an origin has answered well, and its latest answer is in the catalogue."""
        origin = self.origins.get(name)
        return origin is not None and origin.is_well and name not in self._answers

    async def wait_taken(self, name: str) -> None:
        """Wait until the latest answer of an origin is in the catalogue."""
        origin = self.origins.get(name)
        if origin is not None and name in self._answers:
            await origin.taken.wait()

    async def wait_all(self, timeout: float | None) -> None:  # noqa: ASYNC109 - status says what is missing then
        """Wait until every origin has answered or failed.

        Raises:
            ServerUnavailableError: one that is required has not answered.
        """
        if not self._asks_all_at_once:
            self._asks_all_at_once = True
            self._known.widen(_MAX_UNKNOWN_AT_ONCE - _MAX_REFRESHED_AT_ONCE)
        for origin in self.origins.values():
            self._start_asking(origin)
        with anyio.move_on_after(timeout):
            while late := [each for each in self.origins.values() if not each.answered.is_set()]:
                await late[0].answered.wait()
        for origin in self.origins.values():
            if origin.required and (origin.error is not None or not origin.answered.is_set()):
                raise self.failure(origin)

    def failure(self, origin: Origin) -> ServerUnavailableError:
        """Return the error for calls that need tools of an origin which has not listed them."""
        match origin.error:
            case ServerUnavailableError() as error:
                return replace(error)
            case None:
                waited = anyio.current_time() - origin.since if origin.asked.is_set() else 0.0
                reason = f"it has not listed its tools within {waited:.3g} s"
                return ServerUnavailableError(origin.name, reason, advice=origin.download)
            case error:
                return ServerUnavailableError(origin.name, str(error))

    def absent(self) -> tuple[Absence, ...]:
        """Return the origins whose tools may be missing or outdated, by name."""
        return tuple(
            absence
            for name in sorted(self.origins)
            if (absence := self._describe_absence(self.origins[name])) is not None
        )

    def _describe_absence(self, origin: Origin) -> Absence | None:
        if origin.error is not None:
            failure = self.failure(origin)
            reason = hide_secrets(describe_failure(failure.reason, advice=failure.advice))
            return Absence(name=origin.name, state="failed", reason=reason, kept=origin.is_known)
        if origin.is_known:
            return None
        state: Literal["missed", "starting"] = "missed" if origin.missed else "starting"
        return Absence(name=origin.name, state=state, reason=origin.download or None)

    async def _ask_until_answered(self, origin: Origin) -> None:
        backoff = Backoff(_FIRST_RETRY_SECONDS, _LONGEST_RETRY_SECONDS)
        with origin.scope:
            while not await self._ask_in_turn(origin):
                await backoff.sleep()

    def _limiter_for(self, origin: Origin) -> PriorityLimiter:
        return self._known if origin.kept else self._unknown

    async def _ask_in_turn(self, origin: Origin) -> bool:
        """Ask an origin when the limiter allows; skip it if a call has made it answer meanwhile."""
        turns = self._limiter_for(origin)

        async def make_room() -> None:
            await anyio.sleep(_LONGEST_TURN_SECONDS)
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
        """Ask an origin once; return False if asking again may help."""
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
        if origin.name not in self._answers and not origin.is_well and self._is_current(origin):
            self.note(origin.name, tools)
        return True

    def _is_current(self, origin: Origin) -> bool:
        return self.origins.get(origin.name) is origin

    async def _note_miss(self, origin: Origin) -> None:
        if not self._is_current(origin):
            return
        try:
            await to_thread.run_sync(self._miss, origin)
        except ToolcribError as error:
            _LOG.warning("it could not be stored that %r did not answer: %s", origin.name, error)

    def _fail(self, origin: Origin, error: ToolcribError) -> None:
        is_known = not self._is_current(origin) or str(origin.error) == str(error)
        _LOG.log(logging.DEBUG if is_known else logging.WARNING, "%s%s", origin.prefix, error)
        origin.error = error
        origin.answered.set()

    async def _store_answers(self) -> None:
        while True:
            await self._arrived.wait()
            self._arrived = anyio.Event()
            while self._leaving or self._answers:
                if self._leaving:  # first: an origin that joins may have the name of one that leaves
                    await self._drop_origin(*self._leaving[0])
                else:
                    await self._store_answer(self.origins[next(iter(self._answers))])

    def _mark_known(self, origin: Origin) -> None:
        origin.error = None
        if origin.known_at is None:
            origin.known_at = anyio.current_time()
            for wait, (awaited, among) in self._waits.items():
                wait.deadline = self._patience_ends_at(awaited, among)

    async def _drop_origin(self, origin: Origin, done: anyio.Event) -> None:
        try:
            await to_thread.run_sync(self._drop, origin)
        except ToolcribError as error:
            _LOG.warning("it could not be stored that %r is gone: %s", origin.name, error)
        finally:
            self._leaving.pop(0)
            done.set()

    async def _store_answer(self, origin: Origin) -> None:
        tools = self._answers[origin.name]
        try:
            await to_thread.run_sync(self._take, origin, tools)
            self._mark_known(origin)
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
