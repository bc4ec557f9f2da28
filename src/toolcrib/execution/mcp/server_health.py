"""Health of one server: backoff, circuit breaker, and the state that is reported."""

import random
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import Field

from toolcrib.concurrency.backoff import Backoff
from toolcrib.errors.base import count_noun
from toolcrib.errors.text import describe_failure
from toolcrib.model.display import one_line, table
from toolcrib.model.record import Record

_LONGEST_REST = 2.0
"""Seconds for which a server that starts, but dies of its requests, is left alone at most."""
_ERROR = re.compile(r"Error\b|\berror:")
_AROUND_ERROR = re.compile(r"\s+at .*|Node\.js v\S+|\s*[\^~]+|\s*[\]})]+[,;]?\s*")
"""Stack frames, the version of the runtime, and marks and brackets by themselves."""
ServerState = Literal["stopped", "starting", "ready", "failed", "closed", "disabled"]
"""Calls start a `stopped` server, and a `failed` one after a pause; the last two are never started."""


class ServerStatus(Record):
    """The state of one server."""

    name: str
    """Its name in the configuration."""
    state: ServerState
    """Its state."""
    transport: str
    """Its transport: `stdio`, `http` or `sse`; `openapi` for an API."""
    address: str | None = None
    """The host that it is reached at; absent for a local process."""
    protocol_version: str | None = None
    """The negotiated protocol revision; absent while it is not ready."""
    server_info: dict[str, Any] | None = None
    """Its `serverInfo`: its name, its version."""
    tools: int | None = None
    """The number of tools in its last complete listing; absent before the first."""
    listed_ago: float | None = None
    """Seconds since that listing."""
    kept: bool | None = None
    """True if these are the tools of an earlier run, and it has not been listed since."""
    refused: dict[str, str] = Field(default={})
    """The definitions in that listing that are invalid or cannot be used, by name, with the reasons."""
    pid: int | None = None
    """Its process id, while it runs as a local process."""
    last_error: str | None = None
    """The reason for its last failure or disconnection; absent once it answers again."""
    advice: str | None = None
    """A guess at what would help, such as a variable that it did not get; absent if there is none."""
    needs_login: bool | None = None
    """True if it failed because nobody is logged in; `toolcrib login` logs in."""
    paused: bool | None = None
    """True if an operator has stopped it, so that no call starts it."""
    stderr: str = ""
    """The last lines that it wrote to its standard error."""
    in_flight: int = 0
    """Calls that wait for their answer."""
    starts: int = 0
    """The number of starts or connections."""
    next_try_in: float | None = None
    """Seconds until a call may try to start it again; absent if one may now."""

    def __repr__(self) -> str:
        return one_line(f"<ServerStatus {', '.join(filter(None, self.columns()))}") + ">"

    __str__ = __repr__

    def columns(self) -> tuple[str, ...]:
        """Return the columns of a server's row: name, state, transport, tools, and the last error."""
        tools = "" if self.tools is None else count_noun(self.tools, "tool")
        return self.name, self.state, self.transport, tools, self.last_error or ""

    def describe_failure(self) -> str:
        """Describe its last failure: the reason, its error output, and advice; empty if none."""
        if self.last_error is None:
            return ""
        return describe_failure(self.last_error, self.last_words, self.advice or "")

    @property
    def last_words(self) -> str:
        """The line near the end of its standard error that names an error, or else the last one."""
        lines = telling_lines(self.stderr).splitlines()
        return next((line for line in reversed(lines) if _ERROR.search(line)), "".join(lines[-1:]))


def telling_lines(stderr: str, count: int = 5) -> str:
    r"""Return the last lines of a standard error, without what runtimes print around an error.

    >>> telling_lines("Error: no module 'x'\n    at run (main.js:1:2)\n\nNode.js v20.1.0")
    "Error: no module 'x'"
    """
    lines = [line for line in stderr.splitlines() if line.strip()]
    telling = [line for line in lines if not _AROUND_ERROR.fullmatch(line)]
    return "\n".join((telling or lines)[-count:])


class ServerTable(dict[str, ServerStatus]):
    """The states of servers by name; in a notebook, a table."""

    def __repr__(self) -> str:
        rows = [f"  {status!r}" for status in self.values()]
        return "\n".join([f"<{count_noun(len(self), 'server')}>", *rows])

    def _repr_html_(self) -> str:
        head = ("server", "state", "transport", "tools", "last error")
        return table(count_noun(len(self), "server"), head, [status.columns() for status in self.values()])


class Breaker:
    """Counts the failures of one thing in a row, and says how long to leave it alone.

    Up to `threshold` failures the pause is short and whoever wants the thing waits it out. From then on the
    breaker is open: until the pause is over everybody is turned away at once, then one may try. Pauses double
    from `base` seconds up to `cap`, less a random part of up to a quarter, so that many who failed together
    do not come back together.

    >>> breaker = Breaker(threshold=2, base=1.0, clock=lambda: 0.0, chance=lambda: 0.0)
    >>> breaker.failed(); breaker.pause, breaker.open
    (1.0, False)
    >>> breaker.failed(); breaker.pause, breaker.open
    (2.0, True)
    >>> breaker.succeeded(); breaker.pause, breaker.open
    (0.0, False)
    """

    def __init__(
        self,
        *,
        threshold: int = 5,
        base: float = 0.1,
        cap: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._threshold = threshold
        self._backoff = Backoff(base, cap, jitter=0.25, chance=chance)
        self._clock = clock
        self._until = 0.0
        self.failures = 0
        """How many there were since the last success."""

    @property
    def pause(self) -> float:
        """Return the seconds until the next attempt; 0 if it is allowed now."""
        return max(0.0, self._until - self._clock()) if self.failures else 0.0

    @property
    def open(self) -> bool:
        """Return whether to turn everybody away."""
        return self.failures >= self._threshold and self.pause > 0

    def failed(self) -> None:
        """Note a failure, from which the pause is counted."""
        self.failures += 1
        self._until = self._clock() + self._backoff.next()

    def succeeded(self) -> None:
        """Record a success, which resets the failures."""
        self.failures = 0
        self._backoff.reset()


@dataclass(slots=True, eq=False)
class ServerHealth:
    """The record of one server.

    >>> standing = ServerHealth(Breaker(threshold=1, clock=lambda: 0.0))
    >>> standing.failed("it has no token")
    >>> standing.state, standing.last_error, standing.pause > 0
    ('failed', 'it has no token', True)
    """

    breaker: Breaker
    """Counts the starts that failed."""
    deaths: Breaker = field(default_factory=lambda: Breaker(cap=_LONGEST_REST))
    """Counts connections that ended before any call was answered; it refuses no caller."""
    state: ServerState = "stopped"
    starts: int = 0
    last_error: str | None = None
    advice: str = ""
    needs_login: bool = False

    @property
    def pause(self) -> float:
        """Return the seconds until it may be started."""
        return max(self.breaker.pause, self.deaths.pause)

    @property
    def objection(self) -> str | None:
        """Return why even waiting for a start is refused."""
        if not self.breaker.open:
            return None
        failed = f"it failed {self.breaker.failures} times in a row"
        return f"{failed} and is not tried again for {self.breaker.pause:.1f} s: {self.last_error}"

    def failed(self, reason: str, *, needs_login: bool = False, advice: str = "") -> None:
        """Note that a start failed, or gave a connection that was of no use to anybody."""
        self.last_error, self.state, self.needs_login = reason, "failed", needs_login
        self.advice = advice
        self.breaker.failed()

    def died(self, reason: str) -> None:
        """Record that it started, and died of a request, perhaps of one tool's."""
        self.last_error, self.state, self.advice = reason, "failed", ""
        self.breaker.succeeded()
        self.deaths.failed()

    def served(self) -> None:
        """Note that it has answered a call."""
        self.breaker.succeeded()
        self.deaths.succeeded()
