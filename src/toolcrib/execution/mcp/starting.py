"""One start of a server that several may wait for."""

import anyio

from toolcrib.errors import ServerUnavailableError
from toolcrib.execution.mcp.link import Link

__all__ = ["Start"]

_MARGIN, _SHARE = 0.25, 0.1
"""How many seconds before its own deadline a caller is told, and which part of its time that is at most."""


class Start:
    """A start that is over when there is a connection, or a failure, or at a deadline."""

    def __init__(self, within: float) -> None:
        self.link: Link | None = None
        self._began = anyio.current_time()
        self._deadline = self._began + within
        self._failure: ServerUnavailableError | None = None
        self._done = anyio.Event()

    def succeed(self, link: Link) -> None:
        """Give a connection to those who wait."""
        self.link = link
        self._done.set()

    def fail(self, failure: ServerUnavailableError) -> None:
        """Tell those who wait that there will be none."""
        self._failure = failure
        self._done.set()

    @property
    def overdue(self) -> bool:
        """Return whether its deadline has passed."""
        return anyio.current_time() >= self._deadline

    @property
    def age(self) -> float:
        """Return the seconds since it began."""
        return anyio.current_time() - self._began

    async def wait(self, deadline: float) -> Link | None:
        """Return the connection; None if there is neither one nor a failure at the deadline.

        Whoever has a deadline of its own is told a moment before it, while that can still be heard.

        Raises:
            ServerUnavailableError: the start has failed.
        """
        margin = max(0.0, min(_MARGIN, _SHARE * (deadline - anyio.current_time())))
        with anyio.CancelScope(deadline=min(self._deadline, deadline - margin)):
            await self._done.wait()
        told = self._failure
        if told is None:
            return self.link
        # Each gets an exception of its own: a shared one would collect the tracebacks of all.
        raise ServerUnavailableError(told.server, told.reason, told.stderr) from told.__cause__
