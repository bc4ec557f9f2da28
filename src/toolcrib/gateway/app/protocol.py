"""uvicorn's HTTP protocol with limits on size and time, and a share of the connections for known clients.

A connection is a stranger's until a request on it has passed the guard: right host and origin, and a right
token where tokens are needed. Strangers may have half of all connections. With one more, the oldest of them
on which nothing is being answered is closed. So connections that say nothing keep nobody out, however many
they are: a client that sends its request at once is known long before its turn to be closed has come.
"""

import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import Any

from pydantic_core import to_json
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from toolcrib.crib import GatewaySettings
from toolcrib.gateway.app.asgi import TOO_LARGE

HEADER_BYTES = 32 * 1024
"""How long the headers of a request may be."""
_HEADER_SECONDS = 10.0
"""Within how many seconds the headers must be here, the first byte of a new connection included."""
_LOOKED_AT = 64
"""How many of the oldest strangers are looked at for one that can be closed."""
_SPARE = 64
"""How many connections over the limit get an answer; those beyond are cut off without one."""
_AHEAD = 100
"""How many requests a client may send before it has the answer to an earlier one."""
_LEAST = 16 * 1024
"""How many bytes a client must take of what waits for it, within the time that a request may take."""
_HURRIED = 2.0
"""Within how many seconds it must do so while the gateway stops."""
_REASONS = {408: "Request Timeout", 413: "Content Too Large", 431: "Request Header Fields Too Large"}
_SMALL = 16 * 1024
"""How many bytes are worth copying to be sent together."""


def bounded(current: Callable[[], GatewaySettings]) -> type[HttpToolsProtocol]:
    """Return a protocol that holds clients to the settings of each moment."""
    return type("Bounded", (Bounded,), {"current": staticmethod(current), "strangers": {}})


class Bounded(HttpToolsProtocol):
    """Uvicorn's, which by itself waits for ever, and takes headers and trailers however long they are."""

    cycle: Any
    """The request that came last, and its response; None before the first."""
    current: Callable[[], GatewaySettings]
    strangers: "dict[Bounded, None]"
    """The connections of one server that no request has made known, the oldest first."""
    _arrival: Any = None
    """What cuts the connection off when a request does not arrive in time; None while none is arriving."""
    _departure: Any = None
    """Likewise, when what is sent is not taken."""
    _is_hurried = False
    """Whether the gateway is stopping, so that nobody is waited for who takes nothing."""
    _waiting = 0
    """How many bytes the client had not taken when last looked at."""
    _in_headers = True
    _size = 0
    """How long the headers are that have been understood."""
    _more = 0
    """How much has come since a request began, or its headers ended; it is no more than there is of it."""

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for the first request, unless there are far too many connections."""
        super().connection_made(CoalescingTransport(transport, self.loop))  # type: ignore[arg-type] # it acts as one
        limit = self.limit_concurrency
        if limit is not None and len(self.connections) > limit + _SPARE:
            transport.abort()
            return
        self.strangers[self] = None
        if limit is not None and len(self.strangers) > max(1, limit // 2):
            self._close_oldest_stranger()
        self._expect()

    def _close_oldest_stranger(self) -> None:
        for stranger in list(islice(self.strangers, _LOOKED_AT)):
            cycle = stranger.cycle
            if cycle is not None and cycle.scope.get("toolcrib.known"):
                del self.strangers[stranger]  # it is being answered, such as by a stream that does not end
            elif stranger is not self and (cycle is None or cycle.response_complete):
                del self.strangers[stranger]
                stranger.transport.abort()
                return

    def data_received(self, data: bytes) -> None:
        """Take what has come, unless that is too much."""
        if self._arrival is None:
            self._expect()
        earlier = self.scope
        super().data_received(data)
        if self.scope is earlier:  # what came before it in the same piece is not its
            self._more += len(data)
        if self._arrival is None:
            return
        if self._in_headers:
            self._check_headers()
        elif self._more > 2 * (limit := self.current().request_bytes) + HEADER_BYTES:
            self._cut(413, TOO_LARGE.format(limit))

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._in_headers, self._size, self._more = True, 0, 0
        if self._arrival is None:
            self._expect()

    def on_url(self, url: bytes) -> None:
        """Take a part of the target."""
        self._size += len(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header without the spaces around it, which the parser leaves; trailers are none."""
        if self._in_headers:
            self._size += len(name) + len(value) + len(b": \r\n")
            super().on_header(name, value.strip())

    def on_headers_complete(self) -> None:
        """Begin to answer, unless the headers are too long, or too many requests wait before it."""
        if self._check_headers():
            self._in_headers, self._more = False, 0
            _ended(self._arrival)
            self._expect()
            self._name_target()
            super().on_headers_complete()
            if len(self.pipeline) > _AHEAD:
                self._cut()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        if not self.transport.is_closing():
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Wait no more: the request is here."""
        self._arrival = _ended(self._arrival)
        if not self.transport.is_closing():
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """Wait for the next request; the rest of one that was answered before it was here is not."""
        if not self.pipeline and self.cycle.more_body:
            self.transport.close()
        if self.cycle.scope.get("toolcrib.known"):
            self.strangers.pop(self, None)
        super().on_response_complete()
        if self.transport.is_closing():
            self._look_after()

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection that nobody uses."""
        super().timeout_keep_alive_handler()
        self._look_after()

    def hurry(self) -> None:
        """Give the client less time to take what waits for it, from here on."""
        if not self._is_hurried:
            self._is_hurried, self._departure = True, _ended(self._departure)
        self._look_after()

    def pause_writing(self) -> None:
        """Wait until the client has taken what was sent."""
        super().pause_writing()
        self._look_after()

    def resume_writing(self) -> None:
        """Send on; of a connection that ends, the last of it must be taken too."""
        self._departure = _ended(self._departure)
        super().resume_writing()
        if self.transport.is_closing():
            self._look_after()

    def send_400_response(self, msg: str) -> None:
        """Answer that a request is not valid HTTP, unless another answer is being sent."""
        if self._may_speak():
            super().send_400_response(msg)
        self._cut()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._arrival, self._departure = _ended(self._arrival), _ended(self._departure)
        self.strangers.pop(self, None)
        super().connection_lost(exc)

    def _name_target(self) -> None:
        """Take the name in a target such as `http://name/path` for one that it is called by."""
        scheme, absolute, rest = self.url.partition(b"://")
        if absolute and b"/" not in scheme:
            name = rest.partition(b"/")[0].partition(b"?")[0]
            if (b"host", name) not in self.headers:
                self.headers.append((b"host", name))

    def _check_headers(self) -> bool:
        if max(self._size, self._more) > HEADER_BYTES:
            self._cut(431, f"the headers of a request may have {HEADER_BYTES:,} bytes")
        return not self.transport.is_closing()

    def _expect(self) -> None:
        self._arrival = self.loop.call_later(self._arrival_seconds(), self._late)

    def _arrival_seconds(self) -> float:
        """Return within how many seconds the headers of a request, or else its body, must be here."""
        limit = self.current().request_timeout
        return min(limit, _HEADER_SECONDS) if self._in_headers else limit

    def _late(self) -> None:
        """Cut off a client that is late; not one that is kept waiting itself."""
        answering = self.cycle is not None and not self.cycle.response_complete
        if answering and (self._in_headers or self.flow.read_paused or self.pipeline):
            self._expect()
        else:
            what = "headers of the request" if self._in_headers else "request"
            limit = f"{self._arrival_seconds():g} s"
            self._cut(408, f"the {what} did not arrive within {limit}; see gateway.request_timeout")

    def _cut(self, status: int | None = None, text: str = "") -> None:
        """End the connection, with an answer, if there is one, unless another is being sent."""
        if not self.transport.is_closing():
            if status is not None and self._may_speak():
                body = to_json({"error": text})
                head = f"HTTP/1.1 {status} {_REASONS[status]}\r\ncontent-type: application/json\r\n"
                head += f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
                self.transport.write(head.encode() + body)
            self.transport.close()
        self._look_after()

    def _may_speak(self) -> bool:
        """Return whether what is sent is taken for the answer to what arrives, not to what came before it."""
        if self.cycle is None or self.cycle.response_complete:
            return True
        return not (self._in_headers or self.pipeline or self.cycle.response_started)

    def _look_after(self) -> None:
        """See to it that what waits to be sent is taken, or given up."""
        if self._departure is None and self.transport.get_write_buffer_size():
            self._waiting = self._untaken()
            within = self.current().request_timeout
            within = min(within, _HURRIED) if self._is_hurried else within
            self._departure = self.loop.call_later(within, self._give_up)

    def _give_up(self) -> None:
        self._departure = None
        if self.transport.get_write_buffer_size() and self._untaken() > self._waiting - _LEAST:
            # Without this the system keeps what it has, and offers it on and on.
            self._socket().setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()
        elif self.flow.write_paused or self.transport.is_closing():
            self._look_after()

    def _untaken(self) -> int:
        """Return how many bytes wait here, and with the system where it tells."""
        waiting: int = self.transport.get_write_buffer_size()
        with suppress(OSError, ImportError):
            import fcntl  # noqa: PLC0415 - Windows has none
            import termios  # noqa: PLC0415 - likewise

            queued = fcntl.ioctl(self._socket().fileno(), termios.TIOCOUTQ, bytes(4))
            waiting += int.from_bytes(queued, sys.byteorder)
        return waiting

    def _socket(self) -> Any:
        return self.transport.get_extra_info("socket")


def _ended(timer: Any) -> Any:
    if timer is not None:
        timer.cancel()
    return None


class CoalescingTransport:
    """Holds what is written until more is, or until the event loop has its next turn.

    A server writes the head of a response and then its body. Sent apart they wake a client twice, and on a
    busy machine the one that waits for the head is let run before the body is on its way. The protocol of the
    server says everything by `write`.
    """

    def __init__(self, transport: Any, loop: Any) -> None:
        self._transport, self._loop = transport, loop
        self._held = b""

    def __getattr__(self, name: str) -> Any:
        """Return all else as the transport has it."""
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send this with what was held; hold it, where nothing was."""
        held, self._held = self._held, b""
        if len(data) > _SMALL:
            self._transport.write(held)
            self._transport.write(data)
        elif held:
            self._transport.write(held + data)
        else:
            self._held = data
            self._loop.call_soon(self._flush)

    def close(self) -> None:
        """Close the transport, once it has sent what it has."""
        self._flush()
        self._transport.close()

    def get_write_buffer_size(self) -> int:
        """Return how many bytes have not been taken."""
        size: int = self._transport.get_write_buffer_size()
        return size + len(self._held)

    def _flush(self) -> None:
        held, self._held = self._held, b""
        if held and not self._transport.is_closing():
            self._transport.write(held)
