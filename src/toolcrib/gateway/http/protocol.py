"""How requests arrive: a sender whose headers are too long, or take too long, is cut off."""

from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["HEADER_BYTES", "timed"]

HEADER_BYTES = 32 * 1024
"""How long the headers of a request may be."""
_END = b"\r\n\r\n"
_LATE = b"HTTP/1.1 408 Request Timeout"
_LONG = b"HTTP/1.1 431 Request Header Fields Too Large"
_CLOSE = b"\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


def timed(seconds: float) -> type[HttpToolsProtocol]:
    """Return a protocol that gives a client so many seconds for the headers of a request."""
    return type("Timed", (_Timed,), {"seconds": seconds})


class _Timed(HttpToolsProtocol):
    """Uvicorn's, which by itself waits for headers for ever, and takes them however long they are."""

    seconds: ClassVar[float]
    _timer: Any = None
    _size = 0
    """How much has come of headers that are not whole."""
    _tail = b""
    """The last of it, in which their end may begin."""

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._begin()

    def data_received(self, data: bytes) -> None:
        """Take what has come, unless it makes the headers too long."""
        if self._timer is None and not self.cycle.more_body:
            self._begin()
        if self._timer is not None:
            end = (self._tail + data).find(_END)
            if self._size + (len(data) if end < 0 else end) > HEADER_BYTES:
                self._cut(_LONG)
                return
            self._size += len(data)
            self._tail = data[1 - len(_END) :]
        super().data_received(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header without the spaces around it, which the parser leaves."""
        super().on_header(name, value.strip())

    def on_headers_complete(self) -> None:
        """Begin to answer; the rest may take as long as the application lets it."""
        self._end()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._end()
        super().connection_lost(exc)

    def _begin(self) -> None:
        self._timer = self.loop.call_later(self.seconds, self._cut, _LATE)

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._size, self._tail = None, 0, b""

    def _cut(self, status: bytes) -> None:
        self._end()
        if not self.transport.is_closing():
            self.transport.write(status + _CLOSE)
            self.transport.close()
