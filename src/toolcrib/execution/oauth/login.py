"""Logs in to a server: with a browser, with a code on another device, or as a program."""

import logging
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any
from urllib.parse import urljoin, urlsplit

import anyio
import httpx2
from anyio import to_thread
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.utils import is_valid_client_metadata_url, issuers_match
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from mcp.shared.auth_utils import resource_url_from_server_url
from pydantic import AnyUrl

from toolcrib.errors import LoginError
from toolcrib.execution.mcp.config import ServerConfig
from toolcrib.execution.mcp.errors import place, reason_of
from toolcrib.execution.oauth.callback import Callback, listening, state_of
from toolcrib.execution.oauth.device import device_login
from toolcrib.execution.oauth.discovery import (
    AUTHORITY_METADATA,
    CLIENT_NAME,
    REGISTRATION,
    SERVER,
    SERVER_METADATA,
    TOKEN_ENDPOINT,
    check_endpoint,
    check_reach,
    fetch_json,
    fetch_response,
    naming_endpoint,
    oauth_client,
    probe_request,
    secret_method,
)
from toolcrib.execution.oauth.settings import AuthConfig
from toolcrib.execution.oauth.tokens import RefusedError, ServerTokens, with_client, with_tokens
from toolcrib.execution.oauth.vault import LoginVault, Owner, StoredLogin
from toolcrib.redaction import hide_secrets

Show = Callable[[str, str | None], None]
"""Shows a person where to go with a browser, and the code to enter there, if there is one."""
_WITHIN = 300.0
"""Seconds that a person has for a login."""
_UNAUTHORIZED = 401
_AUTHORITY_PATHS = ("/oauth-authorization-server", "/openid-configuration")
"""What the addresses of the metadata of authorization servers have (RFC 8414)."""
_logging_in: ContextVar[bool] = ContextVar("logging_in", default=False)


def _without_secrets(_: logging.LogRecord) -> bool:
    """Drop what the SDK logs of a login of ours: it names states and answers, and is raised as well."""
    return not _logging_in.get()


logging.getLogger("mcp.client.auth.oauth2").addFilter(_without_secrets)


async def log_in(
    server: str,
    config: ServerConfig,
    *,
    show: Show,
    device: bool = False,
    within: float = _WITHIN,
    environ: Mapping[str, str] | None = None,
) -> StoredLogin:
    """Log in to a server, and keep what it gave; its settings must be expanded.

    Raises:
        LoginError: it failed, or the server wants no login.
        VaultError: it cannot be kept.
    """
    if config.url is None:
        raise LoginError(server, "it is started here, and needs no login")
    if any(name.lower() == "authorization" for name in config.headers):
        raise LoginError(server, "its settings have an Authorization header; remove that first")
    vault = LoginVault(environ)
    earlier = await to_thread.run_sync(vault.get, server, config.url)
    auth = config.auth or AuthConfig()
    before = _logging_in.set(True)
    try:
        if auth.mode in {"client_credentials", "exchange"}:
            return await _machine(vault, server, config.url, auth)
        scopes = _scopes(auth, earlier)
        with anyio.fail_after(within):
            if device:
                login = await device_login(server, config.url, auth, scopes, show)
            else:
                login = await _browser(server, config.url, auth, scopes, show)
    except TimeoutError:
        raise LoginError(server, f"nobody has logged in within {within:.0f} s") from None
    except (RefusedError, OAuthFlowError) as error:
        raise LoginError(server, hide_secrets(str(error))[:500]) from error
    except httpx2.HTTPError as error:
        raise LoginError(server, reason_of(error)) from error
    finally:
        _logging_in.reset(before)
    await to_thread.run_sync(vault.put, login)
    return login


def _scopes(auth: AuthConfig, earlier: StoredLogin | None) -> tuple[str, ...]:
    """Return the configured scopes; after a refusal also those there were and those that were missing."""
    wanted = (*earlier.scopes, *earlier.wanted_scopes) if earlier and earlier.wanted_scopes else ()
    return tuple(dict.fromkeys((*auth.scopes, *wanted)))


async def _machine(vault: LoginVault, server: str, url: str, auth: AuthConfig) -> StoredLogin:
    await to_thread.run_sync(vault.remove, server, url)
    await ServerTokens(vault, server, url, auth).current()
    login = vault.get(server, url)
    assert login is not None  # noqa: S101 - it was put there
    return login


class _Client(OAuthClientMetadata):
    """What is registered, with scopes that are asked for whatever the server suggests."""

    fixed: tuple[str, ...] = ()
    configured: bool = False

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "scope" and self.fixed:
            suggested = () if self.configured or value is None else value.split()
            value = " ".join(dict.fromkeys((*self.fixed, *suggested)))
        super().__setattr__(name, value)


class _Memory:
    """What the SDK's login wants to be kept; it begins with the client that is configured."""

    def __init__(self, client: OAuthClientInformationFull | None) -> None:
        self.client = client
        self.tokens: OAuthToken | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


async def _browser(
    server: str, url: str, auth: AuthConfig, scopes: tuple[str, ...], show: Show
) -> StoredLogin:
    """Log in with the authorization code flow and PKCE, which is the SDK's."""
    try:
        async with listening(auth.redirect_port) as callback:
            memory = _Memory(_configured(auth, callback))
            provider = OAuthClientProvider(
                url,
                _metadata(callback, auth, scopes),
                memory,
                client_metadata_url=auth.client_id if is_valid_client_metadata_url(auth.client_id) else None,
            )

            async def redirect(address: str) -> None:
                _check_server(server, auth, provider)
                client, metadata = provider.context.client_info, provider.context.oauth_metadata
                if auth.client_secret and client is not None and metadata is not None:
                    methods = metadata.token_endpoint_auth_methods_supported
                    client.token_endpoint_auth_method = secret_method(methods)
                await check_reach(server, url, auth.issuer, address)
                callback.expect(state_of(address))
                show(address, None)

            async def answered() -> AuthorizationCodeResult:
                answer = await callback.wait()
                if answer.error or not answer.code:
                    raise LoginError(server, f"it was refused: {answer.error or 'there is no code'}")
                return AuthorizationCodeResult(code=answer.code, state=answer.state, iss=answer.iss)

            provider.context.redirect_handler = redirect
            provider.context.callback_handler = answered
            async with oauth_client(server, url, auth.issuer) as client:
                response = await _run_flow(client, server, url, provider)
    except OSError as error:
        if isinstance(error, LoginError | TimeoutError):
            raise
        raise LoginError(server, f"port {auth.redirect_port} is taken: {error.strerror}") from error
    if memory.tokens is None or memory.client is None:
        raise LoginError(server, "it wants no login")
    if response.status_code == _UNAUTHORIZED:
        raise LoginError(server, "it does not accept the token that its authorization server gave")
    return _login(server, url, auth, provider, memory)


async def _run_flow(
    client: httpx2.AsyncClient, server: str, url: str, provider: OAuthClientProvider
) -> httpx2.Response:
    """Send the requests of the SDK's login, each with its own deadline, and return the response to the last.

    A client that is given the provider would send them too, and could not tell which was not answered.

    Raises:
        LoginError: one was not answered.
    """
    probe = probe_request(url)
    flow = provider.async_auth_flow(probe)
    try:
        request = await anext(flow)
        while True:
            with naming_endpoint(server, SERVER if request is probe else _endpoint_of(request)):
                response = await fetch_response(client, request)
            try:
                request = await flow.asend(response)
            except StopAsyncIteration:
                return response
            except UnicodeEncodeError as error:
                raise LoginError(server, "its authorization server gave a token that is not ASCII") from error
    finally:
        await flow.aclose()


def _endpoint_of(request: httpx2.Request) -> str:
    """Return which endpoint a request of the SDK's login is for."""
    if request.method == "POST":
        is_json = request.headers.get("content-type", "").startswith("application/json")
        return REGISTRATION if is_json else TOKEN_ENDPOINT
    is_of_authority = any(each in request.url.path for each in _AUTHORITY_PATHS)
    return AUTHORITY_METADATA if is_of_authority else SERVER_METADATA


def _configured(auth: AuthConfig, callback: Callback) -> OAuthClientInformationFull | None:
    """Return the client that is registered already."""
    if auth.client_id is None or is_valid_client_metadata_url(auth.client_id):
        return None
    return OAuthClientInformationFull(
        client_id=auth.client_id,
        client_secret=auth.client_secret,
        token_endpoint_auth_method=secret_method(None) if auth.client_secret else "none",
        redirect_uris=[AnyUrl(callback.address)],
        issuer=auth.issuer,
    )


def _metadata(callback: Callback, auth: AuthConfig, scopes: tuple[str, ...]) -> _Client:
    return _Client(
        redirect_uris=[AnyUrl(callback.address)],
        client_name=CLIENT_NAME,
        token_endpoint_auth_method="none",  # noqa: S106 - a method, and no secret
        fixed=scopes,
        configured=bool(auth.scopes),
    )


def _check_server(server: str, auth: AuthConfig, provider: OAuthClientProvider) -> None:
    """Refuse an authorization server that is not the configured one, or not secure."""
    metadata = provider.context.oauth_metadata
    issuer = None if metadata is None else str(metadata.issuer)
    if auth.issuer is not None and (issuer is None or not issuers_match(issuer, auth.issuer)):
        found = "one that does not say who it is" if issuer is None else place(issuer)
        raise LoginError(server, f"it is served by {found}, and the configuration says {place(auth.issuer)}")
    check_endpoint(server, _token_endpoint(provider))
    if metadata is not None:
        if "S256" not in (metadata.code_challenge_methods_supported or ()):
            raise LoginError(server, "its authorization server does not know PKCE")
        check_endpoint(server, str(metadata.authorization_endpoint))


def _token_endpoint(provider: OAuthClientProvider) -> str:
    metadata = provider.context.oauth_metadata
    if metadata is not None:
        return str(metadata.token_endpoint)
    return urljoin("{0.scheme}://{0.netloc}".format(urlsplit(provider.context.server_url)), "/token")


def _login(
    server: str, url: str, auth: AuthConfig, provider: OAuthClientProvider, memory: _Memory
) -> StoredLogin:
    """Return what the SDK's login has found, with tokens."""
    context, client = provider.context, memory.client
    assert client is not None  # noqa: S101 - who calls has looked
    assert memory.tokens is not None  # noqa: S101 - the same
    metadata = context.oauth_metadata
    revocation = None if metadata is None else metadata.revocation_endpoint
    login = StoredLogin(
        server=server,
        url=url,
        issuer=None if metadata is None else str(metadata.issuer),
        token_endpoint=_token_endpoint(provider),
        revocation_endpoint=None if revocation is None else str(revocation),
        client_id=client.client_id,
        client_secret=None if auth.client_secret else client.client_secret,
        auth_method=client.token_endpoint_auth_method or "none",
        resource=context.get_resource_url() or resource_url_from_server_url(url),
    )
    return with_tokens(login, memory.tokens.model_dump(), time.time())


async def log_out(
    server: str,
    config: ServerConfig,
    *,
    owner: Owner | None = None,
    environ: Mapping[str, str] | None = None,
) -> tuple[bool, bool]:
    """Forget a login to a server; return whether there was one, and whether its tokens were taken back.

    Raises:
        VaultError: it cannot be changed.
    """
    vault, url = LoginVault(environ), config.url or ""
    try:
        login = await to_thread.run_sync(vault.get, server, url, owner)
    finally:
        known = await to_thread.run_sync(vault.remove, server, url, owner)
    return known, login is not None and await _revoked(login, config.auth or AuthConfig())


async def _revoked(login: StoredLogin, auth: AuthConfig) -> bool:
    """Tell the authorization server that a login has ended (RFC 7009), and return whether it heard."""
    token = login.refresh_token or login.access_token
    if login.revocation_endpoint is None or token is None:
        return False
    try:
        endpoint = check_endpoint(login.server, login.revocation_endpoint)
        form, headers = await with_client(login, {"token": token}, auth)
        async with oauth_client(login.server, login.url, auth.issuer) as client:
            request = httpx2.Request("POST", endpoint, data=form, headers=headers)
            status, _ = await fetch_json(client, request)
    except (httpx2.HTTPError, LoginError, RefusedError):
        return False
    return status < 300  # noqa: PLR2004 - the statuses of success
