"""Checks every HTTP request before it is served: host, origin, token, size."""

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

import anyio
from mcp.server.auth.middleware.auth_context import auth_context_var

from toolcrib.crib.config.gateway import GatewaySettings, own_names
from toolcrib.errors import ConfigError
from toolcrib.execution.mcp.gateways import EXPOSE_HEADER
from toolcrib.gateway.addresses import EndpointAddress
from toolcrib.gateway.api.site import ConsoleSite
from toolcrib.gateway.app.asgi import CLOSE, TOO_LARGE, App, Headers, HttpRequest, Receive, Scope, Send, reply
from toolcrib.gateway.app.connect import CONNECT
from toolcrib.gateway.identity.identities import METADATA, Identities, Refusal
from toolcrib.gateway.identity.principals import known_user
from toolcrib.gateway.limits import LARGE_REQUEST, ByteBudget

_PUBLIC_PATHS = frozenset({"/health", "/ready"})
"""Paths that need no token, besides those that begin with `_PUBLIC_PREFIXES`."""
_PUBLIC_PREFIXES = (METADATA, CONNECT)
_ALLOWED_HEADERS = (
    b"authorization, content-type, accept, last-event-id, mcp-session-id, mcp-protocol-version, "
    b"mcp-method, mcp-name"
)
_READ = frozenset(
    {
        b"host",
        b"origin",
        b"authorization",
        b"content-length",
        b"transfer-encoding",
        b"mcp-session-id",
        b"mcp-protocol-version",
        EXPOSE_HEADER.encode(),
    }
)
"""The headers that the gateway reads itself."""
_RECHECK = 1.0
"""Seconds between two checks of the tokens of requests that are being answered."""
_DIGITS = 20
"""More digits than any real size has."""
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
_AUTHORITY = re.compile(r"(?:\[([0-9A-Fa-f:.%]+)\]|([^\[\]:/@?#\s]+))(?::(\d{1,5}))?")
_ORIGIN = re.compile(r"(https?)://(.+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class AccessRules:
    """The access rules of some settings; created once for each version of them."""

    settings: GatewaySettings
    hosts: frozenset[str]
    """Allowed host names, without a port, or with the only one that is allowed."""
    origins: frozenset[str]
    any_origin: bool
    identities: Identities | None
    """Identifies principals by their tokens; None if requests need none."""

    @classmethod
    def of(
        cls,
        settings: GatewaySettings,
        token: str | None,
        bound: str = "127.0.0.1",
        former: "AccessRules | None" = None,
    ) -> Self:
        """Return the rules of settings for an address; keys that the former rules fetched are kept."""
        own = () if bound in {"0.0.0.0", "::", ""} else (bound,)  # noqa: S104 - compared, not bound to
        public = urlsplit(settings.public_url or "").hostname
        named = (*own, *own_names(bound), *settings.allowed_hosts, *((public,) if public else ()))
        hosts = {*_LOCAL, *(name.lower().strip("[]") for name in named)}
        origins = {origin.lower().rstrip("/") for origin in settings.allowed_origins}
        identities = Identities.of(settings, token, None if former is None else former.identities)
        return cls(settings, frozenset(hosts), frozenset(origins), "*" in origins, identities)

    def allows_host(self, header: str | None, at: str | None = None) -> bool:
        """Return whether a `Host` header is allowed on a connection to the address `at`.

        The address itself is allowed: a web page that rebinds DNS would send the name of its own site.
        """
        if header is None:
            return False
        found = _AUTHORITY.fullmatch(header.lower())
        if found is None:
            return False
        name = found[1] or found[2]
        return (
            name in self.hosts
            or header.lower() in self.hosts
            or (at is not None and _is_same_address(name, at))
        )

    def allows_origin(self, header: str) -> bool:
        """Return whether the web page of an `Origin` header may call."""
        origin = header.lower().rstrip("/")
        if self.any_origin or origin in self.origins:
            return True
        found = _ORIGIN.fullmatch(origin)
        authority = None if found is None else _AUTHORITY.fullmatch(found[2])
        return authority is not None and (authority[1] or authority[2]) in _LOCAL

    def is_own_origin(self, header: str, host: str | None) -> bool:
        """Return whether an `Origin` header is that of the pages of this gateway, at this very port.

        Behind a proxy its pages have another scheme than the request, or the origin of `public_url`.
        """
        found = _ORIGIN.fullmatch(header.lower())
        public = urlsplit(self.settings.public_url or "")
        own = {(host or "").lower(), public.netloc.lower()} - {""}
        return found is not None and found[2] in own


class Guard:
    """ASGI middleware that serves a request only with an allowed host, origin and token, and a small body."""

    def __init__(
        self,
        endpoints: App,
        pages: App,
        current: Callable[[], AccessRules],
        on_limited: Callable[[str], object] = lambda _: None,
    ) -> None:
        """Guard the endpoints and all other pages; `current` returns the rules that hold now."""
        self._endpoints, self._pages = endpoints, pages
        self._current = current
        self._on_limited = on_limited
        self._budget = ByteBudget()
        self._unfinished: set[HttpRequest] = set()
        self.is_stopping = False
        """Whether requests are being cancelled because the gateway stops."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request and have it answered."""
        request = scope["toolcrib.request"] = HttpRequest(send, _read_headers(scope["headers"]))
        try:
            rules = self._current()
            if await self._admit(scope, request, rules):
                await self._serve(scope, receive, request, rules.settings.request_bytes)
        except anyio.get_cancelled_exc_class():
            if not self.is_stopping:
                raise
            # The server is stopping and awaits no task of a request, so the cancellation may end here.
            await request.break_off("the gateway is stopping")

    async def _admit(self, scope: Scope, request: HttpRequest, rules: AccessRules) -> bool:
        """Return whether a request may be served; if not, it has been answered."""
        headers = request.headers
        origin, host = headers.get(b"origin"), headers.get(b"host")
        address = EndpointAddress.of_path(scope["path"])
        is_console = address is None and ConsoleSite.serves(scope["path"])
        if origin is not None:
            if not (rules.is_own_origin(origin, host) if is_console else rules.allows_origin(origin)):
                text = f"the origin {origin[:100]!r} is not allowed; see gateway.allowed_origins"
                await _refuse(request, 403, text)
                return False
            request.extra_headers = [] if is_console else _cors_headers(origin)
        if not rules.allows_host(host, (scope.get("server") or (None,))[0]):
            text = f"the host {(host or '')[:100]!r} is not allowed; see gateway.allowed_hosts"
            await _refuse(request, 421, text)
            return False
        scope["toolcrib.known"] = False
        if is_console or (scope["method"] == "OPTIONS" and origin is not None):
            if not is_console:  # which has logins of its own, and is for no other pages
                await _send_preflight(request.send)
            return is_console
        request.address = address
        if rules.identities is not None:
            return await _authenticate(scope, request, rules.identities)
        scope["toolcrib.known"] = True
        return True

    async def _serve(self, scope: Scope, receive: Receive, request: HttpRequest, limit: int) -> None:
        """Read the body and have a request answered, for as long as its token is accepted."""
        size = _announced_length(request.headers, limit)
        reserved = size if size > LARGE_REQUEST else 0
        if reserved and not self._budget.take(reserved):
            self._on_limited("request_bytes")
            message = "too many large requests arrive at once; try again later"
            await reply(request.send, 503, message, [(b"retry-after", b"5"), *CLOSE])
            return
        user = auth_context_var.set(scope.get("user"))  # the SDK binds what it seals to the caller
        try:
            if size and not await _read_body(request, receive, limit, is_large=size > limit):
                return
            if (
                reserved
            ):  # a body may be shorter than announced, and one that is sent in chunks announces nothing
                self._budget.give_back(reserved - len(request.body))
                reserved = len(request.body)
            scope["toolcrib.body"] = request.body
            if request.address is None:
                await self._pages(scope, receive, request.send)
            else:
                await self._serve_endpoint(scope, receive, request)
        finally:
            auth_context_var.reset(user)
            if reserved:
                self._budget.give_back(reserved)

    async def _serve_endpoint(self, scope: Scope, receive: Receive, request: HttpRequest) -> None:
        request.is_subscription, request.still_allowed = scope["method"] == "GET", self._still_allowed
        self._unfinished.add(request)
        try:
            with request.cancel_scope:
                await self._endpoints(scope, receive, request.send)
        finally:
            request.is_answered = True
            if not request.background_scopes:
                self._unfinished.discard(request)
        if request.cancel_scope.cancelled_caught:
            await request.break_off("the token is no longer valid", 401)

    async def cancel_revoked(self) -> None:
        """Cancel requests whose tokens were revoked or have expired, until cancelled.

        A call or a task that began in time may end after its token has expired; if the token was revoked, it
        is cancelled.
        """
        checked = self._current_rules()
        while True:
            await anyio.sleep(_RECHECK)
            before, checked = checked, self._current_rules()
            for request in list(self._unfinished):
                if request.is_answered and not request.background_scopes:
                    self._unfinished.discard(request)
                elif (request.is_subscription or checked is not before) and not await _is_accepted(
                    request, checked
                ):
                    request.cancel()

    async def _still_allowed(self, request: HttpRequest) -> bool:
        return await _is_accepted(request, self._current_rules())

    def _current_rules(self) -> AccessRules | None:
        """Return the access rules of this moment; None if the configuration has an invalid token."""
        try:
            return self._current()
        except ConfigError:  # requests fail with it
            return None


async def _authenticate(scope: Scope, request: HttpRequest, identities: Identities) -> bool:
    """Store the principal of a request's token; return False if the request was refused for it."""
    address = request.address or EndpointAddress()
    try:
        principal = await identities.identify(request.authorization, address)
    except Refusal as stranger:
        scope["toolcrib.known"] = False
        if scope["path"] in _PUBLIC_PATHS or scope["path"].startswith(_PUBLIC_PREFIXES):
            return True
        where = identities.metadata_address(address)
        await _refuse(request, stranger.status, stranger.text, _challenge_headers(stranger, where))
        return False
    scope["toolcrib.known"] = True
    if principal is not None:
        request.principal, scope["user"] = principal, known_user(principal)
        request.subject_token = identities.subject_token(principal, request.headers[b"authorization"])
    return True


async def _is_accepted(request: HttpRequest, rules: AccessRules | None) -> bool:
    """Return whether a request would be admitted now, and a subscription as the same principal."""
    if rules is None:
        return False
    principal = None
    try:
        if rules.identities is not None:
            address = request.address or EndpointAddress()
            principal = await rules.identities.identify(request.authorization, address)
    except Refusal as refusal:
        return refusal.status not in {401, 403}  # an issuer that cannot be asked revokes nothing
    return principal == request.principal or not request.is_subscription


async def _refuse(request: HttpRequest, status: int, text: str, headers: Headers | None = None) -> None:
    """Refuse a request without reading its body, if it has one."""
    closing = CLOSE if _has_body(request.headers) else ()
    await reply(request.send, status, text, [*(headers or ()), *closing])


def _has_body(headers: dict[bytes, str]) -> bool:
    return b"transfer-encoding" in headers or headers.get(b"content-length", "0") != "0"


def _read_headers(headers: list[tuple[bytes, bytes]]) -> dict[bytes, str]:
    """Return the headers that the gateway reads, by name; values of a repeated one are joined by commas."""
    found: dict[bytes, str] = {}
    for name, value in headers:
        if name in _READ:
            text = value.decode("latin-1")
            found[name] = f"{found[name]}, {text}" if name in found else text
    return found


def _challenge_headers(refusal: Refusal, where: str | None) -> Headers:
    """Return the header that tells a client which token it needs, as in RFC 6750 and RFC 9728."""
    if refusal.status not in {401, 403}:
        return [(b"retry-after", b"30")]
    facts = {"realm": "toolcrib", "error": refusal.error, "scope": " ".join(refusal.scopes)}
    facts |= {"resource_metadata": where or "", "error_description": refusal.text if refusal.error else ""}
    listed = ", ".join(f'{name}="{value}"' for name, value in facts.items() if value and '"' not in value)
    return [(b"www-authenticate", f"Bearer {listed}".encode("latin-1", "replace"))]


def _announced_length(headers: dict[bytes, str], limit: int) -> int:
    """Return the length of a body, at most one more than the limit; without a length the limit."""
    length = headers.get(b"content-length", "0")
    if b"transfer-encoding" in headers or not length.isdecimal():
        return limit
    return min(int(length[:_DIGITS]), limit + 1)


async def _read_body(request: HttpRequest, receive: Receive, limit: int, *, is_large: bool) -> bool:
    """Read the body of a request; return False if it was refused as too long, or its sender has left."""
    parts: list[bytes] = []
    size, more = 0, True
    while more and not is_large:
        message = await receive()
        if message["type"] != "http.request":
            return False
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        is_large, more = size > limit, message.get("more_body", False)
    if is_large:
        await reply(request.send, 413, TOO_LARGE.format(limit), CLOSE)
        return False
    request.body = parts[0] if len(parts) == 1 else b"".join(parts)
    return True


def _cors_headers(origin: str) -> Headers:
    """Return the headers that let a web page read the response."""
    return [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-expose-headers", b"mcp-session-id, www-authenticate"),
        (b"vary", b"origin"),
    ]


async def _send_preflight(send: Send) -> None:
    allowed = [
        (b"access-control-allow-methods", b"GET, POST, DELETE"),
        (b"access-control-allow-headers", _ALLOWED_HEADERS),
        (b"access-control-max-age", b"600"),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": allowed})
    await send({"type": "http.response.body", "body": b""})


def _is_same_address(name: str, address: str) -> bool:
    """Return whether a name is the same IP address as another, in any notation.

    >>> _is_same_address("192.0.2.2", "::ffff:192.0.2.2"), _is_same_address("example.com", "192.0.2.2")
    (True, False)
    """
    try:
        first, second = (ipaddress.ip_address(each) for each in (name, address))
    except ValueError:
        return False
    return first == second or getattr(second, "ipv4_mapped", None) == first
