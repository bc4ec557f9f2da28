"""uvicorn's HTTP protocol with limits on size and time, and a share of the connections for known clients.

uvicorn alone waits without end, and takes headers and trailers of any length. What is added here:

- *Arrival.* Headers and body must be complete within their times (`_arrive_by`), or the connection is closed
  with status 408. A request that comes whole in one read needs no time. One timer serves many requests: when
  it fires too early it is set again. A client that is kept waiting itself, because an earlier request of its
  is still being answered, is not late.
- *Size.* `_header_bytes` counts the headers that the parser has understood, `_more` what has come beside
  them: a header or a chunk that never ends is not reported by the parser, and shows only there.
- *Departure.* A client that does not read what it is sent is cut off after a while, and sooner while the
  gateway stops (`_is_draining`).
- *Strangers.* A connection is a stranger's until a request on it has passed the guard: right host and origin,
  and a right token where tokens are needed. Strangers may have half of all connections. With one more, the
  oldest of them on which nothing is being answered is closed. So idle connections keep nobody out, however
  many they are: a client that sends its request at once is known long before its turn to be closed.
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
"""Longest headers of a request, in bytes."""
_HEADER_SECONDS = 10.0
"""Seconds that the headers may take, from when a connection was made or the request began."""
_LOOKED_AT = 64
"""Oldest strangers that are searched for one that can be closed."""
_SPARE = 64
"""Connections over the limit that get an answer; those beyond are closed without one."""
_AHEAD = 100
"""Requests that a client may send before it has the answer to an earlier one."""
_MIN_READ = 16 * 1024
"""Bytes that a client must read of what waits for it, within the time that a request may take."""
_DRAIN_SECONDS = 2.0
"""Seconds that it has for that while the gateway stops."""
_REASONS = {408: "Request Timeout", 413: "Content Too Large", 431: "Request Header Fields Too Large"}
_SMALL = 16 * 1024
"""Longest part of a response, in bytes, that is copied so as to be sent together with the next."""


def bounded(current: Callable[[], GatewaySettings]) -> type[HttpToolsProtocol]:
    """Return a protocol class for one server, which reads its limits from the current settings."""
    return type("Bounded", (Bounded,), {"current": staticmethod(current), "strangers": {}})


class Bounded(HttpToolsProtocol):
    """uvicorn's HTTP protocol with size and time limits."""

    url = b""
    """The target of the last request; empty before the first."""
    cycle: Any
    """The last request, with its response; None before the first."""
    current: Callable[[], GatewaySettings]
    strangers: "dict[Bounded, None]"
    """The connections of one server that no request has made known, the oldest first."""
    _arrival: Any = None
    """Timer that closes the connection if a request is late; it may outlast the request."""
    _arrive_by: float | None = None
    """Time by which the headers, or the body, must be complete; None while neither is due."""
    _arrival_limit = 0.0
    """Seconds that they have."""
    _departure: Any = None
    """The same for a client that does not read what it is sent."""
    _is_draining = False
    """Whether the gateway is stopping: slow readers get 2 s."""
    _waiting = 0
    """Bytes that the client had not read at the last look."""
    _is_arriving = False
    """Whether a request has begun and is not complete."""
    _in_headers = True
    _header_bytes = 0
    """Length of the headers that the parser has understood."""
    _more = 0
    """Bytes that came since a request began, or since its headers ended."""

    def connection_made(self, transport: Any) -> None:
        """Wait for the first request, unless there are far too many connections."""
        super().connection_made(CoalescingTransport(transport, self.loop))  # type: ignore[arg-type] # it acts as one
        limit = self.limit_concurrency
        if limit is not None and len(self.connections) > limit + _SPARE:
            transport.abort()
            return
        self.strangers[self] = None
        if limit is not None and len(self.strangers) > max(1, limit // 2):
            self._close_oldest_stranger()
        self._await_arrival()

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
        """Parse what has come, unless that is too much."""
        earlier, was_arriving = self.scope, self._is_arriving
        super().data_received(data)
        if self.scope is earlier:  # else a request has begun, and what came before it is not of it
            self._more += len(data)
            self._is_arriving |= not was_arriving  # such as a line end: a request must follow in time
        if not self._is_arriving or self.transport.is_closing():
            return
        if self._arrive_by is None:
            self._await_arrival()
        if self._in_headers:
            self._check_header_bytes()
        elif self._more > 2 * (limit := self.current().request_bytes) + HEADER_BYTES:
            self._close_with_error(413, TOO_LARGE.format(limit))

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._is_arriving = self._in_headers = True
        self._header_bytes = self._more = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header without the spaces around it, which the parser leaves; drop trailers."""
        if self._in_headers:
            self._header_bytes += len(name) + len(value) + len(b": \r\n")
            super().on_header(name, value.strip())

    def on_headers_complete(self) -> None:
        """Start to answer, unless the headers are too long, or too many requests wait before this one."""
        if self.transport.is_closing() or not self._check_header_bytes():
            return
        self._in_headers, self._more = False, 0
        self._arrive_by = None  # the body has a time of its own
        if not self.url.startswith(b"/"):
            self._check_target()
        super().on_headers_complete()
        if len(self.pipeline) > _AHEAD:
            self._close_with_error()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        if not self.transport.is_closing():  # else there may be no response that waits for it
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Stop waiting: the request is complete."""
        self._is_arriving, self._arrive_by = False, None
        if not self.transport.is_closing():
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """Wait for the next request; close the connection if this one was answered before it was complete."""
        if not self.pipeline and self.cycle.more_body:
            self.transport.close()
        if self.cycle.scope.get("toolcrib.known"):
            self.strangers.pop(self, None)
        super().on_response_complete()
        if self.transport.is_closing():
            self._watch_reader()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection."""
        super().timeout_keep_alive_handler()
        self._watch_reader()

    def start_draining(self) -> None:
        """Give the client less time to read what waits for it, from here on."""
        if not self._is_draining:
            self._is_draining = True
            self._stop_departure_timer()
        self._watch_reader()

    def pause_writing(self) -> None:
        """Wait until the client has read what was sent."""
        super().pause_writing()
        self._watch_reader()

    def resume_writing(self) -> None:
        """Continue to send; of a connection that ends, the last bytes must be read too."""
        self._stop_departure_timer()
        super().resume_writing()
        if self.transport.is_closing():
            self._watch_reader()

    def send_400_response(self, msg: str) -> None:
        """Answer that a request is not valid HTTP, unless another answer is being sent."""
        if self._can_respond():
            super().send_400_response(msg)
        self._close_with_error()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers."""
        if self._arrival is not None:
            self._arrival.cancel()
        self._stop_departure_timer()
        self.strangers.pop(self, None)
        super().connection_lost(exc)

    def _check_target(self) -> None:
        """Add the host of a target such as `http://host/path` as a `Host` header, which the guard checks."""
        scheme, absolute, rest = self.url.partition(b"://")
        if absolute and b"/" not in scheme:
            name = rest.partition(b"/")[0].partition(b"?")[0]
            if (b"host", name) not in self.headers:
                self.headers.append((b"host", name))

    def _check_header_bytes(self) -> bool:
        """Return whether the headers are short enough; if not, refuse the request."""
        if max(self._header_bytes + len(self.url), self._more) <= HEADER_BYTES:
            return True
        self._close_with_error(431, f"the headers of a request may have at most {HEADER_BYTES:,} bytes")
        return False

    def _await_arrival(self) -> None:
        """Set the time by which the headers of a request, or else its body, must be complete."""
        limit = self.current().request_timeout
        self._arrival_limit = min(limit, _HEADER_SECONDS) if self._in_headers else limit
        self._arrive_by = arrive_by = self.loop.time() + self._arrival_limit
        if self._arrival is not None and self._arrival.when() > arrive_by:
            self._arrival.cancel()
            self._arrival = None
        if self._arrival is None:
            self._arrival = self.loop.call_at(arrive_by, self._check_arrival)

    def _stop_departure_timer(self) -> None:
        if self._departure is not None:
            self._departure.cancel()
            self._departure = None

    def _check_arrival(self) -> None:
        """Close the connection if its client is late, unless the client is kept waiting itself."""
        self._arrival, arrive_by = None, self._arrive_by
        if arrive_by is None:
            return
        answering = self.cycle is not None and not self.cycle.response_complete
        if arrive_by > self.loop.time():  # a later request, or the body after its headers
            self._arrival = self.loop.call_at(arrive_by, self._check_arrival)
        elif answering and (self._in_headers or self.flow.read_paused or self.pipeline):
            self._await_arrival()
        else:
            what = "headers of the request" if self._in_headers else "request"
            limit = f"{self._arrival_limit:g} s"
            self._close_with_error(
                408, f"the {what} did not arrive within {limit}; see gateway.request_timeout"
            )

    def _close_with_error(self, status: int | None = None, text: str = "") -> None:
        """Close the connection, after an error response unless another response is being sent."""
        if not self.transport.is_closing():
            if status is not None and self._can_respond():
                body = to_json({"error": text})
                head = f"HTTP/1.1 {status} {_REASONS[status]}\r\ncontent-type: application/json\r\n"
                head += f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
                self.transport.write(head.encode() + body)
            self.transport.close()
        self._watch_reader()

    def _can_respond(self) -> bool:
        """Return whether the client would take a response for that to the arriving request."""
        if self.cycle is None or self.cycle.response_complete:
            return True
        return not (self._in_headers or self.pipeline or self.cycle.response_started)

    def _watch_reader(self) -> None:
        """Start the timer that closes the connection if the client does not read what waits to be sent."""
        if self._departure is None and self.transport.get_write_buffer_size():
            self._waiting = self._unread_bytes()
            within = self.current().request_timeout
            within = min(within, _DRAIN_SECONDS) if self._is_draining else within
            self._departure = self.loop.call_later(within, self._check_reader_stalled)

    def _check_reader_stalled(self) -> None:
        self._departure = None
        if self.transport.get_write_buffer_size() and self._unread_bytes() > self._waiting - _MIN_READ:
            # Without this the system would keep the unsent bytes, and retry for minutes.
            self._socket().setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()
        elif self.flow.write_paused or self.transport.is_closing():
            self._watch_reader()

    def _unread_bytes(self) -> int:
        """Return how many bytes wait here, and in the send queue of the system where it tells."""
        waiting: int = self.transport.get_write_buffer_size()
        with suppress(OSError, ImportError):
            import fcntl  # noqa: PLC0415 - Windows has none
            import termios  # noqa: PLC0415 - likewise

            queued = fcntl.ioctl(self._socket().fileno(), termios.TIOCOUTQ, bytes(4))
            waiting += int.from_bytes(queued, sys.byteorder)
        return waiting

    def _socket(self) -> Any:
        return self.transport.get_extra_info("socket")


class CoalescingTransport:
    """Transport that sends the head of a response together with its body.

    uvicorn writes the head and then the body. Sent apart they wake a client twice, and on a busy machine a
    client that waits for the head gets the processor before the body is on its way. So a short write is held
    until the next one, or until the event loop has its next turn. uvicorn writes by `write` alone.
    """

    def __init__(self, transport: Any, loop: Any) -> None:
        self._transport, self._loop = transport, loop
        self._held = b""
        self._flushing: Any = None
        """Callback of the event loop that sends what is held; None while nothing is."""
        self.is_closing = transport.is_closing

    def __getattr__(self, name: str) -> Any:
        """Return everything else of the transport."""
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send the data with what was held; hold it if nothing was."""
        held, self._held = self._held, b""
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
        if len(data) > _SMALL:
            self._transport.write(held)
            self._transport.write(data)
        elif held:
            self._transport.write(held + data)
        else:
            self._held = data
            self._flushing = self._loop.call_soon(self._flush)

    def close(self) -> None:
        """Close the transport after it has sent what is held."""
        self._flush()
        self._transport.close()

    def get_write_buffer_size(self) -> int:
        """Return how many bytes were not sent yet."""
        size: int = self._transport.get_write_buffer_size()
        return size + len(self._held)

    def _flush(self) -> None:
        held, self._held, self._flushing = self._held, b"", None
        if held and not self._transport.is_closing():
            self._transport.write(held)
