"""Runs every call in the same stages: resolve, authorize, validate, limit, select, dispatch, check, report.

`Runner._run_stages` has them in one function, so that their order can be read. The order matters:

- The rules decide before the arguments are validated, so that a denied caller learns nothing of a schema.
- The arguments are validated and copied before a person is asked. A person should not be asked about a call
  that must fail, nor about arguments that the caller may still change.
- A call counts for rate limits once it may run, however many backends are tried.
- Backends are tried one after another. Each try goes through the whole middleware, so that caching, rates and
  retries count per backend. The next is tried only if the tool cannot have run, or may run twice.
- Results are checked inside of the middleware, so that the cache stores only what fits the output schema.

A single cancel scope limits all stages. It stops while a person answers, since their time is not the tool's.
What a call has reached is kept in a `_CallState`, not in the exception: observers are notified in `finally`
and report the last stage even of a call that was cancelled. Observers may fail without harm to the call; a
policy, a validator or an executor that fails makes the call fail with a typed error.
"""

import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from math import isfinite
from time import perf_counter
from types import MappingProxyType
from typing import Any, Literal, overload

import anyio

from toolcrib.concurrency.background import is_being_cancelled
from toolcrib.concurrency.deadlines import PausableDeadline, check_timeout
from toolcrib.concurrency.loop import in_thread
from toolcrib.errors import (
    BackendUnavailableError,
    NoBackendError,
    Op,
    OutputValidationError,
    PolicyDeniedError,
    StreamNotSupportedError,
    ToolCancelledError,
    ToolcribError,
    ToolError,
    ToolExecutionError,
    ToolNotFoundError,
    ToolTimeoutError,
    ValidationError,
)
from toolcrib.execution.arguments import (
    check_value,
    fill_defaults,
    read_arguments,
    validate_arguments,
    validate_shaped_arguments,
)
from toolcrib.execution.call import Answer, Call, CallContext, Emit, Outcome, Request, StreamEvent
from toolcrib.execution.chains import (
    Around,
    Chain,
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
from toolcrib.execution.chains.parse import read_chain, run_in_thread_if_large
from toolcrib.execution.kept import fill_handles, may_have_handles, nothing_kept, unmark_handles
from toolcrib.execution.local import LocalHandlers
from toolcrib.execution.middleware.compose import compose
from toolcrib.execution.policy.authorizer import Authorizer
from toolcrib.execution.policy.rates import RateLimiter
from toolcrib.execution.policy.rules import Rules
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
from toolcrib.execution.selection import by_kind, may_try_next, select_backends
from toolcrib.execution.streaming import stream_events
from toolcrib.model.backend import ProviderBackend, ToolBackend, label
from toolcrib.model.decorator import LocalTool
from toolcrib.model.plain import is_large
from toolcrib.model.protocols import ResolvedTool, Resolver, ToolSource
from toolcrib.model.results import RunResult
from toolcrib.model.schema.validator import DefaultValidator, SchemaValidator
from toolcrib.model.shape import ShapedTool
from toolcrib.model.suggest import did_you_mean
from toolcrib.model.tool import Tool
from toolcrib.model.toolid import ToolId
from toolcrib.redaction import error_text

DEFAULT_TIMEOUT = 60.0
"""Seconds that a call may take, unless the caller or the backend sets another limit."""
_NEGLIGIBLE_WAIT = 0.005
"""Waits of fewer seconds do not extend the deadline: a wait for what is there already leaves it as it was."""
_LOG = logging.getLogger("toolcrib")
_Finish = Callable[[Outcome], None]


@dataclass(slots=True)
class _CallState:
    """The progress of one call, for its errors, its result and its observers."""

    tool_id: str
    """The id of the tool; until it is resolved, the reference of the caller."""
    args: Any
    context: CallContext
    streamed: bool = False
    op: Op = "resolve"
    """The current stage, as errors name it."""
    shaped: ShapedTool | None = None
    """The tool as the caller sees it, where a toolset gives it another shape."""
    request: Request | None = None
    is_allowed: bool = False
    rule: str | None = None
    """Name of the rule that allows the call."""
    backend: ToolBackend | None = None
    notes: list[str] = field(default_factory=list)
    marks: list[tuple[str | ToolBackend, float]] = field(default_factory=list)
    """The stages and when each began, by `perf_counter`."""

    @property
    def backend_label(self) -> str | None:
        """The current backend, as errors name it."""
        return None if self.backend is None else label(self.backend)


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

    Runners are safe to use from many tasks at once. They own nothing: the caller closes their executors.
    """

    def __init__(  # noqa: PLR0913 - the parts of a runner, each with a default
        self,
        resolver: Resolver,
        *,
        local: LocalHandlers | Mapping[str, Callable[..., Any]] | Iterable[LocalTool[..., Any]] = (),
        mcp: Executor | None = None,
        providers: Mapping[str, ProviderExecutor] | None = None,
        validator: SchemaValidator | None = None,
        rules: Callable[[], Rules | None] = lambda: None,
        policy: Policy | None = None,
        limiter: RateLimiter | None = None,
        select: Selector = by_kind,
        middleware: Sequence[Middleware] = (),
        observers: Sequence[Observer] = (),
        timeout: float = DEFAULT_TIMEOUT,
        timeouts: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        """Create a runner from its parts.

        Args:
            resolver: finds tools and their backends, such as an `Index`. With a `ToolSource`, calls wait for
                a tool that is missing.
            local: runs local backends: `LocalHandlers`, functions by name, or tools made of functions.
            mcp: runs MCP backends: `McpServers`.
            providers: run provider backends, by their ids.
            validator: validates arguments and results against schemas.
            rules: returns the current rules about who may run which tools, and when a person is asked.
            policy: decides about requests that the rules allow.
            limiter: counts calls, and refuses those beyond a rate limit.
            select: chooses among several backends of a tool.
            middleware: wraps each call to a backend, the first outermost.
            observers: are notified of the beginning and the end of each call.
            timeout: seconds that a call may take by default.
            timeouts: the same for individual backends, by their labels, such as `mcp:github`.
        """
        self._tools: ToolSource = resolver if isinstance(resolver, ToolSource) else _KnownTools(resolver)
        handlers = local if isinstance(local, LocalHandlers) else LocalHandlers(local)
        self._executors: dict[str, Executor] = {
            "local": handlers,
            "provider": _ProviderRoutes({} if providers is None else providers),
        }
        if mcp is not None:
            self._executors["mcp"] = mcp
        self._validator: SchemaValidator = DefaultValidator() if validator is None else validator
        self._authorizer = Authorizer(rules, policy)
        self._limiter = limiter
        self._select = select
        self._observers = tuple(observers)
        self._call_through_middleware = compose(middleware, self._call_backend)
        self._timeout = timeout
        self._timeouts = timeouts

    async def run(  # noqa: PLR0913 - each is another wish of the caller
        self,
        tool_id: str | ToolId,
        args: Any = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - a deadline of the tool's, distinct from the caller's
        progress: Progress | None = None,
        frame_progress: bool = True,
        principal: Principal | None = None,
        context: CallContext | None = None,
        defaults: bool = False,
    ) -> RunResult:
        """Run a tool and return its result.

        `timeout` is in seconds, `math.inf` for none; `progress` is called with `(progress, total, message)`,
        sync or async, also at the start and at the end unless `frame_progress` is off; `defaults` fills in
        missing arguments from the input schema. `context` has all facts of the call, and replaces
        `principal`.

        Raises:
            ToolNotFoundError: no tool matches the reference.
            ToolError: one of its subclasses, with the reason, the backend and the stage.
        """
        state = _CallState(str(tool_id), args, context or CallContext(principal=principal))
        if progress is None:
            return await self._run_observed(state, tool_id, timeout, None, defaults=defaults)
        reporter = Reporter(progress, framed=frame_progress)
        async with reporter.around():
            return await self._run_observed(state, tool_id, timeout, reporter.emit, defaults=defaults)

    async def stream(
        self,
        tool_id: str | ToolId,
        args: Any = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - as for run
        principal: Principal | None = None,
        context: CallContext | None = None,
        defaults: bool = False,
    ) -> AsyncGenerator[StreamEvent, None]:
        """Yield the updates of a running tool; the last event is one `done` or one `error`.

        Closing the stream cancels the tool. A provider that cannot stream gives a `StreamNotSupportedError`.
        """
        context = context or CallContext(principal=principal)
        state = _CallState(str(tool_id), args, context, streamed=True)

        async def run(emit: Emit) -> RunResult:
            return await self._run_observed(state, tool_id, timeout, emit, defaults=defaults)

        def seen_id() -> str:
            return state.tool_id if state.shaped is None else str(state.shaped.id)

        async with aclosing(stream_events(state.tool_id, seen_id, run)) as events:
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
        context: CallContext | None = None,
        limits: ChainLimits | None = None,
        around: Around | None = None,
    ) -> ChainResult: ...

    @overload
    async def run_chain(
        self,
        steps: Steps,
        *,
        dry_run: Literal[True],
        context: CallContext | None = None,
        limits: ChainLimits | None = None,
    ) -> Plan: ...

    async def run_chain(  # noqa: PLR0913 - each is another wish of the caller
        self,
        steps: Steps,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - as for run
        progress: ChainProgress | None = None,
        dry_run: bool = False,
        principal: Principal | None = None,
        context: CallContext | None = None,
        limits: ChainLimits | None = None,
        around: Around | None = None,
    ) -> ChainResult | Plan:
        """Run steps one after another and return their results; with `dry_run`, return the plan.

        Every step runs as a single call does. `timeout` limits all of them together, besides the limit of
        each. `around` takes the function that runs a tool, and returns one to use in its place.

        Raises:
            InvalidChainError: the steps are invalid; nothing was run.
            ChainError: a step failed; `results` has the steps up to that one.
            BackendUnavailableError: the tools were not listed in time; nothing was run.
        """
        began = anyio.current_time()
        limit = None if timeout is None else check_timeout(timeout)
        context = context or CallContext(principal=principal)
        if may_have_handles(steps):
            context = replace(context, read_kept=context.read_kept or nothing_kept)
        elif context.read_kept is not None:
            context = replace(context, read_kept=None)
        chain = await self.check_chain(steps, timeout=limit, context=context, limits=limits)
        if dry_run:
            return plan_chain(chain, context.tools or self._tools)

        async def run(tool_id: str, args: dict[str, Any], within: float | None, _step: str) -> RunResult:
            state = _CallState(tool_id, args, context)
            return await self._run_observed(state, tool_id, within, None, defaults=False)

        calling: RunTool = run if around is None else around(run)
        return await run_chain(chain, calling, timeout=limit, progress=progress, limits=limits, since=began)

    async def check_chain(
        self,
        steps: Steps,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - as for run
        context: CallContext | None = None,
        limits: ChainLimits | None = None,
    ) -> Chain:
        """Return the checked steps, once the servers have listed their tools.

        Raises:
            InvalidChainError: the steps are invalid.
            BackendUnavailableError: the tools were not listed in time.
        """
        tools = (None if context is None else context.tools) or self._tools
        if not isinstance(tools, _KnownTools):
            wait = self._timeout if timeout is None else timeout
            steps = await self._wait_for_steps(steps, tools, wait, limits)
        check = partial(check_chain, steps, tools, self._validator, limits=limits)
        return await run_in_thread_if_large(steps, check)

    async def _wait_for_steps(
        self, steps: Steps, tools: ToolSource, limit: float, limits: ChainLimits | None
    ) -> Steps:
        """Wait up to `limit` seconds for the tools of a chain; return the parsed steps, if they are valid."""
        chain, problems = await run_in_thread_if_large(steps, partial(read_chain, steps, limits))
        tool_id = ""
        with anyio.move_on_after(limit):
            for tool_id in dict.fromkeys(node.step.tool_id for node in chain.by_slot if node.step.tool_id):
                await tools.wait_for(tool_id)
            return steps if problems else chain
        raise _not_ready(tool_id, limit)

    async def _run_observed(
        self,
        state: _CallState,
        ref: str | ToolId,
        timeout: float | None,  # noqa: ASYNC109 - as for run
        emit: Emit | None,
        *,
        defaults: bool,
    ) -> RunResult:
        """Run a call, and notify the observers of its beginning and its end."""
        started = perf_counter()
        finishers: list[_Finish] = []
        for observer in self._observers:
            try:
                if (finish := observer.begin(state.tool_id, state.context.principal)) is not None:
                    finishers.append(finish)
            except Exception:  # noqa: BLE001 - observers may be user code, and must not break the call
                _LOG.exception("the observer %r failed", observer)
        answer, failure = None, None
        try:
            answer = await self._run_stages(state, ref, timeout, emit, defaults=defaults)
            assert state.request is not None  # noqa: S101 - set before a backend is called
            return RunResult.from_valid(
                tool=state.shaped or state.request.tool,
                backend=state.backend,
                structured=answer.structured,
                mcp_result=answer.mcp_result,
                duration=perf_counter() - started,
                notes=(*state.notes, *answer.notes),
                findings=answer.findings,
            )
        except BaseException as error:
            failure = error
            if state.shaped is not None and isinstance(error, ToolError):
                raise state.shaped.retell(error) from error.__cause__
            raise
        finally:
            if finishers:
                _report(finishers, state, answer, failure, started)

    async def _run_stages(
        self,
        state: _CallState,
        ref: str | ToolId,
        timeout: float | None,  # noqa: ASYNC109 - as for run
        emit: Emit | None,
        *,
        defaults: bool,
    ) -> Answer:
        """Run the stages of a call within its deadline, and return the answer.

        The time in which a person is asked for consent never counts. Only a default deadline, which the
        caller did not choose, is also extended by waiting for the server to list its tools, and stops while
        the server asks the client for input.
        """
        limit = self._timeout if timeout is None else check_timeout(timeout)
        with anyio.move_on_after(limit) as scope:
            clock = PausableDeadline(scope)
            try:
                state.marks.append(("resolve", perf_counter()))
                found, waited = await self._resolve(state, ref)
                if timeout is None and waited > _NEGLIGIBLE_WAIT:
                    scope.deadline += waited

                state.op = "policy"  # until a backend is called: errors name all stages between so
                state.marks.append(("check", perf_counter()))
                request, given = await self._read_request(state, found.tool, defaults=defaults)
                state.request = request
                decision = await self._authorizer.authorize(request)
                needs_person = decision.effect == "ask"
                if not needs_person:
                    state.is_allowed, state.rule = True, decision.allowed_by

                shaped = state.shaped
                checked = await (
                    validate_arguments(self._validator, request.tool, given)
                    if shaped is None
                    else validate_shaped_arguments(self._validator, shaped, given)
                )
                request = state.request = replace(request, args=checked)
                if needs_person:  # after the validation: see the top of this module
                    state.marks.append(("consent", perf_counter()))
                    with clock.pause():
                        await self._authorizer.obtain_consent(request, decision)
                    state.is_allowed, state.rule = True, decision.allowed_by

                if self._limiter is not None:  # only calls that may run count
                    await self._limiter.admit(request)
                backends = select_backends(request.tool, found.backends, self._executors, self._select)
                if timeout is None and self._timeouts:
                    own_limit = self._timeouts.get(label(backends[0]))
                    if own_limit is not None:
                        # Waiting may have moved the deadline: minus the old limit, it is the new start.
                        begun = scope.deadline - limit if isfinite(limit) else anyio.current_time()
                        scope.deadline, limit = begun + own_limit, own_limit

                call = Call(
                    tool=request.tool,
                    args=checked,
                    context=state.context,
                    with_handles=request.with_handles,
                    shaped=shaped,
                    backend=backends[0],
                    emit=emit,
                    streamed=state.streamed,
                    deadline=scope.deadline,
                    pause=clock.pause if timeout is None else nullcontext,
                )
                return await self._dispatch(state, call, backends)
            except anyio.get_cancelled_exc_class() as error:
                if is_being_cancelled():
                    raise
                reason = "what it waited for was cancelled"
                raise ToolCancelledError(
                    tool_id=state.tool_id, backend=state.backend_label, reason=reason
                ) from error
        if state.op == "resolve":
            raise _not_ready(state.tool_id, limit)
        raise ToolTimeoutError(tool_id=state.tool_id, op=state.op, backend=state.backend_label, timeout=limit)

    async def _read_request(
        self, state: _CallState, tool: Tool, *, defaults: bool
    ) -> tuple[Request, dict[str, Any]]:
        """Return the request that is to be authorized, and its arguments as the caller names them.

        They differ where a toolset gives the tool another shape: rules, audit and backends know the original.
        """
        args, notes = read_arguments(state.args, state.tool_id)
        state.notes += notes
        given = fill_defaults(tool, args) if defaults else args
        context, shaped, with_handles = state.context, state.shaped, None
        if context.read_kept is not None:
            origin, plain = tool, unmark_handles(given)
            if shaped is not None:
                origin, plain = shaped.origin, shaped.original_args(plain)
            with_handles = plain
            # Known before anything that is kept is read: for the audit of a call that is refused here.
            state.request = Request(
                tool=origin, args=plain, context=context, with_handles=plain, shaped=shaped
            )
            self._authorizer.check_tool(state.request)
            given = await fill_handles(given, tool, context.read_kept)
        if shaped is None:
            return Request(tool=tool, args=given, context=context, with_handles=with_handles), given
        mapped = shaped.original_args(given)
        request = Request(
            tool=shaped.origin, args=mapped, context=context, with_handles=with_handles, shaped=shaped
        )
        return request, given

    async def _resolve(self, state: _CallState, ref: str | ToolId) -> tuple[ResolvedTool, float]:
        """Resolve a reference; return the tool, and the seconds spent waiting for its server."""
        tools, waited = state.context.tools or self._tools, 0.0
        try:
            found = tools.find(ref)
        except (ToolNotFoundError, BackendUnavailableError, PolicyDeniedError):
            # Rules may allow by its tags or hints what they refuse by its id, while no tool of it is known.
            began = anyio.current_time()
            await tools.wait_for(ref)
            waited = anyio.current_time() - began
            found = tools.find(ref)
        state.tool_id, tool = found.id, found.tool
        if isinstance(tool, ShapedTool):
            state.shaped, state.tool_id = tool, str(tool.origin.id)
        return found, waited

    async def _dispatch(self, state: _CallState, call: Call, backends: Sequence[ToolBackend]) -> Answer:
        """Call the backends in order until one is available, and return its answer."""
        for number, backend in enumerate(backends, 1):
            state.backend, state.op = backend, "execute"
            state.marks.append((backend, perf_counter()))
            try:
                return await self._call_through_middleware(call)
            except BackendUnavailableError as error:
                if number == len(backends) or not may_try_next(call, error):
                    raise
                state.notes.append(f"{label(backend)} was unavailable; another backend was tried")
            call = replace(call, backend=backends[number])
        raise AssertionError("there is at least one backend")

    async def _call_backend(self, call: Call) -> Answer:
        """Run a call on its backend and check its result; convert every failure to a typed error."""
        try:
            answer = await self._executors[call.backend.kind].call(call)
            if is_large(answer.structured):
                await in_thread(self._check_result, call, answer)
            elif not answer.is_task:
                self._check_result(call, answer)
        except ToolError as error:
            error.backend = error.backend or label(call.backend)
            raise
        except ToolcribError:
            raise
        except Exception as error:  # executors may be user code, which can raise anything
            reason, backend = error_text(error, call.args), label(call.backend)
            raise ToolExecutionError(tool_id=call.tool_id, backend=backend, reason=reason) from error
        return answer

    def _check_result(self, call: Call, answer: Answer) -> None:
        try:
            check_value(self._validator.validate_output, call.tool, answer.structured, "validate_output")
        except ValidationError as error:
            raise OutputValidationError(
                error.problems,
                error.text,
                tool_id=call.tool_id,
                backend=label(call.backend),
                result=answer.structured if answer.mcp_result is None else answer.mcp_result,
            ) from error


class _KnownTools:
    """Tool source over a plain resolver: all its tools are known, so that none is waited for."""

    def __init__(self, resolver: Resolver) -> None:
        self.resolve, self.backends = resolver.resolve, resolver.backends

    def find(self, ref: str | ToolId) -> ResolvedTool:
        """Return the tool that a reference means."""
        tool = self.resolve(ref)
        return ResolvedTool(str(tool.id), tool, self.backends(tool.id))

    async def wait_for(self, ref: str | ToolId) -> None:
        """Return at once."""


def _report(
    finishers: Sequence[_Finish],
    state: _CallState,
    answer: Answer | None,
    error: BaseException | None,
    began: float,
) -> None:
    """Notify the observers of the end of a call, the last first, as contexts are left."""
    ended = perf_counter()
    outcome = Outcome(
        tool_id=state.tool_id,
        request=state.request,
        backend=state.backend,
        answer=answer if error is None else None,
        error=error,
        duration=ended - began,
        principal=state.context.principal,
        raw_args=state.args if state.context.read_kept is None else unmark_handles(state.args),
        is_allowed=state.is_allowed,
        rule=state.rule,
        trace=state.context.trace,
        marks=tuple((stage, at - began) for stage, at in state.marks),
    )
    for finish in reversed(finishers):
        try:
            finish(outcome)
        except Exception:  # noqa: BLE001 - observers may be user code
            _LOG.exception("the observer behind %r failed", finish)


def _not_ready(tool_id: str, limit: float) -> BackendUnavailableError:
    """Return the error for a deadline that expired while waiting for the tool's server."""
    reason = f"its server was not ready within {limit:g} s"
    return BackendUnavailableError(tool_id=tool_id, op="resolve", reason=reason, sent=False)


class _ProviderRoutes:
    """Executor of the provider backends: calls the provider that the backend names.

    The mapping is read with every call, so that providers can be added and removed.
    """

    def __init__(self, providers: Mapping[str, ProviderExecutor]) -> None:
        self._providers = providers

    def missing(self, backend: ToolBackend) -> str | None:
        """Return why a backend cannot run, if its provider is unknown; else None."""
        name = _provider_of(backend)
        if name in self._providers:
            return None
        return f"no provider is named {name!r}{did_you_mean(name, self._providers)}"

    async def call(self, call: Call) -> Answer:
        """Run a tool with its provider."""
        executor = self._providers.get(_provider_of(call.backend))
        if executor is None:
            raise NoBackendError(tool_id=call.tool_id, reason=self.missing(call.backend) or "")
        if call.streamed and not getattr(executor, "streams", True):
            raise StreamNotSupportedError(tool_id=call.tool_id)
        return await executor.call(call)


def _provider_of(backend: ToolBackend) -> str:
    return backend.provider_id if isinstance(backend, ProviderBackend) else backend.kind
