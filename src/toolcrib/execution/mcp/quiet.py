"""An HTTP client of which the logs tell nothing that may be secret: no user, no query, and no session."""

import logging
import re
from contextvars import ContextVar
from typing import Any

import httpx2

from toolcrib.execution.mcp.faults import place

__all__ = ["QuietClient"]

_ours: ContextVar[bool] = ContextVar("ours", default=False)
"""Whether what is logged is about a request of a client from here."""
_ADDRESS = re.compile(r"\bhttps?://[^\s'\"]+")
_SESSION = re.compile(r"(session ID:).*", re.IGNORECASE)


class QuietClient(httpx2.AsyncClient):
    """A client whose requests are logged without what may be secret in their addresses."""

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Return the response to a request."""
        before = _ours.set(True)
        try:
            return await super().send(request, **options)
        finally:
            _ours.reset(before)


def _without_query(record: logging.LogRecord) -> bool:
    """Cut the addresses in a record of the HTTP client down, if they are ours; let every record pass."""
    if _ours.get() and isinstance(record.args, tuple):
        record.args = tuple(place(each) if isinstance(each, httpx2.URL) else each for each in record.args)
    return True


def _without_session(record: logging.LogRecord) -> bool:
    """Cut sessions and addresses out of a record of the SDK; let every record pass."""
    if isinstance(record.msg, str) and not record.args:
        said = _ADDRESS.sub(lambda found: place(found.group()), record.msg)
        record.msg = _SESSION.sub(r"\1 ...", said)
    return True


logging.getLogger("httpx2").addFilter(_without_query)
logging.getLogger("mcp.client.streamable_http").addFilter(_without_session)
