"""Threads that live as long as their owner.

A worker behind a wall dies with the thread that started it. The threads that are lent for one call at a time
end when they are idle, or when the task ends that first asked for them, so these are our own.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar

import anyio
from anyio import from_thread, to_thread
from anyio.lowlevel import EventLoopToken, current_token

__all__ = ["Threads"]

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


class Threads:
    """A few threads that run what may block; none of them starts before it is needed."""

    def __init__(self, count: int) -> None:
        self._executor = ThreadPoolExecutor(count, thread_name_prefix="toolcrib-check")
        self._running: set[Future[Any]] = set()

    async def run(
        self, function: Callable[_Given, _Result], *args: _Given.args, **kwargs: _Given.kwargs
    ) -> _Result:
        """Return what a function gives; when cancelled, the thread goes on, and nobody hears of it."""
        done, token = anyio.Event(), current_token()

        def work() -> _Result:
            try:
                return function(*args, **kwargs)
            finally:
                _wake(done, token)

        future = self._executor.submit(work)
        self._running.add(future)
        future.add_done_callback(self._running.discard)
        try:
            await done.wait()
        finally:
            future.cancel()
        return future.result()

    async def close(self, last: Callable[[], object]) -> None:
        """Wait for what the threads do, also where nobody else waits, run a last thing, and end them."""
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(wait, tuple(self._running))
            await self.run(last)
            self._executor.shutdown(wait=False)


def _wake(done: anyio.Event, token: EventLoopToken) -> None:
    with suppress(anyio.RunFinishedError):
        from_thread.run_sync(done.set, token=token)
