"""Logins to the console: one-time codes, and browsers that hold a cookie and a key.

A cookie is sent to every port of its host, so that a server at another port of this machine could read it.
Therefore it opens nothing without the key, which the browser keeps for this origin alone and sends in a
header. Neither is ever in an address or in a page.
"""

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie

from toolcrib.execution.principal import Principal
from toolcrib.gateway.app.asgi import Headers

CODE_SECONDS = 3600.0
"""Seconds for which a one-time code is valid."""
LOGIN_SECONDS = 12 * 3600.0
"""Seconds after which a browser has to log in again."""
_MOST = 1_000
_MAX_COOKIES = 8192


@dataclass(frozen=True, slots=True, eq=False)
class Login:
    """A browser that is logged in."""

    principal: Principal
    authorization: str | None
    """The header that it logged in with, which is checked at each request; None with a one-time code."""
    key_digest: bytes
    ends: float


class ConsoleLogins:
    """Makes one-time codes, and finds the login of a request."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._codes: dict[bytes, tuple[Principal, float]] = {}
        self._logins: dict[bytes, Login] = {}

    def make_code(self, principal: Principal) -> str:
        """Return a code that logs a principal in, once."""
        now = self._clock()
        self._codes = {digest: each for digest, each in self._codes.items() if each[1] > now}
        code = secrets.token_urlsafe(24)
        self._codes[_digest(code)] = principal, now + CODE_SECONDS
        while len(self._codes) > _MOST:
            del self._codes[next(iter(self._codes))]
        return code

    def redeem(self, code: str) -> Principal | None:
        """Return the principal of a code, which is used up; None if it is not valid."""
        principal, ends = self._codes.pop(_digest(code), (None, 0.0))
        return principal if ends > self._clock() else None

    def begin(self, principal: Principal, authorization: str | None) -> tuple[str, str]:
        """Log a browser in; return the value of its cookie and its key."""
        now = self._clock()
        self._logins = {digest: each for digest, each in self._logins.items() if each.ends > now}
        while len(self._logins) >= _MOST:
            del self._logins[next(iter(self._logins))]
        cookie, key = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        self._logins[_digest(cookie)] = Login(principal, authorization, _digest(key), now + LOGIN_SECONDS)
        return cookie, key

    def find(self, cookie: str, key: str) -> Login | None:
        """Return the login of a cookie and its key."""
        login = self._logins.get(_digest(cookie))
        if login is None or login.ends <= self._clock():
            return None
        return login if hmac.compare_digest(login.key_digest, _digest(key)) else None

    def end(self, cookie: str) -> None:
        """Log a browser out."""
        self._logins.pop(_digest(cookie), None)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="replace")).digest()


def read_cookie(headers: Headers, name: str) -> str:
    """Return the value of a cookie of a request; empty without it."""
    text = "; ".join(value.decode("latin-1") for key, value in headers if key == b"cookie")
    try:
        found = SimpleCookie(text[:_MAX_COOKIES]).get(name)
    except CookieError:
        return ""
    return "" if found is None else found.value
