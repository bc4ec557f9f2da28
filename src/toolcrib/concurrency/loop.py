"""Event loops in their own threads for synchronous programs, and worker threads for asynchronous ones."""

import os
import threading
import weakref
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Generic, Literal, TypeVar

import anyio
from anyio import to_thread
from anyio.from_thread import BlockingPortal, check_cancelled
from anyio.lowlevel import checkpoint_if_cancelled

T = TypeVar("T")


class LoopEndedError(Exception):
    """The loop has ended; `reason` tells whether it was closed before or during the call, or was lost."""

    def __init__(self, reason: Literal["closed", "closed meanwhile", "forked", "stopped"]) -> None:
        super().__init__(reason)
        self.reason = reason


class LoopThread:
    """Runs asynchronous functions for any thread in one event loop; the first call starts its thread.

    The thread ends with `close`, with an object that nobody holds any more, and with the interpreter; what
    runs at that time is cancelled. After a fork, and after something that ended the loop, such as an exit,
    another is started, unless something lives in the loop.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._portal: BlockingPortal | None = None
        self._thread: threading.Thread | None = None
        self._end: weakref.finalize[..., LoopThread] | None = None
        self._process = 0
        self._is_closed = False
        self._is_needed = False

    def call(self, function: Callable[[], Awaitable[T]]) -> T:
        """Run an asynchronous function and return its result; an interrupt of the wait cancels it.

        Raises:
            LoopEndedError: the loop is closed, is closed meanwhile, or is lost with what lives in it.
        """
        work = _Work(function)
        try:
            return work.result_in(self._running())
        except _NotRunningError as error:  # it was ended by what it ran, such as an exit, or at this moment
            self._forget(error.portal)
            return work.result_in(self._running())

    async def await_call(self, function: Callable[[], Awaitable[T]]) -> T:
        """Do as `call` from another event loop; cancelling the caller cancels the function.

        Raises:
            LoopEndedError: as for `call`.
        """
        work = _Work(function)
        try:
            return await to_thread.run_sync(lambda: work.result_in(self._running()), abandon_on_cancel=True)
        except anyio.get_cancelled_exc_class():
            with suppress(LoopEndedError, RuntimeError):  # the loop has ended, and the work with it
                self._running().start_task_soon(work.give_up)
            raise

    def is_this_thread(self) -> bool:
        """Return whether the caller is in the thread of the loop, where waiting for it would deadlock."""
        return threading.current_thread() is self._thread

    def keep(self) -> None:
        """Bind the thread to this loop: objects live in it, so that no new one may replace it."""
        self._is_needed = True

    def close(self) -> None:
        """End the thread; later calls raise `LoopEndedError`."""
        with self._lock:
            self._is_closed = True
            end, self._end, self._portal = self._end, None, None
        if end is not None:
            end()

    def _running(self) -> BlockingPortal:
        with self._lock:
            if self._is_closed:
                raise LoopEndedError("closed")
            if self._portal is not None and self._process != os.getpid():
                self._lose("forked")  # a fork has the objects, but not the thread
            if self._portal is None:
                self._thread, self._portal = _start()
                self._process = os.getpid()
                self._end = weakref.finalize(self, _end, self._thread, self._portal, self._process)
            return self._portal

    def _forget(self, portal: BlockingPortal) -> None:
        with self._lock:
            if self._portal is portal:
                self._lose("stopped")

    def _lose(self, reason: Literal["forked", "stopped"]) -> None:
        if self._is_needed:
            raise LoopEndedError(reason)
        if self._end is not None:
            self._end.detach()
        self._end = self._portal = None


def _start() -> tuple[threading.Thread, BlockingPortal]:
    """Start a thread with an event loop that ends when its portal is stopped."""
    begun: Future[BlockingPortal] = Future()

    async def live() -> None:
        async with BlockingPortal() as portal:
            begun.set_result(portal)
            await portal.sleep_until_stopped()

    def run() -> None:
        try:
            anyio.run(live)
        except BaseException as error:  # noqa: BLE001 - whoever asked for what ends a loop has been answered
            if not begun.done():
                begun.set_exception(error)

    thread = threading.Thread(target=run, name="toolcrib", daemon=True)
    thread.start()
    return thread, begun.result()


def _end(thread: threading.Thread, portal: BlockingPortal, process: int) -> None:
    """End a thread, and wait for it."""
    if process != os.getpid():
        return
    if threading.current_thread() is thread:  # the collector may come by anywhere
        threading.Thread(target=_end, args=(thread, portal, process), daemon=True).start()
        return
    with suppress(RuntimeError, CancelledError):  # it has ended by itself, or has begun to
        portal.call(portal.stop, True)  # noqa: FBT003 - cancel what runs; it is passed on by position
    thread.join()


class _NotRunningError(Exception):
    """The loop has ended, or does not accept work any more."""

    def __init__(self, portal: BlockingPortal) -> None:
        super().__init__()
        self.portal = portal


class _Work(Generic[T]):
    """A function that a thread runs in an event loop; the thread may be interrupted while it waits."""

    def __init__(self, function: Callable[[], Awaitable[T]]) -> None:
        self._function = function
        self._scope: anyio.CancelScope | None = None
        self._is_begun = False
        self._is_given_up = False

    def result_in(self, portal: BlockingPortal) -> T:
        """Run the function in a loop and return its result; an interrupt of the wait cancels it."""
        result: Future[T] | None = None
        try:
            result = portal.start_task_soon(self._run)
            return result.result()
        except CancelledError as error:
            if not self._is_begun:
                raise _NotRunningError(portal) from error
            raise LoopEndedError("closed meanwhile") from error
        except BaseException as error:
            if result is None and isinstance(error, RuntimeError):
                raise _NotRunningError(portal) from error
            if result is None or not result.done():
                with suppress(RuntimeError):  # the loop has ended, and the work with it
                    portal.start_task_soon(self.give_up)
            raise

    async def _run(self) -> T:
        await checkpoint_if_cancelled()  # by a loop that is about to end
        self._is_begun = True
        with anyio.CancelScope() as self._scope:
            if self._is_given_up:
                self._scope.cancel()
            return await self._function()
        raise CancelledError  # which nobody waits for

    def give_up(self) -> None:
        """Cancel the function, if it has not returned; to be called in the loop."""
        self._is_given_up = True
        if self._scope is not None:
            self._scope.cancel()


async def in_thread(function: Callable[..., T], *args: object) -> T:
    """Run a function in a worker thread and return its result; a cancelled caller does not wait for it."""
    return await to_thread.run_sync(function, *args, abandon_on_cancel=True)


def stop_if_given_up() -> None:
    """End the work of this worker thread if its caller was cancelled; call it between steps."""
    with suppress(RuntimeError):  # this is no worker thread, and nobody can give up
        check_cancelled()
