"""Checks every HTTP request before it is served: host, origin, token, size."""

from collections.abc import Callable

import anyio
import anyio.lowlevel
from mcp.server.auth.middleware.auth_context import auth_context_var

from toolcrib.crib import GatewaySettings
from toolcrib.errors import ConfigError
from toolcrib.gateway.addresses import EndpointAddress
from toolcrib.gateway.app.asgi import (
    CLOSE,
    TOO_LARGE,
    App,
    Headers,
    Message,
    Receive,
    ResponseSender,
    Scope,
    Send,
    reply,
)
from toolcrib.gateway.app.connect import CONNECT
from toolcrib.gateway.app.rules import AccessRules
from toolcrib.gateway.identity.identities import METADATA, Refusal
from toolcrib.gateway.identity.principals import OpenRequest, known_user
from toolcrib.gateway.limits import ByteBudget

_OPEN = frozenset({"/health", "/ready"})
"""What may be asked without a token, beside the places below."""
_OPEN_BELOW = (METADATA, CONNECT)
_ALLOWED_HEADERS = (
    b"authorization, content-type, accept, last-event-id, mcp-session-id, mcp-protocol-version, "
    b"mcp-method, mcp-name"
)
_READ = frozenset({b"host", b"origin", b"authorization", b"content-length", b"transfer-encoding"})
_RECHECK = 1.0
"""After how many seconds it is looked at again whether tokens still open what is being answered."""
_DIGITS = 20
"""Fewer digits has any real size."""
_Reply = tuple[int, str, Headers]
"""A status, why, and what else to say."""


class Guard:
    """Lets requests through that have a right name, origin and token, and arrive whole."""

    def __init__(
        self,
        app: App,
        current: Callable[[], tuple[GatewaySettings, AccessRules]],
        on_limited: Callable[[str], object] = lambda _: None,
    ) -> None:
        """Stand before an application; `current` says what holds at this moment."""
        self._app = app
        self._current = current
        self._on_limited = on_limited
        self._budget = ByteBudget()
        self._open: set[OpenRequest] = set()
        self.leaving = False
        """Whether requests are being broken off, so that their ends are no surprise."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or have it answered."""
        response = ResponseSender(send)
        try:
            await self._answer(scope, receive, response)
        except anyio.get_cancelled_exc_class():
            if not self.leaving:
                raise
            # nobody waits for this task any more
            await response.break_off(scope.get("toolcrib.body", b""), "the gateway is stopping")

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        settings, rules = self._current()
        headers = _single(scope["headers"])
        origin = headers.get(b"origin")
        if origin is not None and rules.allows_origin(origin):
            send = _for_pages(send, origin)
        refusal = _refusal(headers, rules, (scope.get("server") or (None,))[0])
        if refusal is not None:
            await _refuse(send, headers, *refusal)
            return
        if scope["method"] == "OPTIONS" and origin is not None:
            await _preflight(send)
            return
        address = EndpointAddress.of_path(scope["path"]) or EndpointAddress()
        try:
            principal = await rules.identities.identify(headers.get(b"authorization"), address)
            scope["toolcrib.known"] = True
            if principal is not None:
                scope["toolcrib.principal"], scope["user"] = principal, known_user(principal)
                scope["toolcrib.subject_token"] = rules.identities.subject_token(
                    principal, headers[b"authorization"]
                )
        except Refusal as stranger:
            scope["toolcrib.known"] = False
            if scope["path"] not in _OPEN and not scope["path"].startswith(_OPEN_BELOW):
                where = rules.identities.metadata_address(address)
                await _refuse(send, headers, stranger.status, stranger.text, _challenge(stranger, where))
                return
        size = _announced(headers, settings.request_bytes)
        if not self._budget.take(size):
            self._on_limited("request_bytes")
            message = "too many large requests arrive at once; try again later"
            await reply(send, 503, message, [(b"retry-after", b"5"), *CLOSE])
            return
        user = auth_context_var.set(scope.get("user"))  # the SDK binds what it seals to whoever calls
        try:
            body = await _body(headers, receive, send, settings)
            if body is not None:
                self._budget.give_back(size)
                size = len(body)  # which is no more than was announced
                self._budget.take(size)
                scope["toolcrib.body"] = body
                await self._serve(scope, _replay(body, receive), send, headers.get(b"authorization"))
        finally:
            auth_context_var.reset(user)
            self._budget.give_back(size)

    async def _serve(self, scope: Scope, receive: Receive, send: Send, authorization: str | None) -> None:
        """Have a request answered for as long as its token may have it answered."""
        address = EndpointAddress.of_path(scope["path"])
        if address is None:
            await self._app(scope, receive, send)
            return
        is_stream, principal = scope["method"] == "GET", scope.get("toolcrib.principal")
        request = OpenRequest(authorization, address, principal, subscribes=is_stream)
        response = ResponseSender(send)

        async def send_allowed(message: Message) -> None:
            if request.subscribes and not await _is_valid(request, self._rules()):
                request.scope.cancel()
                await anyio.lowlevel.checkpoint()
                return
            await response(message)

        scope["toolcrib.open"] = request
        self._open.add(request)
        try:
            with request.scope:
                await self._app(scope, receive, send_allowed)
        finally:
            request.is_answered = True
            if not request.begun:
                self._open.discard(request)
        if request.scope.cancelled_caught:
            await response.break_off(scope["toolcrib.body"], "the token is not valid any more", 401)

    async def end_revoked(self) -> None:
        """End what goes on for tokens that were revoked or have expired, until cancelled.

        A call or a task that began in time may end after its token has expired, and is ended where that was
        revoked.
        """
        checked = self._rules()
        while True:
            await anyio.sleep(_RECHECK)
            before, checked = checked, self._rules()
            for request in list(self._open):
                if request.is_answered and not request.begun:
                    self._open.discard(request)
                elif (request.subscribes or checked is not before) and not await _is_valid(request, checked):
                    request.end()

    def _rules(self) -> AccessRules | None:
        """Return who may call at this moment; None where the configuration does not say it."""
        try:
            return self._current()[1]
        except ConfigError:  # the token cannot be made out: requests fail, and say why
            return None


async def _is_valid(request: OpenRequest, rules: AccessRules | None) -> bool:
    """Return whether a request would be let in at this moment, and a stream as the same principal."""
    if rules is None:
        return False
    try:
        principal = await rules.identities.identify(request.authorization, request.address)
    except Refusal as refusal:
        return refusal.status not in {401, 403}  # an issuer that cannot be asked revokes nothing
    return principal == request.principal or not request.subscribes


def _refusal(headers: dict[bytes, str], rules: AccessRules, at: str | None) -> _Reply | None:
    """Return why nobody may ask like this, whatever the token."""
    origin, host = headers.get(b"origin"), headers.get(b"host")
    if origin is not None and not rules.allows_origin(origin):
        return 403, f"the origin {origin[:100]!r} is not allowed; see gateway.allowed_origins", []
    if not rules.allows_host(host, at):
        return 421, f"it is not called {(host or '')[:100]!r} here; see gateway.allowed_hosts", []
    return None


async def _refuse(send: Send, headers: dict[bytes, str], status: int, text: str, more: Headers) -> None:
    """Refuse a request; its body, where it has one, is not read."""
    await reply(send, status, text, [*more, *(CLOSE if _has_body(headers) else ())])


def _has_body(headers: dict[bytes, str]) -> bool:
    return b"transfer-encoding" in headers or headers.get(b"content-length", "0") != "0"


def _single(headers: list[tuple[bytes, bytes]]) -> dict[bytes, str]:
    """Return the headers that are looked at, by name; one that is there twice is what nobody allows."""
    found: dict[bytes, str] = {}
    for name, value in headers:
        if name in _READ:
            text = value.decode("latin-1")
            found[name] = f"{found[name]}, {text}" if name in found else text
    return found


def _challenge(refusal: Refusal, where: str | None) -> Headers:
    """Return how to do better, as RFC 6750 and RFC 9728 have it."""
    if refusal.status not in {401, 403}:
        return [(b"retry-after", b"30")]
    facts = {"realm": "toolcrib", "error": refusal.error, "scope": " ".join(refusal.scopes)}
    facts |= {"resource_metadata": where or "", "error_description": refusal.text if refusal.error else ""}
    listed = ", ".join(f'{name}="{value}"' for name, value in facts.items() if value and '"' not in value)
    return [(b"www-authenticate", f"Bearer {listed}".encode("latin-1", "replace"))]


def _announced(headers: dict[bytes, str], limit: int) -> int:
    """Return how many bytes a body will have; the most it may, where that is not known."""
    if not _has_body(headers):
        return 0
    length = headers.get(b"content-length", "")
    known = length.isdecimal() and len(length) < _DIGITS and b"transfer-encoding" not in headers
    return min(int(length), limit) if known else limit


async def _body(
    headers: dict[bytes, str], receive: Receive, send: Send, settings: GatewaySettings
) -> bytes | None:
    """Return what a request says; None where it was refused, or its sender is gone."""
    if not _has_body(headers):
        return b""
    length = headers.get(b"content-length", "")
    large = length.isdecimal() and len(length) < _DIGITS and int(length) > settings.request_bytes
    if not large:
        body = await _collected(receive, settings.request_bytes)
        if body is None or len(body) <= settings.request_bytes:
            return body
    await reply(send, 413, TOO_LARGE.format(settings.request_bytes), CLOSE)
    return None


async def _collected(receive: Receive, limit: int) -> bytes | None:
    """Return a body, or the beginning of one that is longer than the limit; None where its sender left."""
    parts: list[bytes] = []
    size, more = 0, True
    while more and size <= limit:
        message = await receive()
        if message["type"] != "http.request":
            return None
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        more = message.get("more_body", False)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    replayed = False

    async def again() -> Message:
        nonlocal replayed
        if replayed:
            return await receive()
        replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _for_pages(send: Send, origin: str) -> Send:
    """Return what lets a web page read the response."""
    extra = [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-expose-headers", b"mcp-session-id, www-authenticate"),
        (b"vary", b"origin"),
    ]

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *extra]}
        await send(message)

    return sending


async def _preflight(send: Send) -> None:
    allowed = [
        (b"access-control-allow-methods", b"GET, POST, DELETE"),
        (b"access-control-allow-headers", _ALLOWED_HEADERS),
        (b"access-control-max-age", b"600"),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": allowed})
    await send({"type": "http.response.body", "body": b""})
