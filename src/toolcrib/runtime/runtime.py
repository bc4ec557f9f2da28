"""Runs untrusted code that calls tools, within limits that the host keeps."""

import json
from collections.abc import Awaitable, Callable, Hashable, Iterable
from contextlib import AsyncExitStack
from copy import copy
from functools import partial
from time import perf_counter
from types import TracebackType
from typing import Any, Self

import anyio
from anyio import to_thread

from toolcrib.errors import (
    CodeError,
    LimitExceededError,
    Problem,
    RuntimeUnavailableError,
    SandboxViolationError,
    ToolcribError,
    ValidationError,
)
from toolcrib.errors.base import MAX_PROBLEMS
from toolcrib.model import LocalTool, Tool, ToolGateway
from toolcrib.model.plain import measure
from toolcrib.model.protocols import Journal
from toolcrib.runtime.bridge import Bridge
from toolcrib.runtime.guest_errors import ELSEWHERE, GuestError
from toolcrib.runtime.protocols import Catalogue, Job, Sandbox
from toolcrib.runtime.records import BackendInfo, ExecuteRequest, ExecuteResult, LimitsEnforced, Output
from toolcrib.runtime.registry import DEFAULT, UNSAFE, check_profile, make_sandbox
from toolcrib.runtime.scheduler import RunQueue
from toolcrib.runtime.stubs import render
from toolcrib.runtime.surface import EmptyCatalogue, Surface
from toolcrib.runtime.typecheck import Checker
from toolcrib.runtime.typecheck.context import Engine

_FEW = 8
"""How many tools are written down between two turns of the event loop."""
Failure = CodeError | LimitExceededError | SandboxViolationError
"""What can become of code."""
_CONCURRENCY = 16
"""How many runs go on at once in a sandbox that does not say how many it takes."""
_FALLBACK = "process"
_STAYS = f"; it is not moved to {_FALLBACK!r}, because tools have been called"
Prepare = Callable[[str], Awaitable[None]]
"""Awaited with the code before it is looked at, such as for tools that it mentions to be there."""


class Attempt:
    """One run of code.

    Everything happens within `deadline`, which ends at the caller's deadline or when the bridge ends the run.
    """

    def __init__(
        self,
        request: ExecuteRequest,
        gateway: ToolGateway,
        caller: Hashable | None,
        journal: Journal | None = None,
    ) -> None:
        self.request = request
        self.journal = journal
        self.caller = caller
        self.queue: RunQueue | None = None
        """Where it waits for its turn, while it does."""
        self._gateway = gateway
        self._began = perf_counter()
        self._notes: tuple[str, ...] = ()
        self.sandbox: Sandbox | None = None
        self.deadline = anyio.CancelScope(deadline=anyio.current_time() + request.timeout)
        self.begin(Surface("", EmptyCatalogue()))

    def begin(self, surface: Surface) -> None:
        """Begin with the names that the code has for tools, and with nothing called and printed."""
        self.surface = surface
        limits, end = self.request.limits, self.deadline.cancel
        self._bridge = Bridge(self._gateway, self.surface, limits, end=end, journal=self.journal)
        self._output = Output(limit=self.request.limits.output_bytes)

    def note(self, note: str | None) -> None:
        """Note what else happened on the way, if anything did."""
        self._notes = (*self._notes, note) if note else self._notes

    @property
    def has_run(self) -> bool:
        """Whether any tool was called."""
        return self._bridge.has_run

    async def stubs(self) -> str:
        """Return the signatures of the tools that the code mentions."""
        surface = self.surface
        typed = surface.typed
        if len(typed) > _FEW:
            return await to_thread.run_sync(partial(render, typed, names=surface.closed)) + surface.anything
        return render(typed, names=surface.closed) + surface.anything

    async def run(self) -> ExecuteResult:
        """Run the code and return what came of it."""
        assert self.sandbox is not None  # noqa: S101 - whoever runs has entered
        job = Job(
            code=self.request.code,
            limits=self.request.limits,
            timeout=max(0.0, self.deadline.deadline - anyio.current_time()),
            profile=self.request.profile,
            names=self.surface.names,
            functions=self.surface.functions,
            output=self._output,
            journal=self.journal,
        )
        try:
            value = await self.sandbox.run(job, self._bridge)
        except GuestError as error:  # a plug-in that lets through what its guest did not catch
            raise CodeError(str(error)) from error
        if "__out" not in self.request.code:
            self.note("the code left nothing in `__out`, so there is no value")
        if self._bridge.failure is not None:
            raise self._bridge.failure
        return self._result(self._checked(value), code=self.request.code)

    def why_ended(self) -> LimitExceededError | SandboxViolationError:
        """Return why the run was cancelled."""
        failure = self._bridge.failure
        if isinstance(failure, LimitExceededError | SandboxViolationError):
            return failure
        if failure is not None:
            return SandboxViolationError(str(failure))
        return LimitExceededError("timeout", f"the code did not end within {self.request.timeout:g} s")

    def failed(self, error: Failure) -> Failure:
        """Return an error with what there was until then; a failure of the bridge comes first."""
        failure = self._bridge.failure
        raised = failure if isinstance(failure, LimitExceededError | SandboxViolationError) else error
        if isinstance(raised, CodeError):
            raised.reason += self.surface.advice(raised.reason)
        raised.result = self._result(None)
        return raised

    def _checked(self, value: Any) -> Any:
        """Return what a guest gave, which may be anything, if it is JSON and not too large."""
        limit = self.request.limits.output_bytes
        try:
            measure(value)
            size = len(json.dumps(value, ensure_ascii=False).encode())
        except (ValidationError, ValueError) as error:
            raise SandboxViolationError(f"its value is not JSON: {error}") from error
        if size > limit:
            message = f"the value takes {size:,} bytes as JSON, where {limit:,} are allowed; give back less"
            raise LimitExceededError("output_bytes", message)
        return value

    def _result(self, value: Any, code: str = "") -> ExecuteResult:
        sandbox = self.sandbox
        nowhere = BackendInfo(kind=self.request.backend or "none", readiness="stub")
        enforced = LimitsEnforced() if sandbox is None else sandbox.enforces(self.request.limits)
        ours = dict.fromkeys(("timeout", "tool_calls", "chain_steps", "output"), True)
        return ExecuteResult.of_checked(
            value=value,
            stdout=self._output.text("stdout"),
            stderr=self._output.text("stderr"),
            tool_calls=self._bridge.records,
            duration=perf_counter() - self._began,
            backend=nowhere if sandbox is None else sandbox.info(),
            limits_enforced=enforced.replace(**ours),
            notes=self._notes,
            run_id=None if self.journal is None else self.journal.run_id,
            code=code,
        )


async def _nothing_to_prepare(code: str) -> None:
    """Let code be looked at as things are."""


class Runtime:
    """Runs code in sandboxes, and lets it call the tools of a gateway.

    In the code each namespace of the catalogue is a name whose attributes are asynchronous functions:
    `await github.create_issue(title="...")`. There are also `search_tools`, `describe_tool`, `run_tool` and
    `run_chain`. Every call takes the gateway's way: policy, validation, deadline, audit. What the code leaves
    in `__out` is the value.

    >>> from toolcrib import Crib
    >>> async def main() -> object:
    ...     async with Runtime(Crib()) as runtime:
    ...         return (await runtime.execute(ExecuteRequest(code="__out = 6 * 7"))).value
    >>> anyio.run(main)
    42

    Sandboxes are started when they are first needed, kept warm, and ended with the runtime. It may be used
    from many tasks of one event loop.
    """

    def __init__(
        self,
        gateway: ToolGateway,
        catalogue: Catalogue | None = None,
        *,
        sandboxes: Iterable[Sandbox] = (),
        allow_unsafe: bool = False,
        prepare: Prepare = _nothing_to_prepare,
    ) -> None:
        """Make a runtime; nothing is started.

        Args:
            gateway: what the code reaches tools through.
            catalogue: which tools it may name; without one it has `run_tool` and its like alone.
            sandboxes: these stand in for those of their kind.
            allow_unsafe: whether code that asks for `backend="unsafe"` in the profile `dev` gets a process
                without walls.
            prepare: is awaited with the code before it is looked at, such as for tools that it mentions to be
                listed; what it takes counts towards the deadline.
        """
        self._gateway = gateway
        self._catalogue: Catalogue = catalogue or EmptyCatalogue()
        self._given = {sandbox.kind: sandbox for sandbox in sandboxes}
        self._allow_unsafe = allow_unsafe
        self._prepare = prepare
        self._checker = Checker()
        self._open: dict[str, Sandbox] = {}
        self._queues: dict[str, RunQueue] = {}
        self._opening = anyio.Lock()
        self._stack = AsyncExitStack()

    def serving(
        self,
        gateway: ToolGateway,
        catalogue: Catalogue | None = None,
        *,
        allow_unsafe: bool = False,
        prepare: Prepare = _nothing_to_prepare,
    ) -> "Runtime":
        """Return a runtime for other tools in the same sandboxes; it is open as long as this one is."""
        other = copy(self)
        other._gateway, other._catalogue = gateway, catalogue or EmptyCatalogue()  # noqa: SLF001 - of its own kind
        other._allow_unsafe, other._prepare = allow_unsafe, prepare  # noqa: SLF001
        return other

    async def __aenter__(self) -> Self:
        await self._stack.__aenter__()
        await self._stack.enter_async_context(self._checker)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    @staticmethod
    def stubs(tools: Iterable[Tool | LocalTool[..., Any]], *, budget: int | None = None) -> str:
        """Return tools as Python signatures, as code in a sandbox sees them.

        `budget` is how many tokens, as `toolcrib.model.tokens` estimates them, the text may take; what had to
        be left out is named in it. The names are those that the tools have among each other: where there are
        more in a catalogue, `Crib.stubs` knows under which name code reaches each.

        Raises:
            ValidationError: something among them is no tool.
        """
        return render(_records(tools), budget=budget)

    async def execute(
        self,
        request: ExecuteRequest | str,
        *,
        caller: Hashable | None = None,
        journal: Journal | None = None,
    ) -> ExecuteResult:
        """Run code and return what it left in `__out`, what it printed, and which tools it called.

        A text is code that is run as everything else is by default. Where more is to run than a sandbox takes
        at once, callers take turns, and one that has too much waiting is refused; None is the program itself.
        With a journal the run is durable: it goes on from where the journal ends.

        Raises:
            CodeError: the code is wrong; where it was found to be before it ran, no tool was called.
            LimitExceededError: it used more than it was given; `timeout` is one of the limits.
            SandboxViolationError: it tried to break the rules.
            RuntimeUnavailableError: the sandbox cannot run here, or is not for this profile; or it is busy,
                with `retry_after`, and nothing was run.
                The first three have in `result` what there was until then.
        """
        if isinstance(request, str):
            request = ExecuteRequest(code=request)
        attempt = Attempt(request, self._gateway, caller, journal)
        try:
            with attempt.deadline:
                await self._prepare(request.code)
                attempt.begin(Surface(request.code, self._catalogue))
                return await self._run(request, attempt)
        except (CodeError, LimitExceededError, SandboxViolationError) as error:
            raise attempt.failed(error) from error.__cause__
        except ToolcribError as error:
            if attempt.has_run:  # else it would seem that nothing was done
                raise attempt.failed(SandboxViolationError(f"its sandbox was lost: {error}")) from error
            raise
        except Exception as error:  # a sandbox, which may be a plug-in's, must not lose what there was
            failure = SandboxViolationError(f"its sandbox failed with {type(error).__name__}")
            raise attempt.failed(failure) from error
        if attempt.queue is not None:
            raise attempt.queue.busy(f"its turn did not come within {request.timeout:g} s")
        raise attempt.failed(attempt.why_ended())

    async def _run(self, request: ExecuteRequest, attempt: Attempt) -> ExecuteResult:
        kind = request.backend or DEFAULT
        sandbox = await self._sandbox(kind, request)
        is_durable = attempt.journal is not None
        if is_durable and not getattr(sandbox, "durable", False):
            remedy = f"it cannot suspend them; {DEFAULT!r} can, which is used where no backend is named"
            raise RuntimeUnavailableError(kind, remedy, where="for durable runs")
        try:
            return await self._run_in(sandbox, attempt)
        except CodeError as error:
            if not (error.unsupported and request.language_fallback) or kind == _FALLBACK or is_durable:
                raise
            if attempt.has_run:
                error.reason = error.reason.replace(ELSEWHERE, _STAYS)
                raise
            attempt.note(f"moved from {kind!r} to {_FALLBACK!r}: {error}".replace(ELSEWHERE, ""))
            attempt.begin(attempt.surface)
        return await self._run_in(await self._sandbox(_FALLBACK, request), attempt)

    async def _run_in(self, sandbox: Sandbox, attempt: Attempt) -> ExecuteResult:
        attempt.sandbox = sandbox
        attempt.queue = self._queues[sandbox.kind]
        async with attempt.queue.turn(attempt.caller):
            attempt.queue = None
            return await self._checked_and_run(sandbox, attempt)

    async def _checked_and_run(self, sandbox: Sandbox, attempt: Attempt) -> ExecuteResult:
        resumed = attempt.journal is not None and attempt.journal.state is not None
        if (
            attempt.surface.can_call and not resumed
        ):  # else running the code shows everything that a check would
            stubs, members = await attempt.stubs(), attempt.surface.members
            engine: Engine = "monty" if sandbox.kind == "monty" else "python"
            code = attempt.request.code
            attempt.note(await self._checker.check(code, stubs, engine=engine, members=members))
        return await attempt.run()

    async def _sandbox(self, kind: str, request: ExecuteRequest) -> Sandbox:
        """Return the sandbox of a kind, entered, if it may be used for this request."""
        if kind == UNSAFE and not (self._allow_unsafe and request.profile == "dev"):
            needed = (
                "profile='dev'" if self._allow_unsafe else "`allow_unsafe`, in the configuration under `code`"
            )
            asked = f"it runs code without any wall, which has to be asked for twice; there is no {needed}"
            raise RuntimeUnavailableError(kind, asked)
        async with self._opening:
            if kind not in self._open:
                made = self._given.get(kind) or make_sandbox(kind)
                info = await to_thread.run_sync(made.info)  # the first look at a wall may take a moment
                check_profile(info, request.profile)
                self._open[kind] = await self._stack.enter_async_context(made)
                places = getattr(made, "concurrency", _CONCURRENCY)
                self._queues[made.kind] = RunQueue(made.kind, places)
        sandbox = self._open[kind]
        check_profile(sandbox.info(), request.profile)
        return sandbox


def _records(tools: Iterable[Any]) -> list[Tool]:
    found = [tool.tool if isinstance(tool, LocalTool) else tool for tool in tools]
    problems = [
        Problem(f"/{place}", "type", f"must be a Tool, not {type(tool).__name__}; Crib.stubs takes ids")
        for place, tool in enumerate(found)
        if not isinstance(tool, Tool)
    ]
    if problems:
        raise ValidationError(tuple(problems[:MAX_PROBLEMS]))
    return found
