"""Whose turn it is, where only so many may be busy at once."""

from collections.abc import Hashable

import anyio


class PriorityLimiter:
    """Lets those who join have their turn in the order they came, so many at once.

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
        """Those who may go ahead when they come."""

    def join(self, who: Hashable) -> anyio.Event:
        """Return what is set when somebody's turn has come; `leave` ends it."""
        turn = self._queue[who] = anyio.Event()
        if who in self._expected:
            self.hasten(who)
        self._next()
        return turn

    def leave(self, who: Hashable) -> None:
        """End somebody's turn, or give up the place in the queue; a second time does nothing."""
        self._queue.pop(who, None)
        self._expected.discard(who)
        if who in self._busy:
            self._busy.remove(who)
            self._free += 1
        self._next()

    def hasten(self, who: Hashable) -> None:
        """Let somebody go ahead who waits, or who is yet to come, however many are busy."""
        turn = self._queue.pop(who, None)
        if turn is not None:
            turn.set()
        elif who not in self._busy:
            self._expected.add(who)

    def widen(self, more: int) -> None:
        """Let so many more be busy at once."""
        self._free += more
        self._next()

    def _next(self) -> None:
        while self._free > 0 and self._queue:
            who = next(iter(self._queue))
            self._queue.pop(who).set()
            self._busy.add(who)
            self._free -= 1
