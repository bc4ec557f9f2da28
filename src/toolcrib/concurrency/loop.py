"""Event loops in threads of their own, for programs without one, and worker threads for programs with one."""

import os
import threading
import weakref
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager, suppress
from typing import Generic, TypeVar

import anyio
from anyio import to_thread
from anyio.from_thread import BlockingPortal, check_cancelled, start_blocking_portal
from anyio.lowlevel import checkpoint_if_cancelled, current_token

from toolcrib.errors import CribStateError

__all__ = ["LoopThread", "PrivateLoop", "in_thread", "stop_if_given_up"]

T = TypeVar("T")
_CLOSED = "this crib is closed already; make another"
_CLOSED_MEANWHILE = "this crib was closed before the answer was there"
_WITHIN = "this thread runs an event loop, which would stand still; use Crib and await, or another thread"
_FORKED = "this crib was opened by the process that this one was forked from; make another"
_ENDED = "the event loop of this crib was ended by what it ran; make another"
_LEFT_BEHIND: list[object] = []
"""Loops of the process that this one was forked from: to let go of them would be to wait for them."""


class LoopThread:
    """Answers the questions of any thread in one event loop, whose thread is started by the first of them.

    The thread ends with `close`, with an object that nobody holds any more, and with the interpreter; what
    runs at that time is cancelled.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._portal: BlockingPortal | None = None
        self._end: weakref.finalize[..., LoopThread] | None = None
        self._process = 0
        self._is_closed = False
        self._is_needed = False

    def ask(self, question: Callable[[], Awaitable[T]]) -> T:
        """Return what an asynchronous function returns; whatever interrupts the waiting cancels it.

        Raises:
            CribStateError: the loop is closed, or is closed meanwhile; or this thread runs a loop itself.
        """
        if _runs_a_loop():
            raise CribStateError(_WITHIN)
        asked = _Question(question)
        try:
            return asked.put(self._running())
        except _NotRunningError as error:  # it was ended by what it ran, such as an exit, or at this moment
            self._forget(error.portal)
            return asked.put(self._running())

    def keep(self) -> None:
        """Let no other loop take the place of this one: something lives in it."""
        self._is_needed = True

    def close(self) -> None:
        """End the thread, if it runs, for good."""
        with self._lock:
            self._is_closed = True
            end, self._end, self._portal = self._end, None, None
        if end is not None:
            end()

    def _running(self) -> BlockingPortal:
        with self._lock:
            if self._is_closed:
                raise CribStateError(_CLOSED)
            if self._portal is not None and self._process != os.getpid():
                self._lose(_FORKED)  # a fork has the objects, but not the thread
            if self._portal is None:
                thread, self._portal = _start()
                self._process = os.getpid()
                self._end = weakref.finalize(self, _end, thread, self._portal, self._process)
            return self._portal

    def _forget(self, portal: BlockingPortal) -> None:
        with self._lock:
            if self._portal is portal:
                self._lose(_ENDED)

    def _lose(self, reason: str) -> None:
        if self._is_needed:
            raise CribStateError(reason)
        if self._end is not None:
            self._end.detach()
        self._end = self._portal = None


def _runs_a_loop() -> bool:
    try:
        current_token()
    except RuntimeError:
        return False
    return True


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
    """A loop has ended, or does not begin anything any more."""

    def __init__(self, portal: BlockingPortal) -> None:
        super().__init__()
        self.portal = portal


class _Question(Generic[T]):
    """Something asked of an event loop by a thread, which may be interrupted at any moment of its waiting."""

    def __init__(self, ask: Callable[[], Awaitable[T]]) -> None:
        self._ask = ask
        self._scope: anyio.CancelScope | None = None
        self._is_begun = False
        self._is_given_up = False

    def put(self, portal: BlockingPortal) -> T:
        """Return the answer; whatever interrupts the waiting for it takes the question back."""
        answer: Future[T] | None = None
        try:
            answer = portal.start_task_soon(self._answer)
            return answer.result()
        except CancelledError as error:
            if not self._is_begun:
                raise _NotRunningError(portal) from error
            raise CribStateError(_CLOSED_MEANWHILE) from error
        except BaseException as error:
            if answer is None and isinstance(error, RuntimeError):
                raise _NotRunningError(portal) from error
            if answer is None or not answer.done():
                with suppress(RuntimeError):  # the loop has ended, and the question with it
                    portal.start_task_soon(self._give_up)
            raise

    async def _answer(self) -> T:
        await checkpoint_if_cancelled()  # by a loop that is about to end
        self._is_begun = True
        with anyio.CancelScope() as self._scope:
            if self._is_given_up:
                self._scope.cancel()
            return await self._ask()
        raise CribStateError("nobody waits for the answer")

    def _give_up(self) -> None:
        self._is_given_up = True
        if self._scope is not None:
            self._scope.cancel()


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
