"""One start of a server that several may wait for."""

import anyio

from toolcrib.errors import ServerUnavailableError
from toolcrib.execution.mcp.link import Link

__all__ = ["Start"]


class Start:
    """A start that is over when there is a connection, or a failure, or at a deadline."""

    def __init__(self, deadline: float) -> None:
        self.link: Link | None = None
        self._deadline = deadline
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

    async def wait(self) -> Link | None:
        """Return the connection; None if there is neither one nor a failure at the deadline.

        Raises:
            ServerUnavailableError: the start has failed.
        """
        with anyio.CancelScope(deadline=self._deadline):
            await self._done.wait()
        told = self._failure
        if told is None:
            return self.link
        # Each gets an exception of its own: a shared one would collect the tracebacks of all.
        raise ServerUnavailableError(told.server, told.reason, told.stderr) from told.__cause__
