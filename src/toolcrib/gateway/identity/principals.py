"""The principal of a request: the subject of its token, or the client by its self-declared name."""

import hmac
import json
import secrets
from functools import lru_cache
from typing import Any

from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.context import ServerRequestContext

from toolcrib.errors import InvalidCursorError
from toolcrib.execution import Principal
from toolcrib.execution.principal import local_user
from toolcrib.gateway.app.asgi import http_request_of
from toolcrib.model.display import HIDDEN

Account = tuple[str, str]
"""An issuer and a subject."""

_MAX_NAME = 100
_CURSOR_KEY = secrets.token_bytes(32)


class KnownUser(AuthenticatedUser):
    """A principal as a user of the SDK, which binds sessions to it."""

    def __init__(self, principal: Principal) -> None:
        token = AccessToken(
            token="",
            client_id=principal.client,
            scopes=sorted(principal.scopes),
            subject=principal.subject,
            claims={"iss": principal.issuer},
        )
        super().__init__(token)
        self.principal = principal


@lru_cache(maxsize=1_000)
def known_user(principal: Principal) -> KnownUser:
    """Return a principal as a user of the SDK; the last thousand are cached."""
    return KnownUser(principal)


def authenticated_principal() -> Principal | None:
    """Return the principal of the HTTP request's token, for callbacks of the SDK that get no context."""
    user = auth_context_var.get()
    return user.principal if isinstance(user, KnownUser) else None


def principal_of(context: ServerRequestContext[Any, Any]) -> Principal:
    """Return the principal of a request; without a token, and on a pipe, it has the client's own name."""
    opened = http_request_of(context)
    if opened is not None and opened.principal is not None:
        return opened.principal
    params = context.session.client_params
    name = "" if params is None else params.client_info.name[:_MAX_NAME]
    return _principal_named(name, is_local=context.request is None)


@lru_cache(maxsize=1_000)
def _principal_named(name: str, *, is_local: bool) -> Principal:
    """Return the principal of a client by its self-declared name; on a pipe it acts for the local user."""
    shown = " ".join(HIDDEN.sub("", name).split())
    client = f"mcp:{shown}" if shown else "mcp"
    return local_user(client) if is_local else Principal(client=client)


def reader_of(principal: Principal | None) -> Principal | None:
    """Return the principal that may read what is stored for it; None for all without an issuer."""
    return principal if principal is not None and principal.issuer else None


def account_of(principal: Principal | None) -> Account | None:
    """Return the account whose limits apply to a principal, with any client; None without an issuer."""
    return (principal.issuer, principal.subject) if principal is not None and principal.issuer else None


def bind_cursor(cursor: str, principal: Principal | None) -> str:
    """Return a cursor of a list that only the principal can use."""
    mark = _cursor_mark(cursor, principal)
    return f"{cursor}.{mark}" if mark else cursor


def check_cursor(bound: str, principal: Principal | None) -> str:
    """Return the cursor of a list that was given to the principal.

    Raises:
        InvalidCursorError: it was given to another, or by another process.
    """
    cursor, _, mark = bound.partition(".")
    if not hmac.compare_digest(mark.encode(errors="replace"), _cursor_mark(cursor, principal).encode()):
        raise InvalidCursorError("it was not issued to this principal")
    return cursor


def _cursor_mark(cursor: str, who: Principal | None) -> str:
    """Return the digest that binds a cursor to a principal; empty without an issuer."""
    if who is None or not who.issuer:
        return ""
    parts = json.dumps([cursor, who.issuer, who.subject, who.client]).encode()
    return hmac.digest(_CURSOR_KEY, parts, "sha256").hex()[:32]
