"""Errors as clients get them: a code, the problem, and the next step."""

import logging
from collections.abc import Sequence
from typing import Any

import mcp_types
from mcp.shared.exceptions import MCPError

from toolcrib.errors import (
    ChainError,
    CodeError,
    InvalidCursorError,
    LoginRequiredError,
    OutputValidationError,
    RateLimitError,
    RuntimeUnavailableError,
    ServerUnavailableError,
    ToolcribError,
    ToolExecutionError,
    ToolLoginRequiredError,
    explain,
)
from toolcrib.errors.base import short_repr
from toolcrib.errors.text import describe_failure
from toolcrib.execution import Principal
from toolcrib.execution.oauth.persons import login_reason
from toolcrib.gateway.results import encoded, sendable
from toolcrib.model import ToolCallRecord
from toolcrib.model.suggest import choose
from toolcrib.redaction import hide_secrets

_LOG = logging.getLogger("toolcrib")
_MAX_OUTPUT = 4_000
_MAX_CALLS = 100
_MAX_ARGUMENTS = 500
_NEXT = {
    "tool_not_found": "call search_tools to find the tool that you need",
    "no_backends": "choose another tool with search_tools",
    "validation_output": "the tool did run: do not simply run it again",
    "backend_unavailable": "try again later, or find another tool with search_tools",
    "timeout": "try again with a larger timeout_ms, or ask for less",
    "limit_exceeded": "do less in one call",
    "stream_not_supported": "use run_tool",
}
"""The next step, by error code."""
_NEXT_WITHOUT_LOGIN = "tell the user, or find another tool with search_tools"


def describe_error(
    error: Exception, principal: Principal | None = None, *, ran: bool = False, advise: bool = True
) -> dict[str, Any]:
    """Return an error as the object that clients get under `error`.

    Commands that only the operator can run are left out for other principals. `ran` says that tools may have
    run, and `advise` whether to say which meta-tool to use next.
    """
    if not isinstance(error, ToolcribError):
        return _describe_internal(error, ran=ran)
    payload = _drop_empty(explain(error))
    if payload["code"] == "internal":
        return _describe_internal(error, ran=ran)
    if isinstance(error, ServerUnavailableError):  # its stderr may say anything about this machine
        why = describe_failure(error.reason, advice=error.advice)
        payload["message"] = f"server {error.server!r} is unavailable: {hide_secrets(why)}"
    if advise:
        payload["message"] = _add_advice(payload["message"], _calls_made(payload) or _advise(error, payload))
    details = payload.pop("details", {}) | _find_details(error)
    worded: dict[str, Any] = _hide_commands(payload | {"details": details} if details else payload, principal)
    return worded


def _hide_commands(value: Any, principal: Principal | None) -> Any:
    """Return a description without commands that only the operator of the gateway can run."""
    if isinstance(value, str):
        return login_reason(value, principal)
    if isinstance(value, dict):
        return {key: _hide_commands(member, principal) for key, member in value.items()}
    return [_hide_commands(member, principal) for member in value] if isinstance(value, list) else value


def no_such_tool(name: str, names: Sequence[str]) -> MCPError:
    """Return the error for a tool that is not listed."""
    return MCPError(mcp_types.INVALID_PARAMS, f"no tool {short_repr(name)}{choose(name, names)}")


def _describe_internal(error: Exception, *, ran: bool) -> dict[str, Any]:
    _LOG.error("a call of a client failed", exc_info=error)
    advice = "Tools may have run: find out before you run them again" if ran else "Try again"
    message = f"the gateway itself failed; what happened is in its log. {advice}, or try something else"
    return {"code": "internal", "message": message, "retryable": not ran}


def _drop_empty(payload: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in payload.items() if value is not None}


def _add_advice(message: str, advice: str) -> str:
    if not advice or advice in message:
        return message
    return f"{message} {advice[0].upper()}{advice[1:]}" if message.endswith("?") else f"{message}; {advice}"


def _calls_made(payload: dict[str, Any]) -> str:
    """Return what to do next where code has called tools; nothing where it has not."""
    calls = payload.get("details", {}).get("tool_calls")
    made = "1 call of a tool was" if calls == 1 else f"{calls:,} calls of tools were" if calls else ""
    return made and f"{made} made until then: do not simply run it again"


def _advise(error: ToolcribError, payload: dict[str, Any]) -> str:
    """Return what to do next."""
    match error:
        case ChainError() | RateLimitError():
            return ""
        case LoginRequiredError() | ToolLoginRequiredError():
            return "" if error.url else _NEXT_WITHOUT_LOGIN
        case InvalidCursorError():
            return "cursors end when the catalogue changes"
        case RuntimeUnavailableError():
            return "use run_tool or run_chain" if error.retry_after is None else ""
        case CodeError():
            return "correct the code and run it again"
    return _advice_for(payload["code"], payload)


def _advice_for(code: str, payload: dict[str, Any]) -> str:
    if code == "validation_input" and "tool_id" in payload:
        return f"call describe_tool with tool_id {payload['tool_id']!r} to see what it takes"
    return _NEXT.get(code, "")


def _find_details(error: ToolcribError) -> dict[str, Any]:
    """Return what else is known: what ran until then, and what it gave."""
    more: dict[str, Any] = {}
    if isinstance(error, CodeError):
        known = {"line": error.line, "column": error.column, "traceback": error.traceback[-_MAX_OUTPUT:]}
        more |= {name: value for name, value in known.items() if value not in (None, "")}
    ran = (
        None
        if isinstance(error, ToolExecutionError | OutputValidationError)
        else getattr(error, "result", None)
    )
    if calls := getattr(ran, "tool_calls", ()):
        more["calls"] = [_describe_call(record) for record in calls[:_MAX_CALLS]]
    if isinstance(error, OutputValidationError):
        more["result"] = _shorten_json(error.result)
    for name in ("stdout", "stderr"):
        if text := getattr(ran, name, ""):
            more[name] = text[-_MAX_OUTPUT:]
    return more


def _describe_call(record: ToolCallRecord) -> dict[str, Any]:
    """Return a call that code made; arguments that are large are its beginning."""
    payload = record.to_json(without={"duration", "args", "backend_kind"})
    text = _shorten_json(record.args)
    return payload | {"args": record.args if len(text) <= _MAX_ARGUMENTS else text[:_MAX_ARGUMENTS]}


def _shorten_json(value: Any) -> str:
    """Return the beginning of a value as JSON."""
    try:
        return encoded(value)[:_MAX_OUTPUT]
    except ValueError:
        return encoded(sendable(value))[:_MAX_OUTPUT]
