"""Authorizes requests to one server with its access token, and refreshes a token that the server refuses."""

from collections.abc import AsyncGenerator, Mapping
from time import monotonic
from typing import Protocol

import httpx2

from toolcrib.errors import ConfigError, StoreError
from toolcrib.execution.mcp.config import ServerConfig
from toolcrib.execution.mcp.errors import LOGIN, NotAuthorizedError, missing_scopes
from toolcrib.execution.oauth.exchange import ExchangedTokens
from toolcrib.execution.oauth.persons import Person, login_command
from toolcrib.execution.oauth.settings import AuthConfig
from toolcrib.execution.oauth.shared import SharedLogins
from toolcrib.execution.oauth.tokens import RefusedError, ServerTokens
from toolcrib.execution.oauth.vault import LoginVault
from toolcrib.redaction import KnownSecrets

_UNAUTHORIZED = 401
_OWN_ACCOUNT = "log in with an account of your own"
_LOGIN_CHECK_SECONDS = 1.0
"""Seconds between checks of the vault for a new login, which read a file."""


class _Tokens(Protocol):
    """Source of the access tokens of a server."""

    async def current_token(self) -> str | None: ...

    async def refresh_token(self, refused: str) -> str | None: ...

    async def note_wanted_scopes(self, scopes: list[str]) -> None: ...

    @property
    def is_empty(self) -> bool: ...


class BearerAuth(httpx2.Auth):
    """httpx authentication for one server; requests to other origins get no token.

    No lock is held during a request, so calls run in parallel. For a person (`is_personal`) no request is
    sent without a token, since the server might answer it for somebody else.
    """

    def __init__(
        self,
        advice: str,
        url: str,
        tokens: _Tokens,
        *,
        is_personal: bool = False,
        secrets: KnownSecrets | None = None,
    ) -> None:
        """Send the tokens to the origin of an address; each token is added to `secrets`, which hide it."""
        self._secrets = KnownSecrets() if secrets is None else secrets
        self._advice = advice
        self._origin = _origin(httpx2.URL(url))
        self._tokens = tokens
        self._is_personal = is_personal
        self.no_login_until = 0.0
        """The time until which requests need no `authorization`, because nobody has logged in."""

    async def authorization(self) -> dict[str, str] | None:
        """Return the header for a request: empty without a login, None if the request would fail.

        In that case `async_auth_flow` raises the reason.
        """
        if not self._is_personal and self._tokens.is_empty:
            self.no_login_until = monotonic() + _LOGIN_CHECK_SECONDS
            return {}
        try:
            token = await self._require_token()
        except (RefusedError, StoreError):
            return None
        if token is None:
            return None
        self._secrets.add_token(token)
        return {"authorization": f"Bearer {token}"}

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request with the token, and once more with a refreshed token if the server refuses it."""
        if _origin(request.url) != self._origin:
            yield request
            return
        request.extensions = {**request.extensions, LOGIN: self._advice}
        try:
            token = await self._require_token()
            if token is not None:
                self._set_token(request, token)
            response = yield request
            if response.status_code == _UNAUTHORIZED and token is not None:
                token = await self._tokens.refresh_token(token)
                if token is None:
                    return
                self._set_token(request, token)
                response = yield request
            await self._tokens.note_wanted_scopes(missing_scopes(response) or [])
        except (RefusedError, StoreError) as error:
            raise NotAuthorizedError(str(error), request=request) from error

    def _set_token(self, request: httpx2.Request, token: str) -> None:
        self._secrets.add_token(token)
        request.headers["authorization"] = f"Bearer {token}"

    async def _require_token(self) -> str | None:
        token = await self._tokens.current_token()
        if token is None and self._is_personal:
            raise RefusedError(f"it needs a login: {self._advice}")
        return token


def bearer_auth(
    server: str,
    config: ServerConfig,
    environ: Mapping[str, str],
    person: Person | None = None,
    secrets: KnownSecrets | None = None,
    logins: SharedLogins | None = None,
) -> BearerAuth | None:
    """Return the authentication for a server, of a person or shared; its tokens are added to the secrets.

    `logins` are those that other gateways share with this one.

    None if the settings have an Authorization header, or if there is no data folder for shared logins.

    Raises:
        ConfigError, StoreError: there is no data folder for the logins of persons.
    """
    if config.url is None or any(name.lower() == "authorization" for name in config.headers):
        return None
    auth, owner = config.auth or AuthConfig(), None if person is None else person.owner
    try:
        vault = LoginVault(environ, logins)
    except (ConfigError, StoreError):  # without a data folder there can be no login
        if person is not None:
            raise
        return None
    tokens: _Tokens = ServerTokens(vault, server, config.url, auth, owner=owner)
    if person is not None and auth.mode == "exchange":
        tokens = ExchangedTokens(person, server, config.url, auth)
    advice = login_command(server) if owner is None else _OWN_ACCOUNT
    return BearerAuth(advice, config.url, tokens, is_personal=person is not None, secrets=secrets)


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port
