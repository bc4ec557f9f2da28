"""Ctrl-C: exit immediately before anything has been started, and orderly afterwards."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

INTERRUPTED = 130


def _exit_at_once(_signal: int, _frame: FrameType | None) -> NoReturn:
    os._exit(INTERRUPTED)


def leave_at_once() -> None:
    """End the process immediately at an interrupt.

    Modules are being loaded, and an exception that came out of the midst of one would be shown as its fault.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where somebody has it ignored
        signal.signal(signal.SIGINT, _exit_at_once)


@contextmanager
def leave_in_order() -> Iterator[None]:
    """Cancel the running work at an interrupt, so that it can stop the processes that it started."""
    if signal.getsignal(signal.SIGINT) is not _exit_at_once:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, _exit_at_once)
