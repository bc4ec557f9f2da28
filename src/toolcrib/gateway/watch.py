"""Watches the configuration file, and the lock of approved tools, for changes."""

import logging
import os
from collections.abc import Awaitable, Callable
from os import PathLike

import anyio

_LOG = logging.getLogger("toolcrib.gateway")
_EVERY = 1.0
"""Seconds between two looks."""
_SETTLED = 0.2
"""Seconds for which a file must not change before it is read: its writer may not be finished."""

Mark = tuple[int, int, int] | None
"""Differs when a file has been written or replaced; None without a file."""


async def watch(
    path: str,
    since: Mark,
    changed: Callable[[], Awaitable[None]],
    *,
    every: float = _EVERY,
    settled: float = _SETTLED,
) -> None:
    """Call a function each time a file has changed since it was read, until cancelled.

    A file that is replaced by another has changed too; one that is missing has not, until it is back, but
    that is logged once.
    """
    known = since
    is_gone = False
    while True:
        await anyio.sleep(every)
        mark = mark_of(path)
        if mark is None and not is_gone:
            _LOG.warning("the configuration file %r is gone; the last version read stays in force", path)
        is_gone = mark is None
        if mark is None or mark == known:
            continue
        while True:
            await anyio.sleep(settled)
            last, mark = mark, mark_of(path)
            if mark == last:
                break
        if mark is not None and mark != known:
            known = mark
            await changed()


async def watch_any(
    path: str | PathLike[str],
    since: Mark,
    changed: Callable[[], Awaitable[None]],
    *,
    every: float = _EVERY,
    settled: float = _SETTLED,
) -> None:
    """Call a function each time a file was written, replaced, made or deleted, until cancelled."""
    known = since
    while True:
        await anyio.sleep(every)
        mark = mark_of(path)
        while mark != known:
            await anyio.sleep(settled)
            last, mark = mark, mark_of(path)
            if mark == last:
                known = mark
                await changed()


def mark_of(path: str | PathLike[str]) -> Mark:
    """Return the mark of a file."""
    try:
        found = os.stat(path)  # noqa: PTH116 - a descriptor is not wanted, and a link is followed
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
