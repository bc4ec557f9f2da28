"""Running a chain: one step after another, groups and repeated steps side by side."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from math import inf
from time import perf_counter
from traceback import clear_frames
from typing import Any

import anyio
import anyio.lowlevel

from toolcrib.concurrency.deadlines import check_timeout
from toolcrib.errors import (
    ChainError,
    InputValidationError,
    LimitExceededError,
    Problem,
    ToolCancelledError,
    ToolcribError,
    ToolTimeoutError,
    explain,
)
from toolcrib.errors.base import shown
from toolcrib.execution.chains.budget import ResultBudget, json_size
from toolcrib.execution.chains.parse import Chain, StepNode
from toolcrib.execution.chains.references import ABSENT, LeadsNowhereError, Reference, ReferenceScope
from toolcrib.execution.chains.results import ChainResult, StepResult
from toolcrib.execution.chains.steps import ChainLimits
from toolcrib.execution.chains.templates import ObjectTemplate, Template, fill, made_by
from toolcrib.execution.progress import notify
from toolcrib.model.plain import MAX_NODES, copy_json
from toolcrib.model.results import RunResult

RunTool = Callable[[str, dict[str, Any], float | None, str], Awaitable[RunResult]]
"""Runs one tool with arguments, which it may only read, within so many seconds; raises a `ToolcribError`. The
last argument is the place of the call in the chain, such as `2.0`, which no other call of the chain has."""

Around = Callable[[RunTool], RunTool]
"""Puts something around each call of a chain."""
ChainProgress = Callable[[int, int, str], Any]
"""Called with how many steps are done, of how many, and what happened: `started`, `step_completed`,
`step_skipped`, `step_error`; sync or async."""
_LARGE = 1 << 20
"""How many bytes the arguments of calls that run side by side may take each, as JSON."""
_RAN = "the tool ran, but there is no room for what it gave"


async def run_chain(
    chain: Chain,
    run: RunTool,
    *,
    timeout: float | None = None,  # noqa: ASYNC109 - a deadline of the chain, distinct from the caller's
    progress: ChainProgress | None = None,
    limits: ChainLimits | None = None,
    since: float | None = None,
) -> ChainResult:
    """Run the steps of a chain and return what they gave; nothing is ever tried twice.

    `timeout` is in seconds, for all steps together, from `since`, by the clock of the loop, or from the call.
    What `run` raises that is no `ToolcribError` ends the chain as it is. Results are to be read only: their
    `args` share with the chain and with earlier results what references lead to, and a group shares with its
    parts what they gave.

    Raises:
        ValidationError: the timeout is not a positive number.
        ChainError: from the error of the step that failed; `results` are those of the steps that were done,
            and of that step.
    """
    limit = None if timeout is None else check_timeout(timeout)
    began = anyio.current_time() if since is None else since
    running = _Running(chain, run, limits or ChainLimits())
    try:
        with anyio.move_on_at(inf if limit is None or not chain.nodes else began + limit):
            await running.all(progress)
        return running.result(limit or 0.0)
    except ChainError as error:
        # Whoever keeps the error keeps where it was raised, and not everything that was there.
        if error.__cause__ is not None:
            clear_frames(error.__cause__.__traceback__)
        raise
    finally:
        running.forget()


@dataclass(slots=True)
class _Done:
    """What came of a step, and what ends the chain, if anything does."""

    result: StepResult
    error: ToolcribError | None = None
    where: str = ""
    """Which part of the step failed, as the beginning of a sentence."""


class _Running:
    """One run of one chain."""

    def __init__(self, chain: Chain, run: RunTool, limits: ChainLimits) -> None:
        self._nodes = chain.nodes
        self._run = run
        self._limits = limits
        self._calls = 0
        self._budget = ResultBudget(limits)
        self._large = anyio.Lock()
        self._values: list[Any] = [ABSENT] * sum(1 for _ in chain.walk())
        self._results: list[StepResult] = []
        self._final: Any = None
        self._begun: dict[int, list[_Done | None]] = {}
        """What came of the parts of the steps that were begun, by slot."""
        self._started = 0.0

    async def all(self, progress: ChainProgress | None) -> None:
        """Run the steps in order, until one fails."""
        total, previous = len(self._nodes), ABSENT
        notified = progress or (lambda *_: None)
        await notify(notified, 0, total, "started", work_done=False)
        for place, node in enumerate(self._nodes, start=1):
            await anyio.lowlevel.checkpoint()  # a deadline must be met also by tools that never wait
            self._started = perf_counter()
            done = await self._step(node, ReferenceScope(self._values, previous))
            self._results.append(done.result)
            if not done.result.skipped:
                self._final = previous = done.result.structured
            await notify(notified, place, total, _event(done.result), work_done=True)
            if done.error is not None:
                reason = f"{done.where}{done.error}"
                results = tuple(self._results)
                raise ChainError(place - 1, results, reason, step_id=node.step.id) from done.error

    def result(self, timeout: float) -> ChainResult:
        """Return what a chain gave whose steps have ended.

        Raises:
            ChainError: they have not: the time was over while one of them ran.
        """
        if len(self._results) < len(self._nodes):
            raise self._out_of_time(timeout)
        steps = tuple(node.step for node in self._nodes)
        return ChainResult.of_checked(final=self._final, results=tuple(self._results), steps=steps)

    def forget(self) -> None:
        """Let go of all results: what tasks have left behind in circles may hold this for a while."""
        for done in self._begun.values():
            done.clear()
        self._results, self._values, self._final = [], [], None

    def _out_of_time(self, timeout: float) -> ChainError:
        place = len(self._results)
        node = self._nodes[place]
        error = ToolTimeoutError(tool_id=self._underway(node), timeout=timeout)
        failed = self._cut_short(node, error, self._started)
        reason = f"the chain did not finish within {timeout:g} s, and {error.tool_id} was running"
        chain_error = ChainError(place, (*self._results, failed), reason, step_id=node.step.id)
        chain_error.__cause__ = error
        return chain_error

    async def _step(self, node: StepNode, scope: ReferenceScope) -> _Done:
        """Run a step, or what it is made of, unless its condition is not met."""
        if (unmet := await self._unmet(node, scope, node.index, of_item=False)) is not None:
            done = unmet
        elif node.is_group:
            done = await self._group(node, scope)
        elif node.repeats:
            done = await self._for_each(node, scope)
        else:
            done = await self._call(node, scope, node.index)
        if not done.result.skipped:
            self._values[node.slot] = done.result.structured
        return done

    async def _unmet(
        self, node: StepNode, scope: ReferenceScope, index: int, *, of_item: bool
    ) -> _Done | None:
        """Return what comes of a step whose condition is asked here, and not met or too large to test."""
        if node.when is None or node.when.of_item is not of_item:
            return None
        try:
            met = node.when.test(scope)
        except LimitExceededError as error:
            return await self._failed(node, error, index=index)
        return None if met else _Done(_result(node, index, skipped=True))

    async def _call(self, node: StepNode, scope: ReferenceScope, index: int) -> _Done:
        """Call the tool of a step."""
        started, args = perf_counter(), None
        try:
            self._budget.take_values(made_by(node.args))
            args = _arguments(node, scope)
            if node.step.use_previous:
                self._budget.take_values(len(args))
            self._admit(1)
            self._calls += 1
            async with self._turn(node, args):
                place = f"{node.slot}.{index}"
                ran = await self._run(node.step.tool_id or "", args, node.step.timeout, place)
        except ToolcribError as error:
            return await self._failed(node, error, index=index, args=args, duration=perf_counter() - started)
        facts: dict[str, Any] = {
            "index": index,
            "backend": ran.backend,
            "duration": perf_counter() - started,
            "args": args,
            "notes": ran.notes,
        }
        try:
            await self._budget.take(ran.structured)
        except LimitExceededError as error:
            error.reason = f"{_RAN}; {error.reason}"
            return _ended(node, error, **facts)
        return _Done(_result(node, **facts, structured=ran.structured))

    @asynccontextmanager
    async def _turn(self, node: StepNode, args: dict[str, Any]) -> AsyncIterator[None]:
        """Let calls with large arguments, which references make of little, run one at a time."""
        if node.step.use_previous or isinstance(node.args, Reference | ObjectTemplate):
            _, size = await json_size(args, max_values=MAX_NODES, max_bytes=_LARGE)
            if size > _LARGE:
                async with self._large:
                    yield
                return
        yield

    async def _group(self, node: StepNode, scope: ReferenceScope) -> _Done:
        def job(place: int) -> Awaitable[_Done]:
            return self._step(node.parts[place], scope)

        return await self._parts(node, len(node.parts), job)

    async def _for_each(self, node: StepNode, scope: ReferenceScope) -> _Done:
        try:
            items = _items(node, scope)
            self._admit(len(items))
        except ToolcribError as error:
            return await self._failed(node, error, index=node.index)

        async def job(place: int) -> _Done:
            inner = ReferenceScope(scope.values, scope.previous, items[place], place)
            unmet = await self._unmet(node, inner, place, of_item=True)
            return await self._call(node, inner, place) if unmet is None else unmet

        return await self._parts(node, len(items), job)

    async def _parts(self, node: StepNode, count: int, job: Callable[[int], Awaitable[_Done]]) -> _Done:
        """Run the parts of a step; the first that fails for good ends the others."""
        started = perf_counter()
        done: list[_Done | None] = [None] * count
        self._begun[node.slot] = done

        async def work(place: int) -> bool:
            began = perf_counter()
            try:
                done[place] = result = await job(place)
            except anyio.get_cancelled_exc_class():
                done[place] = _Done(self._broken_off(node, place, began))
                raise
            return result.error is None

        refused = await run_side_by_side(work, count, node.width)
        common: dict[str, Any] = {
            "index": node.index,
            "duration": perf_counter() - started,
            "parts": _begun(done),
        }
        culprit = None if refused is None else done[refused]
        if refused is None or culprit is None or culprit.error is None:
            return _Done(
                _result(node, **common, structured=[each.result.structured for each in done if each])
            )
        where = f"{_part(node, refused)}: {culprit.where}"
        if node.is_group:
            return await self._failed(node, culprit.error, where, **common)
        return _Done(_result(node, **common, error=culprit.result.error), culprit.error, where)

    async def _failed(self, node: StepNode, error: ToolcribError, where: str = "", **facts: Any) -> _Done:
        """Return what a failure comes to: the end of the chain, or what the step has instead of a result."""
        if node.step.on_error == "stop" or self._budget.spent:
            return _ended(node, error, where, **facts)
        explained = explain(error)
        try:
            await self._budget.take([explained, node.fallback])
        except LimitExceededError as too_much:
            return _ended(node, too_much, where, **facts)
        return _Done(_result(node, **facts, error=explained, structured=copy_json(node.fallback)))

    def _broken_off(self, node: StepNode, place: int, started: float) -> StepResult:
        """Return the result of a part that was cancelled while it ran."""
        part = node.parts[place] if node.is_group else node
        reason = "it was broken off together with the step that it is a part of"
        error = ToolCancelledError(tool_id=self._underway(part), reason=reason)
        if node.is_group:
            return self._cut_short(part, error, started)
        return _result(part, place, error=explain(error), duration=perf_counter() - started)

    def _cut_short(self, node: StepNode, error: ToolcribError, started: float) -> StepResult:
        parts = _begun(self._begun.get(node.slot, ()))
        return _result(node, node.index, error=explain(error), duration=perf_counter() - started, parts=parts)

    def _underway(self, node: StepNode) -> str:
        """Return the tool that a step waits for, the first of them where there are several."""
        if not node.is_group:
            return node.step.tool_id or ""
        begun = self._begun.get(node.slot, ())
        open_parts = [
            part for part, done in zip(node.parts, begun, strict=False) if not done or done.result.error
        ]
        return self._underway((open_parts or node.parts)[0]) if node.parts else node.name

    def _admit(self, calls: int) -> None:
        most = self._limits.max_calls
        if self._calls + calls > most:
            raise LimitExceededError(
                "max_calls",
                f"a chain may call tools {most:,} times, and this is its {self._calls + calls:,}th",
            )


def _result(node: StepNode, index: int, **facts: Any) -> StepResult:
    asked, tool_id = node.step.tool_id, node.tool_id or node.step.tool_id
    ref = None if asked == tool_id else asked
    return StepResult.of_checked(index=index, tool_id=tool_id, ref=ref, id=node.step.id, **facts)


def _ended(node: StepNode, error: ToolcribError, where: str = "", **facts: Any) -> _Done:
    """Return what a failure comes to that ends the chain."""
    return _Done(_result(node, **facts, error=explain(error)), error, where)


def _part(node: StepNode, place: int) -> str:
    return node.parts[place].title if node.is_group else f"item {place}"


def _begun(done: Iterable[_Done | None]) -> tuple[StepResult, ...]:
    return tuple(each.result for each in done if each is not None)


def _arguments(node: StepNode, scope: ReferenceScope) -> dict[str, Any]:
    """Return the arguments of a call; they share what they can, and are not to be changed."""
    args = _filled(node, node.args, scope)
    if type(args) is not dict:
        raise _refusal(node, "", f"the arguments must be an object, not {shown(args)}")
    if not node.step.use_previous:
        return args
    return {**args, "previous": None if scope.previous is ABSENT else scope.previous}


def _items(node: StepNode, scope: ReferenceScope) -> list[Any]:
    items = _filled(node, node.items, scope)
    if type(items) is not list:
        raise _refusal(node, "", f"{node.spelling['for_each']} must be an array, not {shown(items)}")
    return items


def _filled(node: StepNode, template: Template, scope: ReferenceScope) -> Any:
    try:
        return fill(template, scope)
    except LeadsNowhereError as error:
        raise _refusal(node, error.at, str(error)) from None


def _refusal(node: StepNode, at: str, message: str) -> InputValidationError:
    return InputValidationError((Problem(at, "$ref", message[:500]),), tool_id=node.step.tool_id or "")


def _event(result: StepResult) -> str:
    if result.skipped:
        return "step_skipped"
    return "step_completed" if result.error is None else "step_error"


async def run_side_by_side(job: Callable[[int], Awaitable[bool]], count: int, width: int) -> int | None:
    """Run the jobs from 0 to `count`, `width` at a time, and return which of them returned False, if any.

    They begin in order. The first to say False, or to raise, ends the others; what it raised is raised here
    as it is.
    """
    places = iter(range(count))
    refused: list[int] = []
    raised: list[Exception] = []

    async def work() -> None:
        for place in places:
            await anyio.lowlevel.checkpoint()  # a deadline must be met also by jobs that never wait
            try:
                if await job(place):
                    continue
                refused.append(place)
            except Exception as error:  # noqa: BLE001 - whatever it is, the group would wrap it
                raised.append(error)
            group.cancel_scope.cancel()
            return

    async with anyio.create_task_group() as group:
        for _ in range(min(width, count)):
            group.start_soon(work)
    if raised:
        raise raised[0]
    return refused[0] if refused else None
