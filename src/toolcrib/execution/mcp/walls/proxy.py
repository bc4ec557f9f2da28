"""The proxy by which a server behind a wall reaches named hosts, and nothing else.

It is an HTTP proxy: `CONNECT` for what is encrypted, and requests with a whole address for what is not. Of
the second kind each has a connection of its own, so that none can follow to another host. Names are looked up
here, and a private address is refused where only a name was allowed: or the owner of a name could have it
lead anywhere in the user's network. Programs that use no proxy find a named host at an address inside, which
is forwarded by the same rules.
"""

import logging
from collections.abc import Sequence
from contextlib import suppress
from urllib.parse import urlsplit

import anyio
from anyio.abc import ByteStream, SocketListener, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from toolcrib.execution.http.addresses import Addresses, AddressRefusedError, Lookup
from toolcrib.execution.mcp.walls.hosts import PORT, AllowedHost, Forward, plain_name

_ADDRESS = f"http://127.0.0.1:{PORT}"
_HEAD_BYTES = 64 << 10
_HEAD_SECONDS = 30.0
_CONNECT_SECONDS = 15.0
_CHUNK = 64 << 10
_MAX_LOGGED = 100
"""After so many hosts no more are logged: a server may ask for any number of them."""
_MAX_CONNECTIONS = 256
_NOT_PASSED = ("proxy-", "connection:", "keep-alive:")
_GONE = (
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    anyio.EndOfStream,
    anyio.IncompleteRead,
    OSError,
)
_log = logging.getLogger(__name__)


def proxy_environment() -> dict[str, str]:
    """Return the variables by which programs find it; those for Node.js need version 22.21 or later.

    >>> proxy_environment()["HTTPS_PROXY"]
    'http://127.0.0.1:3128'
    """
    names = (
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "http_proxy",
        "https_proxy",
        "npm_config_proxy",
        "npm_config_https_proxy",
    )
    own = {"NO_PROXY": "127.0.0.1,localhost,::1", "no_proxy": "127.0.0.1,localhost,::1"}
    return {**dict.fromkeys(names, _ADDRESS), **own, "NODE_USE_ENV_PROXY": "1"}


class _RefusedError(Exception):
    """A request that does not pass: a status, and why."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class HostProxy:
    """The proxy of one server."""

    def __init__(
        self,
        server: str,
        allowed: Sequence[AllowedHost],
        *,
        trusts_names: bool = False,
        lookup: Lookup | None = None,
    ) -> None:
        """Make the proxy of a server.

        Args:
            server: What it is called.
            allowed: What it may reach.
            trusts_names: Whether a name may lead to a private address, as that of a registry in the
                user's own network does.
            lookup: Asks for the addresses of a name; the system by default.
        """
        self._server = server
        self._allowed = allowed
        self._trusts_names = trusts_names
        self._lookup = lookup
        self._refused: set[str] = set()
        self._slots = anyio.Semaphore(_MAX_CONNECTIONS)

    async def serve(self, listener: SocketListener, forward: Forward | None = None) -> None:
        """Serve connections until cancelled: requests to a proxy, or all traffic for one host."""

        async def handle(client: SocketStream) -> None:
            async with self._slots, client:
                with suppress(*_GONE):
                    await (self._handle(client) if forward is None else self._pass_through(client, forward))

        async with listener:
            await listener.serve(handle)

    async def _pass_through(self, client: SocketStream, forward: Forward) -> None:
        """Connect the client to one host; a refusal is in the log, and the connection is closed."""
        with suppress(_RefusedError):
            async with await self._connect(forward.name, forward.port) as upstream:
                await _relay(client, upstream)

    async def _handle(self, client: SocketStream) -> None:
        """Read a request, and connect the client to the host, or answer why not."""
        reader = BufferedByteReceiveStream(client)
        try:
            with anyio.fail_after(_HEAD_SECONDS):
                head = await reader.receive_until(b"\r\n\r\n", _HEAD_BYTES)
            host, port, first = _read_request(head)
            upstream = await self._connect(host, port)
        except TimeoutError:
            await _answer(client, "408 Request Timeout", "the request was not complete in time")
        except anyio.DelimiterNotFound:
            status = "431 Request Header Fields Too Large"
            await _answer(client, status, "the head of the request is too long")
        except _RefusedError as error:
            await _answer(client, error.status, error.reason)
        else:
            async with upstream:
                await (client.send(b"HTTP/1.1 200 OK\r\n\r\n") if first is None else upstream.send(first))
                if reader.buffer:
                    await upstream.send(reader.buffer)
                await _relay(client, upstream)

    async def _connect(self, host: str, port: int) -> SocketStream:
        """Return a connection to a host.

        Raises:
            _RefusedError: it is not among the named ones, leads to a private address, or does not answer.
        """
        name = plain_name(host)
        if not any(each.covers(name, port) for each in self._allowed):
            self._log_refusal(
                name, port, f"it may not be reached; add {_shown(name, port)!r} to its `network`"
            )
            raise _RefusedError("403 Forbidden", f"{name!r:.200} is not among the hosts that may be reached")
        named = [each.name for each in self._allowed if each.is_address and each.covers(each.name, port)]
        trusted = [*named, name] if self._trusts_names else named
        judge = Addresses(allow_private=trusted, lookup=self._lookup)
        try:
            with anyio.fail_after(_CONNECT_SECONDS):
                addresses = await judge.resolve(name, port)
        except AddressRefusedError as error:
            shown = error.address or name
            reason = f"{shown!r:.200} is a {error.kind} address; add it to its `network` if that is intended"
            self._log_refusal(name, port, reason)
            raise _RefusedError("403 Forbidden", f"{name!r:.200} has a {error.kind} address") from error
        except (OSError, TimeoutError) as error:
            raise _RefusedError("502 Bad Gateway", f"{name!r:.200} cannot be looked up") from error
        for address in addresses:
            with suppress(OSError), anyio.move_on_after(_CONNECT_SECONDS):
                return await anyio.connect_tcp(address, port)
        raise _RefusedError("502 Bad Gateway", f"{name!r:.200} does not answer on port {port}")

    def _log_refusal(self, name: str, port: int, reason: str) -> None:
        """Log once for each host that it was refused."""
        shown = _shown(name, port)
        if shown not in self._refused and len(self._refused) < _MAX_LOGGED:
            self._refused.add(shown)
            _log.warning("server %r was refused %r: %s", self._server, shown, reason)


def _shown(name: str, port: int) -> str:
    host = f"[{name}]" if ":" in name else name
    return name[:253] if port in {80, 443} else f"{host[:253]}:{port}"


def _read_request(head: bytes) -> tuple[str, int, bytes | None]:
    """Return the host and port of a request, and what to send there first; None where all is passed as it is.

    Raises:
        _RefusedError: it is no request to a proxy.
    """
    line, *fields = head.decode("latin-1").split("\r\n")
    method, _, rest = line.partition(" ")
    target, _, version = rest.rpartition(" ")
    try:
        parts = urlsplit(f"//{target}" if method == "CONNECT" else target)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise _RefusedError("400 Bad Request", "the request names no valid host") from error
    if not host or not version.startswith("HTTP/1."):
        raise _RefusedError("400 Bad Request", "this is a proxy for HTTP/1.1; name the host in the request")
    if method == "CONNECT":
        if port is None:
            raise _RefusedError("400 Bad Request", "CONNECT needs a port, as in example.com:443")
        return host, port, None
    if parts.scheme != "http":
        raise _RefusedError("400 Bad Request", "only http:// is passed on as it is; use CONNECT for the rest")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    kept = [field for field in fields if field and not field.lower().startswith(_NOT_PASSED)]
    first = "\r\n".join([f"{method} {path} HTTP/1.1", *kept, "Connection: close", "", ""])
    return host, port or 80, first.encode("latin-1")


async def _answer(client: ByteStream, status: str, reason: str) -> None:
    text = f"toolcrib: {reason}\n".encode()
    lines = [f"HTTP/1.1 {status}", "Content-Type: text/plain", f"Content-Length: {len(text)}"]
    await client.send("\r\n".join([*lines, "Connection: close", "", ""]).encode() + text)


async def _relay(client: SocketStream, upstream: SocketStream) -> None:
    """Copy both ways, until both sides have ended or one is broken."""
    async with anyio.create_task_group() as tasks:

        async def copy(source: SocketStream, target: SocketStream) -> None:
            try:
                with suppress(anyio.EndOfStream):
                    while True:
                        await target.send(await source.receive(_CHUNK))
                await target.send_eof()
            except _GONE:
                tasks.cancel_scope.cancel()

        tasks.start_soon(copy, client, upstream)
        tasks.start_soon(copy, upstream, client)
