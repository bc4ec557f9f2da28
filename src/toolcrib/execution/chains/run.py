"""Runs a chain: one step after another, the parts of groups and of `for_each` in parallel.

`_ChainRun` holds the results by slot. A step resolves its references against them, so nothing is copied:
results share values with each other and with the arguments. A step ends as an `_Outcome`, whose error, if it
has one, ends the chain.

A chain that is cut off by its deadline or an error still reports everything that was done, since tools may
have changed things. That is why the outcomes of parts are recorded as they end (`_part_outcomes`).
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
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
    ToolError,
    ToolTimeoutError,
    explain,
)
from toolcrib.errors.base import short_repr
from toolcrib.execution.chains.budget import ResultBudget, json_size
from toolcrib.execution.chains.conditions import Condition
from toolcrib.execution.chains.parse import Chain, StepNode
from toolcrib.execution.chains.references import ABSENT, NoReferencedValueError, Reference, ReferenceScope
from toolcrib.execution.chains.results import ChainResult, StepResult
from toolcrib.execution.chains.steps import ChainLimits
from toolcrib.execution.chains.templates import ObjectTemplate, Template, count_new_values, fill_template
from toolcrib.execution.progress import notify
from toolcrib.model.plain import MAX_NODES, copy_json
from toolcrib.model.results import RunResult

RunTool = Callable[[str, dict[str, Any], float | None, str], Awaitable[RunResult]]
"""Runs one tool with arguments, which it must not change, and a timeout; raises a `ToolcribError`. The last
argument identifies the call in the chain, such as `2.0`."""

Around = Callable[[RunTool], RunTool]
"""Wraps each call of a chain."""
ChainProgress = Callable[[int, int, str], Any]
"""Called with the number of finished steps, the total, and the event: `started`, `step_completed`,
`step_skipped`, `step_error`; sync or async."""
_MAX_PARALLEL_BYTES = 1 << 20
"""Calls with larger arguments, as JSON, run one at a time: each call copies and serializes its arguments."""
_MAX_BUSY_SECONDS = 0.005
"""Then other tasks run, and a deadline can cancel: tools that never wait have no checkpoint of their own."""
_RESULT_TOO_LARGE = "the tool ran, but there is no room for its result"


async def run_chain(  # noqa: PLR0913 - the deadline in three ways: as a number, since when, and as a scope
    chain: Chain,
    run: RunTool,
    *,
    timeout: float | None = None,  # noqa: ASYNC109 - a deadline of the chain, distinct from the caller's
    progress: ChainProgress | None = None,
    limits: ChainLimits | None = None,
    since: float | None = None,
    deadline: anyio.CancelScope | None = None,
) -> ChainResult:
    """Run the steps of a chain and return their results; nothing is retried.

    `timeout` is in seconds for all steps together, from `since` by the clock of the event loop, or from now.
    Cancelling `deadline`, where it is given, ends the chain as if that time were over.
    An exception of `run` that is not a `ToolcribError` propagates. Results must not be changed: their `args`
    share referenced values with the chain and with earlier results, and a group shares values with its parts.

    Raises:
        ValidationError: the timeout is not a positive number.
        ChainError: a step failed; its cause is the error of the step, its `results` are those of the finished
            steps and of that step.
    """
    limit = None if timeout is None else check_timeout(timeout)
    began = anyio.current_time() if since is None else since
    running = _ChainRun(chain, run, limits or ChainLimits())
    try:
        scope = anyio.CancelScope() if deadline is None else deadline
        scope.deadline = inf if limit is None or not chain.nodes else began + limit
        with scope:
            await running.run_steps(progress)
        return running.make_result(limit or 0.0)
    except ChainError as error:
        # The traceback of a kept error would keep the local variables of its frames, and so all results.
        if error.__cause__ is not None:
            clear_frames(error.__cause__.__traceback__)
        raise
    finally:
        running.release()


@dataclass(slots=True)
class _Outcome:
    """The result of a step, and the error that ends the chain, if there is one."""

    result: StepResult
    error: ToolcribError | None = None
    where: str = ""
    """The part of the step that failed, as the beginning of a sentence."""


class _ChainRun:
    """One run of one chain."""

    def __init__(self, chain: Chain, run: RunTool, limits: ChainLimits) -> None:
        self._nodes = chain.nodes
        self._tool_ids = chain.tool_ids
        self._run = run
        self._limits = limits
        self._calls = 0
        self._budget = ResultBudget(limits)
        self._large = anyio.Lock()
        self._values: list[Any] = [ABSENT] * len(chain.by_slot)
        self._results: list[StepResult] = []
        self._final: Any = None
        self._part_outcomes: dict[int, list[_Outcome | None]] = {}
        """Outcomes of the parts of a step by its slot; None for those that have not ended."""
        self._started = 0.0
        """When the current step began."""

    async def run_steps(self, progress: ChainProgress | None) -> None:
        """Run the steps in order, until one fails."""
        total, previous, paused = len(self._nodes), ABSENT, -inf
        if progress is not None:
            await notify(progress, 0, total, "started", work_done=False)
        for place, node in enumerate(self._nodes, start=1):
            self._started = perf_counter()
            if self._started - paused > _MAX_BUSY_SECONDS:
                await anyio.lowlevel.checkpoint()
                paused = self._started = perf_counter()
            done = await self._run_step(node, ReferenceScope(self._values, previous))
            self._results.append(done.result)
            if not done.result.skipped:
                self._final = previous = done.result.structured
            if progress is not None:
                await notify(progress, place, total, name_event(done.result), work_done=True)
            if done.error is not None:
                reason = f"{done.where}{done.error}"
                results = tuple(self._results)
                raise ChainError(place - 1, results, reason, step_id=node.step.id) from done.error

    def make_result(self, timeout: float) -> ChainResult:
        """Return the result of the chain.

        Raises:
            ChainError: the deadline expired while a step ran.
        """
        if len(self._results) < len(self._nodes):
            raise self._make_timeout_error(timeout)
        steps = tuple(node.step for node in self._nodes)
        return ChainResult.from_valid(final=self._final, results=tuple(self._results), steps=steps)

    def release(self) -> None:
        """Drop all results: reference cycles of tasks may keep this object alive for a while."""
        for done in self._part_outcomes.values():
            done.clear()
        self._results, self._values, self._final = [], [], None

    def _make_timeout_error(self, timeout: float) -> ChainError:
        place = len(self._results)
        node = self._nodes[place]
        error = ToolTimeoutError(tool_id=self._find_running_tool(node), timeout=timeout)
        failed = self._make_unfinished_result(node, error, self._started)
        reason = f"the chain did not finish within {timeout:g} s, and {error.tool_id} was running"
        chain_error = ChainError(place, (*self._results, failed), reason, step_id=node.step.id)
        chain_error.__cause__ = error
        return chain_error

    async def _run_step(self, node: StepNode, scope: ReferenceScope) -> _Outcome:
        """Run a step or its parts, unless its condition is false."""
        unmet = None
        if node.when is not None:
            unmet = await self._test_condition(node, node.when, scope, node.index, uses_item=False)
        if unmet is not None:
            done = unmet
        elif node.is_group:
            done = await self._run_group(node, scope)
        elif node.repeats:
            done = await self._run_for_each(node, scope)
        else:
            done = await self._call_tool(node, scope, node.index)
        if not done.result.skipped:
            self._values[node.slot] = done.result.structured
        return done

    async def _test_condition(
        self, node: StepNode, when: Condition, scope: ReferenceScope, index: int, *, uses_item: bool
    ) -> _Outcome | None:
        """Return the outcome of a step that does not run: its condition is false, or too large to test.

        A condition about the item is tested for each item, any other once before them.
        """
        if when.uses_item is not uses_item:
            return None
        try:
            met = when.test(scope)
        except LimitExceededError as error:
            return await self._handle_failure(node, error, index=index)
        return None if met else _Outcome(self._make_step_result(node, index, skipped=True))

    async def _call_tool(self, node: StepNode, scope: ReferenceScope, index: int) -> _Outcome:
        """Call the tool of a step."""
        started, args = perf_counter(), None
        try:
            self._budget.charge_values(count_new_values(node.args))
            args = _fill_arguments(node, scope)
            if node.step.use_previous:
                self._budget.charge_values(len(args))
            self._check_call_limit(1)
            self._calls += 1
            ran = await self._run_tool(node, args, index)
        except ToolcribError as error:
            return await self._handle_failure(
                node, error, index=index, args=args, duration=perf_counter() - started
            )
        facts: dict[str, Any] = {
            "index": index,
            "backend": ran.backend,
            "duration": max(perf_counter() - started, ran.duration),  # of a stored result, that of its call
            "args": args,
            "notes": ran.notes,
            "findings": ran.findings,
        }
        try:
            await self._budget.charge(ran.structured)
        except LimitExceededError as error:
            error.reason = f"{_RESULT_TOO_LARGE}; {error.reason}"
            return self._fail_chain(node, error, **facts)
        return _Outcome(self._make_step_result(node, **facts, structured=ran.structured))

    async def _run_tool(self, node: StepNode, args: dict[str, Any], index: int) -> RunResult:
        """Run the tool of a step; with large arguments, one call at a time.

        Only references can make arguments large: many calls may refer to the same large result.
        """
        run = partial(self._run, node.step.tool_id or "", args, node.step.timeout, f"{node.slot}.{index}")
        if node.step.use_previous or isinstance(node.args, Reference | ObjectTemplate):
            _, size = await json_size(args, max_values=MAX_NODES, max_bytes=_MAX_PARALLEL_BYTES)
            if size > _MAX_PARALLEL_BYTES:
                async with self._large:
                    return await run()
        return await run()

    async def _run_group(self, node: StepNode, scope: ReferenceScope) -> _Outcome:
        def job(place: int) -> Awaitable[_Outcome]:
            return self._run_step(node.parts[place], scope)

        return await self._run_parts(node, len(node.parts), job)

    async def _run_for_each(self, node: StepNode, scope: ReferenceScope) -> _Outcome:
        try:
            items = _fill_items(node, scope)
            self._check_call_limit(len(items))
        except ToolcribError as error:
            return await self._handle_failure(node, error, index=node.index)

        async def job(place: int) -> _Outcome:
            inner = ReferenceScope(scope.values, scope.previous, items[place], place)
            unmet = None
            if node.when is not None:
                unmet = await self._test_condition(node, node.when, inner, place, uses_item=True)
            return await self._call_tool(node, inner, place) if unmet is None else unmet

        return await self._run_parts(node, len(items), job)

    async def _run_parts(
        self, node: StepNode, count: int, job: Callable[[int], Awaitable[_Outcome]]
    ) -> _Outcome:
        """Run the parts of a step in parallel; the first error that ends the chain cancels the others."""
        started = perf_counter()
        done: list[_Outcome | None] = [None] * count
        self._part_outcomes[node.slot] = done

        async def work(place: int) -> bool:
            began = perf_counter()
            try:
                done[place] = result = await job(place)
            except anyio.get_cancelled_exc_class():
                done[place] = _Outcome(self._make_cancelled_result(node, place, began))
                raise
            return result.error is None

        refused = await run_in_parallel(work, count, node.width)
        parts = _finished_results(done)
        common: dict[str, Any] = {
            "index": node.index,
            "duration": max(perf_counter() - started, *(part.duration for part in parts), 0.0),
            "parts": parts,
        }
        culprit = None if refused is None else done[refused]
        if refused is None or culprit is None or culprit.error is None:
            return _Outcome(
                self._make_step_result(
                    node, **common, structured=[each.result.structured for each in done if each]
                )
            )
        where = f"{_name_part(node, refused)}: {culprit.where}"
        if node.is_group:
            return await self._handle_failure(node, culprit.error, where, **common)
        return _Outcome(
            self._make_step_result(node, **common, error=culprit.result.error), culprit.error, where
        )

    async def _handle_failure(
        self, node: StepNode, error: ToolcribError, where: str = "", **facts: Any
    ) -> _Outcome:
        """Return the outcome of a failure: the end of the chain, or the fallback of `on_error`."""
        if node.step.on_error == "stop" or self._budget.is_spent:
            return self._fail_chain(node, error, where, **facts)
        explained = explain(error)
        if isinstance(error, ToolError):
            facts["findings"] = error.findings
        try:
            await self._budget.charge([explained, node.fallback])
        except LimitExceededError as too_much:
            return self._fail_chain(node, too_much, where, **facts)
        return _Outcome(
            self._make_step_result(node, **facts, error=explained, structured=copy_json(node.fallback))
        )

    def _make_step_result(self, node: StepNode, index: int, **facts: Any) -> StepResult:
        asked = node.step.tool_id
        tool_id = self._tool_ids.get(node.slot, asked)
        ref = None if asked == tool_id else asked
        return StepResult.from_valid(index=index, tool_id=tool_id, ref=ref, id=node.step.id, **facts)

    def _fail_chain(self, node: StepNode, error: ToolcribError, where: str = "", **facts: Any) -> _Outcome:
        """Return the outcome of an error that ends the chain."""
        return _Outcome(self._make_step_result(node, **facts, error=explain(error)), error, where)

    def _make_cancelled_result(self, node: StepNode, place: int, started: float) -> StepResult:
        """Return the result of a part that was cancelled while it ran."""
        part = node.parts[place] if node.is_group else node
        reason = "it was cancelled together with the step that it is a part of"
        error = ToolCancelledError(tool_id=self._find_running_tool(part), reason=reason)
        if node.is_group:
            return self._make_unfinished_result(part, error, started)
        return self._make_step_result(part, place, error=explain(error), duration=perf_counter() - started)

    def _make_unfinished_result(self, node: StepNode, error: ToolcribError, started: float) -> StepResult:
        parts = _finished_results(self._part_outcomes.get(node.slot, ()))
        return self._make_step_result(
            node, node.index, error=explain(error), duration=perf_counter() - started, parts=parts
        )

    def _find_running_tool(self, node: StepNode) -> str:
        """Return the tool that a step waits for, the first if there are several."""
        if not node.is_group:
            return node.step.tool_id or ""
        begun = self._part_outcomes.get(node.slot, ())
        open_parts = [
            part for part, done in zip(node.parts, begun, strict=False) if not done or done.result.error
        ]
        return self._find_running_tool((open_parts or node.parts)[0]) if node.parts else node.name

    def _check_call_limit(self, calls: int) -> None:
        most = self._limits.max_calls
        if self._calls + calls > most:
            reached = self._calls + calls
            reason = f"a chain may make at most {most:,} tool calls; this step would bring it to {reached:,}"
            raise LimitExceededError("max_calls", reason)


def _name_part(node: StepNode, place: int) -> str:
    return node.parts[place].title if node.is_group else f"item {place}"


def _finished_results(done: Iterable[_Outcome | None]) -> tuple[StepResult, ...]:
    return tuple(each.result for each in done if each is not None)


def _fill_arguments(node: StepNode, scope: ReferenceScope) -> dict[str, Any]:
    """Return the arguments of a call; they share values with results, and must not be changed."""
    args = _fill(node, node.args, scope)
    if type(args) is not dict:
        raise _input_error(node, "", f"the arguments must be an object, not {short_repr(args)}")
    if not node.step.use_previous:
        return args
    return {**args, "previous": None if scope.previous is ABSENT else scope.previous}


def _fill_items(node: StepNode, scope: ReferenceScope) -> list[Any]:
    items = _fill(node, node.items, scope)
    if type(items) is not list:
        raise _input_error(node, "", f"{node.spelling['for_each']} must be an array, not {short_repr(items)}")
    return items


def _fill(node: StepNode, template: Template, scope: ReferenceScope) -> Any:
    try:
        return fill_template(template, scope)
    except NoReferencedValueError as error:
        raise _input_error(node, error.at, str(error)) from None


def _input_error(node: StepNode, at: str, message: str) -> InputValidationError:
    return InputValidationError((Problem(at, "$ref", message[:500]),), tool_id=node.step.tool_id or "")


def name_event(result: StepResult) -> str:
    """Return how a `ChainProgress` names the end of a step."""
    if result.skipped:
        return "step_skipped"
    return "step_completed" if result.error is None else "step_error"


async def run_in_parallel(job: Callable[[int], Awaitable[bool]], count: int, width: int) -> int | None:
    """Run `count` jobs in order, `width` in parallel; return the number of one that returned False.

    The first that returns False or raises cancels the others; its exception is raised here, not in a group.
    """
    places = iter(range(count))
    refused: list[int] = []
    raised: list[Exception] = []

    async def work() -> None:
        for place in places:
            await anyio.lowlevel.checkpoint()  # lets a deadline cancel jobs that never wait
            try:
                if await job(place):
                    continue
                refused.append(place)
            except Exception as error:  # noqa: BLE001 - raised below, since the group would wrap it
                raised.append(error)
            group.cancel_scope.cancel()
            return

    async with anyio.create_task_group() as group:
        for _ in range(min(width, count)):
            group.start_soon(work)
    if raised:
        raise raised[0]
    return refused[0] if refused else None
