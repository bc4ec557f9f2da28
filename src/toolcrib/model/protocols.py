"""Protocols between packages that do not know each other."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from toolcrib.model.backend import ToolBackend
from toolcrib.model.tool import Tool
from toolcrib.model.toolid import ToolId


@runtime_checkable
class Resolver(Protocol):
    """Knows which tool a reference means, and where it can run.

    A reference is an exact id, `namespace:name` for the highest stable version, or
    `namespace:name:constraint`. Both methods raise `ToolNotFoundError`, with suggestions, where nothing
    answers to it, and are safe to call from any thread.
    """

    def resolve(self, ref: str | ToolId) -> Tool:
        """Return the tool that a reference means."""
        ...

    def backends(self, tool_id: str | ToolId) -> Sequence[ToolBackend]:
        """Return where the tool can run, in the order it was registered."""
        ...


@dataclass(frozen=True, slots=True)
class ResolvedTool:
    """The tool that a reference means, as a call needs it."""

    id: str
    """The id of the tool, as text."""
    tool: Tool
    backends: Sequence[ToolBackend]
    """The backends of the tool, in the order of their registration."""


@runtime_checkable
class ToolSource(Resolver, Protocol):
    """A resolver some of whose tools may not be listed yet by their servers."""

    def find(self, ref: str | ToolId) -> ResolvedTool:
        """Return the tool that the reference of a call means, by one lookup."""
        ...

    async def wait_for(self, ref: str | ToolId) -> None:
        """Wait until it is known whether there is a tool of this reference."""
        ...


@runtime_checkable
class ToolGateway(Protocol):
    """The four operations on tools that code in a sandbox may use.

    Calls run through the same stages as calls from outside: policy, validation, deadline, audit. They raise
    the same `ToolcribError`s. Implementations are safe to call from many tasks at once.
    """

    async def search(self, query: str, *, limit: int = 10) -> Any:
        """Return the tools that fit a question."""
        ...

    async def describe(self, tool_id: str, level: str = "schema") -> Any:
        """Return what is known about a tool, at the depth asked for."""
        ...

    async def run(self, tool_id: str, args: dict[str, Any]) -> Any:
        """Run a tool and return its result."""
        ...

    async def run_chain(self, steps: Sequence[Any]) -> Any:
        """Run tools one after another and return what each gave.

        One that also takes `around`, as `Runner.run_chain` does, lets whoever asks follow each call.
        """
        ...


class AnsweredCall(Protocol):
    """A call that was made before, and what came of it."""

    @property
    def key(self) -> str:
        """What distinguishes it from the other calls of the run."""
        ...

    @property
    def tool_id(self) -> str:
        """The tool that was asked for."""
        ...

    @property
    def args(self) -> dict[str, Any]:
        """Its arguments."""
        ...

    @property
    def duration(self) -> float:
        """Seconds."""
        ...

    @property
    def result(self) -> Any:
        """What it gave; None where it failed."""
        ...

    @property
    def error(self) -> Exception | None:
        """How it failed, if it did."""
        ...


class Journal(Protocol):
    """The journal of one run."""

    @property
    def run_id(self) -> str:
        """What the run is resumed by."""
        ...

    @property
    def state(self) -> bytes | None:
        """What a sandbox left to go on from; None at the beginning."""
        ...

    def answered_calls(self) -> Iterable[AnsweredCall]:
        """Return the calls that were made before, in the order in which they were begun."""
        ...

    def suspend(self, state: bytes) -> None:
        """Take what the run goes on from, which is kept with the next call."""
        ...

    async def call(
        self, key: str, tool_id: str, args: dict[str, Any], make: Callable[[], Awaitable[Any]]
    ) -> Any:
        """Return what a call gives: it is written down, made, and its answer written down.

        One that was made before is not made again. What cannot be written down is a `SnapshotError`.
        """
        ...
