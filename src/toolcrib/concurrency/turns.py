"""Time slices for the event loop, so that work on the input of one peer does not delay all others."""

from collections.abc import AsyncIterable, AsyncIterator
from time import perf_counter

from anyio.lowlevel import checkpoint

_SLICE_SECONDS = 0.002
"""Time slice of one peer: long against a checkpoint, short against the latency of a call."""
_MAX_LINES_AT_ONCE = 64
"""Chunks with at most so many line breaks are passed on whole."""
_PART_BYTES = 256
"""Size of the parts of a chunk with more: at most 256 lines, or some 30 events."""


class LoopTurn:
    """A time slice that begins when its owner gets work."""

    def __init__(self) -> None:
        self._began = perf_counter()

    async def yield_if_over(self) -> None:
        """Yield to other tasks if the time slice is over; call it after each unit of work."""
        if perf_counter() - self._began >= _SLICE_SECONDS:
            await checkpoint()
            self._began = perf_counter()


async def split_dense_chunks(chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    r"""Yield chunks of text, those with many lines in parts, with a checkpoint after each part.

    Readers of lines and of events parse a chunk without a checkpoint, and 64 KiB may be 65,536 blank lines.
    """
    async for chunk in chunks:
        if chunk.count(b"\n") + chunk.count(b"\r") <= _MAX_LINES_AT_ONCE:
            yield chunk
            continue
        for start in range(0, len(chunk), _PART_BYTES):
            yield chunk[start : start + _PART_BYTES]
            await checkpoint()
