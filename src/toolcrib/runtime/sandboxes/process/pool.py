"""Pool of guests that are booted before they are needed; each serves one run.

A guest serves one run because nothing can undo what its code did to the interpreter. Booting one takes far
longer than most code runs, so the pool keeps `keep` booted guests, and boots the next one shortly after it
gave one away.

A guest is not killed while it boots, if possible: the program that sets up its isolation would leave a
half-made process behind that nothing ends. If the run that waits for a guest is cancelled, the boot goes on
in its own task; the guest then becomes an idle one, or is disposed of.

A slot of the semaphore belongs to a taken guest, from `take` to `give_back`. Guests that boot for the pool
itself have none, so that they never delay a run.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from types import TracebackType
from typing import ClassVar, Generic, Self, TypeVar

import anyio

from toolcrib.concurrency.background import Background
from toolcrib.errors import RuntimeUnavailableError
from toolcrib.runtime.request import Limits
from toolcrib.runtime.sandboxes.process.child import Guest

G = TypeVar("G", bound=Guest)
S = TypeVar("S", bound=Hashable)

_CLOSE_TIMEOUT = 30.0
_REFILL_DELAY = 0.01
"""Seconds before the next guest boots, so that the run that took one does not compete with it for the CPU."""


class _Boot(Generic[G]):
    """A guest that is being booted: its outcome, and whether a run still waits for it."""

    def __init__(self) -> None:
        self.ended = anyio.Event()
        self.wanted = True
        self.child: G | None = None
        self.failure: Exception | None = None
        self.task: Background | None = None


class GuestPool(Generic[G, S]):
    """Keeps booted guests, and limits how many are in use at once.

    The size of a guest is the settings that are fixed at its start, such as its disk limit; idle guests have
    the size of the last request. Closing waits `patience` seconds for guests that boot.
    """

    def __init__(
        self,
        kind: str,
        start: Callable[[S], Awaitable[G]],
        *,
        size: S,
        keep: int,
        most: int,
        patience: float = 5.0,
    ) -> None:
        self._kind = kind
        self._start = start
        self._size = size
        self._keeping = keep
        self._patience = patience
        self._slots = anyio.Semaphore(most)
        self._idle: deque[tuple[S, G]] = deque()
        self._taken: set[G] = set()
        self._boots: set[_Boot[G]] = set()
        self._refilling: Background | None = None
        self._disposals: set[Background] = set()
        self._closed = False

    async def take(self, size: S) -> G:
        """Return an idle guest of a size, or start one.

        Raises:
            RuntimeUnavailableError: guests cannot be started, or the pool was closed.
        """
        await self._slots.acquire()
        if self._closed:
            self._slots.release()
            raise self._closed_error()
        self._size = size
        child = self._take_idle(size)
        if child is None:
            child = await self._start_guest(size, self._slots.release)
        self._taken.add(child)
        self._begin_refill(_REFILL_DELAY)
        return child

    def give_back(self, child: G) -> None:
        """Kill a guest that was taken; it is cleaned up in the background."""
        child.kill()
        self._taken.discard(child)
        self._slots.release()
        self._dispose(child)

    async def warm(self) -> None:
        """Wait until the pool is full of booted guests."""
        self._begin_refill(0)
        while (refilling := self._refilling) is not None:
            await refilling.wait()

    async def close(self) -> None:
        """End every guest."""
        self._closed = True
        with anyio.move_on_after(_CLOSE_TIMEOUT, shield=True):
            if self._refilling is not None:
                await self._refilling.stop()
            for child in self._taken:  # its run then ends, and gives it back
                child.evict()
            for _, child in self._idle:
                self._dispose(child)
            self._idle.clear()
            await self._stop_boots()
            while self._disposals or self._taken:  # noqa: ASYNC110 - sets have no event
                await anyio.sleep(0.001)

    async def _stop_boots(self) -> None:
        with anyio.move_on_after(self._patience):
            for boot in list(self._boots):
                await boot.ended.wait()
        for boot in list(self._boots):
            if boot.task is not None:
                await boot.task.stop()

    def _take_idle(self, size: S) -> G | None:
        for idle in [kept for kept in self._idle if kept[0] == size]:
            self._idle.remove(idle)
            if not idle[1].has_ended() and idle[1].channel.is_open():
                return idle[1]
            self._dispose(idle[1])
        return None

    async def _start_guest(self, size: S, release: Callable[[], None]) -> G:
        """Start a guest; `release` is called if it does not start, or the caller is cancelled."""
        boot: _Boot[G] = _Boot()
        self._boots.add(boot)
        boot.task = Background(lambda: self._boot(boot, size, release))
        try:
            await boot.ended.wait()
        except BaseException:
            boot.wanted = False
            if boot.child is not None:  # booted and cancelled at the same time
                self._keep_idle(size, boot.child)
                release()
            raise
        if boot.child is None:
            raise boot.failure or self._closed_error()
        return boot.child

    async def _boot(self, boot: _Boot[G], size: S, release: Callable[[], None]) -> None:
        try:
            child = await self._start(size)
            if boot.wanted and not self._closed:
                boot.child = child
            else:
                self._keep_idle(size, child)
        except Exception as error:  # noqa: BLE001 - raised by `_start_guest`
            boot.failure = error
        finally:
            if boot.child is None:
                release()
            self._boots.discard(boot)
            boot.ended.set()

    def _keep_idle(self, size: S, child: G) -> None:
        """Add an idle guest, and dispose of the oldest beyond the number to keep."""
        self._idle.append((size, child))
        while len(self._idle) > (0 if self._closed else self._keeping):
            self._dispose(self._idle.popleft()[1])

    def _needs_guests(self) -> bool:
        return sum(size == self._size for size, _ in self._idle) < self._keeping

    def _begin_refill(self, pause: float) -> None:
        if self._refilling is None and not self._closed and self._needs_guests():
            self._refilling = Background(lambda: self._start_idle_guests(pause))

    async def _start_idle_guests(self, pause: float) -> None:
        try:
            await anyio.sleep(pause)
            while self._needs_guests():
                size = self._size
                self._keep_idle(size, await self._start_guest(size, lambda: None))
        except (RuntimeUnavailableError, OSError):  # the next run that needs a guest gets the error
            pass
        finally:
            self._refilling = None

    def _dispose(self, child: G) -> None:
        child.kill()

        async def work() -> None:
            try:
                await child.dispose()
            finally:
                self._disposals.discard(task)

        task = Background(work)
        self._disposals.add(task)

    def _closed_error(self) -> RuntimeUnavailableError:
        return RuntimeUnavailableError(self._kind, "it was closed while a guest started")


class PooledSandbox(ABC, Generic[G, S]):
    """Keeps `warm` guests booted; at most `concurrency` runs go on at once, and others wait."""

    kind: ClassVar[str]

    def __init__(self, *, warm: int, concurrency: int) -> None:
        self._warm = warm
        self.concurrency = concurrency
        self._entered: GuestPool[G, S] | None = None

    async def __aenter__(self) -> Self:
        size = self._size(Limits.from_valid())
        self._entered = GuestPool(self.kind, self._start, size=size, keep=self._warm, most=self.concurrency)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pool, self._entered = self._pool, None
        await pool.close()

    async def warm(self) -> None:
        """Wait until guests are booted, so that the first run is as fast as the others."""
        await self._pool.warm()

    @property
    def _pool(self) -> GuestPool[G, S]:
        if self._entered is None:
            raise RuntimeError(f"enter the sandbox first: async with {type(self).__name__}() as sandbox")
        return self._entered

    @abstractmethod
    def _size(self, limits: Limits) -> S:
        """Return the settings that are fixed at the start of a guest with these limits."""

    @abstractmethod
    async def _start(self, size: S) -> G:
        """Boot a guest."""
