"""Ctrl-C: at once while nothing has been started, in good order afterwards."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

INTERRUPTED = 130


def _leave(_signal: int, _frame: FrameType | None) -> NoReturn:
    os._exit(INTERRUPTED)


def leave_at_once() -> None:
    """Let an interrupt end the process there and then.

    Modules are being loaded, and an exception that came out of the midst of one would be shown as its fault.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where somebody has it ignored
        signal.signal(signal.SIGINT, _leave)


@contextmanager
def leave_in_order() -> Iterator[None]:
    """Let an interrupt cancel what runs meanwhile, so that it can stop what it has started."""
    if signal.getsignal(signal.SIGINT) is not _leave:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, _leave)
