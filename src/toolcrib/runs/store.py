"""The protocol of stores for durable runs."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol, runtime_checkable

__all__ = ["NOTHING", "OPEN", "RunStore", "StoredCall", "StoredRun"]

OPEN = "open"
"""The status of a run that has not ended; the others are `done` and `failed`."""


NOTHING: Mapping[str, bytes] = MappingProxyType({})
"""No outcomes."""


@dataclass(frozen=True, slots=True)
class StoredCall:
    """A call as it is kept."""

    intent: bytes
    """What was to be done."""
    outcome: bytes | None = None
    """What came of it, once that is known."""


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run as it is kept: bytes that the store hands back as they came."""

    id: str
    """The id of the run."""
    owner: str
    """Whose it is."""
    head: bytes
    """What was asked for."""
    began: float
    """When it began, in seconds since the epoch."""
    changed: float
    """When its last call was begun, or it ended."""
    status: str = OPEN
    """`open`, `done` or `failed`."""
    holder: str = ""
    """The mark of the process that runs it; empty where none does."""
    step: int = 0
    """After how many calls it ended, once it has."""
    state: bytes | None = None
    """What it goes on from."""
    result: bytes | None = None
    """What came of it, once it has ended."""
    calls: Mapping[str, StoredCall] = field(default_factory=dict)
    """Its calls by key, in the order in which they were begun."""


@runtime_checkable
class RunStore(Protocol):
    """Keeps durable runs.

    Every method may be called from any thread. What a method wrote has been written when it returns, all of
    it or nothing, and outlives the death of the process. To write of a run that is not there, or not open any
    more, is a `StoreError`, and so is everything else that goes wrong.
    """

    def begin(self, run: StoredRun) -> None:
        """Keep a new run, which has no calls yet."""
        ...

    def intend(
        self,
        run_id: str,
        key: str,
        intent: bytes,
        state: bytes | None,
        now: float,
        outcomes: Mapping[str, bytes] = NOTHING,
    ) -> None:
        """Keep what a call is to do, and with it what the run goes on from, unless that is None.

        The outcomes are those of earlier calls, by key, which are kept with it. A call that is there already
        begins again: its outcome is forgotten.
        """
        ...

    def answer(self, run_id: str, key: str, outcome: bytes) -> None:
        """Keep what came of a call."""
        ...

    def end(self, run_id: str, status: str, result: bytes, step: int, now: float) -> None:
        """Keep what came of a run after so many calls; forget these and what it would go on from."""
        ...

    def hold(self, run_id: str, before: str, holder: str) -> bool:
        """Make somebody the holder of a run, if `before` still is; return whether that was so."""
        ...

    def get(self, run_id: str) -> StoredRun | None:
        """Return a run, with all that is kept of it."""
        ...

    def runs(self, owner: str | None = None) -> Collection[StoredRun]:
        """Return the runs of an owner, or of all, the latest first; without calls, `state` and `result`."""
        ...

    def delete(self, run_ids: Collection[str]) -> None:
        """Forget runs; to forget what is not there is no error."""
        ...

    def close(self) -> None:
        """Let go of what the store holds; a second time does nothing."""
        ...
