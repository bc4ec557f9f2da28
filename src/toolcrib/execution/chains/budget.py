"""The bytes and values that all results of one chain may take together."""

from typing import Any

import anyio.lowlevel
from pydantic_core import to_json

from toolcrib.errors import LimitExceededError
from toolcrib.execution.chains.steps import ChainLimits

_BATCH = 2_000
"""How many values, or thousands of characters, are counted between two turns of the event loop."""
_SLICE = 1 << 18
"""How many characters of a text are counted at a time."""
_ESCAPED = 6
"""The most bytes that a character takes in JSON."""
_ADVICE = "ask the tools for less, refer to a part of a result, or split the chain"


class ResultBudget:
    """Counts what the steps of one chain give, by the size of its JSON, and refuses what goes beyond.

    A value that stands in several places counts in each of them, as it does when the results are written.
    """

    def __init__(self, limits: ChainLimits) -> None:
        self._limits = limits
        self._bytes = limits.max_bytes
        self._values = limits.max_values

    @property
    def spent(self) -> bool:
        """Whether there was something that it had no room for."""
        return self._bytes < 0 or self._values < 0

    async def take(self, value: Any) -> None:
        """Count a value.

        Raises:
            LimitExceededError: there is no room for it; the budget is spent.
        """
        values, size = await json_size(value, max_values=self._values, max_bytes=self._bytes)
        self._bytes -= size
        self.take_values(values)

    def take_values(self, count: int) -> None:
        """Count values whose bytes do not count, such as those that filling a template makes.

        Raises:
            LimitExceededError: there is no room for them.
        """
        self._values -= count
        if self._values < 0:
            most, name, unit = self._limits.max_values, "max_values", "values"
        elif self._bytes < 0:
            most, name, unit = self._limits.max_bytes, "max_bytes", "bytes of JSON"
        else:
            return
        raise LimitExceededError(name, f"the results of a chain may hold {most:,} {unit} together; {_ADVICE}")


async def json_size(value: Any, *, max_values: int, max_bytes: int) -> tuple[int, int]:
    """Return how many values a value holds, and about how many bytes its JSON takes.

    Counting ends where it is found to go beyond one of these. The event loop turns meanwhile; a call that has
    run is not broken off by it.
    """
    pending = [value]
    values, size = _counted(pending)
    while pending and values <= max_values and size <= max_bytes:
        await anyio.lowlevel.cancel_shielded_checkpoint()
        more_values, more_size = _counted(pending)
        values, size = values + more_values, size + more_size
    return values + len(pending), size


def _counted(pending: list[Any]) -> tuple[int, int]:
    """Count a batch of values, the last first; what they hold is added to those that are left."""
    values, size, effort = 0, 0, 0
    while pending and effort < _BATCH:
        value = pending.pop()
        kind = type(value)
        values += 1
        if kind is str and len(value) > _SLICE:
            pending += (value[place : place + _SLICE] for place in range(0, len(value), _SLICE))
            continue
        if kind is list:
            written = 2
            pending += value
        elif kind is dict:
            written = _written(list(value))
            pending += value.values()
        else:
            written = _written(value)
        size += written + 1  # and what stands between it and the next
        effort += 1 + written // 1_000
    return values, size


def _written(value: Any) -> int:
    """Return how many bytes a value takes as JSON."""
    try:
        return len(to_json(value, inf_nan_mode="null", fallback=str))
    except ValueError:  # a lone surrogate
        return _ESCAPED * len(value)
