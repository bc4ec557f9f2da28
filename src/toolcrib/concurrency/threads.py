"""Two pools of worker threads beside those of anyio.

`Threads` is for functions that may hang: its daemon threads do not keep a program from ending. `OwnedThreads`
is for functions whose effect is tied to their thread, such as starting a child with `PR_SET_PDEATHSIG`.
"""

import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TypeVar, TypeVarTuple

import anyio
from anyio import from_thread, to_thread
from anyio.lowlevel import current_token

_Given = TypeVarTuple("_Given")
_Result = TypeVar("_Result")
_Work = tuple["Future[Any]", Callable[[], Any]]
_Queue = SimpleQueue[_Work | None]


class Threads:
    """A pool of daemon threads, started on demand; jobs wait in the order of their submission.

    `ThreadPoolExecutor` joins its threads when the interpreter exits, so a function that hangs would keep the
    program from ending. A forked process starts threads of its own.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._reset()

    def _reset(self) -> None:
        self._queue: _Queue = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._started = 0
        self._process = os.getpid()
        # The threads hold the queue, never the pool: when the pool is collected, None ends them.
        weakref.finalize(self, self._queue.put, None)

    def submit(self, function: Callable[[], Any]) -> "Future[Any]":
        """Submit a function, and return its future; a job that has not begun can be cancelled."""
        future: Future[Any] = Future()
        with self._lock:
            if self._process != os.getpid():  # a fork copies the queue, but none of its threads
                self._reset()
            self._queue.put((future, function))
            if not self._idle.acquire(blocking=False) and self._started < self._most:
                self._started += 1
                threading.Thread(
                    target=_run_jobs, args=(self._queue, self._idle), name="toolcrib", daemon=True
                ).start()
        return future


def _run_jobs(queue: _Queue, idle: threading.Semaphore) -> None:
    while True:
        work = queue.get()
        if work is None:
            queue.put(None)  # for the other threads of this pool
            return
        _run_job(*work)
        del work  # or the last function and its closure would live until the next job
        idle.release()


def _run_job(future: "Future[Any]", function: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        value = function()
    except BaseException as error:  # noqa: BLE001 - raised where the future is awaited
        future.set_exception(error)
    else:
        future.set_result(value)


class Busy(Exception):  # noqa: N818 - not an error: the caller continues without a thread
    """No thread became free in time."""


class OwnedThreads:
    """A fixed number of threads for the blocking functions of one owner, started when first needed.

    A child with `PR_SET_PDEATHSIG` dies with the thread that started it, and the worker threads of anyio end
    when they are idle, or with the task that first used them.
    """

    def __init__(self, count: int, name: str) -> None:
        self._executor = ThreadPoolExecutor(count, thread_name_prefix=name)
        self._free = anyio.Semaphore(count)
        self._running: set[Future[Any]] = set()

    async def run(
        self, function: Callable[[*_Given], _Result], *args: *_Given, patience: float | None = None
    ) -> _Result:
        """Run a function and return its result; if cancelled, the thread continues and its result is dropped.

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
                with suppress(anyio.RunFinishedError):
                    from_thread.run_sync(self._on_job_ended, done, token=token)

        try:
            future = self._executor.submit(work)
        except RuntimeError:  # the interpreter is exiting, and pools accept no more work
            self._free.release()
            return function(*args)
        self._running.add(future)
        future.add_done_callback(self._running.discard)
        # the event, not the future: `_on_job_ended` has then returned the slot for the next caller
        await done.wait()
        return future.result()

    def _on_job_ended(self, done: anyio.Event) -> None:
        self._free.release()
        done.set()

    async def wait_until_idle(self) -> None:
        """Wait until no thread is working, not even for a cancelled caller."""
        await to_thread.run_sync(wait, tuple(self._running))

    def end(self) -> None:
        """End the threads when they are idle."""
        self._executor.shutdown(wait=False)
