"""An event loop in a thread for synchronous programs, and worker threads for asynchronous ones.

`LoopThread` is more than an anyio `BlockingPortal` because a synchronous program may fork, exit inside a
call, be interrupted while it waits, or drop the object without closing it. In each case waiting threads must
get an error instead of hanging, and the interpreter must be able to exit.
"""

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
    """The event loop was closed before or during the call, or is lost; `reason` says which."""

    def __init__(self, reason: Literal["closed", "closed meanwhile", "forked", "stopped"]) -> None:
        super().__init__(reason)
        self.reason = reason


class LoopThread:
    """Runs asynchronous functions for any thread in one event loop; the first call starts its thread.

    The thread ends with `close`, when this object is collected, and with the interpreter; running functions
    are then cancelled. After a fork, or when a function ended the loop (such as by `SystemExit`), the next
    call starts another loop, unless `bind` has forbidden that.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._portal: BlockingPortal | None = None
        self._thread: threading.Thread | None = None
        self._end: weakref.finalize[..., LoopThread] | None = None
        self._process = 0
        self._is_closed = False
        self._is_bound = False

    def call(self, function: Callable[[], Awaitable[T]]) -> T:
        """Run an asynchronous function and return its result; an interrupt of the wait cancels it.

        Raises:
            LoopEndedError: the loop was closed before or during the call, or is lost and bound.
        """
        work = _Work(function)
        try:
            return work.run_in(self._get_portal())
        except _NotRunningError as error:  # another call has ended the loop; this one has not begun
            self._forget_portal(error.portal)
            return work.run_in(self._get_portal())

    async def await_call(self, function: Callable[[], Awaitable[T]]) -> T:
        """Do as `call` from another event loop; cancelling the caller cancels the function.

        Raises:
            LoopEndedError: as for `call`.
        """
        work = _Work(function)
        try:
            return await to_thread.run_sync(lambda: work.run_in(self._get_portal()), abandon_on_cancel=True)
        except anyio.get_cancelled_exc_class():
            with suppress(LoopEndedError, RuntimeError):  # the loop has ended, and the work with it
                self._get_portal().start_task_soon(work.cancel)
            raise

    def is_this_thread(self) -> bool:
        """Return whether the caller is in the thread of the loop, where waiting for it would deadlock."""
        return threading.current_thread() is self._thread

    def bind(self) -> None:
        """Forbid to replace the loop by a new one, because objects are bound to it."""
        self._is_bound = True

    def close(self) -> None:
        """End the thread and wait for it; later calls raise `LoopEndedError`."""
        with self._lock:
            self._is_closed = True
            end, self._end, self._portal = self._end, None, None
        if end is not None:
            end()

    def _get_portal(self) -> BlockingPortal:
        """Return the portal of the running loop; start one if there is none."""
        with self._lock:
            if self._is_closed:
                raise LoopEndedError("closed")
            if self._portal is not None and self._process != os.getpid():
                self._drop_portal("forked")  # a child process has a copy of the objects, but not the thread
            if self._portal is None:
                self._thread, self._portal = _start_loop()
                self._process = os.getpid()
                self._end = weakref.finalize(self, _end_loop, self._thread, self._portal, self._process)
            return self._portal

    def _forget_portal(self, portal: BlockingPortal) -> None:
        with self._lock:
            if self._portal is portal:
                self._drop_portal("stopped")

    def _drop_portal(self, reason: Literal["forked", "stopped"]) -> None:
        if self._is_bound:
            raise LoopEndedError(reason)
        if self._end is not None:
            self._end.detach()  # the thread is gone, and joining it would hang
        self._end = self._portal = None


def _start_loop() -> tuple[threading.Thread, BlockingPortal]:
    """Start a thread with an event loop that ends when its portal is stopped."""
    begun: Future[BlockingPortal] = Future()

    async def serve() -> None:
        async with BlockingPortal() as portal:
            begun.set_result(portal)
            await portal.sleep_until_stopped()

    def run() -> None:
        try:
            anyio.run(serve)
        except BaseException as error:  # noqa: BLE001 - the call that ended the loop has its result; nothing is left to tell
            if not begun.done():
                begun.set_exception(error)

    thread = threading.Thread(target=run, name="toolcrib", daemon=True)
    thread.start()
    return thread, begun.result()


def _end_loop(thread: threading.Thread, portal: BlockingPortal, process: int) -> None:
    """End the thread of a loop, and wait for it."""
    if process != os.getpid():
        return
    if threading.current_thread() is thread:  # garbage may be collected in any thread, and none joins itself
        threading.Thread(target=_end_loop, args=(thread, portal, process), daemon=True).start()
        return
    with suppress(RuntimeError, CancelledError):  # it has ended by itself, or has begun to
        portal.call(portal.stop, True)  # noqa: FBT003 - cancel running functions; `call` takes no keywords
    thread.join()


class _NotRunningError(Exception):
    """The loop has ended, or no longer accepts work, and the function has not begun."""

    def __init__(self, portal: BlockingPortal) -> None:
        super().__init__()
        self.portal = portal


class _Work(Generic[T]):
    """A function to run in an event loop for a thread, which may be interrupted while it waits."""

    def __init__(self, function: Callable[[], Awaitable[T]]) -> None:
        self._function = function
        self._scope: anyio.CancelScope | None = None
        self._is_begun = False
        self._is_cancelled = False

    def run_in(self, portal: BlockingPortal) -> T:
        """Run the function in a loop and return its result; an interrupt of the wait cancels it."""
        result: Future[T] | None = None
        try:
            result = portal.start_task_soon(self._run)
            return result.result()
        except CancelledError as error:
            if not self._is_begun:  # safe to run in another loop: no part of it has run
                raise _NotRunningError(portal) from error
            raise LoopEndedError("closed meanwhile") from error
        except BaseException as error:
            if result is None and isinstance(error, RuntimeError):
                raise _NotRunningError(portal) from error
            if result is None or not result.done():
                with suppress(RuntimeError):  # the loop has ended, and the work with it
                    portal.start_task_soon(self.cancel)
            raise

    async def _run(self) -> T:
        await checkpoint_if_cancelled()  # a loop that is about to end cancels tasks before their first step
        self._is_begun = True
        with anyio.CancelScope() as self._scope:
            if self._is_cancelled:
                self._scope.cancel()
            return await self._function()
        raise CancelledError  # the scope was cancelled by `cancel`, whose thread no longer waits

    def cancel(self) -> None:
        """Cancel the function, if it has not returned; to be called in the loop."""
        self._is_cancelled = True
        if self._scope is not None:
            self._scope.cancel()


async def in_thread(function: Callable[..., T], *args: object) -> T:
    """Run a function in a worker thread and return its result; a cancelled caller does not wait for it."""
    return await to_thread.run_sync(function, *args, abandon_on_cancel=True)


def stop_if_abandoned() -> None:
    """Raise in a worker thread whose caller was cancelled; call it between the steps of long work."""
    with suppress(RuntimeError):  # not a worker thread of anyio
        check_cancelled()
