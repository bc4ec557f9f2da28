"""Chains that a guest runs: how many steps they are, and how each of their calls is followed."""

from collections.abc import Iterable
from inspect import signature
from typing import Any

from toolcrib.execution.chain import Around, ChainLimits, RunTool, run_chain
from toolcrib.execution.chain.chain import invalid, read_chain
from toolcrib.model import ToolGateway

__all__ = ["chain_size", "follow_chain"]


def chain_size(steps: list[Any]) -> int:
    """Return how many steps a chain has, those in groups included.

    >>> chain_size([{"tool_id": "a"}, {"parallel": [{"tool_id": "b"}, {"tool_id": "c"}]}])
    3
    """
    return sum(1 for step in steps for _ in _singles(step))


def _singles(step: Any, depth: int = 0) -> Iterable[Any]:
    group = step.get("parallel") if isinstance(step, dict) else None
    if isinstance(group, list) and depth < 64:  # noqa: PLR2004 - deeper than any chain that is run
        for member in group:
            yield from _singles(member, depth + 1)
    else:
        yield step


async def follow_chain(gateway: ToolGateway, steps: list[Any], around: Around, limits: ChainLimits) -> Any:
    """Run a chain with something around each of its calls.

    A gateway whose chains cannot be followed is asked to run the steps, one call at a time.
    """
    run: Any = gateway.run_chain
    if "around" in signature(run).parameters:
        return await run(steps, around=around, limits=limits)

    async def call(tool_id: str, args: dict[str, Any], within: float | None) -> Any:  # noqa: ARG001 - the gateway's own holds
        return await gateway.run(tool_id, args)

    calling: RunTool = call
    chain, problems = read_chain(steps, limits)
    if problems:
        raise invalid(problems)
    return await run_chain(chain, around(calling), limits=limits)
