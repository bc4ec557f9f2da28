"""Host side of the calls of guest code: each is counted, limited, recorded and run like any other call.

The guest is not trusted. The records hold the calls, arguments and outcomes that the host saw; nothing that a
guest sends, or fails to send, changes them.

A call passes these steps: `call` resolves its path and binds the arguments; `_run_tool` runs one
tool and checks that the guest has room for the result; `_make_call`, which the steps of a chain share, counts
the call before it begins, waits for a turn, makes it and records how it ended. A guest may catch every
failure of a tool, as a `GuestError`. A limit or a broken rule ends the run instead: `_fail` sets `failure`
and cancels the run, so that code cannot catch it and go on.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import signature
from time import perf_counter
from typing import Any, Protocol

import anyio

from toolcrib.concurrency.background import abandon_after
from toolcrib.errors import (
    LimitExceededError,
    SandboxViolationError,
    SnapshotError,
    ToolcribError,
    ToolError,
    explain,
)
from toolcrib.execution.chains import Around, ChainLimits, RunTool, run_chain
from toolcrib.execution.chains.parse import invalid_chain_error, read_chain
from toolcrib.model import ToolCallRecord, ToolGateway
from toolcrib.model.findings import ResultFinding
from toolcrib.model.plain import measure
from toolcrib.model.protocols import Journal
from toolcrib.redaction import error_text
from toolcrib.runtime.call_values import (
    VALUE_BYTES,
    bind_arguments,
    check_room,
    list_found_tools,
    to_plain,
)
from toolcrib.runtime.guest_errors import GuestError, as_guest_error
from toolcrib.runtime.request import Limits
from toolcrib.runtime.stubs.guest import FUNCTIONS

_MAX_PARALLEL_CALLS = 64
_ABANDON_SECONDS = 1.0
"""Time that a tool has to stop after the calling code has ended, before it is abandoned."""
_MAX_LOOKUPS = 200
"""Searches, descriptions and refused calls of one run. They run no tool, so `max_tool_calls` does not count
them, but a loop of them would keep the host busy."""
_NOT_BEGUN = "it had not begun when the code ended"
_NOT_ENDED = "it had not ended when the code did"
_PARAMETERS: dict[str, tuple[str, ...]] = {
    "search_tools": ("query", "limit"),
    "describe_tool": ("tool_id", "level"),
    "run_tool": ("tool_id", "args"),
    "run_chain": ("steps",),
}
_TYPES: dict[str, tuple[type, str]] = {
    "query": (str, "a string"),
    "limit": (int, "an integer"),
    "tool_id": (str, "a string"),
    "level": (str, "a string"),
    "args": (dict, "an object"),
    "steps": (list, "an array"),
}


class GuestNames(Protocol):
    """Resolves the names of tools in the code."""

    def resolve(self, path: str) -> str:
        """Return the reference of the tool called `namespace.name` or `name` in the code.

        Raises:
            GuestError: no tool has that name.
        """
        ...

    def parameters(self, path: str) -> Sequence[str]:
        """Return the names of a tool's arguments, in the order of its positional arguments."""
        ...


@dataclass(slots=True)
class _Call:
    """One call of a tool, recorded from the moment of its request."""

    tool_id: str
    args: dict[str, Any]
    duration: float = 0.0
    error: str | None = _NOT_BEGUN
    error_op: str | None = None
    backend_kind: str | None = None
    findings: tuple[ResultFinding, ...] = ()

    def succeed(self, result: Any, duration: float) -> None:
        """Record success, with the version of the tool that ran and its backend."""
        self.duration, self.error = duration, None
        tool = getattr(result, "tool", None)
        if tool is not None:
            self.tool_id = str(tool.id)
        self.backend_kind = getattr(getattr(result, "backend", None), "kind", None)
        self.findings = getattr(result, "findings", ())

    def fail(self, error: BaseException, duration: float) -> None:
        """Record a failure or a cancellation."""
        self.duration, self.error = duration, "it was cancelled"
        if isinstance(error, Exception):
            self.error = explain(error)["message"] if isinstance(error, ToolcribError) else error_text(error)
            self.error_op = error.op if isinstance(error, ToolError) else None
            self.backend_kind = (getattr(error, "backend", None) or "").partition(":")[0] or None
            self.findings = getattr(error, "findings", ())


class Bridge:
    """Makes the calls of one run for its guest.

    Sandboxes use `call`. A failure that the guest may handle is raised as a `GuestError`. If the run must
    end, `failure` is set, `end` is called, and the call does not return.
    """

    def __init__(
        self,
        gateway: ToolGateway,
        names: GuestNames,
        limits: Limits,
        *,
        end: Callable[[], None],
        journal: Journal | None = None,
    ) -> None:
        self._gateway = gateway
        self._journal = journal
        self._names = names
        self._limits = limits
        self._end = end
        self._calls: list[_Call] = []
        self._room = limits.memory_bytes
        """Bytes left for the arguments of calls, which the host keeps until the run ends."""
        self._lookups = 0
        self._turns = anyio.CapacityLimiter(_MAX_PARALLEL_CALLS)
        self.failure: ToolcribError | None = None
        """The reason why the run had to end; None otherwise."""

    @property
    def records(self) -> tuple[ToolCallRecord, ...]:
        """All tool calls so far, in the order they began."""
        return tuple(
            ToolCallRecord.from_valid(
                tool_id=call.tool_id,
                args=call.args,
                duration=call.duration,
                error=call.error,
                error_op=call.error_op,
                backend_kind=call.backend_kind,
                findings=call.findings,
            )
            for call in self._calls
        )

    @property
    def has_run(self) -> bool:
        """Whether any tool was called."""
        return bool(self._calls)

    def violation(self, reason: str) -> SandboxViolationError:
        """End the run because the guest broke the rules, and return the error."""
        failure = SandboxViolationError(reason)
        self._fail(failure)
        return failure

    def restore(self, keys: Collection[str]) -> None:
        """Record calls that were made before a durable run was suspended, with their outcomes."""
        for call in () if self._journal is None else self._journal.answered_calls():
            # the key of a step in a chain is that of the chain, a slash, and the step
            if call.key.partition("/")[0] in keys:
                entry = self._count_call(call.tool_id, call.args)
                if call.error is None:
                    entry.succeed(call.result, call.duration)
                else:
                    entry.fail(call.error, call.duration)

    async def call(self, path: str, args: Sequence[Any], kwargs: Mapping[str, Any], key: str = "") -> Any:
        """Make a call for the guest and return its result as JSON; `key` identifies the call in a journal.

        Raises:
            GuestError: the exception to raise in the guest.
            LimitExceededError: the guest has used up its calls; the run is ended.
            SandboxViolationError: the run has ended already.
        """
        if self.failure is not None:
            raise SandboxViolationError("it continued after its end")
        given: dict[str, Any] = {}
        try:
            if path in FUNCTIONS:
                given = bind_arguments(path, args, kwargs, _PARAMETERS[path])
                return await self._call_function(path, given, key)
            reference = self._names.resolve(path)
            # only positional arguments need the order of parameters, which is computed from the schema
            given = bind_arguments(path, args, kwargs, self._names.parameters(path) if args else ())
            return await self._run_tool(reference, given, key)
        except GuestError:
            self._count_lookup()
            raise
        except (LimitExceededError, SnapshotError) as error:
            self._fail(error)
            raise
        except Exception as error:  # a tool has failed, which the code may handle
            if self.failure is not None:
                raise self.failure from error
            raise as_guest_error(error, given) from error

    def _count_lookup(self) -> None:
        """Count a request that runs no tool.

        Raises:
            LimitExceededError: there were too many; the run is ended.
        """
        self._lookups += 1
        if self._lookups > _MAX_LOOKUPS:
            message = f"more than {_MAX_LOOKUPS} searches, descriptions, and calls that could not be made"
            failure = LimitExceededError("lookups", message)
            self._fail(failure)
            raise failure

    async def _call_function(self, path: str, options: dict[str, Any], key: str) -> Any:
        """Call one of the functions that every guest has."""
        _check_options(path, options)
        if path == "run_tool":
            return await self._run_tool(options["tool_id"], options.get("args") or {}, key)
        if path == "run_chain":
            return await self._run_chain(options["steps"], key)
        self._count_lookup()
        async with self._turns:
            if path == "search_tools":
                page = await self._gateway.search(options["query"], limit=options.get("limit", 10))
                return check_room(list_found_tools(page), self._limits)
            described = await self._gateway.describe(options["tool_id"], options.get("level", "schema"))
            return check_room(to_plain(described), self._limits)

    async def _run_tool(self, reference: str, args: dict[str, Any], key: str) -> Any:
        """Run a tool and return its result as JSON that the guest has room for."""
        result = await self._make_call(reference, args, partial(self._gateway.run, reference, args), key)
        return check_room(to_plain(getattr(result, "structured", result)), self._limits)

    async def _make_call(
        self,
        reference: str,
        args: dict[str, Any],
        make: Callable[[], Awaitable[Any]],
        key: str,
        within: float | None = None,
    ) -> Any:
        """Make a call, counted before it begins and recorded however it ends."""
        try:
            call = self._count_call(reference, args)
        except LimitExceededError as error:  # here too, because a chain with `on_error` would swallow it
            self._fail(error)
            raise
        async with self._turns:
            call.error = _NOT_ENDED
            started = perf_counter()
            try:
                if self._journal is None:
                    result = await abandon_after(_ABANDON_SECONDS, make)
                else:
                    abandon = partial(abandon_after, _ABANDON_SECONDS, make)
                    result = await self._journal.call(key, reference, args, abandon, within)
            except BaseException as error:
                call.fail(error, perf_counter() - started)
                raise
            call.succeed(result, perf_counter() - started)
        return result

    def _count_call(self, tool_id: str, args: dict[str, Any]) -> _Call:
        """Count a call before it begins; the count is final, even if the call fails.

        Raises:
            LimitExceededError: there are no more calls, or the arguments of all calls together are larger
                than the memory of the guest.
        """
        most = self._limits.max_tool_calls
        if len(self._calls) >= most:
            raise LimitExceededError("max_tool_calls", f"the code called tools more than {most} times")
        nodes, _, chars, _ = measure(args, max_depth=256)
        self._room -= chars + nodes * VALUE_BYTES
        if self._room < 0:
            held = f"{self._limits.memory_bytes >> 20:,} MB"
            raise LimitExceededError("memory_bytes", f"the arguments of its calls hold more than {held}")
        self._calls.append(_Call(tool_id, args))
        return self._calls[-1]

    async def _run_chain(self, steps: list[Any], key: str) -> Any:
        size, before = _count_steps(steps), len(self._calls)
        if size > self._limits.max_chain_steps:
            message = f"a chain of {size} steps, where {self._limits.max_chain_steps} are allowed"
            raise LimitExceededError("max_chain_steps", message)
        left = self._limits.max_tool_calls - before
        # One call more than is left: `_count_call` then fails it, and ends the run with the guest's own
        # limit.
        limits = ChainLimits(max_steps=self._limits.max_chain_steps, max_calls=left + 1)
        try:
            result = await _run_recorded(self._gateway, steps, partial(self._record_steps, key), limits)
        finally:
            if len(self._calls) == before:
                self._count_lookup()
        return check_room(to_plain(result), self._limits)

    def _record_steps(self, key: str, run: RunTool) -> RunTool:
        """Return a function that runs a step of a chain as a counted and recorded call."""

        async def run_step(tool_id: str, args: dict[str, Any], within: float | None, step: str) -> Any:
            make = partial(run, tool_id, args, within, step)
            return await self._make_call(tool_id, args, make, f"{key}/{step}", within)

        return run_step

    def _fail(self, failure: ToolcribError) -> None:
        """End the run for this reason, unless it is ending already."""
        if self.failure is None:
            self.failure = failure
            self._end()


def _check_options(path: str, options: dict[str, Any]) -> None:
    """Check the arguments of one of the functions that every guest has.

    Raises:
        GuestError: one is unknown, missing or of the wrong type.
    """
    known = _PARAMETERS[path]
    if unknown := sorted(options.keys() - set(known)):
        raise GuestError("TypeError", f"{path} has no argument {unknown[0]!r}; it takes {', '.join(known)}")
    if known[0] not in options:
        raise GuestError("TypeError", f"{path} needs {known[0]!r}")
    for name, value in options.items():
        kind, text = _TYPES[name]
        if not isinstance(value, kind) and not (name == "args" and value is None):
            raise GuestError("TypeError", f"{path}: {name!r} must be {text}")


def _count_steps(steps: list[Any], depth: int = 0) -> int:
    """Return how many steps a chain has, those in groups included.

    >>> _count_steps([{"tool_id": "a"}, {"parallel": [{"tool_id": "b"}, {"tool_id": "c"}]}])
    3
    """
    groups = [step.get("parallel") if isinstance(step, dict) else None for step in steps]
    deep = depth >= 64  # noqa: PLR2004 - deeper than a chain may be; only the recursion must end
    return sum(
        _count_steps(group, depth + 1) if isinstance(group, list) and not deep else 1 for group in groups
    )


async def _run_recorded(gateway: ToolGateway, steps: list[Any], around: Around, limits: ChainLimits) -> Any:
    """Run a chain whose calls `around` counts and records.

    If the gateway's own `run_chain` does not take `around`, the chain is run here, one call of the gateway at
    a time.
    """
    run: Any = gateway.run_chain
    if "around" in signature(run).parameters:
        return await run(steps, around=around, limits=limits)

    async def call(tool_id: str, args: dict[str, Any], within: float | None, step: str) -> Any:  # noqa: ARG001 - the signature of RunTool
        return await gateway.run(tool_id, args)

    calling: RunTool = call
    chain, problems = read_chain(steps, limits)
    if problems:
        raise invalid_chain_error(problems)
    return await run_chain(chain, around(calling), limits=limits)
