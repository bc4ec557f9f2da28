"""Progress reports of a call."""

import inspect
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from toolcrib.execution.call import Update

_LOG = logging.getLogger("toolcrib")
Progress = Callable[[float, float | None, str | None], Any]
"""Called with the progress, the total and a message; sync or async."""


class Reporter:
    """Calls a progress callback with the progress of a tool, between `started` and `completed` or `error`.

    A tool without reports goes from 0 to 1. A tool that counts ends at its own total, so that the progress
    never decreases. With `framed=False` the callback gets only the numbers that the tool reports: neither
    start and end, nor messages without a number.
    """

    def __init__(self, progress: Progress, *, framed: bool = True) -> None:
        self._progress = progress
        self._framed = framed
        self._reached: float = 0
        self._total: float | None = 1
        self._has_counted = False
        self._ended = False

    async def emit(self, update: Update) -> None:
        """Report the progress in an update; chunks are ignored."""
        data = update.data
        if update.kind != "progress" or not isinstance(data, dict):
            return
        if self._ended:
            return
        reached = data.get("progress")
        if reached is not None and (reached >= self._reached or not self._has_counted):
            self._reached, self._total, self._has_counted = reached, data.get("total"), True
        elif not self._framed:
            return
        await self._notify(self._reached, data.get("message"))

    @asynccontextmanager
    async def around(self) -> AsyncIterator[None]:
        """Report the start and the end of a call, if framed; report nothing after the end."""
        if self._framed:
            await self._notify(0, "started")
        try:
            yield
        except Exception:
            await self._report_end("error")
            raise
        await self._report_end("completed")

    async def _report_end(self, message: str) -> None:
        self._ended = True
        if self._framed:
            await notify(self._progress, self._end, self._total, message, work_done=True)

    @property
    def _end(self) -> float:
        return self._reached if self._total is None else self._total

    async def _notify(self, reached: float, message: str | None) -> None:
        await notify(self._progress, reached, self._total, message, work_done=False)


async def notify(callback: Callable[..., Any], *facts: Any, work_done: bool) -> None:
    """Call a progress callback, sync or async.

    With `work_done` a failure of the callback is logged and not raised: it must not lose the result of the
    work, nor hide its error.
    """
    try:
        awaitable = callback(*facts)
        if inspect.isawaitable(awaitable):
            await awaitable
    except Exception:
        if not work_done:
            raise
        _LOG.exception("the progress callback failed")
