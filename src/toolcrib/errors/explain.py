"""Errors as JSON for models, clients and logs: a code, a message and facts."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from toolcrib.errors.base import Problem, ToolcribError
from toolcrib.errors.definitions import (
    InvalidToolIdError,
    NoCompatibleVersionError,
    PromptNotFoundError,
    ResourceNotFoundError,
    ToolNotFoundError,
    ValidationError,
)
from toolcrib.errors.durable import (
    CallUncertainError,
    EngineUnavailableError,
    RunNotFoundError,
    RunStateError,
    SnapshotError,
)
from toolcrib.errors.running import (
    BackendUnavailableError,
    ChainError,
    CodeError,
    InputValidationError,
    InvalidChainError,
    LimitExceededError,
    LoginError,
    LoginRequiredError,
    NoBackendError,
    OutputValidationError,
    PolicyDeniedError,
    RateLimitError,
    RequestRefusedError,
    ResultBlockedError,
    RuntimeUnavailableError,
    SandboxViolationError,
    ServerUnavailableError,
    StreamNotSupportedError,
    ToolCancelledError,
    ToolError,
    ToolExecutionError,
    ToolLoginRequiredError,
    ToolTimeoutError,
    ToolWithheldError,
)

_CODES: tuple[tuple[type[BaseException], str], ...] = (
    (ToolNotFoundError, "tool_not_found"),
    (NoCompatibleVersionError, "tool_not_found"),
    (ResourceNotFoundError, "tool_not_found"),
    (PromptNotFoundError, "tool_not_found"),
    (RunNotFoundError, "tool_not_found"),
    (RequestRefusedError, "execution_failed"),
    (RunStateError, "execution_failed"),
    (CallUncertainError, "execution_failed"),
    (SnapshotError, "denied"),
    (NoBackendError, "no_backends"),
    (ChainError, "chain_step_failed"),
    (OutputValidationError, "validation_output"),
    (InputValidationError, "validation_input"),
    (ToolTimeoutError, "timeout"),
    (ToolCancelledError, "cancelled"),
    (BackendUnavailableError, "backend_unavailable"),
    (ServerUnavailableError, "backend_unavailable"),
    (EngineUnavailableError, "backend_unavailable"),
    (StreamNotSupportedError, "stream_not_supported"),
    (PolicyDeniedError, "denied"),
    (ResultBlockedError, "denied"),
    (SandboxViolationError, "denied"),
    (LoginError, "denied"),
    (RuntimeUnavailableError, "backend_unavailable"),
    (CodeError, "execution_failed"),
    (LimitExceededError, "limit_exceeded"),
    (RateLimitError, "limit_exceeded"),
    (ToolExecutionError, "execution_failed"),
    (ToolError, "execution_failed"),
    (ValidationError, "validation_input"),
    (InvalidToolIdError, "validation_input"),
    (ValueError, "validation_input"),
)
"""The codes of errors; the first class that matches decides, so subclasses come before their bases."""


def explain(error: ToolcribError) -> dict[str, Any]:
    """Return an error as JSON: `code`, `message`, `retryable`, and its details.

    The standard error of a server is left out, since it may contain secrets, and clients and models see this
    JSON.

    >>> from toolcrib.errors import ToolNotFoundError
    >>> explain(ToolNotFoundError("github:create_isue", ("github:create_issue",)))["code"]
    'tool_not_found'
    """
    message = str(error)
    if isinstance(error, ServerUnavailableError) and error.stderr:
        message = str(replace(error, stderr=""))
    payload: dict[str, Any] = {
        "code": _find_code(error),
        "message": message,
        "retryable": _is_retryable(error),
    }
    if isinstance(error, ToolError):
        payload |= {"tool_id": error.tool_id, "op": error.op}
    elif isinstance(error, ToolNotFoundError):
        payload |= {"tool_id": error.ref, "op": "resolve"}
    elif isinstance(error, ChainError):
        payload["step_index"] = error.step_index
    details = _collect_details(error)
    return payload | {"details": details} if details else payload


def _find_code(error: BaseException) -> str:
    if isinstance(error, InvalidChainError):  # no step failed; the chain itself is invalid
        return "validation_input" if error.__cause__ is None else _find_code(error.__cause__)
    return next((code for kind, code in _CODES if isinstance(error, kind)), "internal")


def _is_retryable(error: ToolcribError) -> bool:
    """Return whether the same call may succeed if it is repeated."""
    cause: BaseException | None = error
    if isinstance(error, ChainError):
        if _has_run(error.results):
            return False
        cause = error.__cause__
    if isinstance(cause, RuntimeUnavailableError):
        return cause.retry_after is not None
    if isinstance(cause, LoginRequiredError | ToolLoginRequiredError):
        return False
    return isinstance(
        cause, BackendUnavailableError | RateLimitError | ServerUnavailableError | ToolTimeoutError
    )


def _has_run(results: Sequence[Any]) -> bool:
    """Return whether any step of a chain ran besides the one that failed, the last of the results."""
    begun = [result for result in results if not getattr(result, "skipped", False)]
    return len(begun) > 1 or any(_has_run(getattr(result, "parts", ())) for result in begun)


def _specific_facts(error: ToolcribError) -> dict[str, Any]:
    """Return the facts that only errors of one class have."""
    match error:
        case LoginRequiredError() | ToolLoginRequiredError():
            facts = {"login": error.server, "url": error.url, "answer": error.answer}
            return {name: value for name, value in facts.items() if value}
        case PolicyDeniedError():
            level = error.level if isinstance(error, ToolWithheldError) else None
            facts = {"rule": error.rule, "answer": error.answer, "level": level}
            return {name: value for name, value in facts.items() if value}
        case RuntimeUnavailableError(retry_after=float() | int() as seconds):
            return {"retry_after": seconds}
        case LimitExceededError() | RateLimitError():
            wait = {"retry_after": error.retry_after} if isinstance(error, RateLimitError) else {}
            return {"limit": error.limit, **wait}
        case CodeError():
            line = {} if error.line is None else {"line": error.line}
            return line | ({"unsupported": True} if error.unsupported else {})
        case _:
            return {}


def _collect_details(error: ToolcribError) -> dict[str, Any]:
    details: dict[str, Any] = {}
    problems: tuple[Problem, ...] = getattr(error, "problems", ())
    if problems:
        details["problems"] = [
            {"path": problem.path, "keyword": problem.keyword, "message": problem.message}
            for problem in problems
        ]
    if isinstance(error, ToolNotFoundError) and error.suggestions:
        details["suggestions"] = list(error.suggestions)
    if isinstance(error, ToolError) and error.backend:
        details["backend"] = error.backend
    if isinstance(error, ToolError) and error.findings:
        details["findings"] = [each.to_json() for each in error.findings]
    details |= _specific_facts(error)
    ran = getattr(getattr(error, "result", None), "tool_calls", None)
    if ran is not None:
        details["tool_calls"] = len(ran)
    if isinstance(error, ChainError) and isinstance(error.__cause__, ToolcribError):
        details["cause"] = explain(error.__cause__)
    return details
