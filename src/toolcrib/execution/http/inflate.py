"""Decompresses bodies in small chunks, so that a small body cannot become huge before its size is checked."""

import zlib
from collections.abc import Iterator

ACCEPT_ENCODING = "gzip, deflate"
"""The header of requests."""
_CHUNK_BYTES = 64 * 1024
# How zlib is told the format: window bits plus 16 mean gzip, negative ones raw deflate.
_GZIP_WINDOW_BITS = 31
_ZLIB_WINDOW_BITS = 15
_RAW_WINDOW_BITS = -15


class UnreadableError(Exception):
    """A body does not match its headers or is too large; converted to the error of the call."""


class Inflater:
    """Decompresses a body in chunks of at most 64 KiB.

    Raises:
        UnreadableError: the compression is not supported, or the data is corrupt.
    """

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding.strip().lower() or "identity"
        if self._encoding not in {"identity", "gzip", "x-gzip", "deflate"}:
            raise UnreadableError(
                f"the answer is compressed with {self._encoding[:40]!r}, which was not offered"
            )
        self._decompressor = zlib.decompressobj(
            _GZIP_WINDOW_BITS if "gzip" in self._encoding else _ZLIB_WINDOW_BITS
        )
        self._started = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the decompressed chunks of a part of the body."""
        if self._encoding == "identity":
            yield data
            return
        while data:
            if self._decompressor.eof:  # a gzip body may have several members, one after another
                self._decompressor = zlib.decompressobj(
                    _GZIP_WINDOW_BITS if "gzip" in self._encoding else _ZLIB_WINDOW_BITS
                )
            chunk = self._inflate(data)
            data = (
                self._decompressor.unused_data
                if self._decompressor.eof
                else self._decompressor.unconsumed_tail
            )
            if chunk:
                yield chunk

    def finish(self) -> Iterator[bytes]:
        """Yield the rest at the end of the body.

        Raises:
            UnreadableError: the compressed data is incomplete.
        """
        if self._started:
            while chunk := self._inflate(b""):
                yield chunk
            if not self._decompressor.eof:
                raise UnreadableError("the answer is compressed, and ends prematurely")

    def _inflate(self, data: bytes) -> bytes:
        started, self._started = self._started, True
        try:
            return self._decompressor.decompress(data, _CHUNK_BYTES)
        except zlib.error as error:
            if started or self._encoding != "deflate":
                raise UnreadableError("the answer is not compressed as its headers say") from error
        self._decompressor = zlib.decompressobj(
            _RAW_WINDOW_BITS
        )  # some servers send raw deflate data without the zlib header
        return self._inflate(data)
