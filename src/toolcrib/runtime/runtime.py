"""Runs untrusted code that calls tools, within limits that the host enforces.

One run takes these steps, in `Runtime.execute` and below it:

1. `prepare` waits for the servers whose tools the code mentions, and `Surface` resolves its names.
2. `_open_sandbox` enters the sandbox on first use, and checks that it is allowed for the request's profile.
3. `_run_in` waits for a slot (`RunQueue`), type-checks the code against the stubs of its tools, and runs it.
4. In the sandbox each call of a tool goes through a `Bridge`, which keeps the record of all calls.
5. `Attempt` makes the result only from what the host saw: the records of the bridge and the output.

Everything happens within one cancel scope, `Attempt.deadline`. It is cancelled at the request's timeout, or
by the bridge when a limit is exceeded or the guest breaks a rule. So every error that leaves `execute` is the
same whether the sandbox noticed it or had to be interrupted, and has the result so far. Code that the default
engine does not support may move to another sandbox, but only before it has called a tool: tools must not run
twice.
"""

import json
from collections.abc import Awaitable, Callable, Hashable, Iterable
from contextlib import AsyncExitStack
from copy import copy
from dataclasses import dataclass
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
from toolcrib.runtime.guest_errors import TRY_PROCESS, GuestError
from toolcrib.runtime.protocols import Catalogue, Job, Sandbox
from toolcrib.runtime.registry import DEFAULT, UNSAFE, check_profile, make_sandbox
from toolcrib.runtime.request import BackendInfo, ExecuteRequest, ExecuteResult, LimitsEnforced, Output
from toolcrib.runtime.scheduler import RunQueue
from toolcrib.runtime.stubs import StubCache, render
from toolcrib.runtime.surface import EmptyCatalogue, Surface
from toolcrib.runtime.typecheck import Checker
from toolcrib.runtime.typecheck.diagnostics import Engine

Failure = CodeError | LimitExceededError | SandboxViolationError
"""The ways in which code can fail; each carries the result so far."""
_DEFAULT_CONCURRENCY = 16
"""Parallel runs in a sandbox without an attribute `concurrency`."""
_FALLBACK = "process"
_NOT_MOVED = f"; it is not moved to {_FALLBACK!r}, because tools have been called"
_ENFORCED_BY_HOST = dict.fromkeys(("timeout", "tool_calls", "chain_steps", "output"), True)
"""The limits that the host enforces for every sandbox."""
_NO_NAMES = Surface("", EmptyCatalogue())
Prepare = Callable[[str], Awaitable[None]]
"""Awaited with the code before its names are resolved, for example to wait for the tools that it mentions."""


@dataclass(frozen=True, slots=True)
class _OpenSandbox:
    """An entered sandbox, with its properties at that time."""

    sandbox: Sandbox
    info: BackendInfo
    queue: RunQueue


class Attempt:
    """One run of code, from the request to its result or its error."""

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
        self.notes: list[str] = []
        """Other events of the run, for the result."""
        self.opened: _OpenSandbox | None = None
        """The sandbox that was chosen last."""
        self.is_waiting = False
        """Whether it waits for a slot in that sandbox."""
        self.deadline = anyio.CancelScope(deadline=anyio.current_time() + request.timeout)
        self._gateway = gateway
        self._began = perf_counter()
        self.begin(_NO_NAMES)

    def begin(self, surface: Surface) -> None:
        """Reset calls and output, and set the names that the code has for tools."""
        limits = self.request.limits
        self.surface = surface
        self.bridge = Bridge(self._gateway, surface, limits, end=self.deadline.cancel, journal=self.journal)
        self._output = Output(limit=limits.output_bytes)

    async def run(self, sandbox: Sandbox) -> ExecuteResult:
        """Run the code in a sandbox and return the result."""
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
            value = await sandbox.run(job, self.bridge)
        except GuestError as error:  # from a plug-in whose guest did not catch it
            raise CodeError(str(error)) from error
        finally:
            self._output.close()  # a sandbox may still drain pipes, after the result was made
        if "__out" not in self.request.code:
            self.notes.append("the code left nothing in `__out`, so there is no value")
        if self.bridge.failure is not None:
            raise self.bridge.failure
        _check_value(value, self.request.limits.output_bytes)
        return self._result(value, code=self.request.code)

    def explain_cancellation(self) -> LimitExceededError | SandboxViolationError:
        """Return the error for a run whose deadline was cancelled."""
        failure = self.bridge.failure
        if isinstance(failure, LimitExceededError | SandboxViolationError):
            return failure
        if failure is not None:
            return SandboxViolationError(str(failure))
        return LimitExceededError("timeout", f"the code did not end within {self.request.timeout:g} s")

    def complete_error(self, error: Failure) -> Failure:
        """Return an error with the result so far; a failure of the bridge takes precedence over it."""
        failure = self.bridge.failure
        raised = failure if isinstance(failure, LimitExceededError | SandboxViolationError) else error
        if isinstance(raised, CodeError):
            raised.reason += self.surface.hint(raised.reason)
        raised.result = self._result(None)
        return raised

    def _result(self, value: Any, code: str = "") -> ExecuteResult:
        if self.opened is None:
            backend = BackendInfo(kind=self.request.backend or "none", readiness="stub")
            enforced = LimitsEnforced()
        else:
            backend = self.opened.info
            enforced = self.opened.sandbox.enforces(self.request.limits)
        return ExecuteResult.from_valid(
            value=value,
            stdout=self._output.text("stdout"),
            stderr=self._output.text("stderr"),
            tool_calls=self.bridge.records,
            duration=perf_counter() - self._began,
            backend=backend,
            limits_enforced=LimitsEnforced.from_valid(**dict(enforced) | _ENFORCED_BY_HOST),
            notes=tuple(self.notes),
            run_id=None if self.journal is None else self.journal.run_id,
            code=code,
        )


def _check_value(value: Any, limit: int) -> None:
    """Check that the value of a guest is JSON and not too large.

    Raises:
        SandboxViolationError: it is not JSON.
        LimitExceededError: it is too large.
    """
    try:
        measure(value)
        size = len(json.dumps(value, ensure_ascii=False).encode())
    except (ValidationError, ValueError) as error:
        raise SandboxViolationError(f"its value is not JSON: {error}") from error
    if size > limit:
        message = f"the value takes {size:,} bytes as JSON, where {limit:,} are allowed; return less"
        raise LimitExceededError("output_bytes", message)


async def _nothing_to_prepare(code: str) -> None:
    """Wait for nothing: the default of `prepare`."""


class Runtime:
    """Runs code in sandboxes, and lets it call the tools of a gateway.

    In the code each namespace of the catalogue is a name whose attributes are asynchronous functions:
    `await github.create_issue(title="...")`. There are also `search_tools`, `describe_tool`, `run_tool` and
    `run_chain`. Every call runs in the gateway, with policy, validation, deadline and audit. The value of the
    run is the value of `__out`.

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
            gateway: runs the tool calls.
            catalogue: the tools that code may name; without it code has only `run_tool` and the other
                functions.
            sandboxes: used instead of the built-in ones of the same kind.
            allow_unsafe: whether a request with `backend="unsafe"` and the profile `dev` runs in a process
                without isolation.
            prepare: awaited with the code before its names are resolved, for example until the tools that it
                mentions are listed; its time counts towards the deadline.
        """
        self._gateway = gateway
        self._catalogue: Catalogue = catalogue or EmptyCatalogue()
        self._given = {sandbox.kind: sandbox for sandbox in sandboxes}
        self._allow_unsafe = allow_unsafe
        self._prepare = prepare
        self._checker = Checker()
        self._stubs = StubCache()
        self._open: dict[str, _OpenSandbox] = {}
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

        `budget` is the maximum number of tokens in the text, as `toolcrib.model.tokens` estimates them; the
        text names the tools that were left out. Names are unique among these tools. In a catalogue with more
        tools, code may have another name for one: use `Crib.stubs`.

        Raises:
            ValidationError: one of them is not a tool.
        """
        return render(_read_tools(tools), budget=budget)

    async def execute(
        self,
        request: ExecuteRequest | str,
        *,
        caller: Hashable | None = None,
        journal: Journal | None = None,
    ) -> ExecuteResult:
        """Run code and return the value of `__out`, its output, and its tool calls.

        A string is code to run with the default settings. A sandbox takes a limited number of runs at once:
        callers take turns, and one with too many waiting runs is refused. A caller of None is the program
        itself. With a journal the run is durable: it continues where the journal ends.

        Raises:
            CodeError: the code is wrong; if the type check found the mistake, no tool was called.
            LimitExceededError: it exceeded a limit; `timeout` is one of them.
            SandboxViolationError: it tried to break the rules.
            RuntimeUnavailableError: the sandbox cannot run here, or does not meet this profile; or it is
                busy, with `retry_after`, and nothing was run. The first three have the result so far in
                `result`.
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
            raise attempt.complete_error(error) from error.__cause__
        except ToolcribError as error:
            # Such an error looks as if nothing had run, and callers may retry. After a call of a tool that is
            # wrong.
            if attempt.bridge.has_run:
                raise attempt.complete_error(
                    SandboxViolationError(f"its sandbox was lost: {error}")
                ) from error
            raise
        except Exception as error:  # a sandbox, perhaps a plug-in, has a bug: keep the records of its calls
            failure = SandboxViolationError(f"its sandbox failed with {type(error).__name__}")
            raise attempt.complete_error(failure) from error
        if attempt.is_waiting and attempt.opened is not None:
            raise attempt.opened.queue.busy_error(f"its turn did not come within {request.timeout:g} s")
        raise attempt.complete_error(attempt.explain_cancellation())

    async def _run(self, request: ExecuteRequest, attempt: Attempt) -> ExecuteResult:
        """Run code in the requested sandbox, or else in the fallback if the request allows it."""
        kind = request.backend or DEFAULT
        opened = await self._open_sandbox(kind, request)
        is_durable = attempt.journal is not None
        if is_durable and not getattr(opened.sandbox, "durable", False):
            remedy = f"it cannot suspend them; {DEFAULT!r} can, and is used if no backend is named"
            raise RuntimeUnavailableError(kind, remedy, where="for durable runs")
        try:
            return await self._run_in(opened, attempt)
        except CodeError as error:
            if not (error.unsupported and request.language_fallback) or kind == _FALLBACK or is_durable:
                raise
            if attempt.bridge.has_run:  # running the code again would call the same tools again
                error.reason = error.reason.replace(TRY_PROCESS, _NOT_MOVED)
                raise
            attempt.notes.append(f"moved from {kind!r} to {_FALLBACK!r}: {error}".replace(TRY_PROCESS, ""))
            attempt.begin(attempt.surface)
        return await self._run_in(await self._open_sandbox(_FALLBACK, request), attempt)

    async def _run_in(self, opened: _OpenSandbox, attempt: Attempt) -> ExecuteResult:
        """Wait for a slot in a sandbox, check the code, and run it."""
        attempt.opened, attempt.is_waiting = opened, True
        async with opened.queue.turn(attempt.caller):
            attempt.is_waiting = False
            surface, journal = attempt.surface, attempt.journal
            is_resumed = journal is not None and journal.state is not None
            # Skipped for code without calls, whose mistakes show when it runs and do no harm before. Skipped
            # for a resumed run, which was checked when it began, perhaps against other stubs.
            if surface.can_call and not is_resumed:
                stubs = await self._stubs.render(surface.typed, surface.members) + surface.untyped_stubs
                engine: Engine = "monty" if opened.sandbox.kind == "monty" else "python"
                note = await self._checker.check(
                    attempt.request.code, stubs, engine=engine, members=surface.members
                )
                if note:
                    attempt.notes.append(note)
            return await attempt.run(opened.sandbox)

    async def _open_sandbox(self, kind: str, request: ExecuteRequest) -> _OpenSandbox:
        """Return the entered sandbox of a kind, if it may be used for this request.

        Raises:
            RuntimeUnavailableError: it cannot run here, does not serve the profile, or is not allowed.
        """
        if kind == UNSAFE and not (self._allow_unsafe and request.profile == "dev"):
            needed = (
                "profile='dev'" if self._allow_unsafe else "`allow_unsafe`, in the configuration under `code`"
            )
            asked = f"it runs code without a sandbox, which must be enabled twice; there is no {needed}"
            raise RuntimeUnavailableError(kind, asked)
        async with self._opening:
            if kind not in self._open:
                made = self._given.get(kind) or make_sandbox(kind)
                info = await to_thread.run_sync(made.info)  # starts a program to test the isolation
                check_profile(info, request.profile)
                sandbox = await self._stack.enter_async_context(made)
                queue = RunQueue(made.kind, getattr(made, "concurrency", _DEFAULT_CONCURRENCY))
                self._open[kind] = _OpenSandbox(sandbox, info, queue)
        check_profile(self._open[kind].info, request.profile)
        return self._open[kind]


def _read_tools(tools: Iterable[Any]) -> list[Tool]:
    found = [tool.tool if isinstance(tool, LocalTool) else tool for tool in tools]
    problems = [
        Problem(f"/{place}", "type", f"must be a Tool, not {type(tool).__name__}; Crib.stubs takes ids")
        for place, tool in enumerate(found)
        if not isinstance(tool, Tool)
    ]
    if problems:
        raise ValidationError(tuple(problems[:MAX_PROBLEMS]))
    return found
