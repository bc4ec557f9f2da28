"""How requests arrive: a connection whose sender takes too long over its headers is cut off."""

from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["HEADER_BYTES", "timed"]

HEADER_BYTES = 32 * 1024
"""How long the headers of a request may be."""
_LATE = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


def timed(seconds: float) -> type[H11Protocol]:
    """Return a protocol that gives a client so many seconds for the headers of a request."""
    return type("Timed", (_Timed,), {"seconds": seconds})


class _Timed(H11Protocol):
    """Uvicorn's, which by itself waits for headers for ever once their first byte is there."""

    seconds: ClassVar[float]
    _timer: Any = None

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._begin()

    def data_received(self, data: bytes) -> None:
        """Take what has come, and see whether the headers are whole."""
        try:
            super().data_received(data)
        except h11.LocalProtocolError:  # what came after a request that was answered early makes no sense
            self.transport.abort()
            return
        if self.conn.their_state is not h11.IDLE:
            self._end()
        elif self._timer is None and self.conn.trailing_data[0]:
            self._begin()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._end()
        super().connection_lost(exc)

    def _begin(self) -> None:
        self._timer = self.loop.call_later(self.seconds, self._cut)

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _cut(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self.transport.write(_LATE)
            self.transport.close()
