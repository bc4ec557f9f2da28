"""The host's side of every call that a guest makes: counted, bounded, recorded, and run like any other.

The guest is never believed: how many calls there were, what they were given and how they ended is what the
host saw, and no answer, and no silence, of the guest changes it.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from inspect import signature
from time import perf_counter
from typing import Any, Protocol

import anyio

from toolcrib.concurrency.background import given_up_after
from toolcrib.errors import (
    LimitExceededError,
    SandboxViolationError,
    SnapshotError,
    ToolcribError,
    ToolError,
    explain,
)
from toolcrib.execution.chains import Around, ChainLimits, RunTool, run_chain
from toolcrib.execution.chains.parse import invalid, read_chain
from toolcrib.model import ToolCallRecord, ToolGateway
from toolcrib.model.plain import measure
from toolcrib.model.protocols import Journal
from toolcrib.redaction import error_text
from toolcrib.runtime.guest_errors import GuestError, as_guest_error
from toolcrib.runtime.plain import VALUE_BYTES, bound, found_tools, plain, read_arguments, room_for
from toolcrib.runtime.records import Limits
from toolcrib.runtime.stubs.guest import FUNCTIONS

_MAX_PARALLEL = 64
"""How many calls of one guest run at once; the others wait their turn."""
_PATIENCE = 1.0
"""Seconds that a tool has to stop, once the code that called it has ended."""
_MAX_LOOKUPS = 200
"""How often a guest may search, describe, and call what is not there: none of it is a call of a tool."""
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
    """Knows what the names in the code stand for."""

    def reference(self, path: str) -> str | None:
        """Return the tool that `namespace.name` or `name` stands for; None where there is none."""
        ...

    def parameters(self, path: str) -> Sequence[str]:
        """Return the names of its arguments, in the order in which they may be given without them."""
        ...

    def unknown(self, path: str) -> str:
        """Return the message about a name that stands for nothing."""
        ...


class Bridge:
    """Answers the calls of one run.

    `call` is what sandboxes use. What the guest may see of a failure comes as a `GuestError`; where the run
    must end, `failure` is set, `end` is called, and the call does not return.
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
        self._calls: list[_CallEntry] = []
        self._room = limits.memory_bytes
        self._lookups = 0
        self._turns = anyio.CapacityLimiter(_MAX_PARALLEL)
        self.failure: ToolcribError | None = None
        """Why the run had to end, if it had to."""

    @property
    def records(self) -> tuple[ToolCallRecord, ...]:
        """Every call of a tool so far, in the order they began."""
        return tuple(call.record for call in self._calls)

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
        """Take up these calls of an earlier part of a durable run, which are not asked for again."""
        for call in () if self._journal is None else self._journal.answered():
            if call.key.partition("/")[0] in keys:
                entry = self._counted(call.tool_id, call.args)
                if call.error is None:
                    entry.succeed(call.result, call.duration)
                else:
                    entry.fail(call.error, call.duration)

    async def call(self, path: str, args: Sequence[Any], kwargs: Mapping[str, Any], key: str = "") -> Any:
        """Return what a call in the guest gives, as JSON; the key is what a journal knows the call by.

        Raises:
            GuestError: what to raise in the guest.
            LimitExceededError: the guest has used up its calls; the run is being ended.
            SandboxViolationError: the run has ended already.
        """
        if self.failure is not None:
            raise SandboxViolationError("it went on after its end")
        given: dict[str, Any] = {}
        try:
            meant, parameters = self._meant(path)
            given = bound(path, read_arguments(args), read_arguments(kwargs), parameters)
            return await (self._serve if path in FUNCTIONS else self._run)(meant, given, key)
        except GuestError:
            self._look()
            raise
        except (LimitExceededError, SnapshotError) as error:
            self._fail(error)
            raise
        except Exception as error:  # whatever a gateway raises, the guest gets it, and may go on
            if self.failure is not None:
                raise self.failure from error
            raise as_guest_error(error, given) from error

    def _meant(self, path: str) -> tuple[str, Sequence[str]]:
        """Return the function or the tool that a name stands for, and the names of what it takes."""
        if path in FUNCTIONS:
            return path, _PARAMETERS[path]
        reference = self._names.reference(path)
        if reference is None:
            raise GuestError("AttributeError" if "." in path else "NameError", self._names.unknown(path))
        return reference, self._names.parameters(path)

    def _look(self) -> None:
        """Count something that is asked of the host and runs no tool."""
        self._lookups += 1
        if self._lookups > _MAX_LOOKUPS:
            message = f"more than {_MAX_LOOKUPS} searches, descriptions, and calls that could not be made"
            failure = LimitExceededError("lookups", message)
            self._fail(failure)
            raise failure

    async def _serve(self, path: str, options: dict[str, Any], key: str) -> Any:
        """Return what one of the guest's own functions gives."""
        _check(path, options)
        if path == "run_tool":
            return await self._run(options["tool_id"], options.get("args") or {}, key)
        if path == "run_chain":
            return await self._run_chain(options["steps"], key)
        self._look()
        async with self._turns:
            if path == "search_tools":
                found = await self._gateway.search(options["query"], limit=options.get("limit", 10))
                return room_for(found_tools(found), self._limits)
            described = await self._gateway.describe(options["tool_id"], options.get("level", "schema"))
            return room_for(plain(described), self._limits)

    async def _run(self, reference: str, args: dict[str, Any], key: str) -> Any:
        result = await self._called(reference, args, partial(self._gateway.run, reference, args), key)
        return room_for(plain(getattr(result, "structured", result)), self._limits)

    async def _called(
        self, reference: str, args: dict[str, Any], call: Callable[[], Awaitable[Any]], key: str
    ) -> Any:
        """Return what a call gives, which is counted before it begins and noted however it ends."""
        try:
            entry = self._counted(reference, args)
        except LimitExceededError as error:  # a chain may be set to go on after errors
            self._fail(error)
            raise
        async with self._turns:
            entry.begin()
            started = perf_counter()
            try:
                if self._journal is None:
                    result = await given_up_after(_PATIENCE, call)
                else:
                    make = partial(given_up_after, _PATIENCE, call)
                    result = await self._journal.call(key, reference, args, make)
            except BaseException as error:
                entry.fail(error, perf_counter() - started)
                raise
            entry.succeed(result, perf_counter() - started)
        return result

    def _counted(self, tool_id: str, args: dict[str, Any]) -> "_CallEntry":
        """Count a call before it begins, which nothing takes back, and return where it is noted.

        Raises:
            LimitExceededError: there are no more, or their arguments together are more than the guest may
                hold.
        """
        most = self._limits.max_tool_calls
        if len(self._calls) >= most:
            raise LimitExceededError("max_tool_calls", f"the code called tools more than {most} times")
        nodes, _, chars, _ = measure(args, max_depth=256)
        self._room -= chars + nodes * VALUE_BYTES
        if self._room < 0:
            held = f"{self._limits.memory_bytes >> 20:,} MB"
            raise LimitExceededError("memory_bytes", f"the arguments of its calls hold more than {held}")
        self._calls.append(_CallEntry(tool_id, args))
        return self._calls[-1]

    def _around(self, key: str, run: RunTool) -> RunTool:
        """Have each call of a chain counted and noted like all others."""

        async def follow(tool_id: str, args: dict[str, Any], within: float | None, step: str) -> Any:
            call = partial(run, tool_id, args, within, step)
            return await self._called(tool_id, args, call, f"{key}/{step}")

        return follow

    async def _run_chain(self, steps: list[Any], key: str) -> Any:
        size, before = _chain_size(steps), len(self._calls)
        if size > self._limits.max_chain_steps:
            message = f"a chain of {size} steps, where {self._limits.max_chain_steps} are allowed"
            raise LimitExceededError("max_chain_steps", message)
        left = self._limits.max_tool_calls - before
        limits = ChainLimits(max_steps=self._limits.max_chain_steps, max_calls=left + 1)
        try:
            result = await _follow_chain(self._gateway, steps, partial(self._around, key), limits)
        finally:
            if len(self._calls) == before:
                self._look()
        return room_for(plain(result), self._limits)

    def _fail(self, failure: ToolcribError) -> None:
        if self.failure is None:
            self.failure = failure
            self._end()


def _check(path: str, options: dict[str, Any]) -> None:
    """Raise what is wrong with the arguments of one of the guest's own functions."""
    known = _PARAMETERS[path]
    if unknown := sorted(options.keys() - set(known)):
        raise GuestError("TypeError", f"{path} has no argument {unknown[0]!r}; it takes {', '.join(known)}")
    if known[0] not in options:
        raise GuestError("TypeError", f"{path} needs {known[0]!r}")
    for name, value in options.items():
        kind, text = _TYPES[name]
        if not isinstance(value, kind) and not (name == "args" and value is None):
            raise GuestError("TypeError", f"{path}: {name!r} must be {text}")


def _chain_size(steps: list[Any], depth: int = 0) -> int:
    """Return how many steps a chain has, those in groups included.

    >>> _chain_size([{"tool_id": "a"}, {"parallel": [{"tool_id": "b"}, {"tool_id": "c"}]}])
    3
    """
    groups = [step.get("parallel") if isinstance(step, dict) else None for step in steps]
    deep = depth >= 64  # noqa: PLR2004 - deeper than any chain that is run
    return sum(
        _chain_size(group, depth + 1) if isinstance(group, list) and not deep else 1 for group in groups
    )


async def _follow_chain(gateway: ToolGateway, steps: list[Any], around: Around, limits: ChainLimits) -> Any:
    """Run a chain with something around each of its calls.

    A gateway whose chains cannot be followed is asked to run the steps, one call at a time.
    """
    run: Any = gateway.run_chain
    if "around" in signature(run).parameters:
        return await run(steps, around=around, limits=limits)

    async def call(tool_id: str, args: dict[str, Any], within: float | None, step: str) -> Any:  # noqa: ARG001 - the gateway's own holds
        return await gateway.run(tool_id, args)

    calling: RunTool = call
    chain, problems = read_chain(steps, limits)
    if problems:
        raise invalid(problems)
    return await run_chain(chain, around(calling), limits=limits)


class _CallEntry:
    """One call, from when it was asked for."""

    def __init__(self, tool_id: str, args: dict[str, Any]) -> None:
        self._tool_id = tool_id
        self._args = args
        self.record = self._made(0.0, error="it had not begun when the code ended")

    def begin(self) -> None:
        """Note that it is under way."""
        self.record = self._made(0.0, error="it had not ended when the code did")

    def succeed(self, result: Any, duration: float) -> None:
        """Note that it went well."""
        tool = getattr(result, "tool", None)
        if tool is not None:
            self._tool_id = str(tool.id)
        backend = getattr(result, "backend", None)
        self.record = self._made(duration, backend_kind=getattr(backend, "kind", None))

    def fail(self, error: BaseException, duration: float) -> None:
        """Note how it failed."""
        if not isinstance(error, Exception):
            self.record = self._made(duration, error="it was cancelled")
            return
        message = explain(error)["message"] if isinstance(error, ToolcribError) else error_text(error)
        op = error.op if isinstance(error, ToolError) else None
        kind = (getattr(error, "backend", None) or "").partition(":")[0] or None
        self.record = self._made(duration, error=message, error_op=op, backend_kind=kind)

    def _made(self, duration: float, **facts: Any) -> ToolCallRecord:
        return ToolCallRecord.of_checked(tool_id=self._tool_id, args=self._args, duration=duration, **facts)
