"""An event loop for synchronous code that waits for asynchronous code, and threads the other way round."""

import os
import threading
import weakref
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, suppress
from typing import TypeVar

from anyio import to_thread
from anyio.from_thread import BlockingPortal, check_cancelled, start_blocking_portal

__all__ = ["PrivateLoop", "in_thread", "stop_if_given_up"]

_LEFT_BEHIND: list[object] = []
"""Loops of the process that this one was forked from: to let go of them would be to wait for them."""


class PrivateLoop:
    """Runs asynchronous functions in one background thread, which is started by the first of them.

    The thread ends with `close`, with the loop that nobody holds any more, and with the interpreter; what it
    runs at that time is cancelled.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._portal: BlockingPortal | None = None
        self._close: weakref.finalize[..., PrivateLoop] | None = None
        self._process = 0

    def call(self, function: Callable[..., Awaitable[T]], *args: object) -> T:
        """Return what an asynchronous function returns; a caller that is interrupted cancels it."""
        try:
            future = self._open().start_task_soon(function, *args)
        except RuntimeError:  # it was ended by what it ran, such as an exit
            self.close()
            future = self._open().start_task_soon(function, *args)
        try:
            return future.result()
        finally:
            future.cancel()

    def close(self) -> None:
        """End the thread, if it runs; a later call starts another."""
        with self._lock:
            close, self._portal, self._close = self._close, None, None
        if close is not None:
            close()

    def _open(self) -> BlockingPortal:
        with self._lock:
            if self._close is not None and self._process != os.getpid():
                _LEFT_BEHIND.append(self._close.detach())  # a fork has the objects, but not the thread
                self._portal = None
            if self._portal is None:
                manager = start_blocking_portal()
                self._portal = manager.__enter__()
                self._close = weakref.finalize(self, _stop, manager, self._portal)
                self._process = os.getpid()
            return self._portal


def _stop(manager: AbstractContextManager[BlockingPortal], portal: BlockingPortal) -> None:
    with suppress(RuntimeError):  # it has ended by itself
        portal.call(portal.stop, True)  # noqa: FBT003 - cancel what runs; it is passed on by position
    manager.__exit__(None, None, None)


async def in_thread(function: Callable[..., T], *args: object) -> T:
    """Return what a function returns, computed in a worker thread; a caller who gives up need not wait."""
    return await to_thread.run_sync(function, *args, abandon_on_cancel=True)


def stop_if_given_up() -> None:
    """Stop what a worker thread computes if its caller has given up; to be called on the way."""
    with suppress(RuntimeError):  # this is no worker thread, and nobody can give up
        check_cancelled()
