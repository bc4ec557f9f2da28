"""httpx2 client for servers and their authorization servers that logs no secrets."""

import logging
import re
import ssl
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Any

import anyio
import httpx2

from toolcrib.execution.mcp.errors import place
from toolcrib.execution.mcp.transport.event_streams import Resumes, pace_events
from toolcrib.execution.mcp.transport.lines import DroppedMessages

_BAD_EVENTS = {
    "Error parsing SSE message": "an event that is not JSON-RPC",
    "Unknown SSE event": "an event of an unknown type",
}
"""The SDK's log message for each kind of bad event, and its meaning."""
_STREAM_CLOSED = (anyio.BrokenResourceError, anyio.ClosedResourceError)
"""The first is also what it logs of an event that comes while the connection is closed."""
_ADDRESS = re.compile(r"\bhttps?://[^\s'\"]+")
_SESSION_ID = re.compile(r"(session ID:).*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class HttpExchange:
    """A request over HTTP, with its response and the streams that resume that."""

    dropped: DroppedMessages
    """Counts the messages of its server that are of no use."""
    resumes: Resumes | None = None
    """Counts resumptions of the stream that answers a call; None for a session's own stream."""


EXCHANGE: ContextVar[HttpExchange | None] = ContextVar("toolcrib_http_exchange", default=None)
"""The exchange of the current task.

Filters of log records take no argument for it, and the SDK passes none on: it sends a request, reads the
response and resumes its stream in one task.
"""


class QuietClient(httpx2.AsyncClient):
    """A client whose requests are logged without what may be secret in their addresses.

    Events are read in turn with everything else; those that are no messages are counted in `dropped`.
    """

    def __init__(self, *, dropped: DroppedMessages | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self._dropped = dropped or DroppedMessages("")

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Return the response to a request."""
        before = EXCHANGE.set(EXCHANGE.get() or HttpExchange(self._dropped))
        try:
            response = await super().send(request, **options)
        finally:
            EXCHANGE.reset(before)
        pace_events(response, self._dropped)
        return response


def _shorten_addresses(record: logging.LogRecord) -> bool:
    """Cut the addresses in a record of the HTTP client down, if they are ours; let every record pass."""
    if EXCHANGE.get() is not None and isinstance(record.args, tuple):
        record.args = tuple(place(each) if isinstance(each, httpx2.URL) else each for each in record.args)
    return True


def _hide_session(record: logging.LogRecord) -> bool:
    """Remove sessions and addresses from a log record of the SDK, and count its bad events."""
    if isinstance(record.msg, str) and not record.args:
        exchange = EXCHANGE.get()
        if exchange is not None and (kind := _BAD_EVENTS.get(record.msg.partition(":")[0])):
            if record.exc_info is None or not isinstance(record.exc_info[1], _STREAM_CLOSED):
                exchange.dropped.note(kind)
            return False
        text = _ADDRESS.sub(lambda found: place(found.group()), record.msg)
        record.msg = _SESSION_ID.sub(r"\1 ...", text)
    return True


logging.getLogger("httpx2").addFilter(_shorten_addresses)
logging.getLogger("mcp.client.streamable_http").addFilter(_hide_session)


@cache
def tls_context() -> ssl.SSLContext:
    """Return the one TLS context of this process; reading the certificates of the system takes some 40 ms."""
    return httpx2.create_ssl_context()
