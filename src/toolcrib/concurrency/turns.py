"""Time slices for the event loop, so that work on the input of one peer does not delay all others."""

from collections.abc import AsyncIterable, AsyncIterator
from time import perf_counter

from anyio.lowlevel import checkpoint

_TURN = 0.002
"""How many seconds of work one turn of the event loop may take."""
_FEW = 64
"""Up to how many line breaks a piece is passed on as it is: what they end is few."""
_PART = 256
"""How many bytes of a piece with more of them are passed on at once: 256 lines, or some 30 events."""


class LoopTurn:
    """A time slice that begins when its owner gets work."""

    def __init__(self) -> None:
        self._began = perf_counter()

    async def end_if_long(self) -> None:
        """Yield to other tasks if the time slice is over; call it after each unit of work."""
        if perf_counter() - self._began >= _TURN:
            await checkpoint()
            self._began = perf_counter()


async def dense_pieces_in_parts(pieces: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    r"""Yield pieces of text; one with many lines comes in parts, so that the reader can pause in between.

    What reads lines or events does so without giving way, and 64 KiB may be as many blank lines.
    """
    async for piece in pieces:
        if piece.count(b"\n") + piece.count(b"\r") <= _FEW:
            yield piece
            continue
        for start in range(0, len(piece), _PART):
            yield piece[start : start + _PART]
            await checkpoint()
