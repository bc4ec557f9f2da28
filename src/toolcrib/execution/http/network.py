"""Pooled HTTP transport of providers, which connects only to checked addresses.

The pool opens each connection through `_CheckedBackend`, which resolves the host, checks the addresses, and
connects to one of them. Checking before the request would not be enough: a second lookup may return another
address (DNS rebinding). `Host`, SNI and the name in the certificate stay those of the URL.
"""

import ssl
from collections.abc import AsyncIterator, Iterable
from functools import cache, partial
from typing import Any

import anyio
import httpcore
import httpx

from toolcrib.concurrency.fair_slots import FairSlots
from toolcrib.execution.http.addresses import Addresses

_TRANSPORT_ERRORS = (
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.TimeoutException,
    httpcore.UnsupportedProtocol,
    ssl.SSLError,
)
"""Raised by the transport if a server cannot be reached, closes the connection, or does not speak HTTP."""
_IDLE_SECONDS = 4.0
"""Shorter than many servers keep idle connections: a request that is sent while they close one is lost."""
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods of requests that may be sent again."""


@cache
def _shared_context() -> ssl.SSLContext:
    """Return the shared TLS context: loading the certificates takes longer than most calls."""
    return httpx.create_ssl_context(trust_env=True)


class _Stream(httpcore.AsyncNetworkStream):
    """A connection that is closed if its TLS handshake fails or is cancelled."""

    def __init__(self, inner: httpcore.AsyncNetworkStream) -> None:
        self._inner = inner
        self.read = inner.read  # type: ignore[method-assign]  # unchanged, and called for each chunk
        self.write = inner.write  # type: ignore[method-assign]  # the same

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature of the base class
    ) -> httpcore.AsyncNetworkStream:
        """Do the TLS handshake."""
        try:
            return await self._inner.start_tls(ssl_context, server_hostname, timeout)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._inner.aclose()
            raise

    async def aclose(self) -> None:
        """Close the connection."""
        await self._inner.aclose()

    def get_extra_info(self, info: str) -> Any:
        """Return a property of the connection."""
        return self._inner.get_extra_info(info)


class _CheckedBackend(httpcore.AsyncNetworkBackend):
    """Opens sockets to allowed addresses."""

    def __init__(self, addresses: Addresses) -> None:
        self._addresses = addresses
        self._sockets = httpcore.AnyIOBackend()

    async def connect_tcp(  # the signature of the base class
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - as above
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the first address of a host that accepts."""
        try:
            with anyio.fail_after(timeout):
                addresses = await self._addresses.resolve(host, port)
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(f"looking up {host!r} took longer than {timeout:g} s") from error
        except OSError as error:
            raise httpcore.ConnectError(f"{host!r} cannot be looked up") from error
        each = None if timeout is None else timeout / len(addresses)
        connect = partial(
            self._sockets.connect_tcp,
            port=port,
            timeout=each,
            local_address=local_address,
            socket_options=socket_options,
        )
        for address in addresses[:-1]:
            try:
                return _Stream(await connect(address))
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue  # the error of the last address is reported
        return _Stream(await connect(addresses[-1]))


class _Content(httpx.AsyncByteStream):
    """The body of a response, as it arrives."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            yield part

    async def aclose(self) -> None:
        """Return the connection to the pool, or close it if the body was not read to its end."""
        await self._stream.aclose()


class GuardedTransport(httpx.AsyncBaseTransport):
    """An HTTP/1.1 connection pool that connects to allowed addresses, and to no proxy.

    Callers hold one of `slots` from before the request to the end of the response.
    """

    def __init__(
        self, addresses: Addresses, *, max_connections: int, ssl_context: ssl.SSLContext | None = None
    ) -> None:
        self.errors = _TRANSPORT_ERRORS
        self.slots = FairSlots(max_connections)
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=ssl_context or _shared_context(),
            # No limit here: in httpcore a request that is cancelled while it waits never frees its place.
            max_connections=None,
            max_keepalive_connections=max_connections,
            keepalive_expiry=_IDLE_SECONDS,
            network_backend=_CheckedBackend(addresses),
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and return the response with an unread body.

        Raises:
            AddressRefusedError: the host has no allowed address.
            httpcore.NetworkError: and the other classes in `errors`.
        """
        url = httpcore.URL(
            scheme=request.url.raw_scheme,
            host=request.url.raw_host,
            port=request.url.port,
            target=request.url.raw_path,
        )
        message = httpcore.Request(
            request.method,
            url,
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        try:
            answer = await self._pool.handle_async_request(message)
        except httpcore.RemoteProtocolError:
            if request.method not in _SAFE_METHODS:
                raise
            # A server may close a connection in the moment in which it is used again.
            answer = await self._pool.handle_async_request(message)
        return httpx.Response(
            answer.status,
            headers=answer.headers,
            stream=_Content(answer.stream),
            extensions=answer.extensions,
        )

    async def aclose(self) -> None:
        """Close every connection."""
        await self._pool.aclose()
