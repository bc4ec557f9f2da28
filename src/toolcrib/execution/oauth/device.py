"""Logs in with a code that is entered on another device (RFC 8628)."""

import time
from collections.abc import Callable
from typing import Any

import anyio
import httpx2

from toolcrib.errors import LoginError
from toolcrib.execution.oauth.discovery import (
    DEVICE_ENDPOINT,
    check_endpoint,
    check_reach,
    client_login,
    discover,
    fetch_json,
    naming_endpoint,
    oauth_client,
)
from toolcrib.execution.oauth.settings import AuthConfig
from toolcrib.execution.oauth.tokens import RefusedError, request_token, with_tokens
from toolcrib.execution.oauth.vault import StoredLogin

_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_POLL_SECONDS = 5.0
"""Between two requests for the token, where the server does not say (RFC 8628, 3.2)."""
_SLOW_DOWN_SECONDS = 5.0
"""Added to the interval after `slow_down` (RFC 8628, 3.5)."""
_MAX_POLL_SECONDS = 60.0
_SUCCESS = frozenset({200, 201})
_METADATA: dict[str, Any] = {
    "grant_types": [_GRANT, "refresh_token"],
    "response_types": [],
    "redirect_uris": [],
    "application_type": "native",
}
"""What a client is registered with that logs in so."""


async def device_login(
    server: str,
    url: str,
    auth: AuthConfig,
    scopes: tuple[str, ...],
    show: Callable[[str, str | None], None],
) -> StoredLogin:
    """Return the login of somebody who enters a code elsewhere; who asks has a deadline.

    Raises:
        LoginError: the server does not know this way.
        RefusedError: the login was refused, or is over.
    """
    async with oauth_client(server, url, auth.issuer) as client:
        found = await discover(client, server, url, auth.issuer)
        if found.device_authorization_endpoint is None:
            raise LoginError(server, "its authorization server knows no login by device; leave --device out")
        login = await client_login(client, server, url, auth, found, _METADATA)
        asked = found.scopes_to_ask(auth.scopes, scopes)
        form = {"client_id": login.client_id}
        form |= {"scope": " ".join(asked)} if asked else {}
        form |= {"resource": found.resource} if found.resource else {}
        endpoint = check_endpoint(server, found.device_authorization_endpoint)
        with naming_endpoint(server, DEVICE_ENDPOINT):
            status, begun = await fetch_json(client, httpx2.Request("POST", endpoint, data=form))
        code, page = begun.get("device_code"), begun.get("verification_uri")
        if status not in _SUCCESS or not isinstance(code, str) or not isinstance(page, str):
            raise LoginError(server, f"no code could be got: {str(begun.get('error', status))[:60]}")
        shown = check_endpoint(server, str(begun.get("verification_uri_complete") or page))
        await check_reach(server, url, auth.issuer, shown)
        show(shown, str(begun.get("user_code", "")))
        payload = await _polled(client, login, auth, begun)
    return with_tokens(login.replace(scopes=asked), payload, time.time())


async def _polled(
    client: httpx2.AsyncClient, login: StoredLogin, auth: AuthConfig, begun: dict[str, Any]
) -> dict[str, Any]:
    """Return the tokens, after asking for them until somebody has logged in."""
    interval = _number(begun.get("interval"), _POLL_SECONDS)
    form = {"grant_type": _GRANT, "device_code": str(begun["device_code"])}
    with anyio.fail_after(_number(begun.get("expires_in"), 900.0)):
        while True:
            await anyio.sleep(interval)
            try:
                return await request_token(client, login, form, auth)
            except RefusedError as error:
                if error.code == "slow_down":
                    interval = min(_MAX_POLL_SECONDS, interval + _SLOW_DOWN_SECONDS)
                elif error.code != "authorization_pending":
                    raise


def _number(value: Any, default: float) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    return min(float(value), 3600.0) if is_number else default
