"""How long something may take, checked where a caller says it."""

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from typing import Any

import anyio

from toolcrib.errors import Problem, ValidationError
from toolcrib.errors.base import shown

LONGEST_PAUSE = 600.0
"""Seconds that a deadline is stopped for at most: whoever never answers must not hold a call for good."""


def checked_timeout(value: Any) -> float | None:
    """Return a deadline in seconds, None where none is given; `math.inf` stands for as long as it takes.

    >>> checked_timeout(2), checked_timeout(None)
    (2.0, None)

    Raises:
        ValidationError: it is no number, or not more than zero.
    """
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
        try:
            return float(value)
        except OverflowError:
            return inf
    reason = f"must be a positive number of seconds, not {shown(value)}"
    raise ValidationError((Problem("/timeout", "timeout", reason),))


class PausableDeadline:
    """The deadline of a cancel scope, which can be stopped while somebody else is waited for."""

    def __init__(self, scope: anyio.CancelScope) -> None:
        self._scope = scope
        self._left = 0.0
        self._pauses = 0

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Keep the time that is left until the end of the block, and of all that are entered meanwhile.

        A pause that takes longer than `LONGEST_PAUSE` goes on at the expense of that time.
        """
        if self._pauses == 0:
            self._left = self._scope.deadline - anyio.current_time()
            self._scope.deadline += LONGEST_PAUSE
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if self._pauses == 0:
                self._scope.deadline = anyio.current_time() + self._left
