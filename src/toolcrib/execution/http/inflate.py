"""Compressed bodies unpacked piece by piece, so that a small one cannot become a huge one at once."""

import zlib
from collections.abc import Iterator

ACCEPTED = "gzip, deflate"
"""The compressions that a server is offered."""
_PIECE = 64 * 1024
_GZIP_WINDOW = 31
_ZLIB_WINDOW = 15
_RAW_WINDOW = -15


class UnreadableError(Exception):
    """A body that is not what its headers say; it is turned into the error of the call."""


class Inflater:
    """Unpacks a body in pieces of at most 64 KiB.

    Raises:
        UnreadableError: it is compressed otherwise, or broken.
    """

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding.strip().lower() or "identity"
        if self._encoding not in {"identity", "gzip", "x-gzip", "deflate"}:
            raise UnreadableError(
                f"the answer is compressed with {self._encoding[:40]!r}, which was not offered"
            )
        self._unpack = zlib.decompressobj(_GZIP_WINDOW if "gzip" in self._encoding else _ZLIB_WINDOW)
        self._started = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield what a part of the body unpacks to."""
        if self._encoding == "identity":
            yield data
            return
        while data:
            if self._unpack.eof:  # gzip allows several in a row
                self._unpack = zlib.decompressobj(_GZIP_WINDOW if "gzip" in self._encoding else _ZLIB_WINDOW)
            piece = self._inflate(data)
            data = self._unpack.unused_data if self._unpack.eof else self._unpack.unconsumed_tail
            if piece:
                yield piece

    def finish(self) -> Iterator[bytes]:
        """Yield what is left at the end of the body.

        Raises:
            UnreadableError: it ended before what is compressed in it did.
        """
        if self._started:
            while piece := self._inflate(b""):
                yield piece
            if not self._unpack.eof:
                raise UnreadableError("the answer is compressed, and breaks off before its end")

    def _inflate(self, data: bytes) -> bytes:
        started, self._started = self._started, True
        try:
            return self._unpack.decompress(data, _PIECE)
        except zlib.error as error:
            if started or self._encoding != "deflate":
                raise UnreadableError("the answer is not compressed as its headers say") from error
        self._unpack = zlib.decompressobj(_RAW_WINDOW)  # what some servers mean by deflate
        return self._inflate(data)
