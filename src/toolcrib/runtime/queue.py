"""Whose code runs next: callers take turns, and none of them takes all places."""

from collections import Counter, deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from math import ceil
from time import monotonic

import anyio

from toolcrib.errors import RuntimeUnavailableError

__all__ = ["RunQueue"]

_KEPT_FREE = 4
"""One of so many places is kept free for others by a caller with a name."""
_MAX_OF_ONE, _MAX_WAITING = 32, 256
"""How many runs of one caller with a name may wait, and of all of them."""
_SMOOTHING = 0.2


class RunQueue:
    """Lets `places` runs go on at once in a sandbox of a kind; those that wait take turns by their callers.

    The next is the first run of the caller that has the fewest under way, and was served longest ago. Runs
    without a caller are those of the program itself: they wait as others do, but are never refused.
    """

    def __init__(self, kind: str, places: int) -> None:
        self._kind = kind
        self._places = places
        self._most_of_one = max(1, places - places // _KEPT_FREE)
        self._running: Counter[Hashable | None] = Counter()
        self._waiting: dict[Hashable | None, deque[anyio.Event]] = {}
        self._served: dict[Hashable | None, int] = {}
        """When callers that are here got their last place, in places given."""
        self._given = 0
        self._typical = 1.0
        """Seconds that a run takes, of late."""

    @asynccontextmanager
    async def turn(self, caller: Hashable | None) -> AsyncIterator[None]:
        """Wait for a place, and have it until the end.

        Raises:
            RuntimeUnavailableError: too many wait already, with when to try again.
        """
        await self._enter(caller)
        began = monotonic()
        try:
            yield
        finally:
            self._typical += _SMOOTHING * (monotonic() - began - self._typical)
            self._leave(caller)

    def busy(self, reason: str) -> RuntimeUnavailableError:
        """Return the refusal of a run that got no place."""
        waiting = sum(map(len, self._waiting.values()))
        seconds = ceil(max(1.0, self._typical * (waiting + 1) / self._places))
        return RuntimeUnavailableError(self._kind, reason, retry_after=float(seconds))

    async def _enter(self, caller: Hashable | None) -> None:
        if caller not in self._waiting and self._has_place(caller):
            self._give(caller)
            return
        if caller is not None:
            self._check(caller)
        admitted = anyio.Event()
        self._waiting.setdefault(caller, deque()).append(admitted)
        try:
            await admitted.wait()
        except BaseException:
            if admitted.is_set():  # it was admitted and cancelled at one time
                self._leave(caller)
            else:
                self._remove(caller, admitted)
            raise

    def _check(self, caller: Hashable) -> None:
        """Refuse a run where too many wait."""
        own = len(self._waiting.get(caller, ()))
        if own >= _MAX_OF_ONE:
            raise self.busy(f"{own} runs of this client wait already")
        waiting = sum(len(runs) for name, runs in self._waiting.items() if name is not None)
        if waiting >= _MAX_WAITING:
            raise self.busy(f"{waiting} runs wait already")

    def _has_place(self, caller: Hashable | None) -> bool:
        is_full = self._running.total() >= self._places
        return not is_full and (caller is None or self._running[caller] < self._most_of_one)

    def _give(self, caller: Hashable | None) -> None:
        self._running[caller] += 1
        self._given += 1
        self._served[caller] = self._given

    def _leave(self, caller: Hashable | None) -> None:
        self._running[caller] -= 1
        while ready := [name for name in self._waiting if self._has_place(name)]:
            chosen = min(ready, key=lambda name: (self._running[name], self._served.get(name, 0)))
            first = self._waiting[chosen][0]
            self._give(chosen)
            self._remove(chosen, first)
            first.set()
        self._forget(caller)

    def _remove(self, caller: Hashable | None, admitted: anyio.Event) -> None:
        runs = self._waiting[caller]
        runs.remove(admitted)
        if not runs:
            del self._waiting[caller]
        self._forget(caller)

    def _forget(self, caller: Hashable | None) -> None:
        """Forget a caller that has nothing here any more."""
        if not self._running[caller] and caller not in self._waiting:
            del self._running[caller]
            self._served.pop(caller, None)
