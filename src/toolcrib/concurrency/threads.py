"""Threads for functions that may never return, and that must not keep a program from ending."""

import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any

__all__ = ["Threads"]

_Work = tuple["Future[Any]", Callable[[], Any]]
_Queue = SimpleQueue[_Work | None]


class Threads:
    """At most so many daemon threads, started when they are needed; what has to wait, waits in order.

    The pools of the standard library are joined when a program ends: a function that hangs would keep it from
    ending. In a process that was forked off, threads are started anew.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._queue: _Queue = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._started = 0
        self._process = os.getpid()
        weakref.finalize(self, self._queue.put, None)

    def submit(self, function: Callable[[], Any]) -> "Future[Any]":
        """Have a function run, and return what becomes of it; cancelling it before it has begun is enough."""
        future: Future[Any] = Future()
        with self._lock:
            if self._process != os.getpid():
                self._forget()
            self._queue.put((future, function))
            if not self._idle.acquire(blocking=False) and self._started < self._most:
                self._started += 1
                threading.Thread(
                    target=_work, args=(self._queue, self._idle), name="toolcrib", daemon=True
                ).start()
        return future


def _work(queue: _Queue, idle: threading.Semaphore) -> None:
    while True:
        work = queue.get()
        if work is None:
            queue.put(None)  # for the others
            return
        _do(*work)
        del work  # or the last function, and all it knows, would live as long as this thread
        idle.release()


def _do(future: "Future[Any]", function: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        value = function()
    except BaseException as error:  # noqa: BLE001 - whoever waits for it raises it
        future.set_exception(error)
    else:
        future.set_result(value)
