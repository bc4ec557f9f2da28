"""Tokens that all tools would cost if they were listed, against what the gateway lists."""

import logging
import time
from collections.abc import Iterable, Iterator
from itertools import chain
from threading import Condition, Thread
from typing import NamedTuple

from pydantic_core import to_json

from toolcrib.discovery import Change, Index, IndexView
from toolcrib.errors import ToolcribError
from toolcrib.model import Tool
from toolcrib.model.tokens import estimated_tokens

_LOG = logging.getLogger("toolcrib")
_FIRST = 25
"""From how many definitions the tokens of all are estimated before any is counted."""
_BATCH = 20
"""After how many definitions the thread that counts makes room for others."""
_PAUSE = 0.001
"""For how many seconds it does."""
_UNSEEN = frozenset({"backend", "namespace", "version", "tags"})
"""What a server does not list of a tool."""


def tool_tokens(tool: Tool) -> int:
    """Return about how many tokens the definition of a tool takes, as its server would list it."""
    return estimated_tokens(to_json(tool.to_json(without=_UNSEEN)).decode(), sampled=False)


class Receipt(NamedTuple):
    """What was measured."""

    direct: int
    """Tokens of all definitions, as if each tool were listed."""
    surface: int
    """Tokens of the definitions that are listed in their place."""
    tools: int
    """How many tools there are."""
    complete: bool
    """Whether all were counted; else `direct` is estimated from those that were."""

    @property
    def saved(self) -> float:
        """Return which part is saved, negative where nothing is."""
        return 1 - self.surface / self.direct if self.direct else 0.0


class TokenUsage:
    """Counts the definitions of an index, each once, in a thread of its own while there are any to count.

    Whoever makes it passes the changes of the index on to `note`.
    """

    def __init__(self, index: Index | IndexView) -> None:
        self._index = index
        self._counted: dict[str, int] = {}
        self._total = 0
        self._changed = Condition()
        self._pending: dict[str, None] = {}
        self._everything = True
        self._working = False

    def note(self, change: Change) -> None:
        """Count a definition that has changed once more."""
        with self._changed:
            self._pending[change.tool_id] = None

    def direct(self) -> tuple[int, bool]:
        """Return the tokens of all definitions, and whether all were counted; it does not wait for that."""
        if self._everything or self._pending or self._working:
            self._begin()
            return self._projected(), False
        return self._total, True

    def wait(self, timeout: float | None = None) -> bool:
        """Wait, not in an event loop, until everything is counted; return whether it is."""
        self._begin()
        with self._changed:
            return self._changed.wait_for(lambda: not self._working, timeout)

    def _projected(self) -> int:
        counted, tools = len(self._counted), len(self._index)
        if not counted:
            for tool_id in self._some():
                self._count(tool_id)
            counted = len(self._counted)
        return round(self._total * tools / counted) if counted else 0

    def _some(self) -> Iterable[str]:
        return [summary.id for summary in self._index.tools(limit=_FIRST).items]

    def _begin(self) -> None:
        with self._changed:
            if self._working or not (self._everything or self._pending):
                return
            self._working = True
        Thread(target=self._work, name="toolcrib-receipts", daemon=True).start()

    def _work(self) -> None:
        try:
            while self._round():
                pass
        except Exception:  # noqa: BLE001 - the end of a thread, where nobody else would hear of it, and somebody may wait
            _LOG.exception("the tokens of the tools could not be counted")
            self._end()

    def _round(self) -> bool:
        """Count what is to be counted, and return whether there was anything."""
        with self._changed:
            ids = list(self._pending)
            everything, self._everything, self._pending = self._everything, False, {}
            if not (everything or ids):
                self._end()  # together with the look, so that nothing is left lying
                return False
        for place, tool_id in enumerate(chain(ids, self._all() if everything else ()), start=1):
            self._count(tool_id)
            if place % _BATCH == 0:  # it must not keep the event loop from its work
                time.sleep(_PAUSE)
        return True

    def _end(self) -> None:
        with self._changed:
            self._working = False
            self._changed.notify_all()

    def _all(self) -> Iterator[str]:
        """Yield what is to be counted; what comes meanwhile is noted."""
        for summary in self._index.every():
            if summary.id not in self._counted:
                yield summary.id

    def _count(self, tool_id: str) -> None:
        try:
            tokens = tool_tokens(self._index.get(tool_id))
        except ToolcribError:  # it is gone
            tokens = None
        with self._changed:
            self._total -= self._counted.pop(tool_id, 0)
            if tokens is not None:
                self._counted[tool_id] = tokens
                self._total += tokens
