"""The way of every call: resolve, ask the policy, validate, choose a backend, run, validate, report."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from time import perf_counter
from typing import Any, Literal, overload

import anyio

from toolcrib.concurrency.background import is_being_cancelled
from toolcrib.concurrency.deadlines import PausableDeadline, checked_timeout
from toolcrib.concurrency.loop import in_thread
from toolcrib.errors import (
    BackendUnavailableError,
    OutputValidationError,
    ToolCancelledError,
    ToolcribError,
    ToolError,
    ToolExecutionError,
    ToolTimeoutError,
    ValidationError,
)
from toolcrib.execution.chain import (
    Around,
    ChainLimits,
    ChainProgress,
    ChainResult,
    Plan,
    RunTool,
    Steps,
    check_chain,
    plan_chain,
    run_chain,
)
from toolcrib.execution.chain.chain import beside, read_chain
from toolcrib.execution.local import LocalHandlers
from toolcrib.execution.middleware.compose import compose
from toolcrib.execution.pipeline import (
    CallState,
    ProviderRoutes,
    ask_policy,
    ask_validator,
    begin,
    check_arguments,
    not_ready,
    read_arguments,
    stream_events,
    tell,
    with_defaults,
)
from toolcrib.execution.principal import Principal
from toolcrib.execution.progress import Progress, Reporter
from toolcrib.execution.protocols import (
    Executor,
    Middleware,
    Observer,
    Policy,
    ProviderExecutor,
    Selector,
)
from toolcrib.execution.records import Answer, Call, Emit, Request, StreamEvent
from toolcrib.execution.selection import by_kind, candidates, label, may_go_on
from toolcrib.model.backend import ToolBackend
from toolcrib.model.local import LocalTool
from toolcrib.model.plain import is_large
from toolcrib.model.protocols import Resolver
from toolcrib.model.results import RunResult
from toolcrib.model.schema.validator import DefaultValidator, SchemaValidator
from toolcrib.model.toolid import ToolId
from toolcrib.redaction import error_text

Prepare = Callable[[str | ToolId], Awaitable[None]]
DEFAULT_TIMEOUT = 60.0
"""Seconds that a call may take where nobody says otherwise."""
_MOMENT = 0.005
"""Seconds that count as nothing."""


class Runner:
    """Runs tools, streams and chains on the backends that a resolver names.

    >>> from toolcrib import tool
    >>> from toolcrib.discovery import Index
    >>> @tool
    ... async def add(a: int, b: int) -> int:
    ...     return a + b
    >>> index = Index()
    >>> index.register(add)
    >>> import anyio
    >>> anyio.run(Runner(index, local=[add]).run, "add", {"a": 1, "b": 2}).structured
    3

    Everything is safe to use from many tasks at once. Nothing here has to be closed; what it is given does.
    """

    def __init__(  # noqa: PLR0913 - what a runner is put together from, each with a default
        self,
        resolver: Resolver,
        *,
        local: LocalHandlers | Mapping[str, Callable[..., Any]] | Iterable[LocalTool[..., Any]] = (),
        mcp: Executor | None = None,
        providers: Mapping[str, ProviderExecutor] | None = None,
        validator: SchemaValidator | None = None,
        policy: Policy | None = None,
        select: Selector = by_kind,
        middleware: Sequence[Middleware] = (),
        observers: Sequence[Observer] = (),
        timeout: float = DEFAULT_TIMEOUT,
        timeout_of: Callable[[ToolBackend], float | None] = lambda _: None,
        prepare: Prepare | None = None,
    ) -> None:
        """Put a runner together.

        Args:
            resolver: knows the tools and their backends; an `Index` does.
            local: runs local backends: `LocalHandlers`, functions by name, or tools made of functions.
            mcp: runs MCP backends: `McpServers`.
            providers: run provider backends, by their ids.
            validator: says whether values fit schemas.
            policy: says whether a request may run.
            select: chooses among several backends of a tool.
            middleware: stands around each call to a backend, the first outermost.
            observers: see the beginning and the end of each call.
            timeout: seconds that a call may take where nobody says otherwise.
            timeout_of: the same for the tools of one backend, None where there is nothing to say.
            prepare: is awaited with the reference before the tool is looked up, such as until it is there.
        """
        self._resolver = resolver
        handlers = local if isinstance(local, LocalHandlers) else LocalHandlers(local)
        self._executors: dict[str, Executor] = {
            "local": handlers,
            "provider": ProviderRoutes({} if providers is None else providers),
        }
        if mcp is not None:
            self._executors["mcp"] = mcp
        self._validator: SchemaValidator = DefaultValidator() if validator is None else validator
        self._policy = policy
        self._select = select
        self._observers = tuple(observers)
        self._way = compose(middleware, self._execute)
        self._timeout = timeout
        self._timeout_of = timeout_of
        self._prepare = prepare

    async def run(  # noqa: PLR0913 - each is another wish of the caller
        self,
        tool_id: str | ToolId,
        args: Any = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - a deadline of the tool's, distinct from the caller's
        progress: Progress | None = None,
        frame_progress: bool = True,
        principal: Principal | None = None,
        defaults: bool = False,
    ) -> RunResult:
        """Run a tool and return what it gave.

        `timeout` is in seconds, `math.inf` for none; `progress` is called with `(progress, total, message)`,
        sync or async, also at the start and at the end unless `frame_progress` is off; `defaults` fills in
        what the input schema declares for arguments that are missing.

        Raises:
            ToolNotFoundError: no tool answers to the reference.
            ToolError: one of its leaves says what went wrong, on which backend, doing what.
        """
        state = CallState(str(tool_id), args, principal)
        if progress is None:
            return await self._run(state, tool_id, timeout, None, defaults=defaults)
        reporter = Reporter(progress, framed=frame_progress)
        async with reporter.around():
            return await self._run(state, tool_id, timeout, reporter.emit, defaults=defaults)

    async def stream(
        self,
        tool_id: str | ToolId,
        args: Any = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - as for run
        principal: Principal | None = None,
        defaults: bool = False,
    ) -> AsyncGenerator[StreamEvent, None]:
        """Yield what a tool tells while it runs; the last event is one `done` or one `error`.

        Leaving the stream cancels the tool. A provider that cannot stream gives a `StreamNotSupportedError`.
        """
        state = CallState(str(tool_id), args, principal, streamed=True)

        async def run(emit: Emit) -> RunResult:
            return await self._run(state, tool_id, timeout, emit, defaults=defaults)

        async with aclosing(stream_events(state, run)) as events:
            async for event in events:
                yield event

    @overload
    async def run_chain(
        self,
        steps: Steps,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - as for run
        progress: ChainProgress | None = None,
        dry_run: Literal[False] = False,
        principal: Principal | None = None,
        limits: ChainLimits | None = None,
        around: Around | None = None,
    ) -> ChainResult: ...

    @overload
    async def run_chain(
        self, steps: Steps, *, dry_run: Literal[True], limits: ChainLimits | None = None
    ) -> Plan: ...

    async def run_chain(  # noqa: PLR0913 - each is another wish of the caller
        self,
        steps: Steps,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - as for run
        progress: ChainProgress | None = None,
        dry_run: bool = False,
        principal: Principal | None = None,
        limits: ChainLimits | None = None,
        around: Around | None = None,
    ) -> ChainResult | Plan:
        """Run steps one after another and return what each gave; with `dry_run`, what they would do.

        Every step takes the way of a call. `timeout` is for all of them together; each has its own besides.
        `around` is given what runs a tool, and returns what is used in its place for each call.

        Raises:
            InvalidChainError: they cannot work; nothing was run.
            ChainError: a step failed; `results` are those that were done, and that one.
            BackendUnavailableError: its tools were not there in time; nothing was run.
        """
        began = anyio.current_time()
        limit = checked_timeout(timeout)
        if self._prepare is not None:
            patience = self._timeout if limit is None else limit
            steps = await self._prepare_all(steps, self._prepare, patience, limits)
        check = partial(check_chain, steps, self._resolver, self._validator, limits=limits)
        chain = await beside(steps, check)
        if dry_run:
            return plan_chain(chain, self._resolver)

        async def run(tool_id: str, args: dict[str, Any], within: float | None) -> RunResult:
            return await self._run(CallState(tool_id, args, principal), tool_id, within, None, defaults=False)

        calling: RunTool = run if around is None else around(run)
        return await run_chain(chain, calling, timeout=limit, progress=progress, limits=limits, since=began)

    async def _prepare_all(
        self, steps: Steps, prepare: Prepare, limit: float, limits: ChainLimits | None
    ) -> Steps:
        """Prepare the tools of a chain, within so many seconds, and return the steps, read if they can be."""
        chain, problems = await beside(steps, partial(read_chain, steps, limits))
        tool_id = ""
        with anyio.move_on_after(limit):
            for tool_id in dict.fromkeys(node.step.tool_id for node in chain.walk() if node.step.tool_id):
                await prepare(tool_id)
            return steps if problems else chain
        raise not_ready(tool_id, limit)

    async def _run(
        self,
        state: CallState,
        tool_id: str | ToolId,
        timeout: float | None,  # noqa: ASYNC109 - as for run
        emit: Emit | None,
        *,
        defaults: bool,
    ) -> RunResult:
        started = perf_counter()
        watchers = begin(self._observers, state)
        answer, failure = None, None
        try:
            answer = await self._within(state, tool_id, timeout, emit, defaults=defaults)
            return RunResult.of_checked(
                tool=state.asked.tool,
                backend=state.backend,
                structured=answer.structured,
                mcp_result=answer.mcp_result,
                duration=perf_counter() - started,
                notes=(*state.notes, *answer.notes),
            )
        except BaseException as error:
            failure = error
            raise
        finally:
            if watchers:
                tell(watchers, state, answer, failure, perf_counter() - started)

    async def _within(
        self,
        state: CallState,
        tool_id: str | ToolId,
        timeout: float | None,  # noqa: ASYNC109 - as for run
        emit: Emit | None,
        *,
        defaults: bool,
    ) -> Answer:
        """Return the answer to a call, if there is one before its deadline."""
        own_limit = checked_timeout(timeout)
        limit = self._timeout if own_limit is None else own_limit
        began = anyio.current_time()
        with anyio.move_on_after(limit) as scope:
            try:
                if self._prepare is not None:
                    await self._prepare(tool_id)
                    waited = anyio.current_time() - began
                    if own_limit is None and waited > _MOMENT:  # a default is not used up by waiting
                        scope.deadline += waited
                state.op = "policy"
                request = await self._admitted(state, tool_id, defaults=defaults)
                offered = self._resolver.backends(request.tool.id)
                backends = candidates(request.tool, offered, self._executors, self._select)
                own = self._timeout_of(backends[0]) if own_limit is None else None
                if own is not None:
                    scope.deadline, limit = scope.deadline - limit + own, own
                state.deadline = scope.deadline
                state.pause = PausableDeadline(scope).paused if own_limit is None else None
                return await self._answered(state, request, backends, emit)
            except anyio.get_cancelled_exc_class() as error:
                if is_being_cancelled():
                    raise
                reason = "what it waited for was cancelled"
                raise ToolCancelledError(tool_id=state.tool_id, backend=state.place, reason=reason) from error
        if state.op == "resolve":
            raise not_ready(state.tool_id, limit)
        raise ToolTimeoutError(tool_id=state.tool_id, op=state.op, backend=state.place, timeout=limit)

    async def _admitted(self, state: CallState, tool_id: str | ToolId, *, defaults: bool) -> Request:
        """Return the request, once the tool is known, the policy agrees and the arguments fit."""
        tool = self._resolver.resolve(tool_id)
        state.tool_id = str(tool.id)
        args, notes = read_arguments(state.args, state.tool_id)
        state.notes += notes
        filled = with_defaults(tool, args) if defaults else args
        request = state.request = Request(tool=tool, args=filled, principal=state.principal)
        state.rule = await ask_policy(self._policy, request)
        state.is_allowed = True
        checked = await check_arguments(self._validator, tool, request.args)
        state.request = Request(tool=tool, args=checked, principal=state.principal)
        return state.request

    async def _answered(
        self, state: CallState, request: Request, backends: Sequence[ToolBackend], emit: Emit | None
    ) -> Answer:
        """Return the answer of the first backend that gives one."""
        tried = 0
        while True:
            backend = backends[tried]
            tried += 1
            state.backend, state.op = backend, "execute"
            call = Call(
                tool=request.tool,
                args=request.args,
                principal=request.principal,
                backend=backend,
                emit=emit,
                streamed=state.streamed,
                deadline=state.deadline,
                pause=state.pause,
            )
            try:
                return await self._way(call)
            except BackendUnavailableError as error:
                if tried == len(backends) or not may_go_on(request, error):
                    raise
                state.notes.append(f"{label(backend)} was unavailable; another backend was tried")

    async def _execute(self, call: Call) -> Answer:
        """Run a call on its backend and check its value, with every failure as one of the typed errors."""
        try:
            answer = await self._executors[call.backend.kind].call(call)
            if is_large(answer.structured):
                await in_thread(self._check_output, call, answer)
            elif not answer.is_task:
                self._check_output(call, answer)
        except ToolError as error:
            error.backend = error.backend or label(call.backend)
            raise
        except ToolcribError:
            raise
        except Exception as error:  # an executor is somebody else's code
            reason, place = error_text(error, call.args), label(call.backend)
            raise ToolExecutionError(tool_id=call.tool_id, backend=place, reason=reason) from error
        return answer

    def _check_output(self, call: Call, answer: Answer) -> None:
        try:
            ask_validator(self._validator.validate_output, call.tool, answer.structured, "validate_output")
        except ValidationError as error:
            raise OutputValidationError(
                error.problems,
                error.text,
                tool_id=call.tool_id,
                backend=label(call.backend),
                result=answer.structured if answer.mcp_result is None else answer.mcp_result,
            ) from error
