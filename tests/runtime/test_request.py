"""Requests to a sandbox, the limits of captured output, and messages to the guest."""

from typing import Any

import pytest

from toolcrib.errors import (
    BackendUnavailableError,
    PolicyDeniedError,
    ToolcribError,
    ToolExecutionError,
    ToolNotFoundError,
    ToolTimeoutError,
    ValidationError,
)
from toolcrib.runtime import ExecuteRequest, GuestError, Limits, LimitsEnforced, Output, SecurityProfile
from toolcrib.runtime.guest_errors import as_guest_error


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"code": ""}, "/code"),
        ({"code": " \n "}, "/code"),
        ({"code": "x" * (1 << 20 | 1)}, "/code"),
        ({"code": 3}, "/code"),
        ({"code": "x", "language": "go"}, "/language"),
        ({"code": "x", "timeout": 0}, "/timeout"),
        ({"code": "x", "timeout": float("inf")}, "/timeout"),
        ({"code": "x", "timeout": "1"}, "/timeout"),
        ({"code": "x", "profile": "lax"}, "/profile"),
        ({"code": "x", "limits": {"max_tool_calls": -1}}, "/limits/max_tool_calls"),
        ({"code": "x", "limits": {"memory_bytes": 1}}, "/limits/memory_bytes"),
        ({"code": "x", "limits": {"cpu": -1.0}}, "/limits/cpu"),
        ({"code": "x", "limits": {"pids": True}}, "/limits/pids"),
        ({"code": "x", "gateway": 1}, "/gateway"),
    ],
)
def test_invalid_request_is_refused_with_the_path(fields: dict[str, Any], path: str) -> None:
    with pytest.raises(ValidationError) as caught:
        ExecuteRequest(**fields)
    assert path in {problem.path for problem in caught.value.problems}


def test_invalid_request_lists_all_problems() -> None:
    with pytest.raises(ValidationError) as caught:
        ExecuteRequest(code="", timeout=-1, profile="lax")
    assert len(caught.value.problems) == 3


def test_request_defaults_are_safe() -> None:
    request = ExecuteRequest(code="x")
    assert (request.profile, request.language, request.timeout) == ("standard", "python", 30.0)
    assert request.limits == Limits()
    assert request.limits.max_tool_calls == 100
    assert ExecuteRequest(code="x", profile="dev").profile is SecurityProfile.DEV


def test_limits_enforced_defaults_to_false() -> None:
    assert not any(LimitsEnforced().model_dump().values())


def test_output_over_the_limit_is_truncated_with_a_note() -> None:
    output = Output(limit=4)
    output.write("stdout", "ab")
    output.write("stdout", "cdef")
    output.write("stdout", b"gh")
    output.write("stderr", "é")
    assert output.text("stdout") == "abcd\n[4 more bytes were printed]"
    assert output.text("stderr") == "é"


def test_closed_output_drops_what_is_written() -> None:
    output = Output(limit=10)
    output.write("stdout", "a")
    output.close()
    output.write("stdout", "b")
    assert output.text("stdout") == "a"


def test_output_that_is_not_text_is_decoded_with_replacements() -> None:
    output = Output(limit=10)
    output.write("stdout", b"\xff\xfe ok")
    output.write("stderr", "\ud800")
    assert output.text("stdout") == "\ufffd\ufffd ok"
    assert output.text("stderr") == "?"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ToolNotFoundError("a:b", ()), "LookupError"),
        (ToolTimeoutError(tool_id="a:b", timeout=1.0), "TimeoutError"),
        (PolicyDeniedError(tool_id="a:b", reason="no"), "PermissionError"),
        (BackendUnavailableError(tool_id="a:b", reason="gone"), "OSError"),
        (ValidationError(()), "ValueError"),
        (ToolExecutionError(tool_id="a:b", reason="no"), "RuntimeError"),
        (ZeroDivisionError("by zero"), "RuntimeError"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_guest_error_names_a_builtin_exception(error: Exception, kind: str) -> None:
    assert as_guest_error(error).kind == kind


def test_guest_error_keeps_only_paths_of_the_arguments() -> None:
    error: ToolcribError = ToolExecutionError(
        tool_id="a:b", reason="no /srv/data/x, no /mine/y; token=4f8a91c2d7"
    )
    said = as_guest_error(error, {"path": "/mine/y"})
    assert isinstance(said, GuestError)
    assert "/srv" not in said.message
    assert "/mine/y" in said.message
    assert "4f8a" not in str(said)
