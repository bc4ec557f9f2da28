"""Errors that answer a call, told as ours: whether the tool said no, or its server could not be reached.

The HTTP transports answer a request that failed with an error of their own making, whose data says whether it
may have been sent, or the status that it was answered with.
"""

import re
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, INVALID_REQUEST, REQUEST_TIMEOUT

from toolcrib.errors import BackendUnavailableError, ToolError, ToolExecutionError
from toolcrib.errors.base import shown
from toolcrib.execution.records import Call

__all__ = ["call_failure", "hung_up", "is_lost_session", "is_unreachable"]

_MAX_REASON = 2_000
_SESSION_CODES = {INVALID_REQUEST, CONNECTION_CLOSED, REQUEST_TIMEOUT}
"""Servers disagree on the code for a session that they do not know; the last two are also what the SDK calls
a closed connection and a timeout."""
_SESSION_WORDS = re.compile(
    r"\bsession (id )?(not found|terminated|has been terminated|expired|unknown|does not exist)"
    r"|\b(no valid|invalid|unknown|missing|expired) session\b|mcp-session-id",
    re.IGNORECASE,
)
_MAY_HAVE_RUN = 500
"""Statuses from here on say that something broke, perhaps half way; those below, that it was refused."""


def is_lost_session(error: MCPError) -> bool:
    """Return whether a server does not know our session, as after a restart; it then has run nothing.

    >>> is_lost_session(MCPError(-32600, "Session terminated"))
    True
    >>> is_lost_session(MCPError(-32600, "no browser session is open"))
    False
    """
    return error.code in _SESSION_CODES and _SESSION_WORDS.search(error.message) is not None


def is_unreachable(error: MCPError) -> bool:
    """Return whether a request never left, because there was nobody to take it."""
    return error.code == CONNECTION_CLOSED and _data(error).get("sent") is False


def hung_up(error: BaseException) -> bool:
    """Return whether a connection failed because the other side closed it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return any(
        isinstance(each, MCPError) and each.code == CONNECTION_CLOSED for each in (error, error.__cause__)
    )


def call_failure(error: MCPError, call: Call, backend: str) -> ToolError:
    """Return the error for a call that was answered with one."""
    message = error.message[:_MAX_REASON] or f"the server refused the call with code {error.code}"
    sent = _may_have_run(error)
    if sent is not None:
        return BackendUnavailableError(tool_id=call.tool_id, backend=backend, reason=message, sent=sent)
    reason = f"{message} ({shown(error.data)})" if error.data else message
    return ToolExecutionError(tool_id=call.tool_id, backend=backend, reason=reason)


def _may_have_run(error: MCPError) -> bool | None:
    """Return whether a call may have run of which nothing came back; None if something did."""
    data = _data(error)
    status = data.get("status")
    if isinstance(status, int) and f" answered {status}" in error.message:
        return status >= _MAY_HAVE_RUN
    if error.code == CONNECTION_CLOSED:
        return data.get("sent") is not False
    return True if error.message.endswith("not with MCP; check the path of its url") else None


def _data(error: MCPError) -> dict[str, Any]:
    return error.data if isinstance(error.data, dict) else {}
