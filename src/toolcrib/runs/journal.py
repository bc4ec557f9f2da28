"""The journal of one durable run: each call is written before it is made, and its answer after it.

The order of writes is what makes a run recoverable:

1. `call` writes the intent of a call, with the state that the run can be resumed from, and waits for the
   store.
2. Only then it makes the call. A process that dies here leaves an intent without an answer: an uncertain
   call.
3. The answer is written with the next intent, or after `_ANSWER_DELAY` if no call follows. Losing an answer
   is safe, since the call is then uncertain, and a person decides about it.

Each write names the lease of this holder. So a holder that was taken for dead writes nothing more, and makes
no further call. Each call has a place in a sequence, whose length is signed with each call: otherwise a call
removed from the store would be made again. Everything is signed, and checked when a run is resumed.

The store is written in threads, since another process may hold its lock. If the store can write at once
without waiting (`intend_at_once`), an intent is written in the event loop, since a thread takes longer.
"""

import asyncio  # noqa: TID251 - anyio has no `call_later`
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields, replace
from functools import lru_cache, partial
from time import perf_counter, time
from typing import Any, NamedTuple

import anyio
from pydantic import TypeAdapter
from pydantic_core import PydanticSerializationError, to_json

import toolcrib.errors
from toolcrib.concurrency.background import Background, await_future
from toolcrib.concurrency.threads import Threads
from toolcrib.errors import (
    ChainError,
    InvalidToolIdError,
    LimitExceededError,
    Problem,
    SnapshotError,
    StoreError,
    ToolcribError,
    ToolExecutionError,
)
from toolcrib.execution.chains import StepResult
from toolcrib.model import RunResult, Tool, ToolId
from toolcrib.model.backend import AnyBackend, ToolBackend
from toolcrib.model.findings import ResultFinding
from toolcrib.model.json_text import compact_json
from toolcrib.model.record import Record
from toolcrib.redaction import error_text
from toolcrib.runs.run_record import RunCall
from toolcrib.runs.signing import Signer
from toolcrib.runs.store import NewCall, RunStore, StoredRun
from toolcrib.runtime import ExecuteResult

MAX_STATE_BYTES = 32 << 20
"""The state is stored with each call, so a larger one would make every call slow."""
_DUMP_INTERVAL = 0.05
"""Seconds between states of code that does the same again: what it computes since then is computed again
after a crash."""
_ANSWER_DELAY = 0.001
"""Seconds to wait for another call, whose write then includes the answer: one write instead of two."""
_MAX_BYTES_IN_LOOP = 64 << 10
"""More bytes are signed and written in a thread, since they would delay other tasks."""
_ANY_OBJECT = {"type": "object"}
_BACKEND: TypeAdapter[AnyBackend] = TypeAdapter(AnyBackend)


@dataclass(frozen=True, slots=True)
class Answered:
    """An earlier call with its stored result or error."""

    key: str
    tool_id: str
    """The reference in the call."""
    args: dict[str, Any]
    duration: float
    result: RunResult | None = None
    error: ToolcribError | None = None

    def replay(self) -> RunResult:
        """Return the stored result, or raise the stored error."""
        if self.error is not None:
            raise self.error
        assert self.result is not None  # noqa: S101 - it has one of the two
        return self.result


class _BegunCall(NamedTuple):
    """A call that was begun."""

    tool_id: str
    args: dict[str, Any]
    place: int
    """Its position in the sequence; a call that is begun again keeps its position."""


class RunJournal:
    """The calls of one run: those that were made before, and those that it makes from now on."""

    def __init__(
        self, store: RunStore, signer: Signer, run: StoredRun, threads: Threads | None = None
    ) -> None:
        """Read a stored run and check its signatures; its writes go to `threads`.

        Raises:
            SnapshotError: something in it was changed, or signed with another key.
        """
        self.run_id, self.lease, self._holder = run.id, run.lease, run.holder
        self._store, self._signer = store, signer
        self._threads = threads or Threads(1)
        self._at_once: Callable[..., bool] | None = getattr(store, "intend_at_once", None)
        self._writing = anyio.Lock(fast_acquire=True)
        self.state = None if run.state is None else signer.open(run.id, "state", run.state)
        """The state of the sandbox to resume from; None at the beginning."""
        self.changed = 0.0
        """When the last of its calls was begun, in seconds since the epoch."""
        self._new_state: bytes | None = None
        self._answered: dict[str, Answered] = {}
        """Answers from before the run was resumed: the code asks for them again on its way to the new
        calls."""
        self._done: set[str] = set()
        """Keys of calls whose outcome is known, stored or not."""
        self._unwritten: dict[str, dict[str, Any]] = {}
        self._write_failure: SnapshotError | None = None
        self._timer: asyncio.TimerHandle | None = None
        if run.sequence is None:
            reason = "the sequence of its calls is missing: removed, or written by an earlier version"
            raise SnapshotError(run.id, reason)
        begun: dict[str, _BegunCall] = {}
        for key, call in run.calls.items():
            intent = self._open(f"call:{key}", call.intent)
            self.changed = max(self.changed, intent["at"])
            begun[key] = _BegunCall(intent["tool"], intent["args"], intent["place"])
        self._begun = dict(sorted(begun.items(), key=lambda item: item[1].place))
        self._check_sequence(run.sequence)
        for key in self._begun:
            outcome = run.calls[key].outcome
            if outcome is not None:
                self._record_outcome(key, self._open(f"answer:{key}", outcome))

    @classmethod
    def begin(
        cls, store: RunStore, signer: Signer, run: StoredRun, threads: Threads | None = None
    ) -> "RunJournal":
        """Store a new run, and return its journal."""
        started = replace(run, sequence=signer.seal(run.id, "sequence", _to_json_bytes({"calls": 0})))
        store.begin(started)
        return cls(store, signer, started, threads)

    def _check_sequence(self, sealed: bytes) -> None:
        """Check that no call was removed from the store or added to it."""
        count = self._open("sequence", sealed)["calls"]
        if [begun.place for begun in self._begun.values()] != list(range(count)):
            raise SnapshotError(self.run_id, "calls were removed from the store, or added to it")

    def answered_calls(self) -> Iterator[Answered]:
        """Yield the earlier calls with a stored outcome, in the order in which they began."""
        yield from self._answered.values()

    def calls(self) -> tuple[RunCall, ...]:
        """Return the calls that the store has, in the order in which they began."""
        return tuple(_describe_call(key, call, self._answered.get(key)) for key, call in self._begun.items())

    @property
    def uncertain(self) -> dict[str, str]:
        """The tools of calls without a known outcome, which may have run, by key."""
        return {key: call.tool_id for key, call in self._begun.items() if key not in self._done}

    @property
    def step(self) -> int:
        """How many calls have been answered."""
        return len(self._done)

    def suspend(self, state: bytes) -> None:
        """Set the state to resume from, which is stored with the next call.

        Raises:
            LimitExceededError: it is too large.
        """
        if len(state) > MAX_STATE_BYTES:
            reason = f"its state takes {len(state):,} bytes, where {MAX_STATE_BYTES:,} can be kept"
            raise LimitExceededError("memory_bytes", reason)
        self._new_state = state

    async def answer_uncertain_call(self, key: str, value: Any) -> None:
        """Store a value as the answer of an uncertain call."""
        outcome = {"value": value, "duration": 0.0, "notes": ["answered by whoever resumed the run"]}
        async with self._writing:
            await self._write_answer(key, outcome)
        self._record_outcome(key, outcome)

    @property
    def dump_interval(self) -> float:
        """Seconds between states of code that does the same again with the same answers."""
        return _DUMP_INTERVAL

    def note_waiting(self, keys: Iterable[str]) -> None:
        """Do nothing: this process makes the calls that the sandbox waits for."""

    def find_answer(self, key: str, tool_id: str, args: dict[str, Any]) -> Answered | None:
        """Return the stored answer of a call; None if there is none.

        Raises:
            SnapshotError: another call was recorded by this key.
        """
        before = self._answered.get(key)
        if before is not None and (before.tool_id, before.args) != (tool_id, args):
            raise SnapshotError(self.run_id, f"call {key} is not the one that was recorded")
        return before

    async def call(
        self,
        key: str,
        tool_id: str,
        args: dict[str, Any],
        make: Callable[[], Awaitable[Any]],
        within: float | None = None,  # noqa: ARG002 - `make` keeps it
    ) -> Any:
        """Make a call, or return the stored answer if it was made before."""
        if self._write_failure is not None:
            raise self._write_failure
        if (before := self.find_answer(key, tool_id, args)) is not None:
            return before.replay()
        await self._write_intent(key, tool_id, args)  # before the call, so that no call goes unrecorded
        started = perf_counter()
        try:
            result = await make()
        except Exception as error:
            self._schedule_answer(
                key, {"error": serialize_error(error, tool_id), "duration": perf_counter() - started}
            )
            raise
        self._schedule_answer(key, _serialize_result(result, perf_counter() - started))
        return result

    def open_call(self, key: str) -> tuple[str, dict[str, Any]] | None:
        """Return the tool and the arguments of a call that was begun and has no answer; None for others."""
        call = None if key in self._done else self._begun.get(key)
        return None if call is None else (call.tool_id, call.args)

    async def begin_call(self, key: str, tool_id: str, args: dict[str, Any]) -> None:
        """Store a call that another process will make with `make_begun_call`, if it is not stored yet."""
        if key not in self._begun:
            await self._write_intent(key, tool_id, args)

    async def make_begun_call(self, key: str, make: Callable[[], Awaitable[Any]]) -> None:
        """Make a call that `begin_call` has stored, and store its answer.

        Meanwhile the lease of the run may be renewed by others for the same holder, who begin its next calls.

        Raises:
            SnapshotError: the answer cannot be written; somebody else may hold the run.
        """
        started = perf_counter()
        try:
            result = await make()
        except Exception as error:  # noqa: BLE001 - the answer of the call
            failure = serialize_error(error, self._begun[key].tool_id)
            outcome = {"error": failure, "duration": perf_counter() - started}
        else:
            outcome = _serialize_result(result, perf_counter() - started)

        def write() -> None:
            sealed = self._seal(f"answer:{key}", _to_json_bytes(outcome))
            while True:
                try:
                    return self._store.answer(self.lease, key, sealed)
                except StoreError:
                    run = self._store.get(self.run_id)
                    if run is None or run.holder != self._holder or run.lease == self.lease:
                        raise
                    self.lease = run.lease

        async with self._writing:
            with self._translate_store_errors():
                await self._run_in_thread(write)
            self._done.add(key)

    async def _write_intent(self, key: str, tool_id: str, args: dict[str, Any]) -> None:
        """Store a call before it is made, with the new state and the answers that wait to be written."""
        async with self._writing:
            if self._write_failure is not None:
                raise self._write_failure
            again = self._begun.get(key)
            place = len(self._begun) if again is None else again.place
            state, answers = self._new_state, dict(self._unwritten)
            seal = partial(self._seal_call, key, tool_id, args, place, state, answers)
            with self._translate_store_errors():
                if len(state or b"") > _MAX_BYTES_IN_LOOP:
                    await self._run_in_thread(lambda: self._store.intend(self.lease, *seal()))
                else:
                    call, outcomes = seal()
                    size = len(call.intent) + sum(map(len, outcomes.values()))
                    at_once = self._at_once if size <= _MAX_BYTES_IN_LOOP else None
                    if at_once is None or not at_once(self.lease, call, outcomes):
                        await self._run_in_thread(lambda: self._store.intend(self.lease, call, outcomes))
            # only what was written is forgotten: state and answers may have been added during the write
            self._new_state = None if self._new_state is state else self._new_state
            for each in answers:
                self._unwritten.pop(each, None)
            self._begun[key] = _BegunCall(tool_id, args, place)

    def _seal_call(
        self,
        key: str,
        tool_id: str,
        args: dict[str, Any],
        place: int,
        state: bytes | None,
        answers: Mapping[str, dict[str, Any]],
    ) -> tuple[NewCall, dict[str, bytes]]:
        """Sign a call, and the answers that are stored with it."""
        now = time()
        call = NewCall(
            key,
            self._seal(
                f"call:{key}", _to_json_bytes({"tool": tool_id, "args": args, "at": now, "place": place})
            ),
            self._seal("sequence", _to_json_bytes({"calls": max(len(self._begun), place + 1)})),
            now,
            None if state is None else self._seal("state", state),
        )
        return call, {
            each: self._seal(f"answer:{each}", _to_json_bytes(one)) for each, one in answers.items()
        }

    async def end(self, status: str, result: Any) -> None:
        """Store the result of the run.

        Raises:
            SnapshotError: it cannot be written.
        """
        await self.flush()

        def write() -> None:
            sealed = self._seal("result", _to_json_bytes(result))
            self._store.end(self.lease, status, sealed, self.step, time())

        async with self._writing:
            with self._translate_store_errors():
                await self._run_in_thread(write)

    async def flush(self) -> None:
        """Store the answers that wait to be written.

        Raises:
            SnapshotError: they cannot be written.
        """
        async with self._writing:
            if self._write_failure is not None:
                raise self._write_failure
            while self._unwritten:
                key = next(iter(self._unwritten))
                await self._write_answer(key, self._unwritten[key])
                self._unwritten.pop(key, None)

    def _schedule_answer(self, key: str, outcome: dict[str, Any]) -> None:
        """Have an answer stored: with the next call, or after a short delay if none follows."""
        self._unwritten[key] = outcome
        self._done.add(key)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_ANSWER_DELAY, self._begin_flush)

    def _begin_flush(self) -> None:
        self._timer = None
        if self._unwritten:
            Background(self._flush_late)

    async def _flush_late(self) -> None:
        try:
            await self.flush()
        except SnapshotError as error:  # the next call, or the end of the run, raises it
            self._write_failure = error

    async def _write_answer(self, key: str, outcome: dict[str, Any]) -> None:
        def write() -> None:
            self._store.answer(self.lease, key, self._seal(f"answer:{key}", _to_json_bytes(outcome)))

        with self._translate_store_errors():
            await self._run_in_thread(write)
        self._done.add(key)

    async def _run_in_thread(self, write: Callable[[], None]) -> None:
        # A cancelled caller waits for a write that has begun, or this object would differ from the store.
        # The timeout of the store limits the wait.
        with anyio.CancelScope(shield=True):
            await await_future(self._threads.submit(write))

    def _record_outcome(self, key: str, outcome: Mapping[str, Any]) -> None:
        begun = self._begun[key]
        self._done.add(key)
        duration = outcome["duration"]
        result, error = None, None
        if "error" in outcome:
            error = parse_error(outcome["error"])
        else:
            result = _parse_result(outcome, begun.tool_id, duration)
        self._answered[key] = Answered(key, begun.tool_id, begun.args, duration, result, error)

    @contextmanager
    def _translate_store_errors(self) -> Iterator[None]:
        """Raise errors of the store as `SnapshotError`, which ends the run; they are not errors of a tool."""
        try:
            yield
        except StoreError as error:
            raise SnapshotError(self.run_id, f"it cannot be written: {error}") from error

    def _seal(self, part: str, payload: bytes) -> bytes:
        return self._signer.seal(self.run_id, part, payload)

    def _open(self, part: str, sealed: bytes) -> dict[str, Any]:
        opened: dict[str, Any] = json.loads(self._signer.open(self.run_id, part, sealed))
        return opened


def _describe_call(key: str, begun: _BegunCall, known: Answered | None) -> RunCall:
    facts: dict[str, Any] = {"key": key, "tool_id": begun.tool_id, "args": begun.args}
    if known is None:
        return RunCall.from_valid(state="open", **facts)
    if known.error is not None:
        return RunCall.from_valid(state="failed", duration=known.duration, message=str(known.error), **facts)
    value = None if known.result is None else known.result.structured
    return RunCall.from_valid(state="answered", duration=known.duration, value=value, **facts)


def _to_json_bytes(value: Any) -> bytes:
    try:
        return to_json(value, inf_nan_mode="constants")
    except PydanticSerializationError:  # a lone surrogate, which JSON may hold
        return compact_json(value).encode("utf-8", "surrogatepass")


def _serialize_result(result: Any, duration: float) -> dict[str, Any]:
    value = getattr(result, "structured", result)
    tool, backend = getattr(result, "tool", None), getattr(result, "backend", None)
    return {
        "value": value.to_json() if isinstance(value, Record) else value,
        "tool": None if tool is None else str(tool.id),
        "backend": None if backend is None else _serialize_backend(backend),
        "notes": list(getattr(result, "notes", ())),
        "findings": [each.to_json() for each in getattr(result, "findings", ())],
        "duration": duration,
    }


@lru_cache(maxsize=256)
def _serialize_backend(backend: ToolBackend) -> dict[str, Any]:
    return backend.to_json()


def _parse_result(outcome: Mapping[str, Any], reference: str, duration: float) -> RunResult:
    try:
        named = ToolId.parse(outcome.get("tool") or reference)
    except InvalidToolIdError:  # answered by hand, so there is only the reference, with a version constraint
        named = ToolId.parse(reference.rpartition(":")[0])
    version = None if named.version is None else str(named.version)
    backend = outcome.get("backend")
    return RunResult.from_valid(
        tool=Tool.from_valid(
            name=named.name, namespace=named.namespace, version=version, input_schema=_ANY_OBJECT
        ),
        backend=None if backend is None else _BACKEND.validate_python(backend),
        structured=outcome["value"],
        duration=duration,
        notes=tuple(outcome["notes"]),
        findings=tuple(ResultFinding.from_json(each) for each in outcome.get("findings", ())),
    )


def serialize_error(error: Exception, tool_id: str = "") -> dict[str, Any]:
    """Return an error as JSON: its class and those of its fields that are plain values."""
    if not isinstance(error, ToolcribError):
        error = ToolExecutionError(tool_id=tool_id, reason=error_text(error))
    facts = {
        name: value
        for name, value in vars(error).items()
        if isinstance(value, str | int | float | bool) or value is None
    }
    problems = [[each.path, each.keyword, each.message] for each in getattr(error, "problems", ())]
    suggestions = list(getattr(error, "suggestions", ()))
    more: dict[str, Any] = {}
    if isinstance(error, ChainError):
        more["results"] = [each.model_dump(mode="json", by_alias=True) for each in error.results]
        if isinstance(error.__cause__, ToolcribError):
            more["cause"] = serialize_error(error.__cause__)
    elif isinstance(so_far := getattr(error, "result", None), ExecuteResult):
        more["result"] = so_far.model_dump(mode="json", by_alias=True)
    return {
        **more,
        "class": type(error).__name__,
        "facts": facts,
        "problems": problems,
        "suggestions": suggestions,
        "message": str(error),
    }


def parse_error(kept: Mapping[str, Any]) -> ToolcribError:
    """Return a stored error; a `ToolExecutionError` if its class is unknown."""
    kind = getattr(toolcrib.errors, kept["class"], None)
    if not (isinstance(kind, type) and issubclass(kind, ToolcribError)):
        facts = kept["facts"]
        return ToolExecutionError(tool_id=str(facts.get("tool_id", "")), reason=kept["message"])
    # Error classes build their message in `__init__` from arguments that are not all stored; so it is
    # skipped, and each field gets its stored value or its default.
    error = kind.__new__(kind)
    known: dict[str, Any] = {}
    for each in fields(kind):  # type: ignore[arg-type]  # every error is a dataclass
        if each.default is not MISSING:
            known[each.name] = each.default
        elif each.default_factory is not MISSING:
            known[each.name] = each.default_factory()
        else:
            known[each.name] = ()
    known |= kept["facts"]
    if "problems" in known:
        known["problems"] = tuple(Problem(*each) for each in kept["problems"])
    if "suggestions" in known:
        known["suggestions"] = tuple(kept["suggestions"])
    if "results" in kept:
        known["results"] = tuple(StepResult.from_json(each) for each in kept["results"])
    if "cause" in kept:
        error.__cause__ = parse_error(kept["cause"])
    if "result" in kept:
        known["result"] = ExecuteResult.from_json(kept["result"])
    error.__dict__.update(known)
    return error
