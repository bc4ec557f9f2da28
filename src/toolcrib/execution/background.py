"""Work that goes on beside its caller, and who it was that cancelled a task.

Task groups and cancel scopes may not be held across the `yield` of an iterator that others leave when they
like, so a stream runs its tool in a task of its own. This is the only module that knows the event loop.
"""

import asyncio  # noqa: TID251 - anyio starts tasks in task groups alone, and these belong to no block of code
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

__all__ = ["Background", "is_being_cancelled"]

_KEPT: set["asyncio.Task[None]"] = set()
"""The event loop holds its tasks weakly: a task that nobody holds may vanish while it runs."""
_CLOSING_TIME = 5.0
"""How long a task that is told to stop is waited for; handlers may take their time to clean up."""


class Background:
    """Runs one asynchronous function in a task of its own, until it ends or is stopped.

    What it raises is lost: the function must catch and keep what matters.
    """

    def __init__(self, work: Callable[[], Awaitable[Any]]) -> None:
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()
        self._work = work
        task = asyncio.get_running_loop().create_task(self._run())
        _KEPT.add(task)
        task.add_done_callback(_KEPT.discard)

    async def stop(self) -> None:
        """Cancel the work, and wait until it has cleaned up, for at most a few seconds."""
        self._scope.cancel()
        with anyio.move_on_after(_CLOSING_TIME, shield=True):
            await self._ended.wait()

    async def _run(self) -> None:
        try:
            with self._scope:
                await self._work()
        finally:
            self._ended.set()


def is_being_cancelled() -> bool:
    """Return whether somebody outside cancels this task, rather than something that it waits for.

    A handler that awaits a future which another handler cancelled gets the very same exception as one whose
    caller has given up.
    """
    if anyio.current_effective_deadline() == float("-inf"):
        return True
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
