"""Protocols between packages that do not import each other."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from toolcrib.model.backend import ToolBackend
from toolcrib.model.tool import Tool
from toolcrib.model.toolid import ToolId


@runtime_checkable
class Resolver(Protocol):
    """Resolves references to tools and their backends.

    A reference is an exact id, `namespace:name` for the highest stable version, or
    `namespace:name:constraint`. Both methods raise `ToolNotFoundError`, with suggestions, if no tool matches,
    and must be thread-safe.
    """

    def resolve(self, ref: str | ToolId) -> Tool:
        """Return the tool that a reference names."""
        ...

    def backends(self, tool_id: str | ToolId) -> Sequence[ToolBackend]:
        """Return the backends of a tool, in the order of their registration."""
        ...


@dataclass(frozen=True, slots=True)
class ResolvedTool:
    """The tool that a reference names, with its backends, for a call."""

    id: str
    """The id of the tool, as text."""
    tool: Tool
    backends: Sequence[ToolBackend]
    """The backends of the tool, in the order of their registration."""


@runtime_checkable
class ToolSource(Resolver, Protocol):
    """A resolver with tools that their servers may not have listed yet."""

    def find(self, ref: str | ToolId) -> ResolvedTool:
        """Return the tool that a reference names, with its backends, by one lookup."""
        ...

    async def wait_for(self, ref: str | ToolId) -> None:
        """Wait until the servers that could have the tool have listed their tools."""
        ...


@runtime_checkable
class ToolGateway(Protocol):
    """The four operations on tools that code in a sandbox may use.

    Calls run through the same stages as other calls: policy, validation, deadline, audit. They raise the same
    `ToolcribError`s. Implementations must allow concurrent calls.
    """

    async def search(self, query: str, *, limit: int = 10) -> Any:
        """Return the tools that fit a question."""
        ...

    async def describe(self, tool_id: str, level: str = "schema") -> Any:
        """Return the documentation of a tool at a level of detail."""
        ...

    async def run(self, tool_id: str, args: dict[str, Any]) -> Any:
        """Run a tool and return its result."""
        ...

    async def run_chain(self, steps: Sequence[Any]) -> Any:
        """Run tools one after another and return their results.

        An implementation may also take `around`, as `Runner.run_chain` does, to wrap each call.
        """
        ...


class AnsweredCall(Protocol):
    """A recorded call of a durable run, with its result or error."""

    @property
    def key(self) -> str:
        """The key of the call, unique within the run."""
        ...

    @property
    def tool_id(self) -> str:
        """The id of the tool."""
        ...

    @property
    def args(self) -> dict[str, Any]:
        """The arguments."""
        ...

    @property
    def duration(self) -> float:
        """The duration of the call, in seconds."""
        ...

    @property
    def result(self) -> Any:
        """The result; None if the call failed."""
        ...

    @property
    def error(self) -> Exception | None:
        """The error; None if the call succeeded."""
        ...


class Journal(Protocol):
    """The journal of one durable run."""

    @property
    def run_id(self) -> str:
        """The id by which the run is resumed."""
        ...

    @property
    def state(self) -> bytes | None:
        """The state of the sandbox to resume from; None at the beginning."""
        ...

    def answered_calls(self) -> Iterable[AnsweredCall]:
        """Return the recorded calls, in the order in which they were begun."""
        ...

    @property
    def dump_interval(self) -> float:
        """Seconds between states of code that does the same again with the same results; 0: at each call."""
        ...

    def suspend(self, state: bytes) -> None:
        """Set the state to resume from, which is stored with the next call."""
        ...

    def note_waiting(self, keys: Iterable[str]) -> None:
        """Take note that the sandbox waits for these calls, and does nothing before one of them ends."""
        ...

    async def call(
        self,
        key: str,
        tool_id: str,
        args: dict[str, Any],
        make: Callable[[], Awaitable[Any]],
        within: float | None = None,
    ) -> Any:
        """Record a call, make it, record its result, and return the result.

        A call that is already recorded is not made again. One that cannot be recorded is a `SnapshotError`.
        `within` is the timeout of the call, which `make` keeps.
        """
        ...
