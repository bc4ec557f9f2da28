"""How many threads may run at a time, also those that nobody waits for any more."""

import threading
from collections import deque

import anyio

from toolcrib.execution.background import Loop

__all__ = ["Slots", "Work"]


class Slots:
    """So many places, taken in the event loop and given back from any thread, first come, first served.

    It serves several event loops, one after the other or in several threads: a place is given back by the
    thread that had it, whatever became of the loop it was taken in.
    """

    def __init__(self, count: int) -> None:
        self._lock = threading.Lock()
        self._free = count
        self._waiting: deque[_Waiting] = deque()

    @property
    def free(self) -> int:
        """How many places nobody has."""
        return self._free

    async def take(self) -> None:
        """Take a place, when there is one."""
        with self._lock:
            if self._free > 0:
                self._free -= 1
                return
            waiting = _Waiting()
            self._waiting.append(waiting)
        try:
            await waiting.turn.wait()
        except BaseException:
            self._leave(waiting)
            raise

    def give(self) -> None:
        """Give a place back, to whoever waits for it; this never waits itself."""
        with self._lock:
            while self._waiting:
                if self._waiting.popleft().wake():
                    return
            self._free += 1

    def _leave(self, waiting: "_Waiting") -> None:
        with self._lock:
            still = waiting in self._waiting
            if still:
                self._waiting.remove(waiting)
        if not still:  # its turn came at the very moment it gave up
            self.give()


class _Waiting:
    def __init__(self) -> None:
        self._loop = Loop()
        self.turn = anyio.Event()

    def wake(self) -> bool:
        return self._loop.call_soon(self.turn.set)


class Work:
    """Work for a thread, which has a place until it has ended, or was given up before it began."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._lock = threading.Lock()
        self._state = "waiting"

    def begin(self) -> bool:
        """Note, in the thread, that the work begins; False if nobody wants it any more."""
        return self._move("running")

    def end(self) -> None:
        """Note, in the thread, that the work has ended."""
        self._slots.give()

    def give_up(self) -> None:
        """Note, in the loop, that nobody waits any more; work that has begun keeps its place till it ends."""
        if self._move("given up"):
            self._slots.give()

    def _move(self, state: str) -> bool:
        with self._lock:
            first, self._state = self._state == "waiting", state
        return first
