"""Limits the rate of calls to a backend with a token bucket."""

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import KW_ONLY, dataclass, field
from math import inf

import anyio
from anyio.lowlevel import checkpoint_if_cancelled, current_token

from toolcrib.errors import BackendUnavailableError
from toolcrib.execution.call import Answer, Call
from toolcrib.execution.middleware.compose import Key, by_backend, check_options
from toolcrib.execution.protocols import Next
from toolcrib.model.backend import label

_TICK = 1e-6
"""The shortest sleep: less than the resolution of a clock would round to no progress."""


class Bucket:
    """A token bucket: it holds up to `burst` tokens and gains one every `interval` seconds.

    It stores only the time when it will be full, from which the tokens follow. In any period of t seconds at
    most `burst + t / interval` tokens are taken.

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
        """Return the seconds that a call must wait if `ahead` others go first."""
        now = self._monotonic(now)
        return max(0.0, self._full_at - now - (self._burst - 1 - ahead) * self._interval)

    def take(self, now: float) -> bool:
        """Take a token if there is one."""
        if self.wait(now) > 0:
            return False
        self._full_at = max(self._full_at, self._monotonic(now)) + self._interval
        return True

    def is_full(self, now: float) -> bool:
        """Return whether it is full, so that it can be replaced by a new one."""
        return self._full_at <= self._monotonic(now)

    def _monotonic(self, now: float) -> float:
        """Return the time; it never decreases, even if the clock does."""
        self._latest = max(self._latest, now)
        return self._latest


class _WaitingLine:
    """The calls that wait for tokens of one bucket; the first of them holds the lock `turn`."""

    __slots__ = ("bucket", "loop", "turn", "waiting")

    def __init__(self, bucket: Bucket, loop: object) -> None:
        self.bucket = bucket
        self.loop = loop
        """The event loop of the waiting calls; calls of a loop that has ended never leave the line."""
        self.turn = anyio.Lock(fast_acquire=True)
        self.waiting = 0


@dataclass(frozen=True, slots=True, eq=False)
class RateLimit:
    """Allows `calls` calls to a backend in `per` seconds, and `burst` at once after a pause.

    In any period of t seconds at most `burst + t * calls / per` calls begin. Others wait in order. A call
    that would wait past its deadline fails at once with a `BackendUnavailableError` whose `sent` is False, so
    that another backend may be used, or the call retried.
    """

    calls: int
    """The number of calls in that period."""
    per: float = 1.0
    """The period in seconds."""
    _: KW_ONLY
    burst: int | None = None
    """The maximum number of calls at once; `calls` by default."""
    key: Key = by_backend
    """Calls with equal keys share the rate."""
    clock: Callable[[], float] = time.monotonic
    """Returns the time in seconds, independently of event loops, since they share the rate."""
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    """Waits for the given number of seconds."""
    _lines: OrderedDict[Hashable, _WaitingLine] = field(init=False, repr=False, default_factory=OrderedDict)
    """The least recently used first."""

    def __post_init__(self) -> None:
        burst = self.calls if self.burst is None else self.burst
        check_options(
            "RateLimit",
            {"calls": (self.calls, 1, inf), "per": (self.per, 1e-6, 1e9), "burst": (burst, 1, inf)},
            whole={"calls", "burst"},
        )

    def __len__(self) -> int:
        """Return the number of backends with waiting calls or a bucket that is not full."""
        return len(self._lines)

    async def __call__(self, call: Call, go_on: Next, /) -> Answer:
        """Wait for a token, and make the call."""
        line = self._get_line(self.key(call))
        wait = line.bucket.wait(self.clock(), line.waiting)
        if wait > max(0.0, anyio.current_effective_deadline() - anyio.current_time()):
            await checkpoint_if_cancelled()  # a call that is cancelled already ends by that
            raise self._deadline_error(call, wait)
        line.waiting += 1
        try:
            async with line.turn:
                while not line.bucket.take(now := self.clock()):
                    await self.sleep(max(line.bucket.wait(now), _TICK))
        finally:
            line.waiting -= 1
        return await go_on(call)

    def _get_line(self, key: Hashable) -> _WaitingLine:
        """Return the line of a key, and remove old lines without waiting calls whose bucket is full."""
        now, loop = self.clock(), current_token()
        line = self._lines.get(key)
        if line is None:
            burst = self.calls if self.burst is None else self.burst
            line = _WaitingLine(Bucket(burst=burst, interval=self.per / self.calls, now=now), loop)
        elif line.loop != loop:
            line = _WaitingLine(line.bucket, loop)
        self._lines[key] = line
        self._lines.move_to_end(key)
        while (oldest := next(iter(self._lines))) != key and self._is_idle(oldest, now, loop):
            del self._lines[oldest]
        return line

    def _is_idle(self, key: Hashable, now: float, loop: object) -> bool:
        line = self._lines[key]
        return (not line.waiting or line.loop != loop) and line.bucket.is_full(now)

    def _deadline_error(self, call: Call, wait: float) -> BackendUnavailableError:
        rate = f"{self.calls} calls in {self.per:g} s"
        return BackendUnavailableError(
            tool_id=call.tool_id,
            backend=label(call.backend),
            reason=f"at {rate}, its turn comes in {wait:.3g} s, after the deadline; call it less often",
            sent=False,
        )
