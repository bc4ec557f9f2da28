"""Guests that are booted before they are needed; each is used once."""

from collections import deque
from collections.abc import Awaitable, Callable

import anyio

from toolcrib.errors import RuntimeUnavailableError
from toolcrib.execution.background import Background
from toolcrib.runtime.process.child import Child

__all__ = ["Pool"]

_CLOSING_TIME = 30.0
_PAUSE = 0.01
"""Seconds before a guest is booted for one that was taken: the run that took it goes first."""


class Pool:
    """Keeps guests ready, and gives out at most so many at once.

    How much disk a guest has is settled when it starts: those that are kept have as much as was last asked
    for.
    """

    def __init__(self, start: Callable[[int], Awaitable[Child]], *, disk: int, size: int, most: int) -> None:
        self._start = start
        self._disk = disk
        self._size = size
        self._slots = anyio.Semaphore(most)
        self._idle: deque[tuple[int, Child]] = deque()
        self._given: set[Child] = set()
        self._refilling: Background | None = None
        self._disposals: set[Background] = set()
        self._closed = False

    async def take(self, disk: int) -> Child:
        """Return a guest with so much disk: one that is ready, or else one that is started for it.

        Raises:
            RuntimeUnavailableError: guests cannot be started.
        """
        await self._slots.acquire()
        try:
            self._disk = disk
            child = self._ready(disk) or await self._start(disk)
        except BaseException:
            self._slots.release()
            raise
        self._given.add(child)
        if self._closed:  # while it started
            child.kill()
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
        while self._refilling is not None:  # noqa: ASYNC110 - a background task tells nobody of its end
            await anyio.sleep(_PAUSE)

    async def close(self) -> None:
        """End every guest."""
        self._closed = True
        with anyio.move_on_after(_CLOSING_TIME, shield=True):
            if self._refilling is not None:
                await self._refilling.stop()
            for child in self._given:  # whoever has it gives it back
                child.kill()
            for _, child in self._idle:
                self._dispose(child)
            self._idle.clear()
            while self._disposals or self._given:  # noqa: ASYNC110 - each is bounded, and takes itself off
                await anyio.sleep(0.001)

    def _ready(self, disk: int) -> Child | None:
        for idle in [kept for kept in self._idle if kept[0] == disk]:
            self._idle.remove(idle)
            if not idle[1].ended() and idle[1].channel.is_open():
                return idle[1]
            self._dispose(idle[1])
        return None

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
                self._idle.append((disk, await self._start(disk)))
                if len(self._idle) > self._size:
                    self._dispose(self._idle.popleft()[1])
        except (RuntimeUnavailableError, OSError):  # a run that needs one says so
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
