"""What task groups do not cover: background tasks, calls from threads into the loop, who cancels whom.

Task groups and cancel scopes may not be held across the `yield` of an iterator that others leave when they
like, so a stream runs its tool in a task of its own. This is the only module that knows the event loop.
"""

import asyncio  # noqa: TID251 - anyio starts tasks in task groups alone, and waits for a loop that may be gone
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any, TypeVar

import anyio
import anyio.lowlevel

T = TypeVar("T")
_KEPT: set["asyncio.Task[Any]"] = set()
"""The event loop holds its tasks weakly: a task that nobody holds may vanish while it runs."""
_CLOSING_TIME = 5.0
"""How long a task that is asked to stop is waited for; handlers may take their time to clean up."""
_LOOK_AGAIN = 1.0
"""How often a thread that waits for the loop looks whether there still is one."""


class Background:
    """Runs one asynchronous function in a task of its own, until it returns or is stopped.

    What it raises is lost: the function must catch and keep what matters.
    """

    def __init__(self, work: Callable[[], Awaitable[Any]]) -> None:
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()
        self._work = work
        task = asyncio.get_running_loop().create_task(self._run())
        _KEPT.add(task)
        task.add_done_callback(_KEPT.discard)

    async def wait(self) -> None:
        """Wait until the function has returned."""
        await self._ended.wait()

    async def stop(self, within: float = _CLOSING_TIME) -> None:
        """Cancel the task, and wait a few seconds for its cleanup."""
        self._scope.cancel()
        with anyio.move_on_after(within, shield=True):
            await self._ended.wait()

    async def _run(self) -> None:
        try:
            with self._scope:
                await self._work()
        finally:
            self._ended.set()


async def abandon_after(grace: float, call: Callable[[], Awaitable[T]]) -> T:
    """Await a call; if the caller is cancelled, the call is cancelled and has `grace` seconds to end.

    The call runs in a task of its own, so that one that does not end when cancelled can be left behind.
    """
    scope = anyio.CancelScope()

    async def run() -> T:
        with scope:
            return await call()
        raise asyncio.CancelledError  # the scope is cancelled only below, where nobody takes the result

    task = asyncio.get_running_loop().create_task(run())
    try:
        await asyncio.wait({task})
    except BaseException:
        _KEPT.add(task)
        task.add_done_callback(_drop)
        scope.cancel()
        with anyio.move_on_after(grace, shield=True):
            await asyncio.wait({task})
        raise
    if task.cancelled():  # not by us: something that the call awaited was cancelled
        raise RuntimeError("the call ended as if it had been cancelled")
    return task.result()


def _drop(task: "asyncio.Task[Any]") -> None:
    """Forget an abandoned task; its failure is read, or the event loop would report it."""
    _KEPT.discard(task)
    if not task.cancelled():
        task.exception()


async def result_of(future: "Future[T]") -> T:
    """Await the result of a future of a thread; cancelling this cancels work that has not begun."""
    return await asyncio.wrap_future(future)


class Loop:
    """The running event loop, for threads that submit work to it; it may stop before they do."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    @property
    def is_here(self) -> bool:
        """Whether the caller is in the thread of the loop."""
        return threading.get_ident() == self._thread

    def start(self, work: Callable[[], Awaitable[None]]) -> "Future[None] | None":
        """Start an asynchronous function in the loop; return None if the loop has ended."""

        async def run() -> None:
            await work()

        coroutine = run()
        try:
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError:
            coroutine.close()
            return None

    def wait_for(self, future: "Future[None]") -> None:
        """Wait, in a thread, for work that was started; ends too when the loop ends or the wait is cancelled.

        What the function raised is raised here.
        """
        while not future.done() and not self._loop.is_closed():
            with suppress(TimeoutError, CancelledError):
                future.exception(_LOOK_AGAIN)
        if future.done() and not future.cancelled():
            future.result()


def is_being_cancelled() -> bool:
    """Return whether this task is being cancelled, and not only something that it awaits.

    A handler that awaits a future which another handler cancelled gets the very same exception as one whose
    caller has given up.
    """
    if anyio.current_effective_deadline() == float("-inf"):
        return True
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def yield_to_cancellation() -> None:
    """Raise a pending cancellation: a handler may have swallowed it, or turned it into an error."""
    await anyio.lowlevel.checkpoint_if_cancelled()
    if is_being_cancelled():
        raise asyncio.CancelledError
