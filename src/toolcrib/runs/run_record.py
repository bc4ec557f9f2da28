"""Records about durable runs: one in a list, and one with its calls."""

from typing import Any, Literal

from pydantic import Field

from toolcrib.errors.base import count_noun
from toolcrib.model.display import brief, one_line
from toolcrib.model.record import Record

RunKind = Literal["code", "chain"]
RunState = Literal["running", "suspended", "done", "failed"]


class RunRecord(Record):
    """One durable run."""

    id: str
    """The id, for `resume`."""
    kind: RunKind
    """Code, or a chain."""
    state: RunState
    """`running`: held by a live process. `suspended`: can be resumed, even after a crash. `done`: `resume`
    returns its result. `failed`: cannot be resumed."""
    step: int
    """The number of answered calls."""
    began: float
    """When it began, in seconds since the epoch."""
    changed: float
    """When its last call began, or when the run ended."""
    principal: str | None = None
    """Its owner; None for the program itself."""
    toolset: str | None = None
    """The toolset that it was begun in: its name, `#` and a digest for one without a name, or empty for all
    tools; None if begun by an earlier version, which did not record it."""
    workflow: str | None = None
    """The id of the Temporal workflow that holds it; None if a process or nobody does."""
    uncertain: dict[str, str] = Field(default_factory=dict)
    """The tools of the calls that may have run, by the key of the call."""

    def __repr__(self) -> str:
        may_have_run = f", {brief(self.uncertain)} may have run" if self.uncertain else ""
        calls = count_noun(self.step, "answered call")
        return f"<RunRecord {one_line(self.id)}: {self.kind}, {self.state}, {calls}{may_have_run}>"

    __str__ = __repr__


class RunCall(Record):
    """A call of a durable run."""

    key: str
    """Its key: the number of the call for code; the numbers of the step and its place or item for a chain."""
    tool_id: str
    """The reference in the call."""
    args: dict[str, Any]
    """The arguments."""
    state: Literal["answered", "failed", "open"]
    """`open`: it is being made, or, in a suspended run, may have run."""
    duration: float | None = None
    """Seconds."""
    value: Any = None
    """The result."""
    message: str | None = None
    """The error."""


class RunDetails(Record):
    """A durable run with everything that is stored about it."""

    run: RunRecord
    """The run, as in a list."""
    request: dict[str, Any]
    """The request that began it, with its `code` or its `steps`."""
    calls: tuple[RunCall, ...] = ()
    """The calls of a run that has not ended; those of one that has are in its result."""
    result: Any = None
    """The result of a run that is done, as JSON."""
    message: str | None = None
    """The error of a run that has failed."""
