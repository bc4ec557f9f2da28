"""Timeouts of callers, and deadlines that can be paused."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from typing import Any

import anyio

from toolcrib.errors import Problem, ValidationError
from toolcrib.errors.base import short_repr

MAX_PAUSE_SECONDS = 600.0
"""Longest pause of a deadline: without it a person who never answers would keep a call open for ever."""


def check_timeout(value: Any) -> float:
    """Return a timeout as a number of seconds; `math.inf` means no limit.

    >>> check_timeout(2)
    2.0

    Raises:
        ValidationError: it is not a positive number.
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
        try:
            return float(value)
        except OverflowError:
            return inf
    reason = f"must be a positive number of seconds, not {short_repr(value)}"
    raise ValidationError((Problem("/timeout", "timeout", reason),))


@dataclass(slots=True)
class PausableDeadline:
    """A deadline of a cancel scope that can be paused while a person answers."""

    _scope: anyio.CancelScope
    _left: float = 0.0
    """Seconds that were left when the first pause began."""
    _pauses: int = 0
    """Pauses that have not ended."""

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Pause the deadline until this block, and every block entered meanwhile, has ended.

        After `MAX_PAUSE_SECONDS` the deadline runs on, although the block has not ended.
        """
        if self._pauses == 0:
            self._left = self._scope.deadline - anyio.current_time()
            # moved rather than removed, so that the scope itself ends a pause that is too long
            self._scope.deadline += MAX_PAUSE_SECONDS
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if self._pauses == 0:
                self._scope.deadline = anyio.current_time() + self._left
