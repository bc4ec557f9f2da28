"""The HTTP client of one server: pooled connections, one TLS context for all, and failures as answers."""

import json
import ssl
from functools import cache
from typing import Any

import anyio
import httpx2
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND

from toolcrib.execution.mcp.config import ServerConfig
from toolcrib.execution.mcp.faults import never_sent, reason_of, reason_of_status, reason_of_type

__all__ = ["MAX_MESSAGE_BYTES", "AnsweringClient", "client_settings", "tls_context"]

MAX_MESSAGE_BYTES = 64 * 2**20
"""How long a message of a server may be."""

_TIMEOUT = httpx2.Timeout(connect=10.0, read=None, write=30.0, pool=None)
"""Calls have deadlines of their own, and a stream of events may be silent for hours."""
_SPARE_CONNECTIONS = 8
"""For the stream of notifications, and what is said while all calls are under way."""
_KEEP_ALIVE = 4.0
"""Seconds that a connection stays open unused. Many servers close theirs after 5, and a request that is sent
at that moment is lost."""
_FAREWELL = 2.0
"""Seconds that the end of a session may take."""
_UNAVAILABLE = frozenset({408, 429, 502, 503, 504})
_NOT_FOUND, _ACCEPTED, _FAILED, _REDIRECTED = 404, 202, 400, 300
_OF_THE_WIRE = frozenset({"content-encoding", "content-length", "transfer-encoding"})
_UNSENDABLE = "toolcrib.unsendable"


@cache
def tls_context() -> ssl.SSLContext:
    """Return the one TLS context of this process; reading the certificates of the system takes some 40 ms."""
    return httpx2.create_ssl_context()


@cache
def _no_tls_context() -> ssl.SSLContext:
    """Return a context that trusts nobody, for servers that are reached without TLS: it costs nothing."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


async def client_settings(config: ServerConfig) -> dict[str, Any]:
    """Return what every client of a server is made with."""
    url = httpx2.URL(config.url or "")
    secure = (
        url.scheme == "https" or url.port is None
    )  # a server at the usual port may send us to its secure one
    connections = config.max_concurrency + _SPARE_CONNECTIONS
    return {
        "headers": config.headers,
        "timeout": _TIMEOUT,
        "verify": await anyio.to_thread.run_sync(tls_context) if secure else _no_tls_context(),
        "limits": httpx2.Limits(
            max_connections=connections, max_keepalive_connections=connections, keepalive_expiry=_KEEP_ALIVE
        ),
    }


class AnsweringClient(httpx2.AsyncClient):
    """A client that answers a message which failed with a JSON-RPC error, as if the server had said it.

    Otherwise one failed request would end the whole connection with all its calls, or all that could be told
    of it would be that there was an error. The error's code is the one for a closed connection where the
    server could not be reached, and its data says whether the message may have been sent.
    """

    def __init__(self, *, max_message_bytes: int = MAX_MESSAGE_BYTES, **settings: Any) -> None:
        super().__init__(**settings)
        self._max_message_bytes = max_message_bytes

    def build_request(self, method: str, url: httpx2.URL | str, **options: Any) -> httpx2.Request:
        """Return a request, also where its content cannot be written: `send` then answers that."""
        try:
            return super().build_request(method, url, **options)
        except (TypeError, ValueError) as error:  # arguments that are no JSON
            options["json"], reason = None, f"the arguments are not JSON: {error}"
            return super().build_request(method, url, **options, extensions={_UNSENDABLE: reason})

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Return the response to a request, or an error in the form of one."""
        if request.method == "DELETE":
            with anyio.fail_after(_FAREWELL):
                return await super().send(request, **options)
        if request.method != "POST":
            return await super().send(request, **options)
        if _UNSENDABLE in request.extensions:
            return _answer(request, INVALID_PARAMS, request.extensions[_UNSENDABLE], sent=False)
        try:
            response = await super().send(request, **options)
            return await _understood(response, self._max_message_bytes)
        except httpx2.HTTPError as error:
            return _answer(request, CONNECTION_CLOSED, reason_of(error), sent=not never_sent(error))


async def _understood(response: httpx2.Response, max_bytes: int) -> httpx2.Response:
    """Return a response that the SDK can make something of, with what JSON there is already read."""
    status, kind = response.status_code, response.headers.get("content-type", "").lower()
    if status == _ACCEPTED or _REDIRECTED <= status < _FAILED:
        return response
    if status < _FAILED and kind.startswith("text/event-stream"):
        return response
    try:
        body = await _body(response, max_bytes) if kind.startswith("application/json") else None
    finally:
        with anyio.CancelScope(shield=True):
            await response.aclose()
    if body is None or (status >= _FAILED and not _is_error(body)):
        return _refusal(response, kind)
    headers = [(name, value) for name, value in response.headers.multi_items() if name not in _OF_THE_WIRE]
    return httpx2.Response(status, headers=headers, content=body, request=response.request)


async def _body(response: httpx2.Response, max_bytes: int) -> bytes:
    pieces, size = [], 0
    async for piece in response.aiter_bytes():
        size += len(piece)
        if size > max_bytes:
            raise httpx2.DecodingError(f"a message of more than {max_bytes} bytes", request=response.request)
        pieces.append(piece)
    return b"".join(pieces)


def _is_error(body: bytes) -> bool:
    """Return whether a body is a JSON-RPC error, which says more than the status."""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(said, dict) and isinstance(said.get("error"), dict) and "jsonrpc" in said


def _refusal(response: httpx2.Response, kind: str) -> httpx2.Response:
    request, status = response.request, response.status_code
    if status < _FAILED:
        return _answer(request, INTERNAL_ERROR, reason_of_type(kind, request.url))
    if status == _NOT_FOUND and "mcp-session-id" in request.headers:
        return httpx2.Response(status, request=request)  # the SDK knows that the session has ended
    code = CONNECTION_CLOSED if status in _UNAVAILABLE else INTERNAL_ERROR
    code = METHOD_NOT_FOUND if status == _NOT_FOUND else code
    return _answer(request, code, reason_of_status(status, request), status=status)


def _answer(request: httpx2.Request, code: int, message: str, **data: Any) -> httpx2.Response:
    """Return a response that carries an error; the SDK fills in which message it answers."""
    error = {"code": code, "message": message, "data": data}
    return httpx2.Response(502, json={"jsonrpc": "2.0", "id": None, "error": error}, request=request)
