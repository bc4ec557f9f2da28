"""How long something may take, checked where a caller says it."""

from math import inf
from typing import Any

from toolcrib.errors import Problem, ValidationError
from toolcrib.errors.base import shown

__all__ = ["checked_timeout"]


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
