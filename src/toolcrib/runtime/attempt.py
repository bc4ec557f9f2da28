"""One run of code: its deadline, its bridge, its output, and what is told of it in the end."""

import json
from functools import partial
from time import perf_counter
from typing import Any

import anyio
from anyio import to_thread

from toolcrib.errors import (
    CodeError,
    LimitExceededError,
    SandboxViolationError,
    ValidationError,
)
from toolcrib.model import ToolGateway
from toolcrib.model.plain import measure
from toolcrib.runtime.bridge import Bridge
from toolcrib.runtime.output import Output
from toolcrib.runtime.protocols import Job, Sandbox
from toolcrib.runtime.records import BackendInfo, ExecuteRequest, ExecuteResult, LimitsEnforced
from toolcrib.runtime.stubs import render
from toolcrib.runtime.surface import Nothing, Surface
from toolcrib.runtime.telling import ToldError

__all__ = ["Attempt"]

_FEW = 8
"""How many tools are written down between two turns of the event loop."""
Failure = CodeError | LimitExceededError | SandboxViolationError
"""What can become of code."""


class Attempt:
    """One run of code.

    Everything happens within `deadline`, which ends at the caller's deadline and whenever the bridge says so.
    """

    def __init__(self, request: ExecuteRequest, gateway: ToolGateway) -> None:
        self.request = request
        self._gateway = gateway
        self._began = perf_counter()
        self._notes: tuple[str, ...] = ()
        self._sandbox: Sandbox | None = None
        self.deadline = anyio.CancelScope(deadline=anyio.current_time() + request.timeout)
        self.begin(Surface("", Nothing()))

    def begin(self, surface: Surface) -> None:
        """Begin with the names that the code has for tools, and with nothing called and printed."""
        self.surface = surface
        self._bridge = Bridge(self._gateway, self.surface, self.request.limits, end=self.deadline.cancel)
        self._output = Output(limit=self.request.limits.output_bytes)

    def move(self, note: str) -> None:
        """Begin again in another sandbox, and note why."""
        self.note(note)
        self.begin(self.surface)

    def note(self, note: str | None) -> None:
        """Note what else happened on the way, if anything did."""
        self._notes = (*self._notes, note) if note else self._notes

    @property
    def has_run(self) -> bool:
        """Whether any tool was called."""
        return self._bridge.has_run

    def enter(self, sandbox: Sandbox) -> None:
        """Note where the code runs."""
        self._sandbox = sandbox

    async def stubs(self) -> str:
        """Return the signatures of the tools that the code mentions."""
        surface = self.surface
        typed = surface.typed
        if len(typed) > _FEW:
            return await to_thread.run_sync(partial(render, typed, names=surface.closed)) + surface.anything
        return render(typed, names=surface.closed) + surface.anything

    async def run(self) -> ExecuteResult:
        """Run the code and return what came of it."""
        assert self._sandbox is not None  # noqa: S101 - whoever runs has entered
        job = Job(
            code=self.request.code,
            limits=self.request.limits,
            timeout=max(0.0, self.deadline.deadline - anyio.current_time()),
            profile=self.request.profile,
            names=self.surface.names,
            functions=self.surface.functions,
            output=self._output,
        )
        try:
            value = await self._sandbox.run(job, self._bridge)
        except ToldError as error:  # a plug-in that lets through what its guest did not catch
            raise CodeError(str(error)) from error
        if "__out" not in self.request.code:
            self.note("the code left nothing in `__out`, so there is no value")
        if self._bridge.failure is not None:
            raise self._bridge.failure
        return self._result(self._checked(value))

    def why_ended(self) -> LimitExceededError | SandboxViolationError:
        """Return why the run was cancelled."""
        failure = self._bridge.failure
        if isinstance(failure, LimitExceededError | SandboxViolationError):
            return failure
        return LimitExceededError("timeout", f"the code did not end within {self.request.timeout:g} s")

    def told(self, error: Failure) -> Failure:
        """Return an error with what there was until then; what the bridge says comes first."""
        failure = self._bridge.failure
        told = failure if isinstance(failure, LimitExceededError | SandboxViolationError) else error
        if isinstance(told, CodeError):
            told.reason += self.surface.advice(told.reason)
        told.result = self._result(None)
        return told

    def _checked(self, value: Any) -> Any:
        """Return what a guest gave, which may be anything, if it is JSON and not too large."""
        limit = self.request.limits.output_bytes
        try:
            measure(value)
            size = len(json.dumps(value, ensure_ascii=False).encode())
        except (ValidationError, ValueError) as error:
            raise SandboxViolationError(f"its value is not JSON: {error}") from error
        if size > limit:
            said = f"the value takes {size:,} bytes as JSON, where {limit:,} are allowed; give back less"
            raise LimitExceededError("output_bytes", said)
        return value

    def _result(self, value: Any) -> ExecuteResult:
        sandbox = self._sandbox
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
        )
