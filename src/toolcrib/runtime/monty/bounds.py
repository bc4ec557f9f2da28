"""The limits of a run, as the engine keeps them."""

from pydantic_monty import ResourceLimits

from toolcrib.runtime.monty.wall import MAX_MEMORY
from toolcrib.runtime.records import Limits

__all__ = ["bounds", "memory_of", "suspensions_of"]

_RECURSION = 1000
_SUSPENSIONS_PER_CALL, _SUSPENSIONS = 4, 10_000
"""How often the engine may turn to us for one call of a tool, and for everything else."""


def bounds(limits: Limits, timeout: float) -> ResourceLimits:
    """Return limits in the words of the engine."""
    return {
        "max_memory": memory_of(limits),
        "max_feed_duration_secs": limits.cpu,
        "max_recursion_depth": _RECURSION,
        "max_suspensions": suspensions_of(limits),
        "max_total_sleep_secs": timeout,
    }


def memory_of(limits: Limits) -> int:
    """Return how many bytes there are, of which the worker itself bounds the largest number."""
    return min(limits.memory_bytes, MAX_MEMORY)


def suspensions_of(limits: Limits) -> int:
    """Return how often code may turn to its host, be it to call, to sleep or to ask for the time.

    >>> suspensions_of(Limits(max_tool_calls=10))
    10040
    """
    return _SUSPENSIONS + _SUSPENSIONS_PER_CALL * limits.max_tool_calls
