"""Exit codes and messages of errors."""

import json
from typing import Any

import click
import pytest

from toolcrib.cli.exits import EXITS, FailedError, exit_code, report
from toolcrib.errors import (
    BackendUnavailableError,
    ChainError,
    CodeError,
    ConfigError,
    InputValidationError,
    InvalidToolIdError,
    LimitExceededError,
    MissingExtraError,
    NoBackendError,
    NoCompatibleVersionError,
    OutputValidationError,
    PolicyDeniedError,
    Problem,
    RuntimeUnavailableError,
    SandboxViolationError,
    ServerUnavailableError,
    StoreError,
    ToolCancelledError,
    ToolExecutionError,
    ToolNotFoundError,
    ToolTimeoutError,
)

PROBLEMS = (Problem("/a", "type", "must be text"),)
CODES: list[tuple[BaseException, int]] = [
    (ToolExecutionError(tool_id="a", reason="no"), 1),
    (ToolTimeoutError(tool_id="a", timeout=1), 1),
    (ToolCancelledError(tool_id="a"), 1),
    (OutputValidationError(tool_id="a", problems=PROBLEMS), 1),
    (CodeError("no"), 1),
    (LimitExceededError("cpu", "too much"), 1),
    (StoreError("a.db", "it is full"), 1),
    (RuntimeError("a bug"), 1),
    (ConfigError("a.toml", PROBLEMS), 2),
    (InputValidationError(tool_id="a", problems=PROBLEMS), 2),
    (InvalidToolIdError("::", "it is empty"), 2),
    (MissingExtraError("search", "semantic"), 2),
    (click.UsageError("no"), 2),
    (ToolNotFoundError("a"), 3),
    (NoCompatibleVersionError("a", (), "^1"), 3),
    (BackendUnavailableError(tool_id="a"), 4),
    (ServerUnavailableError("a", "it is gone"), 4),
    (NoBackendError(tool_id="a"), 4),
    (RuntimeUnavailableError("docker", "install it"), 4),
    (PolicyDeniedError(tool_id="a"), 5),
    (SandboxViolationError("it tried a wall"), 5),
    (KeyboardInterrupt(), 130),
    (click.Abort(), 130),
    (FailedError(4), 4),
]


@pytest.mark.parametrize(("error", "code"), CODES, ids=[type(error).__name__ for error, _ in CODES])
def test_every_error_has_its_exit_code(error: BaseException, code: int) -> None:
    assert exit_code(error) == code
    assert code in EXITS


@pytest.mark.parametrize(("error", "code"), CODES, ids=[type(error).__name__ for error, _ in CODES])
def test_a_failed_step_has_the_exit_code_of_its_error(error: BaseException, code: int) -> None:
    failed = ChainError(0, (), "no")
    failed.__cause__ = error
    if code in {3, 4, 5} and not isinstance(error, FailedError):
        assert exit_code(failed) == code
    assert exit_code(failed) in EXITS


def test_an_error_alone_in_a_group_is_that_error(capsys: Any) -> None:
    group = BaseExceptionGroup("many", [ExceptionGroup("one", [ToolNotFoundError("a")])])
    assert report(group, as_json=False) == 3
    assert capsys.readouterr().err == "error: no tool named 'a'\n"


def test_the_last_words_of_a_server_are_told(capsys: Any) -> None:
    failed = BackendUnavailableError(tool_id="a:b", backend="mcp:a", reason="it exited")
    failed.__cause__ = ServerUnavailableError("a", "it exited", "the licence has expired")
    assert report(failed, as_json=False) == 4
    told = "error: a:b: mcp:a is unavailable: it exited; its stderr ends with: the licence has expired\n"
    assert capsys.readouterr().err == told


def test_guess_of_a_failure_follows_the_last_words_of_the_server(capsys: Any) -> None:
    guess = "it may need TOKEN"
    failed = BackendUnavailableError(tool_id="a:b", backend="mcp:a", reason="it exited", advice=guess)
    failed.__cause__ = ServerUnavailableError("a", "it exited", "loading\nno TOKEN", advice=guess)
    assert report(failed, as_json=False) == 4
    told = "error: a:b: mcp:a is unavailable: it exited; its stderr ends with:\nloading\nno TOKEN\n"
    assert capsys.readouterr().err == f"{told}{guess}\n"


def test_a_bug_is_told_in_a_line(capsys: Any) -> None:
    assert report(RuntimeError("ouch"), as_json=False) == 1
    assert capsys.readouterr().err == "error: RuntimeError: ouch; run it again with --debug to see where\n"
    assert report(RuntimeError("ouch"), as_json=True) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "internal"


def test_a_file_that_cannot_be_used_is_named(capsys: Any) -> None:
    report(PermissionError(13, "Permission denied", "/etc/shadow"), as_json=False)
    report(OSError(28, "No space left on device"), as_json=False)
    told = "error: Permission denied: '/etc/shadow'\nerror: No space left on device\n"
    assert capsys.readouterr().err == told


def test_error_names_the_missing_package(capsys: Any) -> None:
    assert report(ModuleNotFoundError("no", name="rich.table"), as_json=False) == 2
    told = "error: output on a terminal needs the 'cli' extra: pip install 'toolcrib[cli]'\n"
    assert capsys.readouterr().err == told


def test_an_interrupt_and_a_told_failure_say_nothing_more(capsys: Any) -> None:
    assert report(click.Abort(), as_json=True) == 130
    assert report(FailedError(1), as_json=True) == 1
    assert capsys.readouterr() == ("", "")
