"""Guests that are booted before they are needed; each is used once.

Nobody kills a guest while it boots if it can be helped: what sets up its walls would leave behind a half-made
process that nothing ends. Whoever waits for one may go; it boots all the same, and is kept or ended then.
"""

from collections import deque
from collections.abc import Awaitable, Callable

import anyio

from toolcrib.concurrency.background import Background
from toolcrib.errors import RuntimeUnavailableError
from toolcrib.runtime.process.child import Child

__all__ = ["GuestPool"]

_CLOSING_TIME = 30.0
_PAUSE = 0.01
"""Seconds before a guest is booted for one that was taken: the run that took it goes first."""


class _Boot:
    """A guest that is being booted: how that ended, and whether somebody waits for it."""

    def __init__(self) -> None:
        self.ended = anyio.Event()
        self.wanted = True
        self.child: Child | None = None
        self.failure: Exception | None = None
        self.task: Background | None = None


class GuestPool:
    """Keeps guests ready, and gives out at most so many at once.

    How much disk a guest has is settled when it starts: those that are kept have as much as was last asked
    for. Closing waits `patience` seconds for guests that boot.
    """

    def __init__(
        self,
        start: Callable[[int], Awaitable[Child]],
        *,
        disk: int,
        size: int,
        most: int,
        patience: float = 5.0,
    ) -> None:
        self._start = start
        self._disk = disk
        self._size = size
        self._patience = patience
        self._slots = anyio.Semaphore(most)
        self._idle: deque[tuple[int, Child]] = deque()
        self._given: set[Child] = set()
        self._boots: set[_Boot] = set()
        self._refilling: Background | None = None
        self._disposals: set[Background] = set()
        self._closed = False

    async def take(self, disk: int) -> Child:
        """Return a guest with so much disk: one that is ready, or else one that is started for it.

        Raises:
            RuntimeUnavailableError: guests cannot be started, or the pool was closed.
        """
        await self._slots.acquire()
        if self._closed:
            self._slots.release()
            raise _closed()
        self._disk = disk
        child = self._ready(disk)
        if child is None:
            child = await self._booted(disk, self._slots.release)
        self._given.add(child)
        self._refill(_PAUSE)
        return child

    def give_back(self, child: Child) -> None:
        """End a guest that was taken; what remains of it is cleaned up behind the caller's back."""
        child.kill()
        self._given.discard(child)
        self._slots.release()
        self._dispose(child)

    async def warm(self) -> None:
        """Wait until as many guests are ready as are kept."""
        self._refill(0)
        while self._refilling is not None:  # noqa: ASYNC110 - a background task has no event for its end
            await anyio.sleep(_PAUSE)

    async def close(self) -> None:
        """End every guest."""
        self._closed = True
        with anyio.move_on_after(_CLOSING_TIME, shield=True):
            if self._refilling is not None:
                await self._refilling.stop()
            for child in self._given:  # whoever has it gives it back
                child.evict()
            for _, child in self._idle:
                self._dispose(child)
            self._idle.clear()
            await self._end_boots()
            while self._disposals or self._given:  # noqa: ASYNC110 - each is bounded, and takes itself off
                await anyio.sleep(0.001)

    async def _end_boots(self) -> None:
        with anyio.move_on_after(self._patience):
            for boot in list(self._boots):
                await boot.ended.wait()
        for boot in list(self._boots):
            if boot.task is not None:
                await boot.task.stop()

    def _ready(self, disk: int) -> Child | None:
        for idle in [kept for kept in self._idle if kept[0] == disk]:
            self._idle.remove(idle)
            if not idle[1].ended() and idle[1].channel.is_open():
                return idle[1]
            self._dispose(idle[1])
        return None

    async def _booted(self, disk: int, release: Callable[[], None]) -> Child:
        """Return a guest that is started; `release` is called once there is none, or none that is wanted."""
        boot = _Boot()
        self._boots.add(boot)
        boot.task = Background(lambda: self._boot(boot, disk, release))
        try:
            await boot.ended.wait()
        except BaseException:
            boot.wanted = False
            if boot.child is not None:  # it was there, and whoever waited was cancelled first
                self._keep(disk, boot.child)
                release()
            raise
        if boot.child is None:
            raise boot.failure or _closed()
        return boot.child

    async def _boot(self, boot: _Boot, disk: int, release: Callable[[], None]) -> None:
        try:
            child = await self._start(disk)
            if boot.wanted and not self._closed:
                boot.child = child
            else:
                self._keep(disk, child)
        except Exception as error:  # noqa: BLE001 - it is raised where the guest is waited for
            boot.failure = error
        finally:
            if boot.child is None:
                release()
            self._boots.discard(boot)
            boot.ended.set()

    def _keep(self, disk: int, child: Child) -> None:
        """Keep a guest that nobody wants yet, instead of the oldest if there are enough."""
        self._idle.append((disk, child))
        while len(self._idle) > (0 if self._closed else self._size):
            self._dispose(self._idle.popleft()[1])

    def _lacking(self) -> bool:
        return sum(disk == self._disk for disk, _ in self._idle) < self._size

    def _refill(self, pause: float) -> None:
        if self._refilling is None and not self._closed and self._lacking():
            self._refilling = Background(lambda: self._fill(pause))

    async def _fill(self, pause: float) -> None:
        try:
            await anyio.sleep(pause)
            while self._lacking():
                disk = self._disk
                self._keep(disk, await self._booted(disk, lambda: None))
        except (RuntimeUnavailableError, OSError):  # a run that needs one raises it
            pass
        finally:
            self._refilling = None

    def _dispose(self, child: Child) -> None:
        child.kill()

        async def work() -> None:
            try:
                await child.dispose()
            finally:
                self._disposals.discard(task)

        task = Background(work)
        self._disposals.add(task)


def _closed() -> RuntimeUnavailableError:
    return RuntimeUnavailableError("process", "it was closed while a guest started")
