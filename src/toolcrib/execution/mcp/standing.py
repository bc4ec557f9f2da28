"""What is known of a server from its starts: how it is doing, and when it may be started again."""

from dataclasses import dataclass, field

from toolcrib.execution.mcp.breaker import Breaker
from toolcrib.execution.mcp.status import ServerState

__all__ = ["Standing"]

_LONGEST_REST = 2.0
"""Seconds that a server is left alone at most which starts, but dies of what it is asked."""


@dataclass(slots=True, eq=False)
class Standing:
    """The record of one server.

    >>> standing = Standing(Breaker(threshold=1))
    >>> standing.failed("it has no token")
    >>> standing.state, standing.last_error, standing.pause > 0
    ('failed', 'it has no token', True)
    """

    breaker: Breaker
    """Counts the starts that failed."""
    deaths: Breaker = field(default_factory=lambda: Breaker(cap=_LONGEST_REST))
    """Counts the connections that ended before any call was answered; nobody is turned away for them."""
    state: ServerState = "stopped"
    starts: int = 0
    last_error: str | None = None

    @property
    def pause(self) -> float:
        """Return the seconds until it may be started."""
        return max(self.breaker.pause, self.deaths.pause)

    @property
    def objection(self) -> str | None:
        """Return why nobody may even wait for a start."""
        if not self.breaker.open:
            return None
        failed = f"it failed {self.breaker.failures} times in a row"
        return f"{failed} and is left alone for another {self.breaker.pause:.1f} s: {self.last_error}"

    def failed(self, reason: str) -> None:
        """Note that a start failed, or gave a connection that was of no use to anybody."""
        self.last_error, self.state = reason, "failed"
        self.breaker.failed()

    def died(self, reason: str) -> None:
        """Note that it has started, and died of what it was asked, which may have been one tool."""
        self.last_error, self.state = reason, "failed"
        self.breaker.succeeded()
        self.deaths.failed()

    def served(self) -> None:
        """Note that it has answered a call."""
        self.breaker.succeeded()
        self.deaths.succeeded()
