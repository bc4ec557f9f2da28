"""Classifies the end of a call at three levels: transport, protocol and tool."""

from typing import Literal, NamedTuple

from toolcrib.errors import (
    BackendUnavailableError,
    OutputValidationError,
    ResultBlockedError,
    ServerUnavailableError,
    ToolCancelledError,
    ToolcribError,
    ToolExecutionError,
    ToolTimeoutError,
    explain,
)
from toolcrib.execution.call import Outcome
from toolcrib.execution.middleware.cache import FROM_CACHE

TransportLevel = Literal["ok", "unreachable", "timeout", "cancelled", "none"]
ProtocolLevel = Literal["ok", "refused", "invalid", "none"]
ToolLevel = Literal["ok", "error", "none"]


class Levels(NamedTuple):
    """The outcome of a call at three levels.

    | level     | value       | local                  | mcp                       | provider               |
    |-----------|-------------|------------------------|---------------------------|------------------------|
    | transport | ok          | the handler ended      | the server answered       | the API answered       |
    |           | unreachable | a limit left no room   | not started, or gone      | no connection          |
    |           | timeout     | past the deadline      | past the deadline         | past the deadline      |
    |           | cancelled   | the caller gave up     | either side gave up       | the caller gave up     |
    |           | none        | not asked, or cached   | not asked, or cached      | not asked, or cached   |
    | protocol  | ok          | called and returned    | a result came             | a response came        |
    |           | refused     | unknown, or denied     | the same; JSON-RPC error  | unknown, or denied     |
    |           | invalid     | args/result mismatch   | args/result mismatch      | args/result mismatch   |
    |           | none        | no exchange took place | no exchange took place    | no exchange took place |
    | tool      | ok          | it returned            | not `isError`             | a status below 400     |
    |           | error       | it raised              | `isError`                 | a status from 400 on   |
    |           | none        | no outcome             | no outcome                | no outcome             |

    With transport `none`, a `refused` or `invalid` call was turned down here, by the catalogue, the policy or
    the input schema; with transport `ok`, it is the backend that refused, or the result that did not fit.
    """

    transport: TransportLevel
    """Whether the backend was reached."""
    protocol: ProtocolLevel
    """Whether an exchange took place, and was valid."""
    tool: ToolLevel
    """The outcome in the tool itself."""


_LEVELS_OF_ERROR: tuple[tuple[type[BaseException], Levels], ...] = (
    (ToolTimeoutError, Levels("timeout", "none", "none")),
    (ToolCancelledError, Levels("cancelled", "none", "none")),
    (BackendUnavailableError, Levels("unreachable", "none", "none")),
    (ServerUnavailableError, Levels("unreachable", "none", "none")),
    (ToolExecutionError, Levels("ok", "ok", "error")),
    (OutputValidationError, Levels("ok", "invalid", "ok")),
    (ResultBlockedError, Levels("ok", "ok", "ok")),
    (ValueError, Levels("none", "invalid", "none")),
    (ToolcribError, Levels("none", "refused", "none")),
    (BaseException, Levels("cancelled", "none", "none")),
)
"""The levels for each class of errors; the first match counts."""


def levels_of(outcome: Outcome) -> Levels:
    """Return the levels of an outcome."""
    error = outcome.error
    if error is None:
        cached = outcome.answer is not None and FROM_CACHE in outcome.answer.notes
        return Levels("none", "none", "ok") if cached else Levels("ok", "ok", "ok")
    if rpc_code(error) is not None:
        return Levels("ok", "refused", "none")
    return next(levels for kind, levels in _LEVELS_OF_ERROR if isinstance(error, kind))


def rpc_code(error: BaseException) -> int | None:
    """Return the code of the JSON-RPC error in a server's response, if it made the call fail."""
    if not isinstance(error, ToolExecutionError) or not (error.backend or "").startswith("mcp:"):
        return None
    code = getattr(error.__cause__, "code", None)
    return code if isinstance(code, int) else None


def code_of(error: BaseException) -> str:
    """Return the code of an error; that of a foreign one, the cancellation of the caller, is `cancelled`."""
    code: str = explain(error)["code"] if isinstance(error, ToolcribError) else "cancelled"
    return code
