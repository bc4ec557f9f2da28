"""What a guest prints: kept up to a limit, and told where something is missing."""

from typing import Literal

__all__ = ["Output", "Stream"]

Stream = Literal["stdout", "stderr"]


class Output:
    r"""Collects the two outputs of one run, at most so many bytes of each.

    >>> output = Output(limit=5)
    >>> output.write("stdout", b"hello, world")
    >>> output.text("stdout")
    'hello\n[7 more bytes were printed]'
    """

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._kept: dict[Stream, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        self._lost: dict[Stream, int] = {"stdout": 0, "stderr": 0}

    def write(self, stream: Stream, data: bytes | str) -> None:
        """Keep what fits."""
        if isinstance(data, str):
            data = data.encode("utf-8", "replace")
        kept = self._kept[stream]
        room = self._limit - len(kept)
        kept += data[:room]
        self._lost[stream] += max(0, len(data) - room)

    def text(self, stream: Stream) -> str:
        """Return what was kept, with a last line that says how much was not."""
        text = self._kept[stream].decode("utf-8", "replace")
        lost = self._lost[stream]
        return f"{text}\n[{lost:,} more bytes were printed]" if lost else text
