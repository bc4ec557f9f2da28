"""Limit of the bytes and values of all results of one chain."""

from typing import Any

import anyio.lowlevel
from pydantic_core import to_json

from toolcrib.errors import LimitExceededError
from toolcrib.execution.chains.steps import ChainLimits

_BATCH = 2_000
"""Values, or thousands of characters, that are counted before other tasks of the event loop run."""
_SLICE_CHARACTERS = 1 << 18
"""Longer texts are counted in slices, so that one text does not block the event loop."""
_ESCAPE_BYTES = 6
"""The most bytes of a character in JSON: `\\uXXXX`."""
_ADVICE = "ask the tools for less, refer to a part of a result, or split the chain"


class ResultBudget:
    """Counts the results of one chain by the size of their JSON, and refuses those beyond the limit.

    A value that occurs several times counts each time, as in the JSON of the results.
    """

    def __init__(self, limits: ChainLimits) -> None:
        self._limits = limits
        self._bytes = limits.max_bytes
        self._values = limits.max_values

    @property
    def is_spent(self) -> bool:
        """Whether a result was too large."""
        return self._bytes < 0 or self._values < 0

    async def charge(self, value: Any) -> None:
        """Count a value.

        Raises:
            LimitExceededError: it is too large; the budget is spent.
        """
        values, size = await json_size(value, max_values=self._values, max_bytes=self._bytes)
        self._bytes -= size
        self.charge_values(values)

    def charge_values(self, count: int) -> None:
        """Count values without their bytes, such as those made by filling a template.

        Raises:
            LimitExceededError: they are too many.
        """
        self._values -= count
        if self._values < 0:
            most, name, unit = self._limits.max_values, "max_values", "values"
        elif self._bytes < 0:
            most, name, unit = self._limits.max_bytes, "max_bytes", "bytes of JSON"
        else:
            return
        raise LimitExceededError(
            name, f"the results of a chain may hold at most {most:,} {unit} together; {_ADVICE}"
        )


async def json_size(value: Any, *, max_values: int, max_bytes: int) -> tuple[int, int]:
    """Return the number of values in a value, and the approximate size of its JSON in bytes.

    Counting stops above either limit. Other tasks run in between; the checkpoints are shielded from
    cancellation, since the result of a call that has run must not be lost while it is counted.
    """
    pending = [value]
    values, size = _count_batch(pending)
    while pending and values <= max_values and size <= max_bytes:
        await anyio.lowlevel.cancel_shielded_checkpoint()
        more_values, more_size = _count_batch(pending)
        values, size = values + more_values, size + more_size
    return values + len(pending), size


def _count_batch(pending: list[Any]) -> tuple[int, int]:
    """Count a batch of values from the end of a list, and append their members to it."""
    values, size, effort = 0, 0, 0
    while pending and effort < _BATCH:
        value = pending.pop()
        kind = type(value)
        values += 1
        if kind is str and len(value) > _SLICE_CHARACTERS:
            pending += (
                value[place : place + _SLICE_CHARACTERS] for place in range(0, len(value), _SLICE_CHARACTERS)
            )
            continue
        if kind is list:
            written = 2
            pending += value
        elif kind is dict:
            written = _json_length(list(value))
            pending += value.values()
        else:
            written = _json_length(value)
        size += written + 1  # the comma or colon after it
        effort += 1 + written // 1_000
    return values, size


def _json_length(value: Any) -> int:
    """Return the size of a value as JSON, in bytes."""
    try:
        return len(to_json(value, inf_nan_mode="null", fallback=str))
    except ValueError:  # a lone surrogate, which is escaped when it is written
        return _ESCAPE_BYTES * len(value)
