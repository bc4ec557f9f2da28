"""Durable runs: the interpreter is dumped at calls of tools, and loaded again, also in another process.

The state of a run is a header and a dump of the engine. The header has the pending calls of the guest, the
output so far, and the version of the engine. The journal gets the state *before* a call is made, and writes
it together with the intent of that call. So after a crash every call is either not begun, answered, or known
to be uncertain.

There are two ways to drive the engine:

- Code that may behave differently when it runs again (time, random numbers, tasks, searches) is driven step
by
  step with snapshots, and dumped at each call. Parallel calls (`asyncio.gather`) begin only when every task
  of the guest waits, so that one dump includes all of them.
- The behaviour of other code depends only on the results of its calls. It runs at full speed, makes one call
  at a time, and is dumped only every `dump_interval`: when resumed, it repeats the calls since the last
  dump, and the journal returns the stored results.

When a run is resumed, the journal decides for each pending call of the header whether to return the stored
result or to make the call again.
"""

import json
import re
from collections.abc import Coroutine, Sequence
from time import perf_counter
from typing import Any, NamedTuple

import anyio
from anyio.abc import TaskGroup
from pydantic_monty import (
    NOT_HANDLED,
    AsyncFunctionSnapshot,
    AsyncFutureSnapshot,
    AsyncMontySession,
    AsyncSnapshot,
    MontyComplete,
    __version__,
)

from toolcrib.errors import SnapshotError
from toolcrib.model.protocols import Journal
from toolcrib.runtime.guest_errors import GuestError
from toolcrib.runtime.protocols import Job
from toolcrib.runtime.sandboxes.monty.calls import CALL_FUNCTION, Calls, as_builtin, raise_builtin
from toolcrib.runtime.sandboxes.monty.values import MARK, read_call, with_value

_SLEEP = "system.sleep"
"""The name under which the engine asks its driver for `time.sleep`."""
_ASYNC_SLEEP = "system.async_sleep"
"""The same for `asyncio.sleep`."""
_HOST_FUNCTIONS = {CALL_FUNCTION, _SLEEP, _ASYNC_SLEEP}
_VARYING = re.compile(
    r"\b(?:asyncio|time|datetime|random|os|sys|pathlib|search_tools|describe_tool|hash|id)\b"
)
"""Names in code that may behave differently with the same results of calls; also in strings and comments."""
_SINGLE_CALL = -1
"""Key of `_pending` for the call of code that makes one at a time, which has no number of the engine."""
_LENGTH_BYTES = 4
"""Size of the length of the header, which comes first."""


def environment(*, name: str, args: tuple[Any, ...], **_: Any) -> Any:
    """Handle a request for the operating system: the environment is empty, all else is not supported."""
    if name == "os.environ":
        return {}
    if name == "os.getenv":
        return args[1] if len(args) > 1 else None
    return NOT_HANDLED


class _PendingCall(NamedTuple):
    """A call that the guest waits for; `key` identifies it in the journal."""

    key: str
    path: str
    args: list[Any]
    kwargs: dict[str, Any]


class DurableDriver:
    """Drives one durable run: dumps the engine before calls, and resumes it from a dump."""

    def __init__(
        self,
        session: AsyncMontySession,
        job: Job,
        journal: Journal,
        calls: Calls,
    ) -> None:
        self._session, self._job, self._journal, self._calls = session, job, journal, calls
        self._options: dict[str, Any] = {
            "external_lookup": {CALL_FUNCTION: self._make_only_call},
            "print_callback": job.output.write,
            "os": environment,
        }
        self._pending: dict[int, _PendingCall] = {}
        """Calls without a result, by their number in the engine."""
        self._next = 0
        self._begun: set[int] = set()
        self._results: dict[int, Any] = {}
        self._result_came = anyio.Event()
        self._mark = MARK
        self._last_dump = perf_counter()

    async def start(self) -> Any:
        """Run the code from its beginning, and return its value as the guest writes it."""
        code, inputs = with_value(self._job.code), {"__out": None}
        if _VARYING.search(self._job.code) is None:
            options = {**self._options, "external_lookup": {CALL_FUNCTION: self._begin_single_call}}
            return await self._session.feed_run(code, inputs=inputs, **options)
        return await self._drive(await self._session.feed_start(code, inputs=inputs, **self._options))

    def _begin_single_call(self, path: Any, args: Any, kwargs: Any) -> Coroutine[Any, Any, Any]:
        """Return the coroutine of a call in code that makes one call at a time."""
        try:
            call = self._pending[_SINGLE_CALL] = self._read_call(path, args, kwargs)
        except GuestError as error:
            return raise_builtin(error)
        return self._make_single_call(call)

    async def _make_single_call(self, call: _PendingCall) -> Any:
        if perf_counter() - self._last_dump > self._journal.dump_interval:
            self._save_state(await self._session.dump())
        self._journal.note_waiting([call.key])
        return await self._make_call(call)

    def _read_call(self, path: Any, args: Any, kwargs: Any) -> _PendingCall:
        given, named = read_call(args, kwargs)
        self._next += 1
        return _PendingCall(str(self._next - 1), str(path), given, named)

    async def resume(self, state: bytes) -> Any:
        """Continue from a saved state, and return the value.

        Raises:
            SnapshotError: another version of the engine made it.
        """
        start = _LENGTH_BYTES + int.from_bytes(state[:_LENGTH_BYTES], "big")
        head = json.loads(state[_LENGTH_BYTES:start])
        if head["engine"] != __version__:
            reason = f"it was made by version {head['engine']} of the engine, and this is {__version__}"
            raise SnapshotError(self._journal.run_id, reason)
        self._mark, self._next = head["mark"], head["next"]
        self._pending = {number: _PendingCall(*call) for number, *call in head["asked"]}
        self._job.output.load(head["output"])
        taken = {str(number) for number in range(self._next)}
        self._calls.restore(taken - {call.key for call in self._pending.values()})
        return await self._drive(await self._session.load_snapshot(state[start:], **self._options))

    async def _drive(self, snapshot: AsyncSnapshot) -> Any:
        """Run the guest from snapshot to snapshot until it ends, and return its value."""
        failure: Exception | None = None
        async with anyio.create_task_group() as tasks:
            try:
                while not isinstance(snapshot, MontyComplete):
                    if isinstance(snapshot, AsyncFutureSnapshot):
                        snapshot = await snapshot.resume(await self._await_results(snapshot, tasks))
                    elif (
                        isinstance(snapshot, AsyncFunctionSnapshot)
                        and snapshot.function_name in _HOST_FUNCTIONS
                    ):
                        snapshot = await self._handle_call(snapshot)
                    else:
                        snapshot = await snapshot.resume_auto()
            except Exception as error:  # noqa: BLE001 - raised below, since a task group would wrap it
                failure = error
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure
        assert isinstance(snapshot, MontyComplete)  # noqa: S101 - the condition of the loop
        value = snapshot.output
        if type(value) is tuple and value[:1] == (self._mark,):  # the mark of the process that began the run
            return (MARK, *value[1:])
        return value

    async def _handle_call(self, snapshot: AsyncFunctionSnapshot) -> AsyncSnapshot:
        """Make a call at once if it is the only one; otherwise give the guest a future for it."""
        number, name = snapshot.call_id, snapshot.function_name
        if name == _SLEEP:
            await self._sleep(snapshot.args)
            return await snapshot.resume({"return_value": None})
        if name == _ASYNC_SLEEP:
            self._pending[number] = _PendingCall("", _ASYNC_SLEEP, list(snapshot.args), {})
            return await snapshot.resume({"future": ...})
        if number not in self._pending:  # otherwise it is a pending call of the saved state
            try:
                only = self._pending.pop(_SINGLE_CALL, None)
                self._pending[number] = only or self._read_call(*snapshot.args)
            except GuestError as error:
                return await snapshot.resume({"exception": as_builtin(error)})
        if not snapshot.allow_eager_await or len(self._pending) > 1:
            return await snapshot.resume({"future": ...})
        self._save_state(snapshot.dump())
        after = await snapshot.resume_auto()  # calls `_make_only_call`, and gives the guest its result
        del self._pending[number]
        return after

    def _make_only_call(self, *_: Any) -> Coroutine[Any, Any, Any]:
        """Return the coroutine of the one call that the guest waits for."""
        [call] = self._pending.values()
        self._journal.note_waiting([call.key])
        return self._make_call(call)

    async def _await_results(self, snapshot: AsyncFutureSnapshot, tasks: TaskGroup) -> dict[int, Any]:
        """Begin all pending calls, wait for a result, and return all results so far."""
        if fresh := self._pending.keys() - self._begun:
            if any(self._pending[number].key for number in fresh):  # sleeps have no key, and need no dump
                self._save_state(snapshot.dump())
            self._begun |= fresh
            for number in sorted(fresh):
                tasks.start_soon(self._run_call, number)
        if not self._results:
            self._journal.note_waiting(call.key for call in self._pending.values() if call.key)
        while not self._results:
            await self._result_came.wait()
            self._result_came = anyio.Event()
        results, self._results = self._results, {}
        for number in results:
            del self._pending[number]
            self._begun.remove(number)
        return results

    async def _run_call(self, number: int) -> None:
        call = self._pending[number]
        try:
            value = await self._make_call(call)
        except Exception as error:  # noqa: BLE001 - raised in the guest
            self._results[number] = {"exception": error}
        else:
            self._results[number] = {"return_value": value}
        self._result_came.set()

    async def _make_call(self, call: _PendingCall) -> Any:
        if call.path == _ASYNC_SLEEP:
            return await self._sleep(call.args)
        return await self._calls.make_call(call.path, call.args, call.kwargs, call.key)

    async def _sleep(self, args: Sequence[Any]) -> None:
        await anyio.sleep(min(self._job.timeout, args[0]))

    def _save_state(self, dump: bytes) -> None:
        """Give the journal the state of the run, which it writes with the next call."""
        head = {
            "engine": __version__,
            "mark": self._mark,
            "next": self._next,
            "asked": [[number, *call] for number, call in self._pending.items()],
            "output": self._job.output.dump(),
        }
        text = json.dumps(
            head, default=str
        ).encode()  # arguments that are not JSON fail before a call is made
        self._journal.suspend(len(text).to_bytes(_LENGTH_BYTES, "big") + text + dump)
        self._last_dump = perf_counter()
