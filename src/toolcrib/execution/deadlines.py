"""How long something may take, as callers say it."""

from math import inf
from typing import Any

from toolcrib.errors import Problem, ValidationError
from toolcrib.errors.base import shown

__all__ = ["checked_timeout"]


def checked_timeout(value: Any) -> float:
    """Return a number of seconds that may be waited for, `inf` for as long as it takes.

    Raises:
        ValidationError: it is no such number.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not value >= 0:  # which a NaN is not either
        message = f"must be a number of seconds, or math.inf for no deadline, not {shown(value)}"
        raise ValidationError((Problem("/timeout", "type", message),))
    try:
        return float(value)
    except OverflowError:
        return inf
