"""Chains that a guest runs: how many calls they are, and what is recorded of them."""

from collections.abc import Iterable
from typing import Any

from toolcrib.execution.chain import ChainLimits, StepResult
from toolcrib.model import ToolCallRecord

__all__ = ["chain_records", "chain_size", "cut_records", "with_limits"]

_REPEATS = {"for_each", "forEach"}


def chain_size(steps: list[Any]) -> tuple[int, bool]:
    """Return how many steps a chain has, those in groups included, and whether any of them may repeat.

    >>> chain_size([{"tool_id": "a"}, {"parallel": [{"tool_id": "b"}, {"tool_id": "c"}]}])
    (3, False)
    """
    flat = [single for step in steps for single in _singles(step)]
    return len(flat), any(_REPEATS & single.keys() for single in flat)


def _singles(step: Any, depth: int = 0) -> Iterable[dict[str, Any]]:
    group = step.get("parallel") if isinstance(step, dict) else None
    if isinstance(group, list) and depth < 64:  # noqa: PLR2004 - deeper than any chain that is run
        for member in group:
            yield from _singles(member, depth + 1)
    else:
        yield step if isinstance(step, dict) else {}


def with_limits(steps: int, calls: int) -> dict[str, Any]:
    """Return the options that keep a chain whose steps repeat within its bounds."""
    return {"limits": ChainLimits(max_steps=steps, max_calls=calls)}


def chain_records(results: Iterable[Any]) -> list[ToolCallRecord]:
    """Return one record for each call that was made."""
    return [record for result in results if isinstance(result, StepResult) for record in _records(result)]


def cut_records(steps: list[Any]) -> list[ToolCallRecord]:
    """Return one record for each step of a chain that was cut off, of which nobody knows how far it came."""
    said = "the code ended while the chain ran"
    return [
        ToolCallRecord.of_checked(tool_id=str(name), args={}, error=said, duration=0.0)
        for step in steps
        for single in _singles(step)
        if (name := single.get("tool_id") or single.get("toolId"))
    ]


def _records(step: StepResult) -> Iterable[ToolCallRecord]:
    if step.parts:
        for part in step.parts:
            yield from _records(part)
    elif step.args is not None and step.tool_id is not None:
        error = step.error or {}
        yield ToolCallRecord.of_checked(
            tool_id=step.tool_id,
            args=step.args,
            backend_kind=getattr(step.backend, "kind", None),
            error=error.get("message"),
            error_op=error.get("op"),
            duration=step.duration,
        )
