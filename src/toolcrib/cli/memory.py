"""Keeps a long-running process small: long-lived objects are frozen, and the heap is trimmed."""

import gc
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from time import thread_time

import anyio

from toolcrib.concurrency.background import Background

_FULL = 2
"""The garbage collector's oldest generation."""
_LONG_COLLECTION = 0.03
"""Seconds of CPU time: on a busy machine every collection takes long by the clock."""
_FREEZE_RATIO = 4
"""Survivors are many where there is one for so many that are frozen already."""
_TRIM_EVERY = 10.0
"""Seconds between calls of malloc_trim, which take half a millisecond, and a few after large results."""


@asynccontextmanager
async def memory_upkeep(every: float = _TRIM_EVERY) -> AsyncIterator[None]:
    """Exclude long-lived objects from garbage collection, and call malloc_trim every so many seconds.

    glibc does not return freed blocks that lie between live ones: after a few large results at once a gateway
    would stay at its peak. With other C libraries nothing is trimmed.
    """
    trim = _malloc_trim()

    async def work() -> None:
        while trim is not None:
            await anyio.sleep(every)
            trim(0)

    with freezing_survivors():
        task = Background(work)
        try:
            yield
        finally:
            await task.stop()


def _malloc_trim() -> Callable[[int], object] | None:
    try:
        import ctypes  # noqa: PLC0415 - some builds of Python do without

        trim = ctypes.CDLL(None).malloc_trim
    except (ImportError, OSError, AttributeError, TypeError):  # no libffi, no libc by that name, or not glibc
        return None
    trim.argtypes = [ctypes.c_size_t]
    return trim


@contextmanager
def freezing_survivors(limit: float = _LONG_COLLECTION) -> Iterator[None]:
    """Freeze the objects that survive a long garbage collection, if there are many.

    Each full collection looks through all that lives, and stops everything meanwhile: seconds, where a server
    lists tens of thousands of tools. What it has found alive is for the most part the catalogue. The rest are
    requests in flight, which are never collected once they are frozen, so that it must not happen often.
    """
    began = 0.0

    def watch(phase: str, facts: dict[str, int]) -> None:
        nonlocal began
        if phase == "start":
            began = thread_time()
        elif facts["generation"] == _FULL and thread_time() - began >= limit and _survivors_are_many():
            gc.freeze()

    gc.callbacks.append(watch)
    try:
        yield
    finally:
        gc.callbacks.remove(watch)


def _survivors_are_many() -> bool:
    return _FREEZE_RATIO * len(gc.get_objects(generation=_FULL)) >= gc.get_freeze_count()
