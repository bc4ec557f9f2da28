"""Threads that live as long as their owner.

A worker behind a wall dies with the thread that started it. The threads that are lent for one call at a time
end when they are idle, or when the task ends that first asked for them, so these are our own.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any, TypeVar, TypeVarTuple

import anyio
from anyio import from_thread, to_thread
from anyio.lowlevel import EventLoopToken, current_token

__all__ = ["Busy", "Threads"]

_Given = TypeVarTuple("_Given")
_Result = TypeVar("_Result")


class Busy(Exception):  # noqa: N818 - it is no error: whoever asked goes on without
    """No thread became free in time."""


class Threads:
    """A few threads that run what may block; none of them starts before it is needed."""

    def __init__(self, count: int) -> None:
        self._executor = ThreadPoolExecutor(count, thread_name_prefix="toolcrib-check")
        self._free = anyio.Semaphore(count)
        self._running: set[Future[Any]] = set()

    async def run(
        self, function: Callable[[*_Given], _Result], *args: *_Given, patience: float | None = None
    ) -> _Result:
        """Return what a function gives; when cancelled, the thread goes on, and nobody hears of it.

        Raises:
            Busy: no thread became free within so many seconds.
        """
        with anyio.move_on_after(patience) as waiting:
            await self._free.acquire()
        if waiting.cancelled_caught:
            raise Busy
        done, token = anyio.Event(), current_token()

        def work() -> _Result:
            try:
                return function(*args)
            finally:
                _tell(self._ended, done, token)

        future = self._executor.submit(work)
        self._running.add(future)
        future.add_done_callback(self._running.discard)
        await done.wait()
        return future.result()

    def _ended(self, done: anyio.Event) -> None:
        self._free.release()
        done.set()

    async def idle(self) -> None:
        """Return when no thread does anything, also where nobody waits for what it does."""
        await to_thread.run_sync(wait, tuple(self._running))

    def end(self) -> None:
        """Let the threads end."""
        self._executor.shutdown(wait=False)


def _tell(ended: Callable[[anyio.Event], None], done: anyio.Event, token: EventLoopToken) -> None:
    with suppress(anyio.RunFinishedError):
        from_thread.run_sync(ended, done, token=token)
