"""Logins to a server: with a browser, with a code on another device, or as a program.

There is one authorization code flow with PKCE. `begin_login` finds the authorization server, registers a
client if none is known, and returns the address that the browser goes to; `finish_login` exchanges the code
that the browser brings back. `log_in` runs both around a callback server on this machine. The gateway runs
them around two of its own pages, where the browser may be anywhere.

The SDK's `OAuthClientProvider` is not used: it is bound to one request that waits for the whole flow, which a
gateway's pages cannot, and it leaves checks to its caller that are made here (PKCE support, secure endpoints,
addresses in private networks).
"""

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

import anyio
import httpx2
from anyio import to_thread
from mcp.shared.auth_utils import resource_url_from_server_url

from toolcrib.errors import LoginError
from toolcrib.execution.mcp.config import ServerConfig
from toolcrib.execution.mcp.errors import reason_of
from toolcrib.execution.oauth.callback_server import listen_for_callback
from toolcrib.execution.oauth.discovery import (
    DEVICE_ENDPOINT,
    check_endpoint,
    check_reach,
    discover,
    fetch_json,
    is_unauthorized,
    make_client_login,
    naming_endpoint,
    oauth_client,
)
from toolcrib.execution.oauth.settings import AuthConfig
from toolcrib.execution.oauth.tokens import (
    RefusedError,
    ServerTokens,
    authenticate_client,
    request_token,
    with_tokens,
)
from toolcrib.execution.oauth.vault import LoginVault, Owner, StoredLogin
from toolcrib.redaction import hide_secrets

Show = Callable[[str, str | None], None]
"""Shows a person the address to open in a browser, and the code to enter there, if there is one."""
_LOGIN_TIMEOUT = 300.0
"""Seconds that a person has for a login."""
_DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_POLL_SECONDS = 5.0
"""Default interval between two requests for the token (RFC 8628, 3.2)."""
_SLOW_DOWN_SECONDS = 5.0
"""Added to the interval after `slow_down` (RFC 8628, 3.5)."""
_MAX_POLL_SECONDS = 60.0
_SUCCESS = frozenset({200, 201})
_BROWSER_CLIENT: dict[str, Any] = {
    "grant_types": ["authorization_code", "refresh_token"],
    "response_types": ["code"],
}
"""Metadata of a client that is registered for a login with a browser."""
_DEVICE_CLIENT: dict[str, Any] = {
    "grant_types": [_DEVICE_GRANT, "refresh_token"],
    "response_types": [],
    "redirect_uris": [],
    "application_type": "native",
}
"""Metadata of a client that is registered for a login with a device."""


async def log_in(
    server: str,
    config: ServerConfig,
    *,
    show: Show,
    device: bool = False,
    within: float = _LOGIN_TIMEOUT,
    environ: Mapping[str, str] | None = None,
) -> StoredLogin:
    """Log in to a server, and store the login; the settings must be expanded.

    Raises:
        LoginError: it failed, or the server wants no login.
        VaultError: it cannot be stored.
    """
    if config.url is None:
        raise LoginError(server, "it is started here, and needs no login")
    if any(name.lower() == "authorization" for name in config.headers):
        raise LoginError(server, "its settings have an Authorization header; remove that first")
    vault = LoginVault(environ)
    earlier = await to_thread.run_sync(vault.get, server, config.url)
    auth = config.auth or AuthConfig()
    try:
        if auth.mode in {"client_credentials", "exchange"}:
            return await _log_in_as_program(vault, server, config.url, auth)
        flow = _log_in_with_device if device else _log_in_with_browser
        with anyio.fail_after(within):
            login = await flow(server, config.url, auth, earlier, show)
    except TimeoutError:
        raise LoginError(server, f"nobody logged in within {within:.0f} s") from None
    except RefusedError as error:
        raise LoginError(server, hide_secrets(str(error))[:500]) from error
    except httpx2.HTTPError as error:
        raise LoginError(server, reason_of(error)) from error
    await to_thread.run_sync(vault.put, login)
    return login


async def _log_in_as_program(vault: LoginVault, server: str, url: str, auth: AuthConfig) -> StoredLogin:
    await to_thread.run_sync(vault.remove, server, url)
    await ServerTokens(vault, server, url, auth).current_token()
    login = vault.get(server, url)
    assert login is not None  # noqa: S101 - stored by `current_token`
    return login


async def _log_in_with_browser(
    server: str, url: str, auth: AuthConfig, earlier: StoredLogin | None, show: Show
) -> StoredLogin:
    """Run the authorization code flow with a browser on this machine.

    Raises:
        LoginError: it was refused, or the server does not accept the token.
    """
    try:
        async with listen_for_callback(auth.redirect_port) as callback:
            begun = await begin_login(server, url, auth, callback.address, earlier=earlier)
            callback.expect(begun.state)
            show(begun.address, None)
            answer = await callback.wait()
    except OSError as error:
        if isinstance(error, LoginError | TimeoutError):
            raise
        raise LoginError(server, f"port {auth.redirect_port} is taken: {error.strerror}") from error
    if answer.error or not answer.code:
        raise LoginError(server, f"it was refused: {answer.error or 'there is no code'}")
    login = await finish_login(begun, auth, code=answer.code, state=answer.state, iss=answer.iss)
    async with oauth_client(server, url, auth.issuer) as http:
        if await is_unauthorized(http, server, url, login.access_token):
            raise LoginError(server, "it does not accept the token that its authorization server gave")
    return login


@dataclass(frozen=True, slots=True)
class BegunLogin:
    """A login that waits for the redirect of the browser."""

    address: str = field(repr=False)
    """The address that the browser goes to."""
    redirect: str
    """The address that it is sent back to."""
    state: str = field(repr=False)
    verifier: str = field(repr=False)
    """The PKCE code verifier."""
    login: StoredLogin
    """The login, without tokens."""
    names_itself: bool
    """Whether the authorization server sends its issuer with the redirect (RFC 9207)."""


async def begin_login(  # noqa: PLR0913 - independent facts
    server: str,
    url: str,
    auth: AuthConfig,
    redirect: str,
    owner: Owner | None = None,
    *,
    earlier: StoredLogin | None = None,
    client: StoredLogin | None = None,
) -> BegunLogin:
    """Find the authorization server of an MCP server, and return the address that a person's browser goes to.

    Args:
        server: its name.
        url: its address.
        auth: its settings.
        redirect: the redirect URI.
        owner: the owner of the login; None for the operator.
        earlier: their previous login, whose missing scopes are requested too.
        client: a previous login of anybody, whose registered client is used again.

    Raises:
        LoginError: the server has no login with a browser, or it is not secure.
    """
    async with oauth_client(server, url, auth.issuer) as http:
        found = await discover(http, server, url, auth.issuer, guess=True)
        if found.authorization_endpoint is None:
            raise LoginError(server, "its authorization server does not support login with a browser")
        if "S256" not in (found.code_challenge_methods_supported or ()):
            raise LoginError(server, "its authorization server does not support PKCE")
        if client is None or (client.issuer, client.token_endpoint) != (found.issuer, found.token_endpoint):
            metadata = _BROWSER_CLIENT | {"redirect_uris": [redirect]}
            if owner is None:  # the redirect address is on this machine
                metadata["application_type"] = "native"
            client = await make_client_login(http, server, url, auth, found, metadata)
    scopes = found.choose_scopes(auth.scopes, _scopes_after_refusal(earlier))
    resource = found.resource or resource_url_from_server_url(url)
    state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(48)
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
    query = {
        "response_type": "code",
        "client_id": client.client_id,
        "redirect_uri": redirect,
        "state": state,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
        "resource": resource,
    } | ({"scope": " ".join(scopes)} if scopes else {})
    endpoint = check_endpoint(server, found.authorization_endpoint)
    await check_reach(server, url, auth.issuer, endpoint)
    address = f"{endpoint}{'&' if urlsplit(endpoint).query else '?'}{urlencode(query)}"
    login = client.replace(owner=owner, resource=resource, scopes=scopes)
    is_named = found.authorization_response_iss_parameter_supported
    return BegunLogin(address, redirect, state, verifier, login, is_named)


async def finish_login(
    begun: BegunLogin, auth: AuthConfig, *, code: str, state: str, iss: str | None
) -> StoredLogin:
    """Exchange the code of an authorization server for tokens, and return the login with them.

    Raises:
        LoginError: the answer is of another login or another authorization server, or the code is refused.
    """
    login, server = begun.login, begun.login.server
    if not hmac.compare_digest(state.encode(), begun.state.encode()):
        raise LoginError(server, "the answer belongs to another login")
    if iss is None and begun.names_itself:
        raise LoginError(server, "the answer does not say which authorization server it is from")
    # Compared letter by letter (RFC 9207): the SDK's `issuers_match` lets a trailing slash differ.
    if iss is not None and iss != login.issuer:
        raise LoginError(server, "the answer is from another authorization server")
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": begun.redirect}
    try:
        async with oauth_client(server, login.url, auth.issuer) as http:
            payload = await request_token(http, login, form | {"code_verifier": begun.verifier}, auth)
        return with_tokens(login, payload, time.time())
    except RefusedError as error:
        raise LoginError(server, str(error)) from error


def _scopes_after_refusal(earlier: StoredLogin | None) -> tuple[str, ...]:
    """Return the scopes of an earlier login and the missing ones; none if no scope was missing."""
    return (*earlier.scopes, *earlier.wanted_scopes) if earlier and earlier.wanted_scopes else ()


async def _log_in_with_device(
    server: str, url: str, auth: AuthConfig, earlier: StoredLogin | None, show: Show
) -> StoredLogin:
    """Run the device authorization flow (RFC 8628): a person enters a code on another device.

    Raises:
        LoginError: the server does not support it.
        RefusedError: the login was refused, or has expired.
    """
    async with oauth_client(server, url, auth.issuer) as client:
        found = await discover(client, server, url, auth.issuer)
        if found.device_authorization_endpoint is None:
            raise LoginError(
                server, "its authorization server does not support login by device; leave --device out"
            )
        login = await make_client_login(client, server, url, auth, found, _DEVICE_CLIENT)
        asked = found.choose_scopes(auth.scopes, _scopes_after_refusal(earlier))
        form = {"client_id": login.client_id}
        form |= {"scope": " ".join(asked)} if asked else {}
        form |= {"resource": found.resource} if found.resource else {}
        endpoint = check_endpoint(server, found.device_authorization_endpoint)
        with naming_endpoint(server, DEVICE_ENDPOINT):
            status, begun = await fetch_json(client, httpx2.Request("POST", endpoint, data=form))
        code, page = begun.get("device_code"), begun.get("verification_uri")
        if status not in _SUCCESS or not isinstance(code, str) or not isinstance(page, str):
            raise LoginError(server, f"no code could be obtained: {str(begun.get('error', status))[:60]}")
        shown = check_endpoint(server, str(begun.get("verification_uri_complete") or page))
        await check_reach(server, url, auth.issuer, shown)
        show(shown, str(begun.get("user_code", "")))
        payload = await _poll_for_token(client, login, auth, begun)
    return with_tokens(login.replace(scopes=asked), payload, time.time())


async def _poll_for_token(
    client: httpx2.AsyncClient, login: StoredLogin, auth: AuthConfig, begun: dict[str, Any]
) -> dict[str, Any]:
    """Request the token until the person has logged in, and return the answer with it."""
    interval = _read_seconds(begun.get("interval"), _POLL_SECONDS)
    form = {"grant_type": _DEVICE_GRANT, "device_code": str(begun["device_code"])}
    with anyio.fail_after(_read_seconds(begun.get("expires_in"), 900.0)):
        while True:
            await anyio.sleep(interval)
            try:
                return await request_token(client, login, form, auth)
            except RefusedError as error:
                if error.code == "slow_down":
                    interval = min(_MAX_POLL_SECONDS, interval + _SLOW_DOWN_SECONDS)
                elif error.code != "authorization_pending":
                    raise


def _read_seconds(value: Any, default: float) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    return min(float(value), 3600.0) if is_number else default


async def log_out(
    server: str,
    config: ServerConfig,
    *,
    owner: Owner | None = None,
    environ: Mapping[str, str] | None = None,
) -> tuple[bool, bool]:
    """Remove the login to a server; return whether there was one, and whether its tokens were revoked.

    Raises:
        VaultError: it cannot be changed.
    """
    vault, url = LoginVault(environ), config.url or ""
    try:
        login = await to_thread.run_sync(vault.get, server, url, owner)
    finally:
        known = await to_thread.run_sync(vault.remove, server, url, owner)
    return known, login is not None and await _revoke_tokens(login, config.auth or AuthConfig())


async def _revoke_tokens(login: StoredLogin, auth: AuthConfig) -> bool:
    """Revoke the tokens of a login at its authorization server (RFC 7009); return whether that succeeded."""
    token = login.refresh_token or login.access_token
    if login.revocation_endpoint is None or token is None:
        return False
    try:
        endpoint = check_endpoint(login.server, login.revocation_endpoint)
        form, headers = await authenticate_client(login, {"token": token}, auth)
        async with oauth_client(login.server, login.url, auth.issuer) as client:
            request = httpx2.Request("POST", endpoint, data=form, headers=headers)
            status, _ = await fetch_json(client, request)
    except (httpx2.HTTPError, LoginError, RefusedError):
        return False
    return status < 300  # noqa: PLR2004 - the statuses of success
