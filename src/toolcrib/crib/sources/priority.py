"""A limiter with a queue that single waiters may skip."""

from collections.abc import Hashable

import anyio


class PriorityLimiter:
    """Lets a limited number run at once, in the order in which they joined.

    >>> turns = PriorityLimiter(1)
    >>> first, second = turns.join("a"), turns.join("b")
    >>> first.is_set(), second.is_set()
    (True, False)
    >>> turns.leave("a")
    >>> second.is_set()
    True
    """

    def __init__(self, at_once: int) -> None:
        self._free = at_once
        self._queue: dict[Hashable, anyio.Event] = {}
        self._busy: set[Hashable] = set()
        self._expected: set[Hashable] = set()
        """Those that start at once when they join."""

    def join(self, who: Hashable) -> anyio.Event:
        """Join the queue; return an event that is set when it is the caller's turn. `leave` ends the turn."""
        turn = self._queue[who] = anyio.Event()
        if who in self._expected:
            self.hasten(who)
        self._start_next()
        return turn

    def leave(self, who: Hashable) -> None:
        """End a turn, or give up the place in the queue; a second call does nothing."""
        self._queue.pop(who, None)
        self._expected.discard(who)
        if who in self._busy:
            self._busy.remove(who)
            self._free += 1
        self._start_next()

    def hasten(self, who: Hashable) -> None:
        """Start one immediately, over the limit, whether it waits or has yet to join."""
        turn = self._queue.pop(who, None)
        if turn is not None:
            turn.set()
        elif who not in self._busy:
            self._expected.add(who)

    def widen(self, more: int) -> None:
        """Raise the limit."""
        self._free += more
        self._start_next()

    def _start_next(self) -> None:
        while self._free > 0 and self._queue:
            who = next(iter(self._queue))
            self._queue.pop(who).set()
            self._busy.add(who)
            self._free -= 1
