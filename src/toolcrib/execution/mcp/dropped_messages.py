"""Messages of a server that are of no use: counted, reported now and then, and read at a bounded rate."""

import logging
from collections import Counter

import anyio

__all__ = ["DroppedMessages"]

_BURST, _PERIOD = 100, 0.1
"""So many are read in so many seconds at most; whoever sends more is read more slowly."""
_SHOWN = 80
_log = logging.getLogger(__name__)


class DroppedMessages:
    """Counts what was dropped of one server, by kind, across all its connections.

    The first of a kind is logged, and then the tenth, the hundredth and so on, since a server can send
    thousands a second. Kinds are ours, so that a server cannot make up new ones.

    >>> dropped = DroppedMessages("files")
    >>> dropped.note("unknown notification", "notifications/x", level=logging.DEBUG)
    >>> dropped.counts
    {'unknown notification': 1}
    """

    def __init__(self, server: str) -> None:
        self._server = server
        self._counts: Counter[str] = Counter()
        self._total = 0
        self._rested = 0
        self._since = float("-inf")

    @property
    def counts(self) -> dict[str, int]:
        """Return how many there were of each kind."""
        return dict(self._counts)

    def note(self, kind: str, detail: str = "", *, level: int = logging.WARNING) -> None:
        """Count one more message of a kind."""
        self._total += 1
        self._counts[kind] += 1
        count = self._counts[kind]
        if count == 10 ** (len(str(count)) - 1):
            times = f" ({count:,} times by now)" if count > 1 else ""
            shown = f": {detail[:_SHOWN]!r}" if detail else ""
            _log.log(
                level, "server %r sent a message that is of no use%s: %s%s", self._server, times, kind, shown
            )

    async def pace(self) -> None:
        """Wait for a moment where many were dropped since; to be called before the next message is read."""
        if self._total - self._rested < _BURST:
            return
        self._rested = self._total
        rest = self._since + _PERIOD - anyio.current_time()
        if rest > 0:
            await anyio.sleep(rest)
        self._since = anyio.current_time()
