"""Fair scheduling of code runs: callers take turns, and no caller can take all slots or fill the queue."""

from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from math import ceil
from time import monotonic

from toolcrib.concurrency.fair_slots import FairSlots, group_of, share_of_one
from toolcrib.errors import RuntimeUnavailableError

_MAX_WAITING_PER_CALLER = 32
_MAX_WAITING = 256
_SMOOTHING = 0.2
"""Weight of the last run in the moving average of durations."""


class RunQueue:
    """Queue of one kind of sandbox for `places` runs at once; waiting callers take turns.

    Runs without a caller belong to the program itself: they wait like others, but are never refused.
    """

    def __init__(self, kind: str, places: int) -> None:
        self._kind = kind
        self._slots = FairSlots(places)
        self._typical = 1.0
        """Moving average of the seconds that a run takes, for the advice when to retry."""

    @asynccontextmanager
    async def turn(self, caller: Hashable | None) -> AsyncIterator[None]:
        """Wait for a slot, and hold it until the block ends.

        Raises:
            RuntimeUnavailableError: too many wait already; `retry_after` says when to try again.
        """
        if caller is not None:
            self._check_waiting(caller)
        await self._slots.acquire(caller)
        began = monotonic()
        try:
            yield
        finally:
            self._slots.release(caller)
            self._typical += _SMOOTHING * (monotonic() - began - self._typical)

    def busy_error(self, reason: str) -> RuntimeUnavailableError:
        """Return the error for a run that got no slot, with the time to retry after."""
        waiting = sum(self._slots.waiting().values())
        seconds = ceil(max(1.0, self._typical * (waiting + 1) / self._slots.total))
        return RuntimeUnavailableError(self._kind, reason, retry_after=float(seconds))

    def _check_waiting(self, caller: Hashable) -> None:
        """Check that not too many runs wait.

        Raises:
            RuntimeUnavailableError: too many wait.
        """
        waiting = self._slots.waiting()
        own = waiting.get(caller, 0)
        if own >= _MAX_WAITING_PER_CALLER:
            raise self.busy_error(f"{own} runs of this client are already waiting")
        if self._slots.has_room(caller):
            return
        # A client may call itself by many names. So a group of such names has one share of the queue, and
        # cannot fill it although each name waits with few runs.
        group = sum(count for name, count in waiting.items() if group_of(name) == group_of(caller))
        others = sum(count for name, count in waiting.items() if name is not None)
        if others >= _MAX_WAITING or group >= share_of_one(_MAX_WAITING):
            raise self.busy_error(f"{others} runs are already waiting")
