"""Errors of durable runs, and of converting code to a chain."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from toolcrib.errors.base import ToolcribError


@dataclass(eq=False)
class RunNotFoundError(ToolcribError, LookupError):
    """The durable run does not exist, or belongs to another principal."""

    run_id: str
    """The id of the run."""
    where: str = ""
    """The file that was searched, if there is one; each configuration has its own."""

    def __str__(self) -> str:
        if not self.where:
            return f"no run {self.run_id!r}; `toolcrib runs` lists them"
        return (
            f"no run {self.run_id!r} in {self.where}; `toolcrib runs` lists them, and --config names another"
            " configuration, which has runs of its own"
        )


@dataclass(eq=False)
class RunStateError(ToolcribError, RuntimeError):
    """A durable run whose state does not allow the request, such as one that has failed."""

    run_id: str
    """The id of the run."""
    reason: str
    """Its state."""

    def __str__(self) -> str:
        return f"run {self.run_id!r}: {self.reason}"


@dataclass(eq=False)
class EngineUnavailableError(ToolcribError, ConnectionError):
    """A Temporal server that cannot be reached, or refuses this client; its runs continue."""

    address: str
    """Its host and port."""
    reason: str
    """The reason, as the connection or the server gave it."""

    def __str__(self) -> str:
        return f"the engine of durable runs, Temporal at {self.address}, is unavailable: {self.reason}"


@dataclass(eq=False)
class SnapshotError(ToolcribError, ValueError):
    """A stored durable run that cannot be trusted or read: modified, signed by another key, or too old."""

    run_id: str
    """The id of the run."""
    reason: str
    """The reason why it is refused."""

    def __str__(self) -> str:
        return f"what is stored of run {self.run_id!r} is refused: {self.reason}"


@dataclass(eq=False)
class CallUncertainError(ToolcribError, RuntimeError):
    """Calls of a durable run that were begun, but whose results were not recorded: they may have run."""

    run_id: str
    """The id of the run, whose state is unchanged."""
    calls: Mapping[str, str]
    """The ids of the tools, by the key of the call."""
    remedy: str = field(
        default="repeat=True to make it again, or with answers={key: value} to go on with that answer",
        kw_only=True,
    )
    """The arguments to resume the run with, in the syntax of the interface that was used."""

    def __str__(self) -> str:
        named = ", ".join(f"call {key} of {tool_id!r}" for key, tool_id in self.calls.items())
        return (
            f"run {self.run_id!r}: {named} may have run, and repeating it may do harm; find out, then resume"
            f" with {self.remedy}"
        )


@dataclass(eq=False)
class NotStraightLineError(ToolcribError, ValueError):
    """Code that cannot be converted to a chain: it does more than call one tool after another."""

    reason: str
    """The part that a chain cannot express."""
    line: int
    """The line of the code, from 1."""

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}"
