"""Limits on the memory that clients can occupy; docs/limits.md has a table of all of them."""

from collections import Counter
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import mcp_types
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic_core import to_json

from toolcrib.gateway.identity.principals import Account, account_of, principal_of
from toolcrib.mcp_internals import connection_of

MAX_ABOUT = 64 * 1024
"""Longest message, in bytes, that is stored for as long as its session or subscription."""
MAX_IN_FLIGHT = 100
"""Requests of a session that may wait for their answers at once."""
MAX_STREAMS = 1_024
"""Subscription streams that an endpoint may have."""
LARGE_REQUEST = 64 * 1024
"""Requests over so many bytes count against a budget; ordinary ones never wait for large ones."""
_BUDGET = 256 * 2**20
_LISTEN = "subscriptions/listen"
_STORED = frozenset({"initialize", "resources/subscribe", _LISTEN})
_NAMED_PART = 10
"""An account may have one tenth of all places."""
_FREE_PART = 4
"""Clients without an account leave one quarter of all places free."""


def share_of(total: int, account: Account | None) -> int:
    """Return the share of one account in a total, or the share of all clients without an account.

    >>> share_of(1000, ("tokens", "ann")), share_of(1000, None)
    (100, 750)
    """
    return max(1, total - total // _FREE_PART if account is None else total // _NAMED_PART)


class ByteBudget:
    """Counts the bytes of large requests in memory, up to a limit; one alone may be larger."""

    def __init__(self, limit: int = _BUDGET) -> None:
        self._limit = limit
        self._taken = 0

    def take(self, size: int) -> bool:
        """Count a large request; return False if all together would be too large."""
        if self._taken and self._taken + size > self._limit:
            return False
        self._taken += size
        return True

    def give_back(self, size: int) -> None:
        """Stop counting a request."""
        self._taken -= size


class ClientLimits:
    """Middleware that refuses messages which would occupy too much memory for their client."""

    def __init__(self, on_limited: Callable[[str], object]) -> None:
        """Call back with the name of the limit when a message is refused."""
        self._on_limited = on_limited
        self._in_flight: WeakKeyDictionary[Connection, int] = WeakKeyDictionary()
        self._streams: Counter[Account | None] = Counter()

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Pass a message on, or refuse it."""
        if ctx.method in _STORED and len(to_json(ctx.params)) > MAX_ABOUT:
            raise self._refuse(
                "client_info", f"{ctx.method!r} may have at most {MAX_ABOUT:,} bytes of parameters"
            )
        if ctx.method == _LISTEN:
            return await self._pass_listen(ctx, call_next)
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:  # there is no session
            return await call_next(ctx)
        return await self._pass_in_session(ctx, call_next)

    async def _pass_in_session(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """Pass on a message of a session, if few enough of its requests wait for their answers."""
        connection = connection_of(ctx.session)
        waiting = self._in_flight.get(connection, 0)
        if waiting >= MAX_IN_FLIGHT:
            raise self._refuse("in_flight", f"{waiting} requests of this session are not answered yet")
        self._in_flight[connection] = waiting + 1
        try:
            return await call_next(ctx)
        finally:
            self._in_flight[connection] -= 1

    async def _pass_listen(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Pass on a subscription, if its account has fewer streams than its share."""
        account = account_of(principal_of(ctx))
        if self._streams[account] >= share_of(MAX_STREAMS, account):
            raise self._refuse("streams", f"{self._streams[account]} streams are open already; close some")
        self._streams[account] += 1
        try:
            return await call_next(ctx)
        finally:
            self._streams[account] -= 1
            self._streams = +self._streams  # without those who have none any more

    def _refuse(self, limit: str, message: str) -> MCPError:
        self._on_limited(limit)
        return MCPError(mcp_types.INVALID_REQUEST, message)
