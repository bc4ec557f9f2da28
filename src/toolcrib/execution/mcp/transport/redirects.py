"""Redirects that a transport follows: within the origin of the request, because its headers belong there.

Everything on a request (headers, login, body) was configured for one server. A redirect that leaves that
server is not followed; the caller gets the redirect itself, and reports it as the failure that it is.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

_SSE_HEADERS = {"accept": "text/event-stream", "cache-control": "no-store"}


def next_request_within_origin(response: httpx2.Response) -> httpx2.Request | None:
    """Return the request that follows a redirect; None where the response is none, or must not be followed.

    A redirect is followed if it keeps the method (a POST that becomes a GET would lose its message), stays
    within the origin, and brings no user name or password of its own.
    """
    following, sent = response.next_request, response.request
    if following is None or following.method != sent.method:
        return None
    if following.url.userinfo and following.url.userinfo != sent.url.userinfo:
        return None
    return following if _is_within_origin(sent.url, following.url) else None


def _is_within_origin(url: httpx2.URL, location: httpx2.URL) -> bool:
    """Return whether an address has the same origin, or is the HTTPS one of the same host."""
    if (url.scheme, url.host, url.port) == (location.scheme, location.host, location.port):
        return True
    is_upgrade = (url.scheme, location.scheme) == ("http", "https") and url.host == location.host
    return is_upgrade and url.port is None and location.port is None


@asynccontextmanager
async def _stream_within_origin(
    client: httpx2.AsyncClient, request: httpx2.Request
) -> AsyncGenerator[httpx2.Response, None]:
    """Send a request, and yield the response after as many redirects as the client follows."""
    followed = 0
    while True:
        response = await client.send(request, stream=True, follow_redirects=False)
        following = next_request_within_origin(response)
        if following is None or followed == client.max_redirects:
            break
        try:
            await response.aread()  # so that its connection can be used again
        finally:
            await response.aclose()
        request, followed = following, followed + 1
    try:
        yield response
    finally:
        await response.aclose()


async def request_within_origin(
    client: httpx2.AsyncClient, method: str, url: httpx2.URL | str, **options: Any
) -> httpx2.Response:
    """Send a request as `client.request` does, and follow redirects within its origin."""
    async with _stream_within_origin(client, client.build_request(method, url, **options)) as response:
        await response.aread()
    return response


@asynccontextmanager
async def sse_within_origin(
    client: httpx2.AsyncClient, url: httpx2.URL | str, *, max_event_size: int
) -> AsyncGenerator[httpx2.EventSource, None]:
    """Open an event stream as `client.sse` does, and follow redirects within its origin."""
    request = client.build_request("GET", url, headers=_SSE_HEADERS)
    async with _stream_within_origin(client, request) as response:
        yield httpx2.EventSource(response, max_event_size=max_event_size)
