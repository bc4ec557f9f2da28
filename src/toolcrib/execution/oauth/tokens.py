"""Access tokens of one server: loaded from the vault, refreshed before they expire, and stored again.

Three facts decide the order of steps in a refresh:

- A refresh token is often valid for one use. So only one task of one process may refresh: `_refresh_once`
  takes a lock of this object, then a lock file that other processes respect, then a lock of the store that
  gateways share, if there is one. After these it looks whether the vault has a newer token
  (`_token_refreshed_elsewhere`), and uses that.
- The server may have replaced the token as soon as the request was sent. So a refresh is shielded from the
  cancellation of its caller, and the new tokens are in the vault before any call uses them.
- A server that is down must not make every call wait. So a failed refresh is remembered for `_RETRY_SECONDS`,
  and a token that is due but has not expired is used meanwhile.
"""

import base64
import secrets
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import httpx2
from anyio import to_thread

from toolcrib.errors import LoginError, StoreError, VaultError
from toolcrib.execution.mcp.errors import place
from toolcrib.execution.oauth.discovery import (
    TOKEN_ENDPOINT,
    check_endpoint,
    choose_secret_method,
    discover,
    fetch_json,
    naming_endpoint,
    oauth_client,
)
from toolcrib.execution.oauth.persons import login_command
from toolcrib.execution.oauth.settings import AuthConfig
from toolcrib.execution.oauth.vault import LoginVault, Owner, StoredLogin, login_id
from toolcrib.paths import lock_path

_MAX_REFRESH_AHEAD_SECONDS = 60.0
"""A token is refreshed at most this long before it expires: longer than one call usually takes."""
_MAX_REFRESH_AHEAD_SHARE = 0.1
"""The same as a share of its lifetime, for tokens that live only minutes."""
_REFRESH_TIMEOUT = 20.0
_LOCK_SECONDS = 15.0
"""Seconds to wait for another gateway that refreshes the same token."""
_RETRY_SECONDS = 5.0
"""Seconds after a failed refresh in which no other is tried."""
_POLL_SECONDS = 0.05
_OK = 200
_FINAL_REFUSALS = frozenset({"invalid_grant", "invalid_client", "unauthorized_client"})
"""Error codes after which repeating the request is useless."""
_ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_ASSERTION_SECONDS = 300
"""Validity of an assertion that authenticates the client."""
_CLOCK_SKEW_SECONDS = 120
"""An assertion is dated back by this much, for servers whose clocks are slow."""


class RefusedError(Exception):
    """An authorization server gave no token, or could not be asked for one."""

    def __init__(self, reason: str, code: str = "") -> None:
        super().__init__(reason)
        self.code = code
        """The error code of RFC 6749, such as `invalid_grant`; empty if there is none."""


class ServerTokens:
    """The access tokens of one server, for one owner."""

    def __init__(
        self,
        vault: LoginVault,
        server: str,
        url: str,
        auth: AuthConfig,
        *,
        owner: Owner | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._vault = vault
        self._server, self._url, self._owner = server, url, owner
        self._auth = auth
        self._is_program = owner is None and auth.mode in {"client_credentials", "exchange"}
        """Whether the program itself has the access, so that nobody logs in."""
        self._clock = clock
        self._lock = anyio.Lock()
        self._failure: tuple[float, str | None, RefusedError] | None = None

    async def current_token(self) -> str | None:
        """Return a valid access token; None if nobody has logged in.

        Raises:
            RefusedError: the login has ended, or the token has expired and cannot be refreshed now.
            VaultError: the vault cannot be opened.
        """
        login = self._load_login()
        if login is None:
            return await self._refresh_once(None) if self._is_program else None
        token = login.access_token
        if token is None:
            if not self._is_program:
                raise RefusedError(self._with_advice("the login has ended"), "invalid_grant")
            return await self._refresh_once(None)
        if not self._is_due(login) or not self._can_refresh(login):
            return token
        try:
            return await self._refresh_once(token)
        except RefusedError as error:
            if error.code in _FINAL_REFUSALS or self._has_expired(login):
                raise
            return token  # due, but not expired

    @property
    def is_empty(self) -> bool:
        """Whether there is no token, and none without a login by a person."""
        try:
            return not self._is_program and self._load_login() is None
        except StoreError:  # `current_token` raises it
            return False

    async def refresh_token(self, refused: str) -> str | None:
        """Return another access token than the one that the server refused; None if there cannot be one.

        Raises:
            RefusedError: the login has ended, or no token is available now.
            VaultError: the vault cannot be opened.
        """
        login = self._load_login()
        if login is None:
            return None
        if login.access_token == refused and not self._can_refresh(login):
            return None
        return await self._refresh_once(refused)

    async def note_wanted_scopes(self, scopes: list[str]) -> None:
        """Store scopes that the next login must request as well.

        Raises:
            VaultError: the vault cannot be opened or written.
        """
        login = self._load_login() if scopes else None
        if login is None:
            return
        wanted = tuple(dict.fromkeys((*login.wanted_scopes, *scopes)))
        if wanted == login.wanted_scopes:
            return
        async with self._hold_login():  # else the tokens that another process has stored would be lost
            latest = self._load_login()
            if latest is not None:
                await to_thread.run_sync(self._vault.put, latest.replace(wanted_scopes=wanted))

    def _load_login(self) -> StoredLogin | None:
        login = self._vault.get(self._server, self._url, self._owner)
        if login is not None and self._is_program and login.client_id != self._auth.client_id:
            return None  # of a client that was configured before
        return login

    def _is_due(self, login: StoredLogin) -> bool:
        return is_due(login, self._clock())

    def _has_expired(self, login: StoredLogin) -> bool:
        return login.expires_at is not None and login.expires_at <= self._clock()

    def _can_refresh(self, login: StoredLogin) -> bool:
        return self._is_program or login.refresh_token is not None

    def _with_advice(self, reason: str) -> str:
        if self._is_program:
            return f"{reason}; check the client_id and its secret or key in the configuration"
        if self._owner is not None:
            return f"{reason}; log in again"
        return f"{reason}; log in again: {login_command(self._server)}"

    async def _refresh_once(self, stale: str | None) -> str:
        """Refresh the token, once for all tasks and processes that wait for it."""
        async with self._lock:
            if (known := self._token_refreshed_elsewhere(stale)) is not None:
                return known
            if self._failure is not None:  # every waiting task would otherwise repeat the failed request
                until, failed, error = self._failure
                if failed == stale and self._clock() < until:
                    raise RefusedError(str(error), error.code)
            try:
                with anyio.CancelScope(shield=True), anyio.fail_after(_REFRESH_TIMEOUT):
                    async with self._hold_login():
                        fresh = (
                            self._token_refreshed_elsewhere(stale) or await self._request_and_store_token()
                        )
            except TimeoutError:
                refused = RefusedError("its authorization server did not answer in time")
            except StoreError as error:
                if self._vault.shared is None or isinstance(error, VaultError):
                    raise
                # The token of another gateway may be newer, and to refresh an older one ends the login.
                refused = RefusedError(f"the logins of all gateways cannot be reached ({error.reason})")
            except RefusedError as error:
                refused = error
            else:
                self._failure = None
                return fresh
            self._failure = self._clock() + _RETRY_SECONDS, stale, refused
            raise refused

    @asynccontextmanager
    async def _hold_login(self) -> AsyncGenerator[None, None]:
        """Hold the login against other processes and gateways, and take over what these have stored."""
        name = login_id(self._server, self._url, self._owner)
        async with _lock_file(self._vault.folder / f"{name}.lock"):
            shared = self._vault.shared
            if shared is None:
                yield
                return
            async with shared.hold(name, _LOCK_SECONDS):
                await to_thread.run_sync(self._vault.take_shared, name)
                yield

    def _token_refreshed_elsewhere(self, stale: str | None) -> str | None:
        """Return a token that another task or process has obtained since `stale`; None if there is none."""
        login = self._load_login()
        if login is None or login.access_token in {None, stale} or self._has_expired(login):
            return None
        return login.access_token

    async def _request_and_store_token(self) -> str:
        """Request another token, store it, and return it."""
        login = self._load_login()
        async with oauth_client(self._server, self._url, self._auth.issuer) as client:
            if login is None:
                login = await program_login(client, self._server, self._url, self._auth)
            if self._is_program:
                form = {"grant_type": "client_credentials"}
                if login.scopes:
                    form["scope"] = " ".join(login.scopes)
            else:
                form = {"grant_type": "refresh_token", "refresh_token": login.refresh_token or ""}
            try:
                payload = await request_token(client, login, form, self._auth)
            except RefusedError as error:
                if error.code in _FINAL_REFUSALS:
                    ended = login.replace(access_token=None, refresh_token=None, expires_at=None)
                    await to_thread.run_sync(self._vault.put, ended)
                    raise RefusedError(self._with_advice(str(error)), error.code) from error
                raise
        fresh = with_tokens(login, payload, self._clock())
        await to_thread.run_sync(self._vault.put, fresh)
        return fresh.access_token or ""


def is_due(login: StoredLogin, now: float) -> bool:
    """Return whether an access token has expired, or is about to expire."""
    ahead = (
        min(_MAX_REFRESH_AHEAD_SECONDS, _MAX_REFRESH_AHEAD_SHARE * (login.lifetime or 0.0))
        if login.lifetime
        else _MAX_REFRESH_AHEAD_SECONDS
    )
    return login.expires_at is not None and login.expires_at - ahead <= now


async def program_login(client: httpx2.AsyncClient, server: str, url: str, auth: AuthConfig) -> StoredLogin:
    """Return a login of the program itself, without tokens.

    Raises:
        RefusedError: the server has no authorization server, or not the configured one.
    """
    try:
        found = await discover(client, server, url, auth.issuer)
    except LoginError as error:
        raise RefusedError(error.reason) from error
    method = choose_secret_method(found.token_endpoint_auth_methods_supported)
    return StoredLogin(
        server=server,
        url=url,
        issuer=found.issuer,
        token_endpoint=found.token_endpoint,
        revocation_endpoint=found.revocation_endpoint,
        client_id=auth.client_id or "",
        auth_method="private_key_jwt" if auth.private_key else method,
        scopes=auth.scopes or tuple(found.scopes),
        resource=found.resource,
    )


def with_tokens(login: StoredLogin, payload: dict[str, Any], now: float) -> StoredLogin:
    """Return a login with the tokens of a token response; fields that are not in it keep their values.

    Raises:
        RefusedError: the response has no bearer token.
    """
    token, kind = payload.get("access_token"), str(payload.get("token_type", "bearer"))
    if not isinstance(token, str) or not token.isascii() or kind.lower() != "bearer":
        raise RefusedError("its authorization server gave no bearer token")
    try:
        lifetime = max(0.0, float(payload["expires_in"]))
    except (KeyError, TypeError, ValueError):
        lifetime = None
    scope = payload.get("scope")
    return login.replace(
        access_token=token,
        refresh_token=payload.get("refresh_token") or login.refresh_token,
        expires_at=None if lifetime is None else now + lifetime,
        lifetime=lifetime,
        scopes=tuple(scope.split()) if isinstance(scope, str) and scope else login.scopes,
    )


async def request_token(
    client: httpx2.AsyncClient, login: StoredLogin, form: dict[str, str], auth: AuthConfig
) -> dict[str, Any]:
    """Send a form with client authentication to the token endpoint, and return the token response.

    Raises:
        RefusedError: it has no token.
    """
    if login.resource is not None:
        form = {**form, "resource": login.resource}
    form, headers = await authenticate_client(login, form, auth)
    if "authorization" in headers and form["grant_type"] == "client_credentials":
        del form["client_id"]  # RFC 6749 allows one way to authenticate; some servers refuse two
    try:
        endpoint = check_endpoint(login.server, login.token_endpoint)
        with naming_endpoint(login.server, TOKEN_ENDPOINT):
            status, payload = await fetch_json(
                client, httpx2.Request("POST", endpoint, data=form, headers=headers)
            )
    except LoginError as error:
        raise RefusedError(error.reason) from error
    if status == _OK and "access_token" in payload:
        return payload
    code = str(payload.get("error", ""))[:60]
    what = f"{code!r}" if code else f"status {status}"
    raise RefusedError(f"{place(login.token_endpoint)} refused it with {what}", code)


async def authenticate_client(
    login: StoredLogin, form: dict[str, str], auth: AuthConfig
) -> tuple[dict[str, str], dict[str, str]]:
    """Return a form and headers with the authentication of the client.

    Raises:
        RefusedError: its private key is invalid.
    """
    headers: dict[str, str] = {}
    form = {**form, "client_id": login.client_id}
    secret = auth.client_secret or login.client_secret
    if login.auth_method == "private_key_jwt":
        form["client_assertion_type"] = _ASSERTION_TYPE
        form["client_assertion"] = await to_thread.run_sync(_sign_assertion, login, auth.private_key or "")
    elif login.auth_method == "client_secret_basic" and secret:
        user = f"{quote(login.client_id, safe='')}:{quote(secret, safe='')}"
        headers["authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"
    elif login.auth_method == "client_secret_post" and secret:
        form["client_secret"] = secret
    return form, headers


def _sign_assertion(login: StoredLogin, key_file: str) -> str:
    """Return a JWT that authenticates the client (RFC 7523), valid for minutes and one use."""
    import jwt  # noqa: PLC0415 - only machines with a key need it
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    try:
        key = load_pem_private_key(Path(key_file).expanduser().read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        raise RefusedError(f"the private_key cannot be used: {getattr(error, 'strerror', error)}") from error
    algorithm = "RS256"
    if isinstance(key, ec.EllipticCurvePrivateKey):
        algorithm = {256: "ES256", 384: "ES384", 521: "ES512"}[key.curve.key_size]
    elif isinstance(key, ed25519.Ed25519PrivateKey):
        algorithm = "EdDSA"
    now = int(time.time())
    claims = {
        "iss": login.client_id,
        "sub": login.client_id,
        "aud": login.issuer or login.token_endpoint,
        "iat": now - _CLOCK_SKEW_SECONDS,
        "exp": now + _ASSERTION_SECONDS,
        "jti": secrets.token_urlsafe(16),
    }
    return jwt.encode(claims, key, algorithm=algorithm)  # type: ignore[arg-type] # of the kinds above


@asynccontextmanager
async def _lock_file(path: Path) -> AsyncGenerator[None, None]:
    """Hold a lock file against other processes, without blocking the event loop."""
    await to_thread.run_sync(_create_file, path)
    with ExitStack() as stack:
        while True:
            try:
                # Tried without waiting and polled: a thread that waits for the lock could not be cancelled.
                stack.enter_context(lock_path(path, within=-1))
                break
            except TimeoutError:
                await anyio.sleep(_POLL_SECONDS)
        yield


def _create_file(path: Path) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError as error:
        raise StoreError(str(path), f"it cannot be made: {error.strerror}") from error
