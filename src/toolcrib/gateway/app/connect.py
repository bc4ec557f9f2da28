"""The pages on which persons log in to servers with their own accounts: `/connect/NAME`."""

import hashlib
import hmac
import html
import json
import logging
import os
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlencode, urlsplit
from weakref import WeakValueDictionary

import anyio
from anyio import to_thread
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from toolcrib.crib import Settings
from toolcrib.errors import ToolcribError, Unconfirmed
from toolcrib.execution import Principal
from toolcrib.execution.mcp import ServerConfig
from toolcrib.execution.oauth.flows import BegunLogin, begin_login, finish_login
from toolcrib.execution.oauth.persons import login_owner
from toolcrib.execution.oauth.settings import AuthConfig
from toolcrib.execution.oauth.shared import SharedLogins
from toolcrib.execution.oauth.vault import LoginVault, Owner, StoredLogin
from toolcrib.gateway.app.asgi import Headers, Scope, Send, send_bytes
from toolcrib.redaction import error_text, host_of

CONNECT = "/connect/"
_LOG = logging.getLogger("toolcrib.gateway")
_CALLBACK = "callback"
_TICKET_SECONDS = 600.0
"""Seconds for which a link is valid."""
_LOGIN_SECONDS = 600.0
"""Seconds that a login may take once it has started."""
_MOST = 1_000
"""Most logins at once, and most used links that are remembered."""
_NONCE = 12
_MAX_COOKIES = 8192
_PAGE = (
    "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
    "<title>toolcrib</title><body><h1>toolcrib</h1>{body}</body></html>"
)
_HEADERS: Headers = [
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (
        b"content-security-policy",
        b"default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
]
_BAD_LINK = (
    "This link is not valid, has already been used, or has expired. Make the call again to get another."
)
_OTHER_BROWSER = "This login was started elsewhere, or not at all. Nothing was done. Open the link again."
_FAILED = "The login did not succeed. The log of the gateway says why. Make the call again to try once more."


@dataclass(eq=False)
class PersonLogin:
    """The next login of one person to one server."""

    done: anyio.Event = field(default_factory=anyio.Event)
    asking: anyio.Event | None = None
    """Set when the question to the person is over; None if none is open."""
    answer: Unconfirmed | None = None
    """The outcome of the last question, if not a login."""


@dataclass(frozen=True, slots=True)
class LoginLink:
    """The page where one person logs in to one server."""

    url: str = field(repr=False)
    login: PersonLogin
    """The same for all links of the person to the server, until they have logged in."""


@dataclass(frozen=True, slots=True)
class _Ticket:
    """Allows one person to start one login."""

    id: str
    server: str
    owner: Owner
    ends: float


@dataclass(frozen=True, slots=True)
class _Pending:
    """A login that was started in a browser."""

    begun: BegunLogin
    auth: AuthConfig
    browser: str
    """The value of the cookie that the browser comes back with."""
    ends: float


class _Refused(Exception):  # noqa: N818 - it is a page, not an error of ours
    """Refuses a request with a page that gives the reason."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


class LoginPages:
    """Lets persons log in to servers whose mode is `per_user`.

    A link holds a ticket: sealed, for one principal and one server, good for some minutes and one login. It
    leads to a page that says who would log in where, so that neither a program that looks at links nor
    another web page begins a login, and somebody who was sent the link of another sees it. From there the
    browser goes to the authorization server, which sends it back with the state and the cookie that the login
    began with. Nothing that a request says decides where a browser is sent.
    """

    def __init__(
        self,
        settings: Callable[[], Settings],
        base: Callable[[], str | None],
        environ: Mapping[str, str] | None = None,
        *,
        shared: Callable[[], SharedLogins | None] = lambda: None,
        clock: Callable[[], float] = time.time,
        key: bytes | None = None,
    ) -> None:
        """Serve the servers of some settings; `base` returns the address for browsers.

        `shared` returns the logins that gateways share. Processes with one `key` open each other's links.
        """
        self.on_login: Callable[[str, Owner], Awaitable[None]] | None = None
        """Called when a person has logged in to a server."""
        self._shared = shared
        self._settings, self._base, self._clock = settings, base, clock
        self._environ = os.environ if environ is None else environ
        self._key = secrets.token_bytes(32) if key is None else key
        self._used: dict[str, float] = {}
        self._pending: dict[str, _Pending] = {}
        self._clients: dict[tuple[str, str, str], tuple[AuthConfig, StoredLogin]] = {}
        self._waiting: WeakValueDictionary[tuple[str, Owner], PersonLogin] = WeakValueDictionary()

    def link(self, principal: Principal | None, server: str) -> LoginLink | None:
        """Return the page where a person logs in to a server.

        None if there is none: the server has no logins of persons, the person is unknown or the operator of
        this gateway, or no browser reaches the gateway safely.
        """
        base, config = self._base(), self._settings().servers.get(server)
        mode = None if config is None or config.auth is None else config.auth.mode
        if base is None or mode != "per_user" or principal is None:
            return None
        owner = login_owner(principal)
        if owner is None or not all(owner):
            return None
        login = self._waiting.setdefault((server, owner), PersonLogin())
        query = urlencode(
            {"ticket": self._seal_ticket(_Ticket(secrets.token_hex(16), server, owner, self._ends))}
        )
        return LoginLink(f"{base}{CONNECT}{server}?{query}", login)

    @property
    def _ends(self) -> float:
        return self._clock() + _TICKET_SECONDS

    async def answer(self, scope: Scope, send: Send) -> None:
        """Answer a request for one of the pages."""
        name, _, rest = scope["path"].removeprefix(CONNECT).partition("/")
        try:
            config, query = self._find_server(name, rest), _read_query(scope["query_string"])
            cookies = _read_cookies(scope["headers"])
            if rest == _CALLBACK and scope["method"] == "GET":
                await self._finish_login(name, query, cookies)
                body = (
                    "<p>You are logged in. You can close this page, and go back to where you came from.</p>"
                )
                await _send_page(send, 200, body)
            elif "go" in query and scope["method"] == "GET":
                await self._start_login(name, config, query, cookies, send)
            else:
                await self._send_question(name, config, query, send)
        except _Refused as refused:
            await _send_page(send, refused.status, f"<p>{html.escape(refused.text)}</p>")

    def _find_server(self, name: str, rest: str) -> ServerConfig:
        config = self._settings().servers.get(name) if rest in {"", _CALLBACK} else None
        if config is None or config.disabled or config.auth is None or config.auth.mode != "per_user":
            raise _Refused(404, "There is nothing here.")
        return config

    async def _send_question(
        self, name: str, config: ServerConfig, query: dict[str, str], send: Send
    ) -> None:
        """Send the page that names person and server, with a link that only this browser can use."""
        ticket = self._open_ticket(query.get("ticket", ""), name)
        browser = secrets.token_urlsafe(32)
        go = urlencode({"ticket": query["ticket"], "go": self._browser_mark(ticket, browser)})
        issuer, subject = map(html.escape, ticket.owner)
        place = html.escape(host_of(config.url or ""))
        body = (
            f"<p>Log in to <b>{html.escape(name)}</b> ({place}) for <b>{subject}</b> ({issuer})?</p>"
            f"<p>What {subject} does there through this gateway then uses the account that you log in with. "
            f"If you are not {subject}, close this page.</p><p><a href='?{html.escape(go)}'>Log in</a></p>"
        )
        await _send_page(
            send, 200, body, [self._make_cookie("toolcrib-connect", browser, f"{CONNECT}{name}", "Strict")]
        )

    async def _start_login(
        self, name: str, config: ServerConfig, query: dict[str, str], cookies: dict[str, str], send: Send
    ) -> None:
        """Use up a ticket, and redirect the browser to the authorization server."""
        ticket = self._open_ticket(query.get("ticket", ""), name)
        mark = self._browser_mark(ticket, cookies.get("toolcrib-connect", ""))
        if not hmac.compare_digest(mark.encode(), query["go"].encode()):
            raise _Refused(403, _OTHER_BROWSER)
        now = self._clock()
        self._used = {each: ends for each, ends in self._used.items() if ends > now}
        self._pending = {state: each for state, each in self._pending.items() if each.ends > now}
        if len(self._used) >= _MOST or len(self._pending) >= _MOST:
            raise _Refused(503, "Too many logins are in progress. Try again later.")
        self._used[ticket.id] = ticket.ends
        try:
            begun, auth = await self._prepare_login(name, config, ticket.owner)
        except ToolcribError as error:
            _LOG.warning("no login to server %r could be started: %s", name, error_text(error))
            raise _Refused(502, _FAILED) from error
        browser = secrets.token_urlsafe(32)
        self._pending[begun.state] = _Pending(begun, auth, browser, now + _LOGIN_SECONDS)
        path = f"{CONNECT}{name}/{_CALLBACK}"
        cookie = self._make_cookie(_cookie_name(begun.state), browser, path, "Lax")
        await _send_page(send, 302, "", [(b"location", begun.address.encode("latin-1", "replace")), cookie])

    async def _prepare_login(
        self, name: str, config: ServerConfig, owner: Owner
    ) -> tuple[BegunLogin, AuthConfig]:
        expanded = config.expanded(self._environ)
        url, auth = expanded.url or "", expanded.auth or AuthConfig()
        redirect = f"{self._base() or ''}{CONNECT}{name}/{_CALLBACK}"
        earlier = await to_thread.run_sync(LoginVault(self._environ, self._shared()).get, name, url, owner)
        known = self._clients.get((name, url, redirect))
        client = known[1] if known is not None and known[0] == auth else None
        begun = await begin_login(name, url, auth, redirect, owner, earlier=earlier, client=client)
        self._clients[name, url, redirect] = auth, begun.login
        return begun, auth

    async def _finish_login(self, name: str, query: dict[str, str], cookies: dict[str, str]) -> None:
        """Store the login of a browser that comes back, if it is the browser that started it; once."""
        state = query.get("state", "")
        pending = self._pending.get(state)
        browser = cookies.get(_cookie_name(state), "")
        if (
            pending is None
            or pending.begun.login.server != name
            or pending.ends <= self._clock()
            or not hmac.compare_digest(browser.encode(), pending.browser.encode())
        ):
            raise _Refused(403, _OTHER_BROWSER)
        del self._pending[state]
        begun, code, iss = pending.begun, query.get("code", ""), query.get("iss")
        if "error" in query or not code:
            raise _Refused(403, "The login was refused. You can close this page.")
        try:
            login = await finish_login(begun, pending.auth, code=code, state=state, iss=iss)
            await to_thread.run_sync(LoginVault(self._environ, self._shared()).put, login)
        except ToolcribError as error:
            _LOG.warning("a login to server %r failed: %s", name, error_text(error))
            raise _Refused(502, _FAILED) from error
        owner = begun.login.owner or ("", "")
        self.end_wait(name, owner)
        if self.on_login is not None:
            await self.on_login(name, owner)

    def end_wait(self, server: str, owner: Owner) -> None:
        """Have calls go on that wait for the login of a person to a server."""
        waiting = self._waiting.pop((server, owner), None)
        if waiting is not None:
            waiting.done.set()

    def _seal_ticket(self, ticket: _Ticket) -> str:
        nonce = secrets.token_bytes(_NONCE)
        text = json.dumps([ticket.id, ticket.server, *ticket.owner, ticket.ends]).encode()
        return urlsafe_b64encode(nonce + AESGCM(self._key).encrypt(nonce, text, None)).decode().rstrip("=")

    def _open_ticket(self, sealed: str, server: str) -> _Ticket:
        try:
            raw = urlsafe_b64decode(sealed + "=" * (-len(sealed) % 4))
            text = AESGCM(self._key).decrypt(raw[:_NONCE], raw[_NONCE:], None)
        except (ValueError, InvalidTag):
            raise _Refused(403, _BAD_LINK) from None
        name, wanted, issuer, subject, ends = json.loads(text)
        if wanted != server or ends <= self._clock() or name in self._used:
            raise _Refused(403, _BAD_LINK)
        return _Ticket(name, wanted, (issuer, subject), ends)

    def _browser_mark(self, ticket: _Ticket, browser: str) -> str:
        """Return a digest that only the page of this browser has."""
        key = self._key if browser else secrets.token_bytes(32)  # without a cookie nothing fits
        return hmac.digest(key, f"{ticket.id} {browser}".encode(), "sha256").hex()

    def _make_cookie(self, name: str, value: str, path: str, same_site: str) -> tuple[bytes, bytes]:
        base = urlsplit(self._base() or "")
        secure, path = "; Secure" if base.scheme == "https" else "", f"{base.path}{path}"
        facts = f"Path={path}; Max-Age={_LOGIN_SECONDS:.0f}; HttpOnly; SameSite={same_site}{secure}"
        return b"set-cookie", f"{name}={value}; {facts}".encode("latin-1")


def _cookie_name(state: str) -> str:
    """Return the name of the cookie of one login: a browser may have several."""
    return f"toolcrib-login-{hashlib.sha256(state.encode()).hexdigest()[:16]}"


def _read_query(text: bytes) -> dict[str, str]:
    """Return the query parameters; a repeated one is refused."""
    try:
        given = parse_qs(text.decode("latin-1"), keep_blank_values=True, max_num_fields=50)
    except ValueError:
        given = {"": ["", ""]}
    if any(len(found) > 1 for found in given.values()):
        raise _Refused(400, "This request is not supported here.")
    return {name: found[0] for name, found in given.items()}


def _read_cookies(headers: Headers) -> dict[str, str]:
    text = "; ".join(value.decode("latin-1") for name, value in headers if name == b"cookie")
    try:
        return {name: each.value for name, each in SimpleCookie(text[:_MAX_COOKIES]).items()}
    except CookieError:
        return {}


async def _send_page(send: Send, status: int, body: str, more: Headers | None = None) -> None:
    content = _PAGE.format(body=body).encode() if body else b""
    await send_bytes(send, status, content, b"text/html; charset=utf-8", [*_HEADERS, *(more or ())])
