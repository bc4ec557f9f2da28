"""Exchanges the tokens of clients for tokens of a server (RFC 8693)."""

import time
from collections.abc import Callable
from typing import Any

import anyio
import jwt
from mcp.client.auth.utils import issuers_match
from mcp.shared.auth_utils import resource_url_from_server_url

from toolcrib.execution.oauth.discovery import oauth_client
from toolcrib.execution.oauth.persons import Person
from toolcrib.execution.oauth.settings import AuthConfig
from toolcrib.execution.oauth.tokens import (
    RefusedError,
    is_due,
    program_login,
    request_token,
    with_tokens,
)
from toolcrib.execution.oauth.vault import StoredLogin

_GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
_ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - the name of a kind
_JWT = "urn:ietf:params:oauth:token-type:jwt"
_EXCHANGE_TIMEOUT = 20.0
_DEFAULT_LIFETIME = 300.0
"""Seconds for which a token without `expires_in` is used."""


class ExchangedTokens:
    """The access tokens of one person for one server, exchanged for the token of their last call.

    They stay in memory until they expire. The token of the client is sent only to the configured issuer, and
    never to the server.
    """

    def __init__(
        self,
        person: Person,
        server: str,
        url: str,
        auth: AuthConfig,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._person, self._auth, self._clock = person, auth, clock
        self._server, self._url = server, url
        self._lock = anyio.Lock()
        self._client: StoredLogin | None = None

    async def current_token(self) -> str | None:
        """Return the access token.

        Raises:
            RefusedError: the issuer gave none, or one for another person or server.
        """
        return await self._exchange_once(None)

    @property
    def is_empty(self) -> bool:
        """Whether requests go without a token: never."""
        return False

    async def refresh_token(self, refused: str) -> str | None:
        """Return another access token than the one that the server refused.

        Raises:
            RefusedError: the issuer gave none, or one for another person or server.
        """
        return await self._exchange_once(refused)

    async def note_wanted_scopes(self, scopes: list[str]) -> None:
        """Do nothing: the issuer decides about scopes, without a login that could request more."""

    async def _exchange_once(self, refused: str | None) -> str | None:
        async with self._lock:
            known = self._person.exchanged
            if known is None or known.access_token == refused or is_due(known, self._clock()):
                with anyio.move_on_after(_EXCHANGE_TIMEOUT) as limit:
                    known = self._person.exchanged = await self._exchange_token()
                if limit.cancelled_caught:
                    raise RefusedError("its authorization server did not answer in time")
            return None if known is None else known.access_token

    async def _exchange_token(self) -> StoredLogin:
        subject, auth = self._person.subject_token, self._auth
        if subject is None:
            raise RefusedError("it needs the token of the caller's login to exchange, and there is none")
        async with oauth_client(self._server, self._url, auth.issuer) as client:
            if self._client is None:
                self._client = await program_login(client, self._server, self._url, auth)
            login = self._client
            if not issuers_match(login.issuer or "", auth.issuer or ""):
                raise RefusedError("its authorization server is not the one that is configured")
            resource = login.resource or resource_url_from_server_url(self._url)
            audience = auth.audience or resource
            form = {
                "grant_type": _GRANT,
                "subject_token": subject,
                "subject_token_type": _ACCESS_TOKEN,
                "requested_token_type": _ACCESS_TOKEN,
                "audience": audience,
            } | ({"scope": " ".join(login.scopes)} if login.scopes else {})
            payload = await request_token(client, login.replace(resource=resource), form, auth)
        given = with_tokens(login, payload, self._clock())
        self._check_token(given.access_token or "", payload, {audience, resource})
        ends = given.expires_at or self._clock() + _DEFAULT_LIFETIME
        return given.replace(refresh_token=None, expires_at=ends)

    def _check_token(self, token: str, payload: dict[str, Any], audiences: set[str]) -> None:
        """Check that a token is new, of the right kind, and for this server and person.

        A misconfigured issuer may return the client's own token or one for another audience, which the server
        could then use elsewhere.
        """
        if token == self._person.subject_token:
            raise RefusedError("its authorization server gave the client's own token back")
        if payload.get("issued_token_type", _ACCESS_TOKEN) not in {_ACCESS_TOKEN, _JWT}:
            raise RefusedError("its authorization server gave a token of another kind")
        try:
            claims = jwt.decode(token, options={"verify_signature": False})
        except jwt.PyJWTError:
            return  # an opaque token, which only the server can check
        named = claims.get("aud", [])
        if audiences.isdisjoint([named] if isinstance(named, str) else named):
            raise RefusedError("its authorization server gave a token for another server")
        principal = self._person.principal
        if claims.get("iss") == principal.issuer and claims.get("sub") != principal.subject:
            raise RefusedError("its authorization server returned a token of another user")
