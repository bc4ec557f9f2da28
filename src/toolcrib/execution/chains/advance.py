"""Finds the calls that a chain makes next, from the results of those that it has made.

A chain is a pure function of the results of its calls. So it is run from its beginning with the results that
are known, until it waits for others: these are the next calls. It runs in an event loop of its own, in which
nothing but the chain happens: when each of its tasks waits, it can do no more.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.lowlevel

from toolcrib.errors import ToolcribError
from toolcrib.execution.chains.parse import Chain
from toolcrib.execution.chains.results import ChainResult
from toolcrib.execution.chains.run import run_chain
from toolcrib.execution.chains.steps import ChainLimits
from toolcrib.model.results import RunResult

_QUIET_ROUNDS = 20
"""Rounds of the event loop without a new call, after which the tasks are looked at, which takes longer."""


@dataclass(frozen=True, slots=True)
class ChainCall:
    """A call that a chain waits for."""

    key: str
    """Identifies the call in the chain."""
    tool_id: str
    """The reference of the step."""
    args: dict[str, Any]
    """The arguments, with references replaced."""
    timeout: float | None
    """The timeout of the step."""


@dataclass(frozen=True, slots=True)
class ChainAdvance:
    """How far a chain comes with the results that are known."""

    calls: tuple[ChainCall, ...]
    """The calls that it waits for, in the order in which they begin."""
    events: tuple[tuple[int, int, str], ...]
    """Its progress so far, as a `ChainProgress` gets it."""
    result: ChainResult | None = None
    """The result of a chain that has ended."""
    error: ToolcribError | None = None
    """The error of a chain that has failed."""


def advance_chain(
    chain: Chain,
    find_result: Callable[[ChainCall], RunResult | None],
    *,
    limits: ChainLimits | None = None,
    expired: float | None = None,
) -> ChainAdvance:
    """Return how far a chain comes; blocks, and needs a thread without an event loop.

    `find_result` returns the result of a call, raises its error, or returns None where neither is known.
    With `expired`, the timeout of the chain in seconds, a chain that would wait fails because its time is
    over.
    """
    return anyio.run(_advance, chain, find_result, limits, expired)


async def _advance(
    chain: Chain,
    find_result: Callable[[ChainCall], RunResult | None],
    limits: ChainLimits | None,
    expired: float | None,
) -> ChainAdvance:
    waiting: dict[str, ChainCall] = {}
    events: list[tuple[int, int, str]] = []
    ended: list[ChainResult | ToolcribError] = []
    seen = 0
    deadline = anyio.CancelScope()

    async def run(tool_id: str, args: dict[str, Any], within: float | None, key: str) -> RunResult:
        nonlocal seen
        seen += 1
        call = ChainCall(key, tool_id, args, within)
        result = find_result(call)
        if result is None:
            waiting[key] = call
            await anyio.sleep_forever()
        return result

    async def run_to_end() -> None:
        try:
            done = await run_chain(
                chain, run, timeout=expired, progress=note, limits=limits, deadline=deadline
            )
        except ToolcribError as error:
            ended.append(error)
        else:
            ended.append(done)

    def note(done: int, total: int, event: str) -> None:
        events.append((done, total, event))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run_to_end)
        quiet, before = 0, -1
        while not ended and quiet < _QUIET_ROUNDS:
            await anyio.lowlevel.checkpoint()
            quiet, before = (quiet + 1 if seen == before else 0), seen
        if not ended:
            await anyio.wait_all_tasks_blocked()
        if not ended and expired is not None:
            deadline.cancel()
        elif not ended:
            tasks.cancel_scope.cancel()
    if not ended:
        return ChainAdvance(tuple(waiting.values()), tuple(events))
    [end] = ended
    if isinstance(end, ChainResult):
        return ChainAdvance((), tuple(events), result=end)
    return ChainAdvance((), tuple(events), error=end)
