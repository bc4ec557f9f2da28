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

    async def advance() -> ChainAdvance:
        return await _Advance(find_result).run(chain, limits, expired)

    return anyio.run(advance)


class _Advance:
    """Runs a chain until each of its tasks waits for a result that is not known."""

    def __init__(self, find_result: Callable[[ChainCall], RunResult | None]) -> None:
        self._find_result = find_result
        self._waiting: dict[str, ChainCall] = {}
        self._events: list[tuple[int, int, str]] = []
        self._seen = 0
        self._end: ChainResult | ToolcribError | None = None
        self._deadline = anyio.CancelScope()

    async def run(self, chain: Chain, limits: ChainLimits | None, expired: float | None) -> ChainAdvance:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._run_to_end, chain, limits, expired)
            await self._wait_until_quiet()
            if self._end is None and expired is not None:
                self._deadline.cancel()
            elif self._end is None:
                tasks.cancel_scope.cancel()
        events, end = tuple(self._events), self._end
        if end is None:
            return ChainAdvance(tuple(self._waiting.values()), events)
        if isinstance(end, ChainResult):
            return ChainAdvance((), events, result=end)
        return ChainAdvance((), events, error=end)

    async def _run_to_end(self, chain: Chain, limits: ChainLimits | None, expired: float | None) -> None:
        options: dict[str, Any] = {"limits": limits, "timeout": expired, "deadline": self._deadline}
        try:
            self._end = await run_chain(chain, self._answer, progress=self._note_event, **options)
        except ToolcribError as error:
            self._end = error

    async def _answer(self, tool_id: str, args: dict[str, Any], within: float | None, key: str) -> RunResult:
        """Return the result of a call; wait for ever if it is not known."""
        self._seen += 1
        call = ChainCall(key, tool_id, args, within)
        result = self._find_result(call)
        if result is not None:
            return result
        self._waiting[key] = call
        await anyio.sleep_forever()
        raise AssertionError("it is cancelled")

    def _note_event(self, done: int, total: int, event: str) -> None:
        self._events.append((done, total, event))

    async def _wait_until_quiet(self) -> None:
        quiet, before = 0, -1
        while self._end is None and quiet < _QUIET_ROUNDS:
            await anyio.lowlevel.checkpoint()
            quiet, before = (quiet + 1 if self._seen == before else 0), self._seen
        if self._end is None:
            await anyio.wait_all_tasks_blocked()
