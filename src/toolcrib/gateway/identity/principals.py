"""The principal of a request: whom its token names, or the client by the name that it gives itself."""

import hmac
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from anyio import CancelScope
from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.context import ServerRequestContext

from toolcrib.errors import InvalidCursorError
from toolcrib.execution import Principal
from toolcrib.execution.principal import local_user
from toolcrib.gateway.addresses import EndpointAddress
from toolcrib.model.display import HIDDEN

Account = tuple[str, str]
"""An issuer, and a subject that it vouches for."""

PRINCIPAL: ContextVar[Principal | None] = ContextVar("toolcrib_principal", default=None)
"""Who makes the request that is being answered."""
_MAX_NAME = 100
_CURSOR_KEY = secrets.token_bytes(32)


@dataclass(eq=False, slots=True)
class OpenRequest:
    """An HTTP request that is being answered, or has begun what goes on, and by which right."""

    authorization: str | None
    address: EndpointAddress
    principal: Principal | None
    """Whom the token named when the request began."""
    subscribes: bool
    """Whether its answer never ends by itself, so that it must not outlive its token."""
    scope: CancelScope = field(default_factory=CancelScope)
    """Ends it."""
    begun: set[CancelScope] = field(default_factory=set)
    """What goes on by its right, also after it was answered: tasks, and calls that wait for input."""
    is_answered: bool = False

    def end(self) -> None:
        """End it, and what goes on by its right."""
        for scope in (self.scope, *self.begun):
            scope.cancel()


def open_request(context: ServerRequestContext[Any, Any]) -> OpenRequest | None:
    """Return the HTTP request that is being answered; None on a pipe."""
    found = None if context.request is None else context.request.scope.get("toolcrib.open")
    return found if isinstance(found, OpenRequest) else None


def mark_subscription(context: ServerRequestContext[Any, Any]) -> None:
    """Note that the answer to a request is a stream of changes."""
    opened = open_request(context)
    if opened is not None:
        opened.subscribes = True


class KnownUser(AuthenticatedUser):
    """A principal as the SDK knows one: what it keeps for a session belongs to that principal alone."""

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
    """Return a principal as the SDK knows one; those of the last thousand are kept."""
    return KnownUser(principal)


def authenticated_principal() -> Principal | None:
    """Return whom the token of the HTTP request names, before MCP has read any of it."""
    user = auth_context_var.get()
    return user.principal if isinstance(user, KnownUser) else None


def principal_of(context: ServerRequestContext[Any, Any]) -> Principal:
    """Return who makes a request: over HTTP without a token, and on a pipe, the client names itself."""
    request = context.request
    known = None if request is None else request.scope.get("toolcrib.principal")
    if isinstance(known, Principal):
        return known
    params = context.session.client_params
    client = _client_named("" if params is None else params.client_info.name[:_MAX_NAME])
    return local_user(client) if request is None else Principal(client=client)


@lru_cache(maxsize=1_000)
def _client_named(name: str) -> str:
    """Return the client of a principal, by the name that it gives itself."""
    shown = " ".join(HIDDEN.sub("", name).split())
    return f"mcp:{shown}" if shown else "mcp"


def reader_of(principal: Principal | None) -> Principal | None:
    """Return who may read what is kept for a principal; None for all whom nobody vouches for."""
    return principal if principal is not None and principal.issuer else None


def account_of(principal: Principal | None) -> Account | None:
    """Return whose share something is that is kept for a principal: a subject's, whatever client it uses."""
    return (principal.issuer, principal.subject) if principal is not None and principal.issuer else None


@contextmanager
def request_of(context: ServerRequestContext[Any, Any]) -> Iterator[None]:
    """Set `PRINCIPAL` to whoever makes a request, while it is being answered."""
    token = PRINCIPAL.set(principal_of(context))
    try:
        yield
    finally:
        PRINCIPAL.reset(token)


def bind_cursor(cursor: str) -> str:
    """Return a cursor of a list that the principal of this request alone can go on with."""
    mark = _cursor_mark(cursor)
    return f"{cursor}.{mark}" if mark else cursor


def check_cursor(bound: str) -> str:
    """Return the cursor of a list that was given to the principal of this request.

    Raises:
        InvalidCursorError: it was given to another, or by another process.
    """
    cursor, _, mark = bound.partition(".")
    if not hmac.compare_digest(mark.encode(errors="replace"), _cursor_mark(cursor).encode()):
        raise InvalidCursorError("it was not issued to this principal")
    return cursor


def _cursor_mark(cursor: str) -> str:
    """Return what binds a cursor to a principal; nothing where nobody vouches for one."""
    who = PRINCIPAL.get()
    if who is None or not who.issuer:
        return ""
    parts = json.dumps([cursor, who.issuer, who.subject, who.client]).encode()
    return hmac.digest(_CURSOR_KEY, parts, "sha256").hex()[:32]
