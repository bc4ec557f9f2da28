"""At most so many calls in a given time."""

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import KW_ONLY, dataclass, field
from math import inf

import anyio
from anyio.lowlevel import checkpoint_if_cancelled, current_token

from toolcrib.errors import BackendUnavailableError
from toolcrib.execution.call import Answer, Call
from toolcrib.execution.middleware.compose import Key, by_backend, require
from toolcrib.execution.protocols import Next
from toolcrib.execution.selection import label

_TICK = 1e-6
"""Seconds that each clock can tell apart, so that no wait is rounded to nothing."""


class Bucket:
    """Holds up to `burst` tokens and gains one every `interval` seconds; a call takes one.

    In any stretch of t seconds at most `burst + t / interval` tokens are taken.

    >>> bucket = Bucket(burst=2, interval=0.5, now=0.0)
    >>> [bucket.take(now=0.0) for _ in range(3)], bucket.wait(now=0.0), bucket.take(now=0.5)
    ([True, True, False], 0.5, True)
    """

    __slots__ = ("_burst", "_full_at", "_interval", "_latest")

    def __init__(self, *, burst: int, interval: float, now: float) -> None:
        self._burst = burst
        self._interval = interval
        self._full_at = now
        self._latest = now

    def wait(self, now: float, ahead: int = 0) -> float:
        """Return how many seconds a call has to wait that lets `ahead` others go first."""
        now = self._monotonic(now)
        return max(0.0, self._full_at - now - (self._burst - 1 - ahead) * self._interval)

    def take(self, now: float) -> bool:
        """Take a token if there is one."""
        if self.wait(now) > 0:
            return False
        self._full_at = max(self._full_at, self._monotonic(now)) + self._interval
        return True

    def is_full(self, now: float) -> bool:
        """Return whether nothing has to be remembered of this bucket."""
        return self._full_at <= self._monotonic(now)

    def _monotonic(self, now: float) -> float:
        """Return the time, which never runs backwards here whatever the clock does."""
        self._latest = max(self._latest, now)
        return self._latest


class _Line:
    """Those who wait for the tokens of one bucket: the first of them holds the turn."""

    __slots__ = ("bucket", "loop", "turn", "waiting")

    def __init__(self, bucket: Bucket, loop: object) -> None:
        self.bucket = bucket
        self.loop = loop
        """The event loop of those who wait; those of another are gone, with or without having left."""
        self.turn = anyio.Lock(fast_acquire=True)
        self.waiting = 0


@dataclass(frozen=True, slots=True, eq=False)
class RateLimit:
    """Lets `calls` calls to a backend go every `per` seconds, and `burst` at once after a rest.

    In any stretch of t seconds at most `burst + t * calls / per` calls go. The others wait their turn, first
    come first served. A call that would wait past its deadline fails at once with a `BackendUnavailableError`
    whose `sent` is False, so that it may go to another backend, or be tried later.
    """

    calls: int
    """How many calls go in that time."""
    per: float = 1.0
    """Seconds."""
    _: KW_ONLY
    burst: int | None = None
    """As many as `calls`, by default."""
    key: Key = by_backend
    """Which calls share the rate."""
    clock: Callable[[], float] = time.monotonic
    """Goes on from one event loop to the next, as the rate does."""
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    """Waits so many seconds."""
    _lines: OrderedDict[Hashable, _Line] = field(init=False, repr=False, default_factory=OrderedDict)
    """The one used longest ago first."""

    def __post_init__(self) -> None:
        burst = self.calls if self.burst is None else self.burst
        require(
            "RateLimit",
            {"calls": (self.calls, 1, inf), "per": (self.per, 1e-6, 1e9), "burst": (burst, 1, inf)},
            whole={"calls", "burst"},
        )

    def __len__(self) -> int:
        """Return how many backends have calls waiting, or are not rested."""
        return len(self._lines)

    async def __call__(self, call: Call, go_on: Next, /) -> Answer:
        """Return the answer to a call that waited its turn."""
        line = self._line(self.key(call))
        wait = line.bucket.wait(self.clock(), line.waiting)
        if wait > max(0.0, anyio.current_effective_deadline() - anyio.current_time()):
            await checkpoint_if_cancelled()  # who is cancelled already is not refused besides
            raise self._refusal(call, wait)
        line.waiting += 1
        try:
            async with line.turn:
                while not line.bucket.take(now := self.clock()):
                    await self.sleep(max(line.bucket.wait(now), _TICK))
        finally:
            line.waiting -= 1
        return await go_on(call)

    def _line(self, key: Hashable) -> _Line:
        """Return the line for a key, and forget those that nobody waits in and that are rested."""
        now, loop = self.clock(), current_token()
        line = self._lines.get(key)
        if line is None:
            burst = self.calls if self.burst is None else self.burst
            line = _Line(Bucket(burst=burst, interval=self.per / self.calls, now=now), loop)
        elif line.loop != loop:
            line = _Line(line.bucket, loop)
        self._lines[key] = line
        self._lines.move_to_end(key)
        while (oldest := next(iter(self._lines))) != key and self._is_rested(oldest, now, loop):
            del self._lines[oldest]
        return line

    def _is_rested(self, key: Hashable, now: float, loop: object) -> bool:
        line = self._lines[key]
        return (not line.waiting or line.loop != loop) and line.bucket.is_full(now)

    def _refusal(self, call: Call, wait: float) -> BackendUnavailableError:
        rate = f"{self.calls} calls in {self.per:g} s"
        return BackendUnavailableError(
            tool_id=call.tool_id,
            backend=label(call.backend),
            reason=f"at {rate}, its turn comes in {wait:.3g} s, after the deadline; call it less often",
            sent=False,
        )
