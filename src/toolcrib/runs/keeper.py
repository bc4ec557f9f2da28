"""Begins, lists and resumes durable runs, each for its own principal."""

import json
import logging
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from secrets import token_hex
from time import time
from typing import Any, TypeVar, TypeVarTuple

import anyio

from toolcrib.concurrency.background import await_future
from toolcrib.concurrency.threads import Threads
from toolcrib.errors import (
    CallUncertainError,
    LimitExceededError,
    RunNotFoundError,
    RunStateError,
    SnapshotError,
    StoreError,
)
from toolcrib.execution import Principal
from toolcrib.isolation.owner import is_gone, own_mark
from toolcrib.runs.journal import RunJournal, parse_error
from toolcrib.runs.run_record import RunDetails, RunKind, RunRecord, RunState
from toolcrib.runs.signing import Signer
from toolcrib.runs.store import OPEN, RunStore, StoredRun

_LOG = logging.getLogger("toolcrib.runs")
_Given = TypeVarTuple("_Given")
_Result = TypeVar("_Result")
_WORKFLOW = "workflow:"
"""Prefix of the mark of a holder that is a workflow of Temporal, whose pieces any worker does."""
_UNKNOWN_PROCESS = "0"
"""Mark used where processes cannot be listed; a run with it counts as running, since nothing proves the
end."""


@dataclass(frozen=True, slots=True)
class ResumedRun:
    """A resumed run: its journal to continue with, or the result of a finished run."""

    kind: RunKind
    request: dict[str, Any]
    """The request that began it."""
    journal: RunJournal | None = None
    result: Any = None
    """Final result; None while the run is unfinished."""


@dataclass(frozen=True, slots=True)
class HeldRun:
    """A run of a workflow, read by one of its workers."""

    kind: RunKind
    request: dict[str, Any]
    """The request that began it."""
    toolset: str | None
    """The toolset that it was begun in."""
    journal: RunJournal


class RunKeeper:
    """Keeps the durable runs of all principals apart.

    Args:
        store: the store of all runs.
        signer: signs everything that is stored.
        max_age: seconds after its last call when a run is deleted.
        max_runs: the most runs in the store; ended runs are deleted to make room for new ones.
        threads: the threads that use the store.
    """

    def __init__(
        self,
        store: RunStore,
        signer: Signer,
        *,
        max_age: float,
        max_runs: int,
        threads: Threads | None = None,
    ) -> None:
        self._store, self._signer = store, signer
        self._max_age, self._max_runs = max_age, max_runs
        self._threads = threads or Threads(1)

    async def begin(
        self,
        kind: RunKind,
        request: dict[str, Any],
        principal: Principal | None,
        toolset: str = "",
        workflow: str | None = None,
    ) -> RunJournal:
        """Begin a run in a toolset, which this process, or a workflow, holds until it is released.

        Raises:
            LimitExceededError: there are too many unfinished runs.
        """
        holder = _holder_mark(workflow)
        begun = self._threads.submit(partial(self._begin, kind, request, principal, toolset, holder))
        try:
            return await await_future(begun)
        except BaseException:
            # the thread may still store the run, which nobody would then release
            begun.add_done_callback(self._release_abandoned)
            raise

    def _release_abandoned(self, begun: "Future[RunJournal]") -> None:
        """Release a run that has begun after its caller was cancelled."""
        if not begun.cancelled() and begun.exception() is None:
            self._threads.submit(partial(self._store.hold, begun.result().lease, ""))

    def _begin(
        self, kind: RunKind, request: dict[str, Any], principal: Principal | None, toolset: str, holder: str
    ) -> RunJournal:
        now = time()
        self._prune(now)
        run_id = token_hex(8)
        owner = _owner_key(principal)
        head = {"kind": kind, "request": request, "owner": owner, "began": now, "toolset": toolset}
        sealed = self._signer.seal(run_id, "head", json.dumps(head).encode())
        run = StoredRun(run_id, owner, sealed, now, now, holder=holder)
        return RunJournal.begin(self._store, self._signer, run, self._threads)

    @asynccontextmanager
    async def release_after(self, journal: RunJournal) -> AsyncIterator[None]:
        """Release a run when the block ends, so that an unfinished one can be resumed."""
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                with suppress(SnapshotError):  # a call without a stored answer is uncertain, which is safe
                    await journal.flush()
                try:
                    await self._run_in_thread(self._store.hold, journal.lease, "")
                except StoreError as error:
                    _LOG.warning("run %s stays with this process until it ends: %s", journal.run_id, error)

    async def take(self, run_id: str, workflow: str) -> HeldRun:
        """Return a run for a worker that does the next piece of its workflow; it alone may begin calls.

        Raises:
            RunStateError: the workflow does not hold the run.
            StoreError: another worker takes it at this moment.
            SnapshotError: what is stored was changed, or signed with another key.
        """
        return await self._run_in_thread(self._take, run_id, workflow, True)  # noqa: FBT003 - a flag of our own

    async def read_held(self, run_id: str, workflow: str) -> HeldRun:
        """Return a run for a worker that makes a call which was begun.

        Raises:
            RunStateError: the workflow does not hold the run.
            SnapshotError: what is stored was changed, or signed with another key.
        """
        return await self._run_in_thread(self._take, run_id, workflow, False)  # noqa: FBT003 - as above

    def _take(self, run_id: str, workflow: str, renew: bool) -> HeldRun:  # noqa: FBT001 - as above
        run = self._store.get(run_id)
        holder = _holder_mark(workflow)
        if run is None or run.status != OPEN or run.holder != holder:
            raise RunStateError(run_id, f"the workflow {workflow} does not hold it")
        if renew:
            # the fencing token changes, so that a worker which was taken for dead begins no more calls
            lease = self._store.hold(run.lease, holder)
            if lease is None:
                raise StoreError("runs", f"another worker has just taken run {run_id!r}")
            run = replace(run, fence=lease.fence)
        head = self._open_head(run)
        journal = RunJournal(self._store, self._signer, run, self._threads)
        return HeldRun(head["kind"], head["request"], head.get("toolset"), journal)

    async def find_end(self, run_id: str) -> str:
        """Return `done` or `failed` for a run that has ended; empty for others."""
        run = await self._run_in_thread(self._store.get, run_id)
        return "" if run is None or run.status == OPEN else run.status

    async def release_workflow(self, run_id: str, workflow: str) -> None:
        """Release a run that a workflow holds, so that it can be resumed."""
        await self._run_in_thread(self._release_workflow, run_id, workflow)

    def _release_workflow(self, run_id: str, workflow: str) -> None:
        while (run := self._store.get(run_id)) is not None:
            if run.status != OPEN or run.holder != _holder_mark(workflow):
                return
            if self._store.hold(run.lease, "") is not None:
                return

    def seal_principal(self, run_id: str, principal: Principal | None) -> str:
        """Return the principal whose calls workers make, signed, as text."""
        facts = None if principal is None else asdict(principal)
        payload = json.dumps(facts, default=sorted).encode()
        return b64encode(self._signer.seal(run_id, "principal", payload)).decode()

    def open_principal(self, run_id: str, sealed: str) -> Principal | None:
        """Return the principal that `seal_principal` has signed.

        Raises:
            SnapshotError: it was signed for another run or with another key.
        """
        facts = json.loads(self._signer.open(run_id, "principal", b64decode(sealed)))
        return None if facts is None else Principal(**facts)

    async def _run_in_thread(self, function: Callable[[*_Given], _Result], *args: *_Given) -> _Result:
        result: _Result = await await_future(self._threads.submit(partial(function, *args)))
        return result

    async def runs(self, principal: Principal | None) -> tuple[RunRecord, ...]:
        """Return the runs of a principal, the latest first, without those whose signature is wrong."""
        return await self._run_in_thread(self._list_runs, principal)

    def _list_runs(self, principal: Principal | None) -> tuple[RunRecord, ...]:
        found = []
        for listed in self._store.runs(_owner_key(principal)):
            run, step, uncertain = listed, listed.step, dict[str, str]()
            try:
                if listed.status == OPEN:  # only the calls of an unfinished run say how far it has come
                    run = self._store.get(listed.id) or listed
                    journal = RunJournal(self._store, self._signer, replace(run, state=None))
                    step, uncertain = journal.step, journal.uncertain
                head = self._open_head(run)
            except (SnapshotError, StoreError):
                continue
            found.append(_make_record(run, head, step, uncertain, principal))
        return tuple(found)

    async def read(self, run_id: str, principal: Principal | None) -> RunDetails:
        """Return a run with its request and its calls, or its result.

        Raises:
            RunNotFoundError: there is none, or it is another principal's.
            SnapshotError: what is stored was changed, or signed with another key.
        """
        return await self._run_in_thread(self._read_details, run_id, principal)

    def _read_details(self, run_id: str, principal: Principal | None) -> RunDetails:
        run = self._store.get(run_id)
        if run is None or run.owner != _owner_key(principal):
            raise RunNotFoundError(run_id)
        head = self._open_head(run)
        if run.status == OPEN:
            journal = RunJournal(self._store, self._signer, replace(run, state=None))
            record = _make_record(run, head, journal.step, journal.uncertain, principal)
            return RunDetails(run=record, request=head["request"], calls=journal.calls())
        record = _make_record(run, head, run.step, {}, principal)
        ended = json.loads(self._signer.open(run.id, "result", run.result or b""))
        end = {"result": ended} if run.status == "done" else {"message": _message_of(ended)}
        return RunDetails(run=record, request=head["request"], **end)

    async def resume(  # noqa: PLR0913 - who resumes it, what about its uncertain calls, and who holds it
        self,
        run_id: str,
        principal: Principal | None,
        *,
        is_repeatable: Callable[[str], Awaitable[bool]],
        check_answer: Callable[[str, str, Any], Awaitable[None]],
        repeat: bool = False,
        answers: Mapping[str, Any] | None = None,
        workflow: str | None = None,
        ended: str | None = None,
    ) -> ResumedRun:
        """Resume a run, which this process then holds until `release_after` ends, or return its result.

        With `workflow`, that workflow holds it. `ended` is a workflow that has ended without a word.
        `is_repeatable` returns whether a tool is idempotent. `check_answer` gets the key of a call, its tool
        and the answer from the caller, and raises if the tool could not have returned that.

        Raises:
            RunNotFoundError: there is none, or it is another principal's.
            RunStateError: a process that is alive runs it, or it has failed; or it takes no such answers.
            SnapshotError: what is stored was changed, signed with another key, or is too old.
            CallUncertainError: calls may have run, and the caller neither answers nor repeats them.
        """
        run, head, journal = await self._run_in_thread(self._read_run, run_id, principal, ended)
        if journal is None:
            return await self._run_in_thread(self._open_result, run, head, answers)
        if time() - max(journal.changed, head["began"]) > self._max_age:
            raise SnapshotError(run_id, f"it is too old: nothing was done for {self._max_age:g} s")
        given = answers or {}
        if unknown := sorted(given.keys() - journal.uncertain.keys()):
            raise RunStateError(run_id, f"call {unknown[0]!r} is not one that may have run")
        left = {key: tool for key, tool in journal.uncertain.items() if key not in given}
        unsafe = {} if repeat else {key: tool for key, tool in left.items() if not await is_repeatable(tool)}
        if unsafe:
            raise CallUncertainError(run_id, unsafe)
        for key, value in given.items():
            await check_answer(key, journal.uncertain[key], value)
        # Another process may have resumed the run since it was read, and even released it again. In both
        # cases the fencing token has changed, and `hold` returns None. The shield: a lease that was taken
        # must be known here, or it could not be released again.
        with anyio.CancelScope(shield=True):
            lease = await self._run_in_thread(self._store.hold, run.lease, _holder_mark(workflow))
        if lease is None:
            raise RunStateError(run_id, "another process has resumed it meanwhile; list the runs again")
        journal.lease = lease
        try:
            for key, value in given.items():
                await journal.answer_uncertain_call(key, value)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._run_in_thread(self._store.hold, lease, "")
            raise
        return ResumedRun(head["kind"], head["request"], journal)

    def _read_run(
        self, run_id: str, principal: Principal | None, ended: str | None
    ) -> tuple[StoredRun, dict[str, Any], RunJournal | None]:
        """Return a run with its journal, which is None if it has ended."""
        run = self._store.get(run_id)
        if run is None or run.owner != _owner_key(principal):
            raise RunNotFoundError(run_id)
        head = self._open_head(run)
        if run.status != OPEN:
            return run, head, None
        if _state_of(run) == "running" and (ended is None or run.holder != _holder_mark(ended)):
            raise RunStateError(run_id, f"a process is already running it: {run.holder}")
        return run, head, RunJournal(self._store, self._signer, run, self._threads)

    def _open_result(
        self, run: StoredRun, head: dict[str, Any], answers: Mapping[str, Any] | None
    ) -> ResumedRun:
        """Return the result of a run that has ended."""
        result = json.loads(self._signer.open(run.id, "result", run.result or b""))
        if run.status != "done":
            raise RunStateError(run.id, f"it has failed: {_message_of(result)}")
        if answers:
            reason = "it is done and takes no answers; resume it without any to get its result"
            raise RunStateError(run.id, reason)
        return ResumedRun(head["kind"], head["request"], result=result)

    async def read_journal(self, run_id: str) -> RunJournal:
        """Return the journal of a run that has not ended, to look at.

        Raises:
            RunNotFoundError: there is none.
        """
        return await self._run_in_thread(self._read_journal, run_id)

    def _read_journal(self, run_id: str) -> RunJournal:
        run = self._store.get(run_id)
        if run is None or run.status != OPEN:
            raise RunNotFoundError(run_id)
        return RunJournal(self._store, self._signer, replace(run, state=None), self._threads)

    async def read_end(self, run_id: str) -> Any:
        """Return the result of a run that is done.

        Raises:
            RunNotFoundError: there is none, or it has not ended.
            ToolcribError: the error of a run that has failed.
        """
        return await self._run_in_thread(self._read_end, run_id)

    def _read_end(self, run_id: str) -> Any:
        run = self._store.get(run_id)
        if run is None or run.status == OPEN:
            raise RunNotFoundError(run_id)
        ended = json.loads(self._signer.open(run_id, "result", run.result or b""))
        if run.status == "done":
            return ended
        raise parse_error(ended["error"])

    def _open_head(self, run: StoredRun) -> dict[str, Any]:
        head: dict[str, Any] = json.loads(self._signer.open(run.id, "head", run.head))
        if head["owner"] != run.owner:
            raise SnapshotError(run.id, "its stored owner is not the one that was signed")
        return head

    def _prune(self, now: float) -> None:
        """Delete runs that are too old, and then ended ones, oldest first, until there is room for one."""
        runs = list(self._store.runs())
        kept = [run for run in runs if now - run.changed <= self._max_age]
        ended = [run for run in kept if run.status != OPEN]
        too_many = max(0, len(kept) - self._max_runs + 1)
        if too_many > len(ended):
            reason = f"there are {len(kept)} runs that have not ended; resume them, or let them expire"
            raise LimitExceededError("runs", reason)
        spare = ended[len(ended) - too_many :]
        forgotten = {run.id for run in runs} - {run.id for run in kept} | {run.id for run in spare}
        if forgotten:
            self._store.delete(forgotten)


def _make_record(
    run: StoredRun, head: dict[str, Any], step: int, uncertain: dict[str, str], principal: Principal | None
) -> RunRecord:
    return RunRecord(
        id=run.id,
        kind=head["kind"],
        state=_state_of(run),
        step=step,
        began=run.began,
        changed=run.changed,
        principal=None if principal is None else str(principal),
        toolset=head.get("toolset"),
        workflow=_workflow_of(run),
        uncertain=uncertain,
    )


def _holder_mark(workflow: str | None) -> str:
    """Return the mark of this process, or of a workflow."""
    return own_mark() or _UNKNOWN_PROCESS if workflow is None else _WORKFLOW + workflow


def _workflow_of(run: StoredRun) -> str | None:
    return run.holder.removeprefix(_WORKFLOW) if run.holder.startswith(_WORKFLOW) else None


def _message_of(failure: Any) -> str:
    """Return the message of a failed run, which earlier versions stored alone."""
    return str(failure["message"] if isinstance(failure, dict) else failure)


def _owner_key(principal: Principal | None) -> str:
    """Return the key of a run's owner, without groups and scopes, which may change while it is stored."""
    if principal is None:
        return ""
    return json.dumps([principal.issuer, principal.subject, principal.client])


def _state_of(run: StoredRun) -> RunState:
    if run.status != OPEN:
        return "done" if run.status == "done" else "failed"
    return "suspended" if not run.holder or is_gone(run.holder) else "running"
