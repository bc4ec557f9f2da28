"""HTTP client of one server: pooled connections, one TLS context for all, failures as JSON-RPC errors."""

import json
import ssl
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum
from functools import cache
from time import monotonic
from typing import Any
from urllib.request import getproxies

import anyio
import httpx2
from anyio.abc import TaskGroup
from mcp_types import CONNECTION_CLOSED, INVALID_PARAMS
from pydantic_core import from_json

from toolcrib.execution.mcp.config import ServerConfig
from toolcrib.execution.mcp.errors import failure_facts, marked, place, reason_of
from toolcrib.execution.mcp.gateways import EXPOSE_ALL, EXPOSE_HEADER
from toolcrib.execution.mcp.transport.event_streams import Pace, Resumes, pace_events
from toolcrib.execution.mcp.transport.http_responses import (
    ACCEPTED,
    ID,
    LISTS,
    SESSION,
    error_response,
    normalize_response,
)
from toolcrib.execution.mcp.transport.lines import DroppedMessages
from toolcrib.execution.mcp.transport.quiet_client import EXCHANGE, HttpExchange, QuietClient, tls_context
from toolcrib.execution.mcp.transport.redirects import next_request_within_origin
from toolcrib.execution.oauth.bearer import BearerAuth
from toolcrib.model.json_text import strict_json

try:
    from toolcrib.execution.mcp.transport.post_client import PostClient
except ImportError:  # httptools comes with the gateway
    PostClient = None  # type: ignore[assignment,misc] # looked at before it is used

MAX_MESSAGE_BYTES = 64 * 2**20
"""The maximum size of a message from a server, in bytes."""
_TIMEOUT = httpx2.Timeout(connect=10.0, read=None, write=30.0, pool=5.0)
"""Calls have deadlines of their own, and a stream of events may be silent for hours. There are more
connections than calls can run at once: if none becomes free in time, something holds them for good."""
_SPARE_CONNECTIONS = 8
"""For streams of notifications, listings, and messages without an answer."""
MAX_NOTIFICATIONS = 4
"""The maximum number of notifications that are posted concurrently."""
_KEEP_ALIVE = 4.0
"""Seconds that a connection stays open unused. Many servers close theirs after 5, and a request that is sent
at that moment is lost."""
NOTIFICATION_SECONDS = 2.0
"""Time limit for a notification, and for the DELETE that ends a session."""
ABORT = "toolcrib/abort"
"""Pseudo-method that makes the SDK abort a pending request by its id; it is never sent."""
_UNSENDABLE = "toolcrib.unsendable"
"""Extension of a request: why its message cannot be written."""
_ASIDE = "toolcrib.aside"
"""Extension of a message that gets no answer: an `_Aside`."""
_ABORTED = "toolcrib.aborted"
"""Extension of a request: the id of the request that it aborts."""
_IS_HANDSHAKE = "toolcrib.handshake"
"""Extension of a request: whether it belongs to the negotiation of the revision."""
_REDIRECTED_TO = "toolcrib.redirected"
_HANDSHAKE_METHODS = frozenset({"initialize", "server/discover"})
_LEFT_TO_THE_SDK = frozenset({"tools/list"})
"""Methods that the SDK sends: `normalize_response` trims definitions in the reply that nest too deeply."""
_RESULT_KEYS = {"jsonrpc", "id", "result"}
"""The members of a plain answer."""
_REPEATED = frozenset({*range(300, 400), 401, 403, 407})
"""Statuses of a request that did not run, and that httpx2 repeats with a login or at another address."""


class _Aside(Enum):
    """Options for sending a message that gets no response."""

    BACKGROUND = "background"
    IN_ORDER = "in order"
    """Before it returns, since nothing may overtake it."""
    ABORT = "abort"
    """Not at all: it drops the reply to a request."""


@cache
def _no_tls_context() -> ssl.SSLContext:
    """Return a context without certificates, for servers without TLS: loading them would take time."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def address_of(config: ServerConfig) -> str:
    """Return where a server is, without the user that its address may name: that is for `client_settings`."""
    return str(httpx2.URL(config.url or "").copy_with(userinfo=b""))


async def client_settings(config: ServerConfig, auth: httpx2.Auth | None = None) -> dict[str, Any]:
    """Return the parameters of every client of a server; an address with a user needs no `auth`."""
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
    """A client that answers a failed request with a JSON-RPC error, as if the server had sent it.

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
        login: BearerAuth | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(dropped=dropped, **settings)
        self.tasks: TaskGroup | None = None
        self._max_message_bytes = max_message_bytes
        self._pace = Pace()
        self._notifications = anyio.Semaphore(MAX_NOTIFICATIONS)
        self._session: dict[str, str] | None = None
        """Headers that name the session; None until the SDK has sent a request after the handshake."""
        self._posts: PostClient | None = None
        self._jar, self._login = self.cookies.jar, login
        self._replies: dict[int, httpx2.Response] = {}
        """Replies to requests of `post_plain`, by id, until the SDK sends them and gets the reply."""

    def open_posts(self, config: ServerConfig, settings: Mapping[str, Any]) -> bool:
        """Open the client of `post_plain`; return False where only httpx2 can reach the server."""
        url = httpx2.URL(config.url or "")
        has_proxy = not getproxies().keys().isdisjoint({url.scheme, "all"})
        if PostClient is None or url.scheme not in {"http", "https"} or url.userinfo or has_proxy:
            return False
        with suppress(ValueError):  # httpx2 says what is wrong with the headers
            self._posts = PostClient(
                url,
                self.headers,
                limits=settings["limits"],
                timeout=settings["timeout"],
                max_bytes=self._max_message_bytes,
                tls=settings["verify"] if url.scheme == "https" else None,
            )
        return self._posts is not None

    async def close_posts(self) -> None:
        """Close the posts that `open_posts` opened, and replies that the SDK did not read."""
        posts, self._posts = self._posts, None
        if posts is not None:
            await posts.aclose()
        while self._replies:
            await self._replies.popitem()[1].aclose()

    async def post_plain(self, message: dict[str, Any], headers: dict[str, str]) -> dict[str, Any] | None:
        """Post a request from the current task, and return its result if the reply is a plain one.

        Otherwise the SDK has to send it: it finds the reply here, if there was one.
        """
        posts, login, number = self._posts, self._login, message["id"]
        # The fast client knows neither cookies nor, until the SDK has sent a request, the session.
        if posts is None or self._session is None or len(self._jar) or message["method"] in _LEFT_TO_THE_SDK:
            return None
        headers = self._session | headers
        # Until `no_login_until` it is known that nobody has logged in, which saves reading the vault.
        if login is not None and monotonic() >= login.no_login_until:
            access = await login.authorization()
            if access is None:
                return None
            headers |= access
        try:
            # As httpx2 writes it.
            text = strict_json(message).encode()
            reply = await posts.post(text, headers)
        except (TypeError, ValueError, RecursionError):
            return None  # httpx2 refuses it too, and says why
        except httpx2.HTTPError as error:
            request = httpx2.Request("POST", posts.url)
            self._replies[number] = error_response(
                request, CONNECTION_CLOSED, reason_of(error), failure_facts(error)
            )
            return None
        result = _parse_result(reply.data, number) if reply.is_json else None
        if result is None and reply.status in _REPEATED:
            await reply.aclose()
        elif result is None:
            request = httpx2.Request("POST", posts.url, headers=headers, extensions={ID: number})
            response = reply.to_httpx(request)
            self.cookies.extract_cookies(response)
            pace_events(response, self._dropped)
            self._replies[number] = await self._normalize(response)
        return result

    def build_request(self, method: str, url: httpx2.URL | str, **options: Any) -> httpx2.Request:
        """Return a request, also where its content cannot be written: `send` then answers that."""
        message = options.get("json")
        if isinstance(message, dict):
            name = message.get("method")
            asks = name not in {None, ABORT} and "id" in message
            aside = _Aside.BACKGROUND
            if name in {ABORT, "notifications/initialized"}:
                aside = _Aside.ABORT if name == ABORT else _Aside.IN_ORDER
            options["extensions"] = (
                {ID: message["id"]} if asks else {_ASIDE: aside, _ABORTED: message.get("id")}
            )
            options["extensions"] |= {LISTS: name == "tools/list", _IS_HANDSHAKE: name in _HANDSHAKE_METHODS}
        try:
            return super().build_request(method, url, **options)
        except (TypeError, ValueError) as error:  # arguments that are no JSON
            options["json"], reason = None, f"the arguments are not JSON: {error}"
            options["extensions"] = {_UNSENDABLE: reason}
            return super().build_request(method, url, **options)

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Return the response to a request, or an error in the form of one."""
        if EXCHANGE.get() is None:
            EXCHANGE.set(HttpExchange(self._dropped))  # for good: the SDK reads the response in this task
        if request.method == "DELETE":
            with anyio.fail_after(NOTIFICATION_SECONDS):
                return await super().send(request, **options)
        if request.method != "POST":
            return await self._open_stream(request, **options)
        if _ASIDE in request.extensions:
            await self._send_aside(request)
            return httpx2.Response(ACCEPTED, request=request)
        EXCHANGE.set(HttpExchange(self._dropped, Resumes()))
        reply = self._replies.pop(request.extensions.get(ID, 0), None)
        return await self._send_request(request, **options) if reply is None else reply

    async def _send_aside(self, request: httpx2.Request) -> None:
        """Post a notification, or drop the reply to a request that is aborted."""
        kind = request.extensions[_ASIDE]
        if self.tasks is not None and kind is _Aside.BACKGROUND:
            self.tasks.start_soon(self._post_notification, request)
        elif kind is not _Aside.ABORT:
            await self._post_notification(request)
        elif (reply := self._replies.pop(request.extensions[_ABORTED], None)) is not None:
            await reply.aclose()  # its call was cancelled before the SDK read it

    async def _send_request(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        if _UNSENDABLE in request.extensions:
            return error_response(request, INVALID_PARAMS, request.extensions[_UNSENDABLE])
        try:
            response = await super().send(request, **options)
        except httpx2.HTTPError as error:
            return error_response(request, CONNECTION_CLOSED, reason_of(error), failure_facts(error))
        if not request.extensions.get(_IS_HANDSHAKE, True):
            self._session = {name: request.headers[name] for name in (SESSION,) if name in request.headers}
        return await self._normalize(response)

    async def _normalize(self, response: httpx2.Response) -> httpx2.Response:
        try:
            return await normalize_response(response, self._max_message_bytes)
        except httpx2.HTTPError as error:
            return error_response(response.request, CONNECTION_CLOSED, reason_of(error), failure_facts(error))

    async def _post_notification(self, request: httpx2.Request) -> None:
        """Post a notification, with redirects within the origin; failures are ignored."""
        pending: httpx2.Request | None = request
        with anyio.move_on_after(NOTIFICATION_SECONDS), suppress(httpx2.HTTPError):
            async with self._notifications:
                for _ in range(self.max_redirects + 1):
                    if pending is None:
                        return
                    response = await super().send(pending, stream=True, follow_redirects=False)
                    await response.aclose()
                    pending = next_request_within_origin(response)

    async def _open_stream(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Open an event stream when its pause is over; one that was resumed in vain gets an error instead."""
        exchange = EXCHANGE.get()
        resumed = None if exchange is None else exchange.resumes
        if _REDIRECTED_TO in request.extensions:
            pass  # it is due as soon as what led here was
        elif resumed is None:
            await self._pace.wait()
        elif not await resumed.allowed(request.headers.get("last-event-id")):
            reason = f"{place(request.url)} repeatedly ended the event stream without an answer"
            error = {"code": CONNECTION_CLOSED, "message": reason, "data": marked(sent=True)}
            text = json.dumps({"jsonrpc": "2.0", "id": 0, "error": error})  # the SDK fills in the id
            headers = {"content-type": "text/event-stream"}
            return httpx2.Response(200, headers=headers, content=f"data: {text}\n\n", request=request)
        response = await super().send(request, **options)
        if response.next_request is not None:
            response.next_request.extensions = {**response.next_request.extensions, _REDIRECTED_TO: True}
        return response


def _parse_result(body: bytes | bytearray, number: int) -> dict[str, Any] | None:
    """Return the result in a body that is the plain answer to a request; None for anything else."""
    try:
        value = from_json(body)
    except ValueError:
        return None
    if not isinstance(value, dict) or value.keys() != _RESULT_KEYS:
        return None
    result = value["result"] if (value["jsonrpc"], value["id"]) == ("2.0", number) else None
    return result if isinstance(result, dict) else None
