"""Progress reports of a call."""

import inspect
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from toolcrib.execution.call import Update

_LOG = logging.getLogger("toolcrib")
Progress = Callable[[float, float | None, str | None], Any]
"""Called with how far a call has come, of how much, and a word about it; sync or async."""


class Reporter:
    """Calls a progress callback with the progress of a tool, between `started` and `completed` or `error`.

    A tool that reports nothing goes from 0 to 1. One that counts ends where its count ends, so that the
    progress never decreases. Without a frame the callback gets the numbers that the tool reports, and nothing
    else: neither the start and the end, nor messages without a number.
    """

    def __init__(self, progress: Progress, *, framed: bool = True) -> None:
        self._progress = progress
        self._framed = framed
        self._reached: float = 0
        self._total: float | None = 1
        self._counted = False
        self._ended = False

    async def emit(self, update: Update) -> None:
        """Pass the progress of a tool on; chunks, which are no progress, are not."""
        data = update.data
        if update.kind != "progress" or not isinstance(data, dict):
            return
        if self._ended:
            return
        reached = data.get("progress")
        if reached is not None and (reached >= self._reached or not self._counted):
            self._reached, self._total, self._counted = reached, data.get("total"), True
        elif not self._framed:
            return
        await self._tell(self._reached, data.get("message"))

    @asynccontextmanager
    async def around(self) -> AsyncIterator[None]:
        """Report that a call starts and how it ended, if there is a frame; after the end, report nothing."""
        if self._framed:
            await self._tell(0, "started")
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

    async def _tell(self, reached: float, message: str | None) -> None:
        await notify(self._progress, reached, self._total, message, work_done=False)


async def notify(callback: Callable[..., Any], *facts: Any, work_done: bool) -> None:
    """Call a progress callback, sync or async.

    Where work is done its failure is logged and goes no further: it may neither lose what the work gave nor
    hide why it failed.
    """
    try:
        awaitable = callback(*facts)
        if inspect.isawaitable(awaitable):
            await awaitable
    except Exception:
        if not work_done:
            raise
        _LOG.exception("the progress callback failed")
