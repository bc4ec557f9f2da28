"""HTTP/1.1 client for one kind of request: a post of JSON that is answered with JSON, as each call is.

httpx2 takes some eight times the CPU for a post, more than the rest of a call through the gateway together
(docs/decisions.md). So a call's post goes over connections of our own, with the parser of `httptools`. What
keeps this small is that it does nothing else: no proxies, redirects, cookies, compression or logins. A
request that needs one of those is sent by httpx2, and a reply that is no JSON becomes an `httpx2.Response`
whose body is still to be read; `AnsweringClient` decides.

A connection belongs to one post until its reply was read to the end; a reply that was not closes it. Before
a kept connection is used again, its socket is polled: data that nobody asked for, or the end, closes it.
"""

import select
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import nullcontext

import anyio
import httpx2
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSAttribute
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

_MAX_HEAD_BYTES = 128 * 1024
"""The bytes that may come before the headers of a reply are complete."""
_RECEIVE_BYTES = 256 * 1024
_SHORT_BYTES = 16 * 1024
_OK = 200
_BROKEN = (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)
_NEED_HTTPX = frozenset({b"content-encoding", b"set-cookie"})
"""Headers of replies that httpx2 has to see to."""
_LENGTHS = frozenset({b"content-length", b"transfer-encoding"})
_REPLACED = frozenset({"accept", "accept-encoding", "connection", "content-length", "content-type", "host"})
"""Headers of an httpx2 client that are written otherwise here."""


class PostClient:
    """Posts JSON to one address over kept connections."""

    def __init__(
        self,
        url: httpx2.URL,
        headers: Mapping[str, str],
        *,
        limits: httpx2.Limits,
        timeout: httpx2.Timeout,
        max_bytes: int,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Open no connection yet.

        Args:
            url: where posts go.
            headers: sent with every post.
            limits: how many connections there may be, and for how long an unused one is kept.
            timeout: the seconds that connecting, writing, and waiting for a connection may take.
            max_bytes: the longest JSON reply.
            tls: needed if the address is an `https` one.

        Raises:
            ValueError: a header cannot be written.
        """
        self.url = url
        """Where posts go."""
        self._host, self._port = url.raw_host.decode("ascii"), url.port or (443 if tls else 80)
        self._tls = tls
        fixed = {name: value for name, value in headers.items() if name.lower() not in _REPLACED}
        fixed |= {"accept": "application/json, text/event-stream", "content-type": "application/json"}
        self._head = b"POST %b HTTP/1.1\r\nhost: %b\r\n%b" % (
            url.raw_path,
            url.netloc,
            _encode_headers(fixed),
        )
        self._request = httpx2.Request("POST", url)
        self._room = anyio.Semaphore(limits.max_connections or 1, fast_acquire=True)
        self._idle: list[_Connection] = []
        self._connections: set[_Connection] = set()
        self._keep_alive = limits.keepalive_expiry or 0.0
        self._timeout, self._max_bytes = timeout, max_bytes

    async def post(self, body: bytes, headers: Mapping[str, str]) -> "PostReply":
        """Send JSON and return the reply, whose body has been read if it is JSON too.

        Raises:
            ValueError: a header cannot be written; nothing was sent.
            httpx2.TransportError: there is no reply, or it is too long.
        """
        fields = _encode_headers({**headers, "content-length": str(len(body))})
        connection = await self._acquire_connection()
        reply = PostReply(self, connection)
        try:
            await connection.send(b"%b%b\r\n%b" % (self._head, fields, body))
            await reply.receive(self._max_bytes)
        except BaseException:
            await reply.aclose()
            raise
        return reply

    async def aclose(self) -> None:
        """Close all connections."""
        self._keep_alive = 0.0
        for connection in list(self._connections):
            await self._close_connection(connection)

    async def release_connection(self, connection: "_Connection", *, reusable: bool) -> None:
        """Take back the connection of a post that is over."""
        self._room.release()
        if reusable and self._keep_alive:
            connection.idle_since = anyio.current_time()
            self._idle.append(connection)
        else:
            await self._close_connection(connection)

    async def _acquire_connection(self) -> "_Connection":
        """Return the connection that was used last and is still good, or else a new one."""
        try:
            self._room.acquire_nowait()
        except anyio.WouldBlock:
            await self._wait_for_room()
        try:
            while self._idle:
                connection = self._idle.pop()
                is_fresh = connection.idle_since + self._keep_alive > anyio.current_time()
                if is_fresh and not connection.is_readable():
                    return connection
                await self._close_connection(connection)
            return await self._connect()
        except BaseException:
            self._room.release()
            raise

    async def _wait_for_room(self) -> None:
        with anyio.move_on_after(self._timeout.pool):
            await self._room.acquire()
            return
        raise httpx2.PoolTimeout("all connections are in use", request=self._request)

    async def _connect(self) -> "_Connection":
        stream: ByteStream
        try:
            with anyio.fail_after(self._timeout.connect):
                if self._tls is None:
                    stream = await anyio.connect_tcp(self._host, self._port)
                else:  # most HTTP servers do not end their TLS as the standard has it
                    stream = await anyio.connect_tcp(
                        self._host, self._port, ssl_context=self._tls, tls_standard_compatible=False
                    )
        except TimeoutError as error:
            raise httpx2.ConnectTimeout(str(error), request=self._request) from error
        except OSError as error:
            raise httpx2.ConnectError(str(error), request=self._request) from error
        connection = _Connection(stream, self._request, self._timeout.write)
        self._connections.add(connection)
        return connection

    async def _close_connection(self, connection: "_Connection") -> None:
        self._connections.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        await connection.close()


class _Connection:
    """One connection."""

    __slots__ = ("_stream", "_write_timeout", "idle_since", "is_readable", "request")

    def __init__(self, stream: ByteStream, request: httpx2.Request, write_timeout: float | None) -> None:
        self._stream, self._write_timeout = stream, write_timeout
        self.request = request
        """The request that errors refer to."""
        self.idle_since = 0.0
        self.is_readable = _readable(stream)
        """Whether something came that nobody asked for, such as the end."""

    async def send(self, text: bytes) -> None:
        # A short text fits into the socket's buffer, which is empty: a timeout would cost more than the send.
        try:
            with nullcontext() if len(text) < _SHORT_BYTES else anyio.fail_after(self._write_timeout):
                await self._stream.send(text)
        except TimeoutError as error:
            raise httpx2.WriteTimeout(str(error), request=self.request) from error
        except _BROKEN as error:
            raise httpx2.WriteError(str(error), request=self.request) from error

    async def receive(self) -> bytes:
        """Return the next bytes; nothing at the end."""
        try:
            return await self._stream.receive(_RECEIVE_BYTES)
        except anyio.EndOfStream:
            return b""
        except _BROKEN as error:
            raise httpx2.ReadError(str(error), request=self.request) from error

    async def close(self) -> None:
        await anyio.aclose_forcefully(self._stream)


class PostReply:
    """The reply to a post. It has a connection until it is complete or closed."""

    def __init__(self, client: PostClient, connection: _Connection) -> None:
        self.status, self.headers = 0, list[tuple[bytes, bytes]]()
        self.is_json = False
        """Whether it is a plain JSON reply, which `receive` reads to its end."""
        self.data = bytearray()
        """The part of the body that has come and was not taken yet."""
        self._client, self._connection = client, connection
        self._parser = HttpResponseParser(self)
        self._has_head = self._is_interim = self._ends_with_connection = False
        self._is_complete = self._is_reusable = self._is_released = False

    def to_httpx(self, request: httpx2.Request) -> httpx2.Response:
        """Return it as an httpx2 response, whose body is still to be read."""
        return httpx2.Response(self.status, headers=self.headers, stream=_Body(self), request=request)

    async def receive(self, max_bytes: int) -> None:
        """Read the headers, and the body too if it is JSON, of at most so many bytes."""
        size = 0
        while not self._has_head:
            size += await self._receive_piece()
            if size > _MAX_HEAD_BYTES and not self._has_head:
                raise httpx2.RemoteProtocolError("its headers are too long", request=self._connection.request)
        if not self.is_json:
            return
        while not self._is_complete and len(self.data) <= max_bytes:
            await self._receive_piece()
        if len(self.data) > max_bytes:
            reason = f"a message of more than {max_bytes} bytes"
            raise httpx2.DecodingError(reason, request=self._connection.request)
        await self.aclose()

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body, as it comes."""
        while True:
            data, self.data = self.data, bytearray()
            if data:
                yield bytes(data)
            if self._is_complete:
                return
            await self._receive_piece()

    async def aclose(self) -> None:
        """Give the connection back, for others to use if there is nothing left to read."""
        if not self._is_released:
            self._is_released = True
            await self._client.release_connection(
                self._connection, reusable=self._is_complete and self._is_reusable
            )

    async def _receive_piece(self) -> int:
        """Take the next piece, and return how long it is."""
        data = await self._connection.receive()
        if not data:
            if not (self._has_head and self._ends_with_connection):
                reason = "the connection was closed before the reply was complete"
                raise httpx2.RemoteProtocolError(reason, request=self._connection.request)
            self._is_complete = True
            return 0
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            self._is_reusable = False
            if not self._is_complete:
                raise httpx2.RemoteProtocolError(str(error), request=self._connection.request) from error
        return len(data)

    def on_status(self, status: bytes) -> None:  # noqa: ARG002 - httptools calls it so
        """Discard a connection with a second, unsolicited reply."""
        if self._is_complete:
            self._is_reusable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, but no trailer."""
        if not self._has_head:
            self.headers.append((name.lower(), value.strip()))

    def on_headers_complete(self) -> None:
        """Read the head of the reply."""
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
        self.is_json = is_json and self.status == _OK and named.keys().isdisjoint(_NEED_HTTPX)

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

    def __init__(self, reply: PostReply) -> None:
        self._reply = reply

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._reply.pieces()

    async def aclose(self) -> None:
        await self._reply.aclose()


def _encode_headers(headers: Mapping[str, str]) -> bytes:
    """Return headers as they go over the wire.

    Raises:
        ValueError: one of them is more than a line, or has characters that a header cannot carry.
    """
    text = "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode("ascii")
    if text.count(b"\r") != len(headers) or text.count(b"\n") != len(headers) or b"\0" in text:
        raise ValueError("a header that is more than one line")
    return text


def _readable(stream: ByteStream) -> Callable[[], bool]:
    """Return a function that tells whether a connection has data, or its end, without waiting."""
    raw: socket.socket = stream.extra(SocketAttribute.raw_socket)  # noqa: S610 - not of Django
    decrypted: ssl.SSLObject | None = stream.extra(TLSAttribute.ssl_object, None)  # noqa: S610 - the same
    if not hasattr(select, "poll"):  # Windows, whose `select` takes any socket

        def has_data() -> bool:
            return raw.fileno() < 0 or bool(select.select([raw], [], [], 0)[0])
    else:
        poll = select.poll()
        poll.register(raw.fileno(), select.POLLIN)

        def has_data() -> bool:
            return bool(poll.poll(0))

    if decrypted is None:
        return has_data
    return lambda: has_data() or _has_unread_record(decrypted)


def _has_unread_record(decrypted: ssl.SSLObject) -> bool:
    """Return whether more was received than was read, since a read gives one TLS record of several."""
    try:
        decrypted.read(1)
    except ssl.SSLWantReadError:
        return False
    except ssl.SSLError:
        return True
    return True
