"""`RunRecord`: a durable run in a list."""

from typing import Literal

from pydantic import Field

from toolcrib.model.record import Record

RunKind = Literal["code", "chain"]
RunState = Literal["running", "suspended", "done", "failed"]


class RunRecord(Record):
    """One durable run."""

    id: str
    """What `resume` takes."""
    kind: RunKind
    """Code, or a chain."""
    state: RunState
    """`running` in a process that is alive; `suspended` can be resumed, also after a crash; `done` can be
    asked for its result again; `failed` is over."""
    step: int
    """How many of its calls have been answered."""
    began: float
    """When it began, in seconds since the epoch."""
    changed: float
    """When its last call was begun, or it ended."""
    principal: str | None = None
    """Who runs it; absent where that is the program itself."""
    uncertain: dict[str, str] = Field(default_factory=dict)
    """The tools of the calls that may have run, by the key of the call."""
