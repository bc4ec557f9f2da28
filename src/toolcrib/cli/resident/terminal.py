"""The terminal of a command that runs in the gateway, for a user whose own process only shows it."""

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol, TextIO, TypeVar

if TYPE_CHECKING:
    from toolcrib.gateway import Gateway

T = TypeVar("T")


class RemoteTerminal(Protocol):
    """The process that a user has started, as the command in the gateway uses it."""

    out: TextIO
    err: TextIO
    environ: Mapping[str, str]
    size: tuple[int, int] | None
    """Columns and lines, where there is a terminal."""

    def read(self, path: str) -> bytes:
        """Return the content of a file that the user names, `-` for standard input.

        Raises:
            OSError: it cannot be read.
        """
        ...

    def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run an asynchronous function in the gateway, until it ends or the user leaves."""
        ...

    def gateway(self, config: str | None, *, demo: bool) -> "Gateway":
        """Return the gateway; one for another command line gives up, before anything was done."""
        ...

    def facts(self) -> dict[str, Any]:
        """Return the facts of the gateway."""
        ...


REMOTE: ContextVar[RemoteTerminal | None] = ContextVar("toolcrib_remote_terminal", default=None)
"""The terminal of the command at hand; None where the command is a process of its own."""
