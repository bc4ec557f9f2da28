"""Protocols between packages that do not know each other."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from toolcrib.model.backend import ToolBackend
from toolcrib.model.tool import Tool
from toolcrib.model.toolid import ToolId

__all__ = ["Resolver", "ToolGateway"]


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


@runtime_checkable
class ToolGateway(Protocol):
    """The four things that code in a sandbox may do with tools.

    Every call takes the same way as one from outside: policy, validation, deadline, audit. Failures are the
    `ToolcribError`s of that way. Implementations are safe to call from many tasks at once.
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
