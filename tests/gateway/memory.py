"""Measurements of memory in use."""

import gc
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from waiting import until

MEGABYTE = 2**20


@asynccontextmanager
async def forgetting(most: int = 4 * MEGABYTE) -> AsyncIterator[None]:
    """Wait until the block's allocations have shrunk to at most `most` bytes."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        yield

        def is_forgotten() -> bool:
            gc.collect()
            return tracemalloc.get_traced_memory()[0] - before < most

        await until(is_forgotten)
    finally:
        tracemalloc.stop()
