"""The HTTP client of one server: pooled connections, one TLS context for all, and failures as answers."""

import json
import logging
import re
import ssl
from contextlib import suppress
from contextvars import ContextVar
from functools import cache
from typing import Any

import anyio
import httpx2
from anyio.abc import TaskGroup
from mcp_types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    JSONRPCError,
    JSONRPCResponse,
)

from toolcrib.execution.mcp.config import ServerConfig
from toolcrib.execution.mcp.errors import (
    failure_facts,
    marked,
    place,
    reason_of,
    reason_of_status,
    reason_of_type,
)
from toolcrib.execution.mcp.event_streams import Pace, Resumes, ShallowEvents, resumes
from toolcrib.execution.mcp.lines import (
    DroppedMessages,
    answered_id,
    read_line,
    with_shallow_tools,
)
from toolcrib.mcp_internals import next_request_within_origin

__all__ = [
    "COURTESY",
    "MAX_ASIDES",
    "MAX_MESSAGE_BYTES",
    "SEVER",
    "AnsweringClient",
    "QuietClient",
    "address_of",
    "client_settings",
    "tls_context",
]

_ours: ContextVar[bool] = ContextVar("ours", default=False)
"""Whether what is logged is about a request of a client from here."""
_dropped: ContextVar[DroppedMessages | None] = ContextVar("dropped", default=None)
"""Where the server of the request that the current task has sent has its useless messages counted."""
_BAD_EVENTS = {
    "Error parsing SSE message": "an event that is not JSON-RPC",
    "Unknown SSE event": "an event of an unknown type",
}
"""What the SDK logs of every such event, and what it is."""
_NOBODY_LISTENS = (anyio.BrokenResourceError, anyio.ClosedResourceError)
"""The first is also what it logs of an event that comes while the connection is closed."""
_ADDRESS = re.compile(r"\bhttps?://[^\s'\"]+")
_SESSION_ID = re.compile(r"(session ID:).*", re.IGNORECASE)
MAX_MESSAGE_BYTES = 64 * 2**20
"""How long a message of a server may be."""
_TIMEOUT = httpx2.Timeout(connect=10.0, read=None, write=30.0, pool=5.0)
"""Calls have deadlines of their own, and a stream of events may be silent for hours. Connections there are
more than calls may run, so that none is free for long only where something holds them for good."""
_SPARE_CONNECTIONS, MAX_ASIDES = 8, 4
"""For streams of notifications, listings, and messages without an answer, of which so many go at once."""
_KEEP_ALIVE = 4.0
"""Seconds that a connection stays open unused. Many servers close theirs after 5, and a request that is sent
at that moment is lost."""
COURTESY = 2.0
"""Seconds that a message may take to which there is no answer, and the end of a session."""
SEVER = "toolcrib/sever"
"""The method of a request that is never sent, and only takes the id of another, which the SDK then ends."""
_UNAVAILABLE = frozenset({408, 429, 502, 503, 504})
_NOT_FOUND, _ACCEPTED, _FAILED, _REDIRECTED = 404, 202, 400, 300
_BEGINNING = 500
_SESSION = "mcp-session-id"
_NO_SESSION = re.compile(
    r"\bsession (id )?(not found|terminated|has been terminated|expired|unknown|does not exist)"
    r"|\b(no valid|invalid|unknown|missing|expired) session\b|mcp-session-id",
    re.IGNORECASE,
)
"""What servers say of a session that they do not know, where they do not say it with the status."""
_OF_THE_WIRE = frozenset({"content-encoding", "content-length", "transfer-encoding"})
_UNSENDABLE, _ID, _ASIDE, _LISTS = "toolcrib.unsendable", "toolcrib.id", "toolcrib.aside", "toolcrib.lists"
"""What a request knows of the message in it: why it cannot be written, who waits for an answer, whether
nobody does, or it is not to be sent at all (None), and whether it asks for tools."""
_REDIRECTED_TO = "toolcrib.redirected"


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
    """Cut sessions and addresses out of a record of the SDK, and count what it says of each bad event."""
    if isinstance(record.msg, str) and not record.args:
        dropped = _dropped.get()
        if dropped is not None and (kind := _BAD_EVENTS.get(record.msg.partition(":")[0])):
            if record.exc_info is None or not isinstance(record.exc_info[1], _NOBODY_LISTENS):
                dropped.note(kind)
            return False
        text = _ADDRESS.sub(lambda found: place(found.group()), record.msg)
        record.msg = _SESSION_ID.sub(r"\1 ...", text)
    return True


logging.getLogger("httpx2").addFilter(_without_query)
logging.getLogger("mcp.client.streamable_http").addFilter(_without_session)


@cache
def tls_context() -> ssl.SSLContext:
    """Return the one TLS context of this process; reading the certificates of the system takes some 40 ms."""
    return httpx2.create_ssl_context()


@cache
def _no_tls_context() -> ssl.SSLContext:
    """Return a context that trusts nobody, for servers that are reached without TLS: it costs nothing."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def address_of(config: ServerConfig) -> str:
    """Return where a server is, without the user that its address may name: that is for `client_settings`."""
    return str(httpx2.URL(config.url or "").copy_with(userinfo=b""))


async def client_settings(config: ServerConfig) -> dict[str, Any]:
    """Return what every client of a server is made with."""
    url = httpx2.URL(config.url or "")
    # A server at the usual port may send us to its secure one.
    secure = url.scheme == "https" or url.port is None
    connections = config.max_concurrency + _SPARE_CONNECTIONS
    return {
        "headers": config.headers,
        "auth": (url.username, url.password) if url.userinfo else None,
        "timeout": _TIMEOUT,
        "verify": await anyio.to_thread.run_sync(tls_context) if secure else _no_tls_context(),
        "limits": httpx2.Limits(
            max_connections=connections, max_keepalive_connections=connections, keepalive_expiry=_KEEP_ALIVE
        ),
    }


class AnsweringClient(QuietClient):
    """A client that answers a message which failed with a JSON-RPC error, as if the server had sent it.

    Otherwise one failed request would end the whole connection with all its calls, or all that could be
    reported of it would be that there was an error. The error's code is the one for a closed connection
    where the server could not be reached, and its data, which no server can make, is what is known of the
    message.

    With `tasks`, messages to which there is no answer are sent there, aside: the SDK sends them one after the
    other and all else behind them, so that a server which hangs would hold up the cancellation of its calls.
    """

    def __init__(
        self,
        *,
        dropped: DroppedMessages | None = None,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self._dropped = dropped
        self.tasks: TaskGroup | None = None
        self._max_message_bytes = max_message_bytes
        self._pace = Pace()
        self._asides = anyio.Semaphore(MAX_ASIDES)

    def build_request(self, method: str, url: httpx2.URL | str, **options: Any) -> httpx2.Request:
        """Return a request, also where its content cannot be written: `send` then answers that."""
        message = options.get("json")
        if isinstance(message, dict):
            name = message.get("method")
            asks = name not in {None, SEVER} and "id" in message
            aside = None if name == SEVER else name != "notifications/initialized"  # which none may overtake
            options["extensions"] = {_ID: message["id"]} if asks else {_ASIDE: aside}
            options["extensions"][_LISTS] = name == "tools/list"
        try:
            return super().build_request(method, url, **options)
        except (TypeError, ValueError) as error:  # arguments that are no JSON
            options["json"], reason = None, f"the arguments are not JSON: {error}"
            options["extensions"] = {_UNSENDABLE: reason}
            return super().build_request(method, url, **options)

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Return the response to a request, or an error in the form of one."""
        _dropped.set(self._dropped)  # for good: the SDK reads the response in this task
        if request.method == "DELETE":
            with anyio.fail_after(COURTESY):
                return await super().send(request, **options)
        if request.method != "POST":
            return await self._opened(request, **options)
        if _ASIDE in request.extensions:
            if self.tasks is not None and request.extensions[_ASIDE]:
                self.tasks.start_soon(self._posted, request)
            elif request.extensions[_ASIDE] is not None:
                await self._posted(request)
            return httpx2.Response(_ACCEPTED, request=request)
        resumes.set(Resumes())
        if _UNSENDABLE in request.extensions:
            return _answer(request, INVALID_PARAMS, request.extensions[_UNSENDABLE])
        try:
            response = await super().send(request, **options)
            return await _understood(response, self._max_message_bytes)
        except httpx2.HTTPError as error:
            return _answer(request, CONNECTION_CLOSED, reason_of(error), failure_facts(error))

    async def _posted(self, request: httpx2.Request) -> None:
        """Send a message to which there is no answer, as far as that can be done."""
        watcher: httpx2.Request | None = request
        with anyio.move_on_after(COURTESY), suppress(httpx2.HTTPError):
            async with self._asides:
                for _ in range(self.max_redirects + 1):
                    if watcher is None:
                        return
                    response = await super().send(watcher, stream=True, follow_redirects=False)
                    await response.aclose()
                    watcher = next_request_within_origin(response)

    async def _opened(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Return an event stream, when it may be opened; one that is not worth it ends with an error."""
        resumed = resumes.get()
        if _REDIRECTED_TO in request.extensions:
            pass  # it is due as soon as what led here was
        elif resumed is None:
            await self._pace.wait()
        elif not await resumed.allowed(request.headers.get("last-event-id")):
            reason = f"{place(request.url)} ended the event stream again and again without an answer"
            error = {"code": CONNECTION_CLOSED, "message": reason, "data": marked(sent=True)}
            text = json.dumps({"jsonrpc": "2.0", "id": 0, "error": error})  # the SDK fills in the id
            headers = {"content-type": "text/event-stream"}
            return httpx2.Response(200, headers=headers, content=f"data: {text}\n\n", request=request)
        response = await super().send(request, **options)
        if response.next_request is not None:
            response.next_request.extensions = {**response.next_request.extensions, _REDIRECTED_TO: True}
        return response


async def _understood(response: httpx2.Response, max_bytes: int) -> httpx2.Response:
    """Return a response that the SDK can make something of, with what JSON there is already read."""
    status, kind = response.status_code, response.headers.get("content-type", "").lower()
    if status == _ACCEPTED or _REDIRECTED <= status < _FAILED:
        return response
    lists = response.request.extensions.get(_LISTS, False)
    if status < _FAILED and kind.startswith("text/event-stream"):
        if lists:
            response.stream = ShallowEvents(response.stream, max_bytes)
        return response
    try:
        body = await _body(response, max_bytes) if kind.startswith("application/json") else None
    finally:
        with anyio.CancelScope(shield=True):
            await response.aclose()
    if body is not None and lists:
        body = with_shallow_tools(body)
    error = None if body is None or status < _FAILED else _error(body)
    if status >= _FAILED and _SESSION in response.request.headers and _is_lost(status, error):
        return _answer(response.request, INVALID_REQUEST, "Session terminated", marked(lost=True))
    if body is None or (status >= _FAILED and error is None):
        return _refusal(response, kind)
    if status < _FAILED and _ID in response.request.extensions:
        return _own_answer(response, body, response.request.extensions[_ID])
    return _copy(response, status, body)


def _own_answer(response: httpx2.Response, body: bytes, number: int | str) -> httpx2.Response:
    """Return a response with the answer to its request, or an error where the body is something else."""
    answered = answered_id(body[:_BEGINNING].decode(errors="replace"))
    if str(answered) == str(number) and b'"method"' not in body:
        return _copy(response, response.status_code, body)
    messages = read_line(body)
    answers = [each for each in messages if isinstance(each, JSONRPCResponse | JSONRPCError)]
    own = next((each for each in answers if str(each.id) == str(number)), None)
    if own is not None:
        content = own.model_dump_json(by_alias=True, exclude_unset=True).encode()
        return _copy(response, response.status_code, content)
    if len(answers) == len(messages) == 1 and answers[0].id is None:
        return _copy(response, _FAILED, body)  # the SDK then fills in which message it answers
    if not messages:
        return _copy(response, response.status_code, body)  # the SDK says what is wrong with it
    reason = f"{place(response.request.url)} answered with something else than the answer to the request"
    return _answer(response.request, INTERNAL_ERROR, reason, marked(sent=True))


def _copy(response: httpx2.Response, status: int, content: bytes) -> httpx2.Response:
    """Return a response with a status and a content: the very one, where it says so itself."""
    if status == response.status_code and _read(response) is content:
        return response
    headers = [(name, value) for name, value in response.headers.multi_items() if name not in _OF_THE_WIRE]
    return httpx2.Response(status, headers=headers, content=content, request=response.request)


def _read(response: httpx2.Response) -> bytes | None:
    """Return the content of a response, if it was read in one piece."""
    try:
        return response.content
    except httpx2.ResponseNotRead:
        return None


async def _body(response: httpx2.Response, max_bytes: int) -> bytes:
    length = response.headers.get("content-length", "")
    if length.isdecimal() and int(length) <= max_bytes and "content-encoding" not in response.headers:
        return await response.aread()
    pieces, size = [], 0
    async for piece in response.aiter_bytes():
        size += len(piece)
        if size > max_bytes:
            raise httpx2.DecodingError(f"a message of more than {max_bytes} bytes", request=response.request)
        pieces.append(piece)
    return b"".join(pieces)


def _error(body: bytes) -> dict[str, Any] | None:
    """Return the JSON-RPC error that a body is, which says more than the status."""
    try:
        payload = json.loads(body)
    except (ValueError, RecursionError):
        return None
    is_error = isinstance(payload, dict) and isinstance(payload.get("error"), dict) and "jsonrpc" in payload
    return payload if is_error else None


def _is_lost(status: int, payload: dict[str, Any] | None) -> bool:
    """Return whether a refusal means that the server does not know the session; it has then run nothing.

    That is what 404 says. Many servers say it with 400 and in words; what answers no request in particular
    cannot be the answer of a tool.
    """
    error = {} if payload is None else payload["error"]
    if status == _NOT_FOUND:
        return error.get("code") != METHOD_NOT_FOUND
    refused = status == _FAILED and payload is not None and payload.get("id") is None
    return refused and _NO_SESSION.search(str(error.get("message"))) is not None


def _refusal(response: httpx2.Response, kind: str) -> httpx2.Response:
    request, status = response.request, response.status_code
    if status < _FAILED:
        return _answer(request, INTERNAL_ERROR, reason_of_type(kind, request.url), marked(sent=True))
    code = CONNECTION_CLOSED if status in _UNAVAILABLE else INTERNAL_ERROR
    code = METHOD_NOT_FOUND if status == _NOT_FOUND else code
    return _answer(request, code, reason_of_status(response), marked(status=status))


def _answer(
    request: httpx2.Request, code: int, message: str, data: dict[str, Any] | None = None
) -> httpx2.Response:
    """Return a response that carries an error; the SDK fills in which message it answers."""
    error = {"code": code, "message": message} | ({} if data is None else {"data": data})
    return httpx2.Response(502, json={"jsonrpc": "2.0", "id": None, "error": error}, request=request)
