"""Errors that answer a call, told as ours: whether the tool said no, or its server could not be reached.

What comes over the wire is always the tool's own no, whatever it says. Only the errors that are made on this
side tell of the connection: those of the transports, which are marked, and the SDK's.
"""

from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED

from toolcrib.errors import BackendUnavailableError, ToolError, ToolExecutionError
from toolcrib.errors.base import shown
from toolcrib.execution.mcp.faults import own
from toolcrib.execution.records import Call

__all__ = ["call_failure", "hung_up", "is_closed", "is_lost_session", "is_unreachable", "was_answered"]

_MAX_REASON = 2_000
_DID_NOT_RUN = frozenset({400, 401, 403, 404, 405, 406, 413, 415, 429})
"""Statuses of a request that was refused before anything was done about it."""
_BROKEN_OFF = ("SSE stream ended", "SSE stream failed")
"""How the SDK begins to say that the answer to a request was lost."""


def is_lost_session(error: MCPError) -> bool:
    """Return whether a server does not know our session, as after a restart; it then has run nothing.

    Only the transport can tell, from the status; a server may mean a session of another kind.

    >>> is_lost_session(MCPError(-32600, "Session terminated"))
    False
    """
    return (own(error.data) or {}).get("lost") is True


def is_unreachable(error: MCPError) -> bool:
    """Return whether a request never left, because there was nobody to take it."""
    return error.code == CONNECTION_CLOSED and (own(error.data) or {}).get("sent") is False


def is_closed(error: MCPError) -> bool:
    """Return whether an error is what the SDK says of a connection that ended; servers can say it too."""
    return error.code == CONNECTION_CLOSED and error.message == "Connection closed" and error.data is None


def was_answered(error: MCPError) -> bool:
    """Return whether a server was there to answer a request, if only with an error."""
    return error.code != CONNECTION_CLOSED or (_may_have_run(error) is None and not is_closed(error))


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
    facts = own(error.data)
    if facts is not None:
        return (
            facts.get("status") not in _DID_NOT_RUN if "status" in facts else facts.get("sent") is not False
        )
    lost = error.code == CONNECTION_CLOSED and error.data is None and error.message.startswith(_BROKEN_OFF)
    return True if lost else None
