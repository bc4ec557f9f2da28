"""The part of a guest that begins it in WebAssembly, where there are streams and a clock, and nothing else.

It follows `guest.py` in the text that the interpreter is given.
"""

import asyncio  # noqa: TID251 - the event loop of the guest's code
import logging
import random
import select
import time
from collections.abc import Callable
from os import _exit, write
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:  # in the text they stand above
    from toolcrib.runtime.sandboxes.process.guest import _prepare, _serve  # noqa: TC004 - as above
    from toolcrib.runtime.sandboxes.process.guest_line import _Line  # noqa: TC004 - as above

_ANSWERS = 0
_CALLS = 1
_NEXT = b"_main_in_wasi()"


class _Waiting:
    """Waits for the one descriptor that can be read, or for time to pass."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self.watched = False

    def watch(self, descriptor: int) -> None:
        self._poll.register(descriptor, select.POLLIN)
        self.watched = True

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None and not self.watched:
            timeout = 3600.0  # for nothing, until its time is up
        return self._poll.poll(None if timeout is None else timeout * 1000)


class _WasiLoop(asyncio.BaseEventLoop):
    """An event loop without sockets, threads and signals."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = _Waiting()
        self._reader: tuple[Callable[..., Any], tuple[Any, ...]] | None = None

    def add_reader(self, fd: Any, callback: Callable[..., Any], *args: Any) -> None:  # type: ignore[override]
        self._reader = (callback, args)
        self._selector.watch(fd)

    def _process_events(self, events: list[Any]) -> None:
        if events and self._reader is not None:
            callback, args = self._reader
            self.call_soon(callback, *args)

    def _write_to_self(self) -> None:
        """Wake nobody: there is no other thread."""


class _WasiPolicy(asyncio.DefaultEventLoopPolicy):
    _loop_factory = _WasiLoop


def _stop_in_wasi() -> NoReturn:
    """Load what code often needs, and end: what is in memory then is what every guest begins with.

    It writes at which address the text lies that goes on from here.
    """
    _prepare()
    write(_CALLS, str(id(_NEXT) + bytes.__basicsize__ - 1).encode())
    _exit(0)


def _main_in_wasi() -> None:
    random.seed()  # each guest has its own
    logging._startTime = time.time()  # type: ignore[attr-defined]  # noqa: SLF001 - it was set when it was loaded
    mark = _Line(_ANSWERS).wait()["mark"]
    line = _Line(_ANSWERS, _CALLS, bytes.fromhex(mark))
    asyncio.set_event_loop_policy(_WasiPolicy())
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    _serve(line, loop)
