"""The HTTP client of one server: pooled connections, one TLS context for all, and failures as answers."""

import json
import logging
import re
import ssl
from contextlib import suppress
from contextvars import ContextVar
from functools import cache
from typing import Any
from urllib.request import getproxies

import anyio
import httpx2
from anyio.abc import TaskGroup
from mcp_types import CONNECTION_CLOSED, INVALID_PARAMS

from toolcrib.execution.mcp.config import ServerConfig
from toolcrib.execution.mcp.errors import failure_facts, marked, place, reason_of
from toolcrib.execution.mcp.gateways import EXPOSE_ALL, EXPOSE_HEADER
from toolcrib.execution.mcp.transport.event_streams import Pace, Resumes, pace_events, resumes
from toolcrib.execution.mcp.transport.http_responses import (
    ACCEPTED,
    ID,
    LISTS,
    SESSION,
    failed,
    plain_result,
    understood,
)
from toolcrib.execution.mcp.transport.lines import DroppedMessages
from toolcrib.execution.mcp.transport.redirects import next_request_within_origin
from toolcrib.model.json_text import strict_json

try:
    from toolcrib.execution.mcp.transport.plain_http import PlainHttp
except ImportError:  # httptools comes with the gateway
    PlainHttp = None  # type: ignore[assignment,misc] # looked at before it is used

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
_SPARE_CONNECTIONS = 8
"""For streams of notifications, listings, and messages without an answer."""
MAX_ASIDES = 4
"""So many messages without an answer are sent at once."""
_KEEP_ALIVE = 4.0
"""Seconds that a connection stays open unused. Many servers close theirs after 5, and a request that is sent
at that moment is lost."""
COURTESY = 2.0
"""Seconds that a message may take to which there is no answer, and the end of a session."""
SEVER = "toolcrib/sever"
"""The method of a request that is never sent, and only takes the id of another, which the SDK then ends."""
_UNSENDABLE = "toolcrib.unsendable"
"""Extension of a request: why its message cannot be written."""
_ASIDE = "toolcrib.aside"
"""Extension of a request: whether nobody waits for an answer; None where it is not to be sent at all."""
_SEVERED = "toolcrib.severed"
"""Extension of a request: the id of the request that it ends."""
_GREETS = "toolcrib.greets"
"""Extension of a request: whether its message is a greeting."""
_REDIRECTED_TO = "toolcrib.redirected"
_GREETINGS = frozenset({"initialize", "server/discover"})
_LISTED = frozenset({"tools/list"})
"""Methods whose answers are looked at before anything else reads them."""
_REPEATED = frozenset({*range(300, 400), 401, 403, 407})
"""Statuses of a request that did not run, and that httpx2 may know how to make better."""


class QuietClient(httpx2.AsyncClient):
    """A client whose requests are logged without what may be secret in their addresses.

    Events are read in turn with everything else; those that are no messages are counted in `dropped`.
    """

    def __init__(self, *, dropped: DroppedMessages | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self._dropped = dropped or DroppedMessages("")

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Return the response to a request."""
        before = _ours.set(True)
        try:
            response = await super().send(request, **options)
        finally:
            _ours.reset(before)
        pace_events(response, self._dropped)
        return response


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


async def client_settings(config: ServerConfig, auth: httpx2.Auth | None = None) -> dict[str, Any]:
    """Return what every client of a server is made with; an address with a user needs no `auth`."""
    url = httpx2.URL(config.url or "")
    # A server at the usual port may send us to its secure one.
    secure = url.scheme == "https" or url.port is None
    connections = config.max_concurrency + _SPARE_CONNECTIONS
    return {
        "headers": httpx2.Headers({EXPOSE_HEADER: EXPOSE_ALL}) | config.headers,
        "auth": (url.username, url.password) if url.userinfo else auth,
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
        super().__init__(dropped=dropped, **settings)
        self.tasks: TaskGroup | None = None
        self._max_message_bytes = max_message_bytes
        self._pace = Pace()
        self._asides = anyio.Semaphore(MAX_ASIDES)
        self._session: dict[str, str] | None = None
        """What a request says of its session; None until the SDK was answered one that is no greeting."""
        self._plain: PlainHttp | None = None
        self._jar, self._login = self.cookies.jar, self.auth
        self._came: dict[int, httpx2.Response] = {}
        """What has come already for requests that the SDK is about to send."""

    def open_plain(self, config: ServerConfig) -> bool:
        """Let `ask` send requests, and return whether it can: where the server can be reached plainly."""
        url = httpx2.URL(config.url or "")
        has_proxy = not getproxies().keys().isdisjoint({"http", "all"})
        if PlainHttp is None or url.scheme != "http" or url.userinfo or has_proxy:
            return False
        with suppress(ValueError):  # httpx2 says what is wrong with the headers
            self._plain = PlainHttp(
                url,
                self.headers,
                connections=config.max_concurrency + _SPARE_CONNECTIONS,
                keep_alive=_KEEP_ALIVE,
                timeout=_TIMEOUT,
                max_bytes=self._max_message_bytes,
            )
        return self._plain is not None

    async def close_plain(self) -> None:
        """Close what `open_plain` has led to."""
        plain, self._plain = self._plain, None
        if plain is not None:
            await plain.aclose()
        while self._came:
            await self._came.popitem()[1].aclose()

    async def ask(self, message: dict[str, Any], headers: dict[str, str]) -> dict[str, Any] | None:
        """Send a request from this task, and return its result, if a plain answer comes.

        If not, the SDK is to send it, and finds here what came, if it was sent at all.
        """
        plain, number = self._plain, message["id"]
        if plain is None or self._session is None or not self._adds_nothing or message["method"] in _LISTED:
            return None
        headers = self._session | headers
        try:
            # As httpx2 writes it.
            text = strict_json(message).encode()
            reply = await plain.post(text, headers)
        except (TypeError, ValueError, RecursionError):
            return None  # httpx2 refuses it too, and says why
        except httpx2.HTTPError as error:
            request = httpx2.Request("POST", plain.url)
            self._came[number] = failed(request, CONNECTION_CLOSED, reason_of(error), failure_facts(error))
            return None
        result = plain_result(reply.data, number) if reply.is_json else None
        if result is None and reply.status in _REPEATED:
            await reply.aclose()
        elif result is None:
            request = httpx2.Request("POST", plain.url, headers=headers, extensions={ID: number})
            response = reply.response(request)
            self.cookies.extract_cookies(response)
            pace_events(response, self._dropped)
            self._came[number] = await self._understood(response)
        return result

    @property
    def _adds_nothing(self) -> bool:
        """Whether requests go out as they are: without a login, and without what the server wants kept."""
        return not len(self._jar) and (self._login is None or getattr(self._login, "is_idle", False))

    def build_request(self, method: str, url: httpx2.URL | str, **options: Any) -> httpx2.Request:
        """Return a request, also where its content cannot be written: `send` then answers that."""
        message = options.get("json")
        if isinstance(message, dict):
            name = message.get("method")
            asks = name not in {None, SEVER} and "id" in message
            aside = None if name == SEVER else name != "notifications/initialized"  # which none may overtake
            options["extensions"] = (
                {ID: message["id"]} if asks else {_ASIDE: aside, _SEVERED: message.get("id")}
            )
            options["extensions"] |= {LISTS: name == "tools/list", _GREETS: name in _GREETINGS}
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
            await self._sent_aside(request)
            return httpx2.Response(ACCEPTED, request=request)
        resumes.set(Resumes())
        came = self._came.pop(request.extensions.get(ID, 0), None)
        return await self._exchanged(request, **options) if came is None else came

    async def _sent_aside(self, request: httpx2.Request) -> None:
        """Send a message that nobody waits for, or end what waits for the response that it is to end."""
        if self.tasks is not None and request.extensions[_ASIDE]:
            self.tasks.start_soon(self._posted, request)
        elif request.extensions[_ASIDE] is not None:
            await self._posted(request)
        elif (came := self._came.pop(request.extensions[_SEVERED], None)) is not None:
            await came.aclose()  # whoever has asked did not come to have it read

    async def _exchanged(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        if _UNSENDABLE in request.extensions:
            return failed(request, INVALID_PARAMS, request.extensions[_UNSENDABLE])
        try:
            response = await super().send(request, **options)
        except httpx2.HTTPError as error:
            return failed(request, CONNECTION_CLOSED, reason_of(error), failure_facts(error))
        if not request.extensions.get(_GREETS, True):
            self._session = {name: request.headers[name] for name in (SESSION,) if name in request.headers}
        return await self._understood(response)

    async def _understood(self, response: httpx2.Response) -> httpx2.Response:
        try:
            return await understood(response, self._max_message_bytes)
        except httpx2.HTTPError as error:
            return failed(response.request, CONNECTION_CLOSED, reason_of(error), failure_facts(error))

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
