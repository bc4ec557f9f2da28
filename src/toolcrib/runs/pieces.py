"""The pieces of a durable run that workers do: what a workflow asks for, and what it gets back.

They go through Temporal and stay in its histories, so they name the run and its calls, and hold nothing of
them: arguments, results and states are in the store of the runs. A field that is added needs a default, since
histories and workers of earlier versions lack it.
"""

from dataclasses import dataclass, field


class CallNotMadeError(Exception):
    """A call that a worker has certainly not made, so that another one may."""


@dataclass(frozen=True, slots=True)
class RunTask:
    """A run, as its workflow is started with it."""

    run_id: str
    """The id of the run."""
    principal: str
    """The principal whose calls it makes, signed."""
    queue: str
    """The task queue of the workers that advance it."""
    heartbeat: float
    """Seconds without a heartbeat after which a worker counts as dead."""
    timeout: float | None = None
    """Seconds for the whole run; None for no limit."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a run: make a call, or find the next ones, or both."""

    run_id: str
    """The id of the run."""
    workflow: str
    """The id of the workflow, which holds the run."""
    principal: str
    """As in the `RunTask`."""
    elapsed: float = 0.0
    """Seconds since the workflow began."""
    key: str | None = None
    """The call to make; None for none."""
    within: float | None = None
    """The timeout of that call."""
    advances: bool = True
    """Whether to find the next calls."""
    running: tuple[str, ...] = ()
    """The calls that other workers are making."""
    lost: tuple[str, ...] = ()
    """Calls whose worker has died, which may have run."""


@dataclass(frozen=True, slots=True)
class NextCall:
    """A call that comes next."""

    key: str
    """The call."""
    tool_id: str
    """Its tool, for people who read the history."""
    queue: str
    """The task queue of workers that can make it."""
    repeatable: bool = False
    """Whether it may be made again if its worker dies."""
    within: float | None = None
    """Its timeout."""


@dataclass(frozen=True, slots=True)
class PieceReply:
    """How far a piece has brought a run."""

    end: str = ""
    """How the run ended: `done`, `failed`, or, so that it can be resumed, `uncertain`, `timeout`, `stopped`
    by an error, or `lost` by its workers; empty if it goes on."""
    error: str = ""
    """The error that stopped it, as JSON."""
    calls: tuple[NextCall, ...] = field(default_factory=tuple)
    """The calls that come next."""
    advanced: bool = True
    """Whether the next calls were looked for."""
    lost: bool = False
    """Whether the worker died, so that the call may have run; set by the workflow."""
