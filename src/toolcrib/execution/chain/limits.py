"""How large a chain may be, and how much of it may run."""

from dataclasses import dataclass

__all__ = ["MAX_CONCURRENCY", "MAX_NESTING", "ChainLimits"]

MAX_CONCURRENCY = 64
"""The most that one step may ask to run at a time."""
MAX_NESTING = 8
"""How deep groups may stand in groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainLimits:
    """What one chain may use."""

    max_steps: int = 1_000
    """Steps that are written down, those in groups included."""
    max_calls: int = 10_000
    """Calls of tools in one run, one for each item that a step is repeated for."""
