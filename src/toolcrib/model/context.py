"""What a handler is told of the call it serves, and what it can tell of itself."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable
from typing import Literal

__all__ = ["Context", "LogLevel"]

LogLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
"""As MCP has them, from the least to the gravest."""


class Context(ABC):
    """The running call, for a handler that has a parameter of this type.

    The parameter is no argument of the tool: it is in no schema, and whoever runs the tool fills it. A
    coroutine awaits what it tells; a plain function, which runs in a thread, just calls it. Either waits
    there while nobody has taken what was told before.
    """

    tool_id: str
    """The tool that runs."""
    caller: str | None
    """Who asked for it, where that is known."""

    @property
    @abstractmethod
    def cancelled(self) -> bool:
        """Whether nobody waits for the result any more; a plain function should look, and stop."""

    @abstractmethod
    def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> Awaitable[None]:
        """Tell how far the work has come."""

    @abstractmethod
    def log(self, message: str, level: LogLevel = "info") -> Awaitable[None]:
        """Tell something to whoever watches the call."""
