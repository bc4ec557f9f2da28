"""Timeouts of callers, and deadlines that can be paused."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from typing import Any

import anyio

from toolcrib.errors import Problem, ValidationError
from toolcrib.errors.base import shown

LONGEST_PAUSE = 600.0
"""Longest pause of a deadline in seconds: a person who never answers must not hold a call for good."""


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
    reason = f"must be a positive number of seconds, not {shown(value)}"
    raise ValidationError((Problem("/timeout", "timeout", reason),))


@dataclass(slots=True)
class PausableDeadline:
    """The deadline of a cancel scope, which can be paused while a person answers."""

    _scope: anyio.CancelScope
    _left: float = 0.0
    """Seconds that were left when the first pause began."""
    _pauses: int = 0
    """Pauses that have not ended."""

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Pause the deadline until the end of this block and of all others entered meanwhile.

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
