"""Errors as a guest sees them: a builtin exception with a message, and nothing about the host."""

from dataclasses import dataclass
from typing import Any

from toolcrib.errors import (
    ChainError,
    InvalidChainError,
    PolicyDeniedError,
    ToolcribError,
    ToolNotFoundError,
    ToolTimeoutError,
    ValidationError,
    explain,
)
from toolcrib.redaction import error_text, scrub

_KINDS: tuple[tuple[type[BaseException], str], ...] = (
    (ToolNotFoundError, "LookupError"),
    (InvalidChainError, "ValueError"),
    (ToolTimeoutError, "TimeoutError"),
    (PolicyDeniedError, "PermissionError"),
    (ChainError, "RuntimeError"),
    (ConnectionError, "OSError"),
    (ValidationError, "ValueError"),
    (ValueError, "ValueError"),
)
"""The builtin exception for each error, the first match counts; every engine has these."""
TRY_PROCESS = "; 'process' does: ask for it, or for `language_fallback`"


@dataclass(eq=False)
class GuestError(Exception):
    """A failure that the guest may see and handle."""

    kind: str
    """The builtin exception that is raised in the guest."""
    message: str
    """The text of that exception."""

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


def as_guest_error(error: BaseException, args: Any = None) -> GuestError:
    """Return an error for a guest, without secrets and paths of the host; those in its arguments are kept.

    >>> str(as_guest_error(ToolNotFoundError("git:comit", ("git:commit",))))
    "LookupError: no tool named 'git:comit'; did you mean 'git:commit'?"
    """
    kind = next((name for known, name in _KINDS if isinstance(error, known)), "RuntimeError")
    if not isinstance(error, ToolcribError):  # foreign: its message may hold secrets and paths
        return GuestError(kind, error_text(error, args))
    pointers = [problem.path for problem in getattr(error, "problems", ())]
    return GuestError(kind, scrub(explain(error)["message"], [args, pointers]))


def unsupported_message(feature: str) -> str:
    """Return the message for a feature that Monty does not support.

    >>> unsupported_message("yield").removesuffix(TRY_PROCESS)
    "the 'monty' sandbox does not support yield"
    """
    return f"the 'monty' sandbox does not support {feature}{TRY_PROCESS}"
