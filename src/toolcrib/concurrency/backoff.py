"""Exponential backoff with jitter."""

import random
from collections.abc import Callable
from math import inf

import anyio


class Backoff:
    """Pauses that grow by a factor, up to the longest, less a random part of up to `jitter` of each.

    >>> backoff = Backoff(0.5, 3.0)
    >>> [backoff.next() for _ in range(4)]
    [0.5, 1.0, 2.0, 3.0]
    >>> backoff.reset()
    >>> backoff.next()
    0.5

    With jitter, clients that failed at the same moment do not all retry at the same moment.
    """

    __slots__ = ("_chance", "_factor", "_first", "_jitter", "_longest", "_pause")

    def __init__(
        self,
        first: float,
        longest: float = inf,
        *,
        factor: float = 2.0,
        jitter: float = 0.0,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._first = self._pause = min(first, longest)
        self._longest = longest
        self._factor = factor
        self._jitter = jitter
        self._chance = chance

    def next(self) -> float:
        """Return the seconds of this pause, and lengthen the next."""
        pause = self._pause
        self._pause = min(pause * self._factor, self._longest)
        return pause * (1 - self._jitter * self._chance()) if self._jitter else pause

    async def sleep(self) -> None:
        """Wait for the next pause."""
        await anyio.sleep(self.next())

    def reset(self) -> None:
        """Start with the first pause again, after a success."""
        self._pause = self._first
