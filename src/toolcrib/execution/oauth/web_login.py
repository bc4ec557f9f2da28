"""Logs a person in who comes with a browser of their own to a page of ours, and is sent back to another."""

import base64
import hashlib
import hmac
import secrets
import time
from dataclasses import dataclass, field
from urllib.parse import urlencode, urlsplit

from mcp.client.auth.utils import issuers_match
from mcp.shared.auth_utils import resource_url_from_server_url

from toolcrib.errors import LoginError
from toolcrib.execution.oauth.discovery import (
    check_endpoint,
    check_reach,
    client_login,
    discover,
    oauth_client,
)
from toolcrib.execution.oauth.settings import AuthConfig
from toolcrib.execution.oauth.tokens import RefusedError, request_token, with_tokens
from toolcrib.execution.oauth.vault import Owner, StoredLogin


@dataclass(frozen=True, slots=True)
class BegunLogin:
    """A login whose person is with the authorization server."""

    address: str = field(repr=False)
    """Where the browser goes."""
    redirect: str
    """Where it is sent back to."""
    state: str = field(repr=False)
    verifier: str = field(repr=False)
    """What the code is exchanged with (PKCE)."""
    login: StoredLogin
    """The login, without tokens."""
    names_itself: bool
    """Whether the authorization server says who it is when it sends the browser back (RFC 9207)."""


async def begin_login(  # noqa: PLR0913 - each by its name
    server: str,
    url: str,
    auth: AuthConfig,
    redirect: str,
    owner: Owner,
    *,
    earlier: StoredLogin | None = None,
    client: StoredLogin | None = None,
) -> BegunLogin:
    """Find the authorization server of an MCP server, and say where the browser of a person goes.

    Args:
        server: its name.
        url: its address.
        auth: its settings.
        redirect: where the browser is sent back to.
        owner: whose login it will be.
        earlier: the login that they had, for the scopes that were missing.
        client: an earlier login of anybody, whose client is used again.

    Raises:
        LoginError: there is no such login.
    """
    async with oauth_client(server, url, auth.issuer) as http:
        found = await discover(http, server, url, auth.issuer)
        if found.authorization_endpoint is None:
            raise LoginError(server, "its authorization server knows no login with a browser")
        if "S256" not in (found.code_challenge_methods_supported or ()):
            raise LoginError(server, "its authorization server does not know PKCE")
        if client is None or (client.issuer, client.token_endpoint) != (found.issuer, found.token_endpoint):
            metadata = {
                "redirect_uris": [redirect],
                "grant_types": ["authorization_code", "refresh_token"],
                "response_types": ["code"],
            }
            client = await client_login(http, server, url, auth, found, metadata)
    missed = (*earlier.scopes, *earlier.wanted_scopes) if earlier and earlier.wanted_scopes else ()
    scopes = found.scopes_to_ask(auth.scopes, missed)
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
    """Return the login that the code of an authorization server gives.

    Raises:
        LoginError: the answer is of another login or another authorization server, or the code is refused.
    """
    login, server = begun.login, begun.login.server
    if not hmac.compare_digest(state.encode(), begun.state.encode()):
        raise LoginError(server, "the answer is that of another login")
    if iss is None and begun.names_itself:
        raise LoginError(server, "the answer does not say which authorization server it is from")
    if iss is not None and not issuers_match(iss, login.issuer or ""):
        raise LoginError(server, "the answer is from another authorization server")
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": begun.redirect}
    try:
        async with oauth_client(server, login.url, auth.issuer) as http:
            payload = await request_token(http, login, form | {"code_verifier": begun.verifier}, auth)
        return with_tokens(login, payload, time.time())
    except RefusedError as error:
        raise LoginError(server, str(error)) from error
