"""The context of a running call, as the function of a local tool gets it."""

import typing
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from typing import Any, Literal

LogLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
"""The log levels of MCP, from the least to the most severe."""


class Context(ABC):
    """The running call, for a handler that has a parameter of this type.

    The parameter is not an argument of the tool: it is in no schema, and the executor fills it in. A
    coroutine function awaits `progress` and `log`; a plain function, which runs in a thread, just calls them.
    Both block until the previous report has been received.
    """

    @property
    @abstractmethod
    def tool_id(self) -> str:
        """The id of the running tool."""

    @property
    @abstractmethod
    def caller(self) -> str | None:
        """The caller; None if unknown."""

    @property
    @abstractmethod
    def cancelled(self) -> bool:
        """Whether the caller has given up; a plain function should check this, and stop."""

    @abstractmethod
    def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> Awaitable[None]:
        """Report the progress of the work."""

    @abstractmethod
    def log(self, message: str, level: LogLevel = "info") -> Awaitable[None]:
        """Send a log message to the caller."""


def is_context(hint: Any) -> bool:
    """Return whether an annotation asks for the running call: `Context`, or that or None."""
    kinds = typing.get_args(hint) or (hint,)
    return any(isinstance(kind, type) and issubclass(kind, Context) for kind in kinds)
