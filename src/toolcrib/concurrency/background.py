"""Background tasks, calls from threads into the event loop, and checks for cancellation.

anyio starts tasks in task groups alone, and a task group or cancel scope must not stay open across the
`yield` of an async generator: its consumer may stop at any time, in another task. A stream therefore runs its
tool in a `Background` task, made with asyncio.
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
# The event loop holds only weak references: a task without another one may be collected while it runs.
_RUNNING_TASKS: set["asyncio.Task[Any]"] = set()
_STOP_TIMEOUT = 5.0
"""Seconds that a cancelled task has for its cleanup, such as closing files."""
_LOOP_CHECK_SECONDS = 1.0
"""How often a waiting thread checks that the loop has not been closed, which completes no future."""


class Background:
    """Runs one asynchronous function in its own task, until it returns or is stopped.

    Exceptions are lost: the function must catch and store those that matter.
    """

    def __init__(self, work: Callable[[], Awaitable[Any]]) -> None:
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()
        self._work = work
        task = asyncio.get_running_loop().create_task(self._run())
        _RUNNING_TASKS.add(task)
        task.add_done_callback(_RUNNING_TASKS.discard)

    async def wait(self) -> None:
        """Wait until the function has returned."""
        await self._ended.wait()

    async def stop(self, within: float = _STOP_TIMEOUT) -> None:
        """Cancel the task, and wait at most `within` seconds for its cleanup."""
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

    The call runs in its own task, so that a call that ignores its cancellation can be abandoned.
    """
    scope = anyio.CancelScope()

    async def run() -> T:
        with scope:
            return await call()
        raise asyncio.CancelledError  # the scope is cancelled only below, where nobody takes the result

    task = asyncio.get_running_loop().create_task(run())
    try:
        # not `await task`, by which the cancellation would reach the task before its scope
        await asyncio.wait({task})
    except BaseException:
        _RUNNING_TASKS.add(task)
        task.add_done_callback(_discard_task)
        scope.cancel()
        with anyio.move_on_after(grace, shield=True):
            await asyncio.wait({task})
        raise
    if task.cancelled():  # not by us: something that the call awaited was cancelled
        raise RuntimeError("the call ended as if it had been cancelled")
    return task.result()


def _discard_task(task: "asyncio.Task[Any]") -> None:
    """Forget an abandoned task that has ended."""
    _RUNNING_TASKS.discard(task)
    if not task.cancelled():
        task.exception()  # otherwise asyncio logs that it was never retrieved


async def await_future(future: "Future[T]") -> T:
    """Await the future of a thread; a cancelled wait cancels work that has not begun."""
    return await asyncio.wrap_future(future)


class Loop:
    """The running event loop, for threads that submit work to it and may outlive it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    @property
    def is_current_thread(self) -> bool:
        """Whether the caller runs in the thread of the loop."""
        return threading.get_ident() == self._thread

    def start(self, work: Callable[[], Awaitable[None]]) -> "Future[None] | None":
        """Start an asynchronous function in the loop; return None if the loop is closed."""

        async def run() -> None:
            await work()

        coroutine = run()
        try:
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError:
            coroutine.close()  # otherwise Python warns that it was never awaited
            return None

    def wait_for(self, future: "Future[None]") -> None:
        """Wait in a thread for started work, and raise its exception.

        The wait also ends when the loop is closed or the work is cancelled.
        """
        while not future.done() and not self._loop.is_closed():
            with suppress(TimeoutError, CancelledError):
                future.exception(_LOOP_CHECK_SECONDS)
        if future.done() and not future.cancelled():
            future.result()


def is_being_cancelled() -> bool:
    """Return whether this task is being cancelled, and not only something that it awaits.

    A handler that awaits a future which another handler cancelled gets the same exception as one whose caller
    has cancelled it.
    """
    # anyio reports a cancelled scope as the deadline -inf, asyncio counts requests on the task; either may be
    if anyio.current_effective_deadline() == float("-inf"):
        return True
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def yield_to_cancellation() -> None:
    """Raise a pending cancellation, which a handler may have suppressed or turned into another exception."""
    await anyio.lowlevel.checkpoint_if_cancelled()
    if is_being_cancelled():
        raise asyncio.CancelledError
