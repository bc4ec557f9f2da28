"""`RunRecord`: a durable run in a list."""

from typing import Literal

from pydantic import Field

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
    """`running`: held by a live process. `suspended`: can be resumed, also after a crash. `done`: `resume`
    returns its result. `failed`: cannot be resumed."""
    step: int
    """The number of answered calls."""
    began: float
    """When it began, in seconds since the epoch."""
    changed: float
    """When its last call was begun, or it ended."""
    principal: str | None = None
    """Its owner; None for the program itself."""
    uncertain: dict[str, str] = Field(default_factory=dict)
    """The tools of the calls that may have run, by the key of the call."""
