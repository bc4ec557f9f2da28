"""How much memory a process and those that it has started take, where the system tells."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

__all__ = ["resident"]

_MAX_PROCESSES = 16


def resident(pid: int | None) -> int:
    """Return the bytes of memory that a process and its descendants occupy; 0 where nothing is told.

    >>> resident(None)
    0
    """
    return sum(_pages(process) for process in _family(pid)) * os.sysconf("SC_PAGE_SIZE") if pid else 0


def _family(pid: int) -> Iterator[int]:
    pending, left = [pid], _MAX_PROCESSES
    while pending and left:
        process, left = pending.pop(), left - 1
        yield process
        with suppress(OSError, ValueError):
            pending += map(int, Path(f"/proc/{process}/task/{process}/children").read_text("ascii").split())


def _pages(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
    except (OSError, ValueError, IndexError):  # it has ended, or this system has no such files
        return 0
