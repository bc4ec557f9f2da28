"""A run that can go on elsewhere: the engine is dumped at calls, and loaded in another process."""

import json
import re
from collections.abc import Callable, Coroutine, Sequence
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
from toolcrib.runtime.records import Stream
from toolcrib.runtime.sandboxes.monty.calls import BRIDGE, Calls, as_builtin
from toolcrib.runtime.sandboxes.monty.values import MARK, read_call, with_value

_SLEEP = "system.sleep"
"""What the engine calls for `time.sleep`, and leaves to its driver."""
_ASYNC_SLEEP = "system.async_sleep"
"""The same for `asyncio.sleep`."""
_OURS = {BRIDGE, _SLEEP, _ASYNC_SLEEP}
_VARYING = re.compile(
    r"\b(?:asyncio|time|datetime|random|os|sys|pathlib|search_tools|describe_tool|hash|id)\b"
)
"""What code may mention that would not do the same again with the same answers; it is dumped at each call."""
_PAUSE = 0.05
"""Seconds after which other code is dumped; it does again what it did since, with the same answers."""
_ONLY = -1
"""Stands for the engine's number of a call that is the only one."""
_LENGTH = 4
"""Bytes that say how long what stands before a dump is."""


def environment(*, name: str, args: tuple[Any, ...], **_: Any) -> Any:
    """Answer what code asks of the system: its environment is empty, and it has nothing else."""
    if name == "os.environ":
        return {}
    if name == "os.getenv":
        return args[1] if len(args) > 1 else None
    return NOT_HANDLED


class _Asked(NamedTuple):
    """A call that the guest waits for."""

    key: str
    path: str
    args: list[Any]
    kwargs: dict[str, Any]


class Drive:
    """One durable run.

    The engine is dumped, together with the calls that it waits for, before any of these is begun. Calls that
    are made at once begin when everything in the guest waits, so that one dump stands for all of them. Where
    the answers alone determine what the code does, a dump now and then suffices.
    """

    def __init__(
        self,
        session: AsyncMontySession,
        job: Job,
        journal: Journal,
        calls: Calls,
        write: Callable[[Stream, str], None],
    ) -> None:
        self._session, self._job, self._journal, self._calls = session, job, journal, calls
        self._options: dict[str, Any] = {
            "external_lookup": {BRIDGE: self._answer_only},
            "print_callback": write,
            "os": environment,
        }
        self._asked: dict[int, _Asked] = {}
        """The calls that have not been answered, by the engine's number."""
        self._next = 0
        self._begun: set[int] = set()
        self._results: dict[int, Any] = {}
        self._answered = anyio.Event()
        self._mark = MARK
        self._dumped = perf_counter()

    async def start(self) -> Any:
        """Run the code from its beginning, and return the value, in the form in which it leaves."""
        code, inputs = with_value(self._job.code), {"__out": None}
        if _VARYING.search(self._job.code) is None:
            options = {**self._options, "external_lookup": {BRIDGE: self._called_alone}}
            return await self._session.feed_run(code, inputs=inputs, **options)
        return await self._drive(await self._session.feed_start(code, inputs=inputs, **self._options))

    def _called_alone(self, path: Any, args: Any, kwargs: Any) -> Coroutine[Any, Any, Any]:
        """Return the answer to come of a call in code that makes one at a time."""
        try:
            asked = self._asked[_ONLY] = self._read(path, args, kwargs)
        except GuestError as error:
            return _refused(error)
        return self._alone(asked)

    async def _alone(self, asked: _Asked) -> Any:
        if perf_counter() - self._dumped > _PAUSE:
            self._suspend(await self._session.dump())
        return await self._answer(asked)

    def _read(self, path: Any, args: Any, kwargs: Any) -> _Asked:
        given, named = read_call(args, kwargs)
        self._next += 1
        return _Asked(str(self._next - 1), str(path), given, named)

    async def resume(self, state: bytes) -> Any:
        """Go on from a state, and return the value.

        Raises:
            SnapshotError: it is of another version of the engine.
        """
        start = _LENGTH + int.from_bytes(state[:_LENGTH], "big")
        head = json.loads(state[_LENGTH:start])
        if head["engine"] != __version__:
            reason = f"it was made by version {head['engine']} of the engine, and this is {__version__}"
            raise SnapshotError(self._journal.run_id, reason)
        self._mark, self._next = head["mark"], head["next"]
        self._asked = {number: _Asked(*asked) for number, *asked in head["asked"]}
        self._job.output.load(head["output"])
        taken = {str(number) for number in range(self._next)}
        self._calls.restore(taken - {asked.key for asked in self._asked.values()})
        return await self._drive(await self._session.load_snapshot(state[start:], **self._options))

    async def _drive(self, snapshot: AsyncSnapshot) -> Any:
        failure: Exception | None = None
        async with anyio.create_task_group() as tasks:
            try:
                while not isinstance(snapshot, MontyComplete):
                    if isinstance(snapshot, AsyncFutureSnapshot):
                        snapshot = await snapshot.resume(await self._settled(snapshot, tasks))
                    elif isinstance(snapshot, AsyncFunctionSnapshot) and snapshot.function_name in _OURS:
                        snapshot = await self._called(snapshot)
                    else:
                        snapshot = await snapshot.resume_auto()
            except Exception as error:  # noqa: BLE001 - the group would wrap it
                failure = error
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure
        assert isinstance(snapshot, MontyComplete)  # noqa: S101 - the loop ends with it
        value = snapshot.output
        if type(value) is tuple and value[:1] == (self._mark,):  # of the process that began the run
            return (MARK, *value[1:])
        return value

    async def _called(self, snapshot: AsyncFunctionSnapshot) -> AsyncSnapshot:
        """Answer a call at once where nothing else goes on in the guest; else let it wait for the answer."""
        number, name = snapshot.call_id, snapshot.function_name
        if name == _SLEEP:
            await self._sleep(snapshot.args)
            return await snapshot.resume({"return_value": None})
        if name == _ASYNC_SLEEP:
            self._asked[number] = _Asked("", _ASYNC_SLEEP, list(snapshot.args), {})
            return await snapshot.resume({"future": ...})
        if number not in self._asked:  # else it was asked for before the run was suspended
            try:
                only = self._asked.pop(_ONLY, None)
                self._asked[number] = only or self._read(*snapshot.args)
            except GuestError as error:
                return await snapshot.resume({"exception": as_builtin(error)})
        if not snapshot.allow_eager_await or len(self._asked) > 1:
            return await snapshot.resume({"future": ...})
        self._suspend(snapshot.dump())
        after = await snapshot.resume_auto()
        del self._asked[number]
        return after

    def _answer_only(self, *_: Any) -> Coroutine[Any, Any, Any]:
        """Return the answer to come of the one call that the guest waits for."""
        [asked] = self._asked.values()
        return self._answer(asked)

    async def _settled(self, snapshot: AsyncFutureSnapshot, tasks: TaskGroup) -> dict[int, Any]:
        """Begin the calls that wait to be, and return the answers that there are, at least one."""
        if fresh := self._asked.keys() - self._begun:
            if any(self._asked[number].key for number in fresh):
                self._suspend(snapshot.dump())
            self._begun |= fresh
            for number in sorted(fresh):
                tasks.start_soon(self._work, number)
        while not self._results:
            await self._answered.wait()
            self._answered = anyio.Event()
        results, self._results = self._results, {}
        for number in results:
            del self._asked[number]
            self._begun.remove(number)
        return results

    async def _work(self, number: int) -> None:
        asked = self._asked[number]
        try:
            value = await self._answer(asked)
        except Exception as error:  # noqa: BLE001 - what the guest is to see
            self._results[number] = {"exception": error}
        else:
            self._results[number] = {"return_value": value}
        self._answered.set()

    async def _answer(self, asked: _Asked) -> Any:
        if asked.path == _ASYNC_SLEEP:
            return await self._sleep(asked.args)
        return await self._calls.answer(asked.path, asked.args, asked.kwargs, asked.key)

    async def _sleep(self, args: Sequence[Any]) -> None:
        await anyio.sleep(min(self._job.timeout, args[0]))

    def _suspend(self, dump: bytes) -> None:
        head = {
            "engine": __version__,
            "mark": self._mark,
            "next": self._next,
            "asked": [[number, *asked] for number, asked in self._asked.items()],
            "output": self._job.output.dump(),
        }
        text = json.dumps(head, default=str).encode()  # what is no JSON is refused, and not called
        self._journal.suspend(len(text).to_bytes(_LENGTH, "big") + text + dump)
        self._dumped = perf_counter()


async def _refused(error: GuestError) -> None:
    raise as_builtin(error)
