"""Outcomes of calls in the audit, at three levels of detail."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from toolcrib.errors import (
    BackendUnavailableError,
    InputValidationError,
    InvalidToolIdError,
    LimitExceededError,
    NoBackendError,
    OutputValidationError,
    PolicyDeniedError,
    Problem,
    ServerUnavailableError,
    StreamNotSupportedError,
    ToolCancelledError,
    ToolExecutionError,
    ToolNotFoundError,
    ToolTimeoutError,
)
from toolcrib.execution import Answer, Outcome
from toolcrib.execution.audit import levels_of
from toolcrib.execution.middleware import FROM_CACHE

PROBLEMS = (Problem("/a", "type", "must be a string"),)
HERE = {"tool_id": "github:star", "backend": "mcp:github"}


class RpcError(Exception):
    """The exception that an MCP session raises for a JSON-RPC error."""

    code = -32602


def with_cause(error: ToolExecutionError, cause: Exception) -> ToolExecutionError:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ToolNotFoundError("github:sta", ()), ("none", "refused", "none")),
        (NoBackendError(tool_id="github:star"), ("none", "refused", "none")),
        (PolicyDeniedError(tool_id="github:star"), ("none", "refused", "none")),
        (StreamNotSupportedError(**HERE), ("none", "refused", "none")),
        (LimitExceededError("tool_calls", "more than 100"), ("none", "refused", "none")),
        (InputValidationError(PROBLEMS, tool_id="github:star"), ("none", "invalid", "none")),
        (InvalidToolIdError("a:b:c:d", "has too many colons"), ("none", "invalid", "none")),
        (OutputValidationError(PROBLEMS, tool_id="github:star"), ("ok", "invalid", "ok")),
        (ToolExecutionError(**HERE, result={"isError": True}), ("ok", "ok", "error")),
        (ToolExecutionError(**HERE), ("ok", "ok", "error")),
        (with_cause(ToolExecutionError(**HERE), RpcError()), ("ok", "refused", "none")),
        (with_cause(ToolExecutionError(**HERE | {"backend": "local:x"}), RpcError()), ("ok", "ok", "error")),
        (BackendUnavailableError(**HERE), ("unreachable", "none", "none")),
        (ServerUnavailableError("github", "it does not start"), ("unreachable", "none", "none")),
        (ToolTimeoutError(**HERE, timeout=1), ("timeout", "none", "none")),
        (ToolCancelledError(**HERE), ("cancelled", "none", "none")),
        (KeyboardInterrupt(), ("cancelled", "none", "none")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_error_says_how_far_the_call_came(
    outcome: Callable[..., Outcome], error: Any, expected: tuple[str, str, str]
) -> None:
    assert levels_of(outcome(error=error)) == expected


def test_a_good_call_is_ok_at_all_levels(outcome: Callable[..., Outcome]) -> None:
    assert levels_of(outcome()) == ("ok", "ok", "ok")


def test_an_answer_from_the_cache_asked_nobody(outcome: Callable[..., Outcome]) -> None:
    assert levels_of(outcome(answer=Answer(notes=(FROM_CACHE,)))) == ("none", "none", "ok")


@pytest.mark.anyio
async def test_the_cancellation_of_the_caller_is_told_apart(outcome: Callable[..., Outcome]) -> None:
    seen: list[BaseException] = []
    with anyio.CancelScope() as scope:
        scope.cancel()
        try:
            await anyio.lowlevel.checkpoint()
        except BaseException as error:
            seen.append(error)
            raise
    assert levels_of(outcome(error=seen[0])).transport == "cancelled"
