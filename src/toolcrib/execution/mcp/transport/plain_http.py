"""Plain posts to one server, over connections that are kept, for a fraction of the CPU that httpx2 takes.

Only what is usual is done here: HTTP/1.1 without TLS, proxy, login or cookies, and an answer that is JSON.
What else comes is handed over as a response of httpx2; what has to be sent otherwise is sent by httpx2.
"""

import select
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import nullcontext

import anyio
import httpx2
from anyio.abc import SocketAttribute, SocketStream
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

_MAX_HEAD = 128 * 1024
"""How many bytes may come before the headers of a reply are complete."""
_PIECE = 256 * 1024
_SHORT = 16 * 1024
_OK = 200
_BROKEN = (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)
_UNUSUAL = frozenset({b"content-encoding", b"set-cookie"})
_LENGTHS = frozenset({b"content-length", b"transfer-encoding"})
_OWN = frozenset({"accept", "accept-encoding", "connection", "content-length", "content-type", "host"})
"""Headers of a client that are said otherwise here."""


class PlainHttp:
    """The connections to one address; each belongs to one post until its answer was read, or is closed."""

    def __init__(
        self,
        url: httpx2.URL,
        headers: Mapping[str, str],
        *,
        connections: int,
        keep_alive: float,
        timeout: httpx2.Timeout,
        max_bytes: int,
    ) -> None:
        """Make no connection yet; `headers` go with every post.

        An unused connection is kept for `keep_alive` seconds. An answer of more than `max_bytes` is an error.

        Raises:
            ValueError: a header cannot be written.
        """
        self.url = url
        """Where posts go."""
        self._host, self._port = url.raw_host.decode("ascii"), url.port or 80
        fixed = {name: value for name, value in headers.items() if name.lower() not in _OWN}
        fixed |= {"accept": "application/json, text/event-stream", "content-type": "application/json"}
        self._head = b"POST %b HTTP/1.1\r\nhost: %b\r\n%b" % (url.raw_path, url.netloc, _lines(fixed))
        self._request = httpx2.Request("POST", url)
        self._room = anyio.Semaphore(connections, fast_acquire=True)
        self._idle: list[_Link] = []
        self._links: set[_Link] = set()
        self._keep_alive, self._timeout, self._max_bytes = keep_alive, timeout, max_bytes

    async def post(self, body: bytes, headers: Mapping[str, str]) -> "PlainReply":
        """Send JSON, and return the reply; where that is JSON too, it is here as a whole.

        Raises:
            ValueError: a header cannot be written; nothing was sent.
            httpx2.TransportError: there is no reply, or too long a one.
        """
        text = b"%b%b\r\n%b" % (self._head, _lines({**headers, "content-length": str(len(body))}), body)
        await self._take_room()
        link: _Link | None = None
        try:
            link = await self._reused() or await self._connected()
            await link.send(text)
            reply = PlainReply(self, link)
            await reply.receive_head()
            if reply.is_json:
                await reply.receive_rest(self._max_bytes)
        except BaseException:
            await self.release(link, reusable=False)
            raise
        return reply

    async def aclose(self) -> None:
        """Close all connections."""
        self._keep_alive = 0.0
        for link in list(self._links):
            await self._close(link)

    async def release(self, link: "_Link | None", *, reusable: bool) -> None:
        """Take back the connection of a post that is over."""
        self._room.release()
        if link is None:
            return
        if reusable and self._keep_alive:
            link.idle_since = anyio.current_time()
            self._idle.append(link)
        else:
            await self._close(link)

    async def _take_room(self) -> None:
        try:
            self._room.acquire_nowait()
        except anyio.WouldBlock:
            with anyio.move_on_after(self._timeout.pool):
                await self._room.acquire()
                return
            raise httpx2.PoolTimeout("all connections are in use", request=self._request) from None

    async def _reused(self) -> "_Link | None":
        """Return the connection that was used last, if the server has not closed it."""
        while self._idle:
            link = self._idle.pop()
            if link.idle_since + self._keep_alive > anyio.current_time() and not link.is_readable():
                return link
            await self._close(link)
        return None

    async def _connected(self) -> "_Link":
        try:
            with anyio.fail_after(self._timeout.connect):
                stream = await anyio.connect_tcp(self._host, self._port)
        except TimeoutError as error:
            raise httpx2.ConnectTimeout(str(error), request=self._request) from error
        except OSError as error:
            raise httpx2.ConnectError(str(error), request=self._request) from error
        link = _Link(stream, self._request, self._timeout.write)
        self._links.add(link)
        return link

    async def _close(self, link: "_Link") -> None:
        self._links.discard(link)
        if link in self._idle:
            self._idle.remove(link)
        await link.close()


class _Link:
    """One connection."""

    __slots__ = ("_stream", "_within", "idle_since", "is_readable", "request")

    def __init__(self, stream: SocketStream, request: httpx2.Request, within: float | None) -> None:
        self._stream, self._within = stream, within
        self.request = request
        """What errors are about."""
        self.idle_since = 0.0
        self.is_readable = _readable(stream.extra(SocketAttribute.raw_socket))  # noqa: S610 - not of Django
        """Returns whether something came unasked, such as the end."""

    async def send(self, text: bytes) -> None:
        # What is short fits into the buffer of the system, which is empty: a clock would cost more than it.
        try:
            with nullcontext() if len(text) < _SHORT else anyio.fail_after(self._within):
                await self._stream.send(text)
        except TimeoutError as error:
            raise httpx2.WriteTimeout(str(error), request=self.request) from error
        except _BROKEN as error:
            raise httpx2.WriteError(str(error), request=self.request) from error

    async def receive(self) -> bytes:
        """Return what comes next; nothing at the end."""
        try:
            return await self._stream.receive(_PIECE)
        except anyio.EndOfStream:
            return b""
        except _BROKEN as error:
            raise httpx2.ReadError(str(error), request=self.request) from error

    async def close(self) -> None:
        await anyio.aclose_forcefully(self._stream)


class PlainReply:
    """The reply to a post, as it comes in; until it is closed, or complete, it has a connection."""

    def __init__(self, pool: PlainHttp, link: _Link) -> None:
        self.status, self.headers = 0, list[tuple[bytes, bytes]]()
        self.is_json = False
        """Whether it is read as a whole: JSON, with nothing to be done before that is read."""
        self.data = bytearray()
        """What has come of the body, and was not taken yet."""
        self._pool, self._link = pool, link
        self._parser = HttpResponseParser(self)
        self._has_head = self._is_interim = self._ends_with_connection = False
        self._is_complete = self._is_reusable = self._is_released = False

    def response(self, request: httpx2.Request) -> httpx2.Response:
        """Return it as httpx2's, whose body is still to be read."""
        return httpx2.Response(self.status, headers=self.headers, stream=_Body(self), request=request)

    async def receive_head(self) -> None:
        """Take what comes until the headers are here, and what of the body comes with them."""
        size = 0
        while not self._has_head:
            size += await self._receive()
            if size > _MAX_HEAD and not self._has_head:
                raise httpx2.RemoteProtocolError("its headers are too long", request=self._link.request)

    async def receive_rest(self, limit: int) -> None:
        """Take the whole body, which may have so many bytes; the caller closes it where that fails."""
        while not self._is_complete and len(self.data) <= limit:
            await self._receive()
        if len(self.data) > limit:
            reason = f"a message of more than {limit} bytes"
            raise httpx2.DecodingError(reason, request=self._link.request)
        await self.aclose()

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body, as it comes."""
        while True:
            data, self.data = self.data, bytearray()
            if data:
                yield bytes(data)
            if self._is_complete:
                return
            await self._receive()

    async def aclose(self) -> None:
        """Give the connection back, for others to use if there is nothing left to read."""
        if not self._is_released:
            self._is_released = True
            await self._pool.release(self._link, reusable=self._is_complete and self._is_reusable)

    async def _receive(self) -> int:
        """Take the next piece, and return how long it is."""
        data = await self._link.receive()
        if not data:
            if not (self._has_head and self._ends_with_connection):
                reason = "the connection was closed before the reply was complete"
                raise httpx2.RemoteProtocolError(reason, request=self._link.request)
            self._is_complete = True
            return 0
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            self._is_reusable = False
            if not self._is_complete:
                raise httpx2.RemoteProtocolError(str(error), request=self._link.request) from error
        return len(data)

    def on_status(self, status: bytes) -> None:  # noqa: ARG002 - httptools calls it so
        """Note a second reply, which nobody asked for: whoever sends one is not asked again here."""
        if self._is_complete:
            self._is_reusable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, but no trailer."""
        if not self._has_head:
            self.headers.append((name.lower(), value.strip()))

    def on_headers_complete(self) -> None:
        """See what kind of reply it is."""
        if self._has_head:
            return
        self.status = self._parser.get_status_code()
        if self.status < _OK:  # another comes after it
            self._is_interim = True
            self.headers.clear()
            return
        self._has_head = True
        named = dict(self.headers)
        self._ends_with_connection = named.keys().isdisjoint(_LENGTHS)
        is_json = named.get(b"content-type", b"").lower().startswith(b"application/json")
        self.is_json = is_json and self.status == _OK and named.keys().isdisjoint(_UNUSUAL)

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        if not self._is_complete:
            self.data += body

    def on_message_complete(self) -> None:
        """Note the end."""
        if self._is_interim:
            self._is_interim = False
            return
        self._is_reusable = self._parser.should_keep_alive() and not self._is_complete
        self._is_complete = True


class _Body(httpx2.AsyncByteStream):
    """The body of a reply."""

    def __init__(self, reply: PlainReply) -> None:
        self._reply = reply

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._reply.pieces()

    async def aclose(self) -> None:
        await self._reply.aclose()


def _lines(headers: Mapping[str, str]) -> bytes:
    """Return headers as they are written.

    Raises:
        ValueError: one of them is more than a line, or has characters that a header cannot carry.
    """
    text = "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode("ascii")
    if text.count(b"\r") != len(headers) or text.count(b"\n") != len(headers) or b"\0" in text:
        raise ValueError("a header that is more than one line")
    return text


def _readable(raw: socket.socket) -> Callable[[], bool]:
    """Return what says whether a socket can be read."""
    if not hasattr(select, "poll"):  # Windows, whose `select` takes any socket
        return lambda: raw.fileno() < 0 or bool(select.select([raw], [], [], 0)[0])
    poll = select.poll()
    poll.register(raw.fileno(), select.POLLIN)
    return lambda: bool(poll.poll(0))
