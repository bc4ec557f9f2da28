"""Start of a guest in WebAssembly, where there are standard streams and a clock, and nothing else.

Its text follows `guest.py`. CPython runs `_stop_in_wasi` when the module is built; its memory is then saved,
and every guest continues from there with `_main_in_wasi`.
"""

import asyncio  # noqa: TID251 - the event loop of the guest's code
import logging
import random
import select
import time
from collections.abc import Callable
from os import _exit, write
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:  # at run time these files come before this one in the same text
    from toolcrib.runtime.sandboxes.process.guest import _preload_modules, _serve  # noqa: TC004 - as above
    from toolcrib.runtime.sandboxes.process.guest_line import _Line  # noqa: TC004 - as above

_STDIN = 0
_STDOUT = 1
_NEXT_CODE = b"_main_in_wasi()"


class _Poll:
    """Waits for one descriptor or a timeout, as the selector of an event loop."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self.watched = False

    def watch(self, descriptor: int) -> None:
        self._poll.register(descriptor, select.POLLIN)
        self.watched = True

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None and not self.watched:
            timeout = 3600.0  # nothing can wake it; the host ends the run
        return self._poll.poll(None if timeout is None else timeout * 1000)


class _WasiLoop(asyncio.BaseEventLoop):
    """An event loop without sockets, threads and signals."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = _Poll()
        self._reader: tuple[Callable[..., Any], tuple[Any, ...]] | None = None

    def add_reader(self, fd: Any, callback: Callable[..., Any], *args: Any) -> None:  # type: ignore[override]
        self._reader = (callback, args)
        self._selector.watch(fd)

    def _process_events(self, events: list[Any]) -> None:
        if events and self._reader is not None:
            callback, args = self._reader
            self.call_soon(callback, *args)

    def _write_to_self(self) -> None:
        """Do nothing: without other threads the loop needs no wake-up."""


class _WasiPolicy(asyncio.DefaultEventLoopPolicy):
    _loop_factory = _WasiLoop


def _stop_in_wasi() -> NoReturn:
    """Preload modules, write the address of the text to run next, and exit: then the memory is saved."""
    _preload_modules()
    # the characters of a bytes object follow its header, which includes the final zero byte
    write(_STDOUT, str(id(_NEXT_CODE) + bytes.__basicsize__ - 1).encode())
    _exit(0)


def _main_in_wasi() -> None:
    random.seed()  # or every guest would draw the same numbers, from the state that was saved
    logging._startTime = time.time()  # type: ignore[attr-defined]  # noqa: SLF001 - it was set when the module was built
    mark = _Line(_STDIN).receive_message()["mark"]
    line = _Line(_STDIN, _STDOUT, bytes.fromhex(mark))
    asyncio.set_event_loop_policy(_WasiPolicy())
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    _serve(line, loop)
