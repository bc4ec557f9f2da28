"""The protocol of stores for durable runs."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol, runtime_checkable

from toolcrib.errors import StoreError

OPEN = "open"
"""The status of an unfinished run; the others are `done` and `failed`."""
NO_OUTCOMES: Mapping[str, bytes] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class StoredCall:
    """A stored call."""

    intent: bytes
    """The signed intent."""
    outcome: bytes | None = None
    """The signed outcome, once it is known."""


@dataclass(frozen=True, slots=True)
class NewCall:
    """A call to store before it is made."""

    key: str
    """The key of the call, which is not empty."""
    intent: bytes
    """The signed intent."""
    sequence: bytes
    """The sequence of all calls of the run up to this one."""
    at: float
    """The time of the call, in seconds since the epoch."""
    state: bytes | None = None
    """The new state to resume from; None if it is unchanged."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write a run, which ends when another holder takes over or the run is released."""

    run_id: str
    """The id of the run."""
    fence: int
    """The fencing token: increases with each change of holder, and is never reused."""


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A stored run; a store returns its bytes unchanged."""

    id: str
    """The id of the run."""
    owner: str
    """The key of its owner."""
    head: bytes
    """The signed request."""
    began: float
    """When it began, in seconds since the epoch."""
    changed: float
    """When its last call began, or when the run ended."""
    status: str = OPEN
    """`open`, `done` or `failed`."""
    holder: str = ""
    """The identifier of the process that runs it; empty if none does."""
    fence: int = 1
    """The fencing token of the lease that may write it."""
    step: int = 0
    """The number of its calls, once it has ended."""
    state: bytes | None = None
    """The signed state to resume from."""
    result: bytes | None = None
    """The signed result, once it has ended."""
    sequence: bytes | None = None
    """The sequence of its calls, as stored with the last of them."""
    calls: Mapping[str, StoredCall] = field(default_factory=dict)
    """Its calls by key."""

    @property
    def lease(self) -> Lease:
        """The lease of the holder when the run was read."""
        return Lease(self.id, self.fence)


@runtime_checkable
class RunStore(Protocol):
    """Keeps durable runs.

    Every method may be called from any thread. Each method writes everything or nothing; when it returns, the
    write survives the death of the process. Writing to a run that does not exist or has ended, or with a
    lease that is no longer valid, raises `StoreError`. So does any other failure, such as a value of the
    wrong type in the store.

    The methods may block, and are called in threads. A store may also have a method `intend_at_once`, which
    is called in the event loop because a thread takes longer: it does the same as `intend` and returns True,
    or returns False if it would have to wait for a lock or the disk, or fails.
    """

    def begin(self, run: StoredRun) -> None:
        """Store a new run, which has no calls yet."""
        ...

    def intend(self, lease: Lease, call: NewCall, outcomes: Mapping[str, bytes] = NO_OUTCOMES) -> None:
        """Store the intent of a call.

        The outcomes of earlier calls, by key, are written with it. A call that is already stored begins
        again, and its outcome is deleted.
        """
        ...

    def answer(self, lease: Lease, key: str, outcome: bytes) -> None:
        """Store the outcome of a call."""
        ...

    def end(self, lease: Lease, status: str, result: bytes, step: int, now: float) -> None:
        """Store the result of a run after `step` calls; delete these and its state."""
        ...

    def hold(self, lease: Lease, holder: str) -> Lease | None:
        """Change the holder of a run, or release it; None if the lease is invalid or the run has ended."""
        ...

    def get(self, run_id: str) -> StoredRun | None:
        """Return a run, with everything that is stored about it."""
        ...

    def runs(self, owner: str | None = None) -> Collection[StoredRun]:
        """Return the runs of an owner, or of all, the latest first, as far as they can be read.

        They are without `calls`, `sequence`, `state` and `result`.
        """
        ...

    def delete(self, run_ids: Collection[str]) -> None:
        """Delete runs; unknown ids are ignored."""
        ...

    def close(self) -> None:
        """Release the resources of the store; a second call does nothing."""
        ...


def lease_error(where: str, lease: Lease, run: StoredRun | None) -> StoreError:
    """Return the error for a write with a lease that is not valid."""
    if run is None or run.status != OPEN:
        return StoreError(where, f"there is no open run {lease.run_id!r}")
    return StoreError(where, f"run {lease.run_id!r}: another process has taken it over")
