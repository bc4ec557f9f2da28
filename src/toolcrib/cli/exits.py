"""Exit codes, and how a failure is reported: in a few words or as one JSON document."""

import errno
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import click

from toolcrib.cli.interrupt import INTERRUPTED
from toolcrib.errors import (
    BackendUnavailableError,
    MissingExtraError,
    NoCompatibleVersionError,
    ServerUnavailableError,
    ToolcribError,
    explain,
)
from toolcrib.errors.text import describe_failure

FAILED = 1
USAGE = 2
NOT_FOUND = 3
UNAVAILABLE = 4
REFUSED = 5
FINDINGS = 13
EXITS = {
    0: "ok",
    FAILED: "the tool failed, a rate limit was exceeded, or something else failed",
    USAGE: "the command line, the configuration or the input is wrong",
    NOT_FOUND: "there is no such tool, server, client or file to import",
    UNAVAILABLE: "a required server, API or sandbox is unavailable",
    REFUSED: "refused by the policy",
    10: "`verify`, `diff` and `require`: only wording has changed since the tools were approved",
    11: "the same verbs: something has changed without breaking any call",
    12: "the same verbs: something has changed in a way that may break calls",
    FINDINGS: "`verify` and `scan`: a definition is designed to mislead a model",
    INTERRUPTED: "interrupted",
}
"""The exit codes and their meanings."""
_CODES = {
    "tool_not_found": NOT_FOUND,
    "no_backends": UNAVAILABLE,
    "backend_unavailable": UNAVAILABLE,
    "denied": REFUSED,
    "validation_input": USAGE,
}
"""Exit codes by the error names of `toolcrib.errors.explain`; all others are failures."""


class FailedError(Exception):
    """A command that has printed its result, and whose result is a failure."""

    def __init__(self, code: int = FAILED) -> None:
        super().__init__(EXITS.get(code, ""))
        self.code = code


class UnavailableError(click.ClickException):
    """Something that the verb needs does not run."""

    exit_code = UNAVAILABLE


class NotFoundError(click.ClickException):
    """Something that the command line names is not there."""

    exit_code = NOT_FOUND


def exit_code(error: BaseException) -> int:
    """Return the exit code for an error.

    >>> from toolcrib.errors import ToolNotFoundError
    >>> exit_code(ToolNotFoundError("ad", ("add",)))
    3
    """
    match _unwrap_group(error):
        case FailedError(code=code) | click.ClickException(exit_code=code):
            return int(code)
        case KeyboardInterrupt() | click.Abort():
            return INTERRUPTED
        case MissingExtraError():
            return USAGE
        case NoCompatibleVersionError():
            return NOT_FOUND
        case ToolcribError() as failure:
            return _code_of(explain(failure))
        case _:
            return FAILED


def _code_of(payload: dict[str, Any]) -> int:
    """Return the exit code for an explained error; that of a chain is the one of the step that failed."""
    cause = payload.get("details", {}).get("cause")
    if payload["code"] == "chain_step_failed" and cause:
        return _code_of(cause)
    return _CODES.get(payload["code"], FAILED)


def report(error: BaseException, *, as_json: bool, debug: bool = False) -> int:
    """Report an error to the user, and return the exit code.

    With `as_json` standard output gets `{"error": {...}}`, as `toolcrib.errors.explain` says it; without,
    standard error gets one block.
    """
    error = _unwrap_group(error)
    code = exit_code(error)
    if code == INTERRUPTED or isinstance(error, FailedError):
        return code
    if debug:
        from toolcrib.cli.screen import clean  # noqa: PLC0415 - an error while starting must be light

        sys.stderr.writelines(map(clean, traceback.format_exception(error)))
    if as_json:
        from toolcrib.cli.screen import show_json  # noqa: PLC0415 - an error while starting must be light

        show_json({"error": error_payload(error)})
        return code
    _print_error(error)
    return code


def _unwrap_group(error: BaseException) -> BaseException:
    """Return the only error of a group; for a missing module, the error that names its package."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if isinstance(error, ImportError) and (error.name or "").partition(".")[0] == "rich":
        return MissingExtraError("output on a terminal", "cli")
    return error


def error_payload(error: BaseException) -> dict[str, Any]:
    """Return an error as JSON, with the end of the server's stderr, which its owner may read."""
    if isinstance(error, ToolcribError):
        return _add_stderr(error)
    if isinstance(error, click.ClickException):
        code = "not_found" if isinstance(error, NotFoundError) else "usage"
        return {"code": code, "message": error.format_message(), "retryable": False}
    return {"code": "internal", "message": _unexpected_text(error), "retryable": False}


def _unexpected_text(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename!r}" if error.filename else error.strerror
    return f"{type(error).__name__}: {error}; run it again with --debug to see where"


def _print_error(error: BaseException) -> None:
    from toolcrib.cli.screen import clean  # noqa: PLC0415 - as above

    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)
        return
    if isinstance(error, click.UsageError) and error.ctx is not None:
        click.echo(f"{error.ctx.get_usage()}\nTry '{error.ctx.command_path} --help'.\n", err=True)
    heading = click.style("error:", fg="red", bold=True)
    stderr, advice = _stderr_tail(error), ""
    if stderr and isinstance(error, BackendUnavailableError | ServerUnavailableError):
        error, advice = replace(error, advice=""), error.advice  # it follows the server's own words
    message = clean(describe_failure(error_payload(error)["message"], stderr, advice))
    click.echo(f"{heading} {click.style(message, fg='red')}", err=True)


def _add_stderr(error: ToolcribError) -> dict[str, Any]:
    payload, words = explain(error), _stderr_tail(error)
    return {**payload, "details": {**payload.get("details", {}), "stderr": words}} if words else payload


def _stderr_tail(error: BaseException) -> str:
    """Return the server's message that a call failed with; errors leave it out, as models may read them."""
    cause = error
    while cause.__cause__ is not None and not isinstance(cause, ServerUnavailableError):
        cause = cause.__cause__
    if isinstance(cause, ServerUnavailableError) and cause.stderr:
        shown = explain(error)["message"] if isinstance(error, ToolcribError) else str(error)
        return "" if cause.stderr in shown else cause.stderr
    return ""


@contextmanager
def ignore_broken_pipe() -> Iterator[None]:
    """Treat a closed standard output (EPIPE) as success."""
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        if error.errno not in {errno.EPIPE, errno.ESHUTDOWN}:
            raise
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())  # so that ending does not fail over what is still to be written
        os.close(nowhere)
