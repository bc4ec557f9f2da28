"""Watch what is kept in memory."""

import gc
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from waiting import until

MEGABYTE = 2**20


@asynccontextmanager
async def forgetting(most: int = 4 * MEGABYTE) -> AsyncIterator[None]:
    """Wait until no more than so many bytes are kept of what is done within."""
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
