"""Errors of durable runs, and of making a chain of one."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from toolcrib.errors.base import ToolcribError


@dataclass(eq=False)
class RunNotFoundError(ToolcribError, LookupError):
    """There is no such durable run, or it is somebody else's."""

    run_id: str
    """The id that was asked for."""
    where: str = ""
    """The file that it was looked for in, where there is one; each configuration has its own."""

    def __str__(self) -> str:
        if not self.where:
            return f"no run {self.run_id!r}; `toolcrib runs` lists them"
        return (
            f"no run {self.run_id!r} in {self.where}; `toolcrib runs` lists them, and --config names another"
            " configuration, which has runs of its own"
        )


@dataclass(eq=False)
class RunStateError(ToolcribError, RuntimeError):
    """A durable run that cannot be resumed: it is running, or it has failed."""

    run_id: str
    """The run."""
    reason: str
    """What its state is."""

    def __str__(self) -> str:
        return f"run {self.run_id!r} cannot be resumed: {self.reason}"


@dataclass(eq=False)
class SnapshotError(ToolcribError, ValueError):
    """What is stored of a durable run cannot be trusted or read: changed, of another key, or too old."""

    run_id: str
    """The run."""
    reason: str
    """What is wrong with it."""

    def __str__(self) -> str:
        return f"what is stored of run {self.run_id!r} is refused: {self.reason}"


@dataclass(eq=False)
class CallUncertainError(ToolcribError, RuntimeError):
    """Calls of a durable run that were begun and whose answers were not recorded: they may have run."""

    run_id: str
    """The run, which is as it was."""
    calls: Mapping[str, str]
    """The tools, by the key of the call."""
    remedy: str = field(
        default="repeat=True to make it again, or with answers={key: value} to go on with that answer",
        kw_only=True,
    )
    """What to resume it with, in the words of whoever resumed it."""

    def __str__(self) -> str:
        named = ", ".join(f"call {key} of {tool_id!r}" for key, tool_id in self.calls.items())
        return (
            f"run {self.run_id!r}: {named} may have run, and it may do harm to repeat; find out, then resume"
            f" with {self.remedy}"
        )


@dataclass(eq=False)
class NotStraightLineError(ToolcribError, ValueError):
    """Code that a chain cannot express: it does more than call one tool after another."""

    reason: str
    """What the chain cannot express."""
    line: int
    """The line of the code, the first being 1."""

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}"
