"""Store of durable runs in memory, lost when the process ends: for tests and experiments."""

import threading
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from toolcrib.errors import StoreError
from toolcrib.runs.store import NO_OUTCOMES, OPEN, Lease, NewCall, StoredCall, StoredRun, lease_error


class MemoryRunStore:
    """Keeps runs in a dict; see `RunStore` for the contract."""

    def __init__(self) -> None:
        self._runs: dict[str, StoredRun] = {}
        self._lock = threading.Lock()
        self._closed = False

    def begin(self, run: StoredRun) -> None:
        """Store a new run."""
        with self._lock:
            self._check_open()
            if run.id in self._runs:
                raise StoreError("memory", f"there is a run {run.id!r} already")
            self._runs[run.id] = run

    def intend(self, lease: Lease, call: NewCall, outcomes: Mapping[str, bytes] = NO_OUTCOMES) -> None:
        """Store the intent of a call, and the state to resume from."""
        with self._lock:
            run = self._find_leased(lease)
            answered = {
                each: StoredCall(run.calls[each].intent, outcome) for each, outcome in outcomes.items()
            }
            calls = {**run.calls, **answered, call.key: StoredCall(call.intent)}
            state = run.state if call.state is None else call.state
            self._runs[run.id] = replace(
                run, calls=calls, state=state, sequence=call.sequence, changed=call.at
            )

    def intend_at_once(
        self, lease: Lease, call: NewCall, outcomes: Mapping[str, bytes] = NO_OUTCOMES
    ) -> bool:
        """Store the intent of a call; this store never has to wait."""
        self.intend(lease, call, outcomes)
        return True

    def answer(self, lease: Lease, key: str, outcome: bytes) -> None:
        """Store the outcome of a call."""
        with self._lock:
            run = self._find_leased(lease)
            if key not in run.calls:
                raise StoreError("memory", f"run {run.id!r} has no call {key!r}")
            calls = {**run.calls, key: StoredCall(run.calls[key].intent, outcome)}
            self._runs[run.id] = replace(run, calls=calls)

    def end(self, lease: Lease, status: str, result: bytes, step: int, now: float) -> None:
        """Store the result of a run, and delete its calls and its state."""
        with self._lock:
            run = self._find_leased(lease)
            gone: dict[str, Any] = {"state": None, "sequence": None, "calls": {}, "holder": ""}
            self._runs[run.id] = replace(run, **gone, status=status, result=result, step=step, changed=now)

    def hold(self, lease: Lease, holder: str) -> Lease | None:
        """Change the holder of a run, if the lease is still valid."""
        with self._lock:
            self._check_open()
            run = self._runs.get(lease.run_id)
            if run is None or run.status != OPEN or run.fence != lease.fence:
                return None
            self._runs[run.id] = replace(run, holder=holder, fence=run.fence + 1)
            return self._runs[run.id].lease

    def get(self, run_id: str) -> StoredRun | None:
        """Return a run."""
        with self._lock:
            self._check_open()
            return self._runs.get(run_id)

    def runs(self, owner: str | None = None) -> Collection[StoredRun]:
        """Return the runs of an owner, or of all, the latest first."""
        with self._lock:
            self._check_open()
            found = [run for run in self._runs.values() if owner is None or run.owner == owner]
        latest = sorted(found, key=lambda run: (run.began, run.id), reverse=True)
        return [replace(run, state=None, result=None, sequence=None, calls={}) for run in latest]

    def delete(self, run_ids: Collection[str]) -> None:
        """Delete runs."""
        with self._lock:
            self._check_open()
            for run_id in run_ids:
                self._runs.pop(run_id, None)

    def close(self) -> None:
        """Refuse all further use."""
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("memory", "it is closed; open it again")

    def _find_leased(self, lease: Lease) -> StoredRun:
        self._check_open()
        run = self._runs.get(lease.run_id)
        if run is None or run.status != OPEN or run.fence != lease.fence:
            raise lease_error("memory", lease, run)
        return run
