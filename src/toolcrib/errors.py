"""Every error toolcrib raises on purpose, in one tree under `ToolcribError`.

Each leaf also subclasses the builtin a caller would guess, carries its facts as attributes, and builds its
own message from them: what was wrong, then what to do.

    ToolcribError
    ├── InvalidVersionError, InvalidConstraintError, InvalidToolError, InvalidToolIdError,
    │   InvalidBackendError, ArgsTooLargeError, InvalidCursorError      (ValueError)
    ├── NoCompatibleVersionError, ToolNotFoundError                     (LookupError)
    ├── InvalidSchemaError                                              (ValueError)
    │   ├── UnsupportedDialectError, ExternalRefError, SchemaTooComplexError
    │   └── UnknownMetaSchemaError      (UnsupportedDialectError, ExternalRefError)
    ├── ValidationError                                                 (ValueError)
    ├── ConversionError                                                 (ValueError)
    ├── ToolError
    │   ├── NoBackendError, ToolExecutionError, ToolCancelledError, StreamNotSupportedError
    │   ├── InputValidationError, OutputValidationError                 (ValidationError)
    │   ├── ToolTimeoutError (TimeoutError), BackendUnavailableError (ConnectionError)
    │   └── PolicyDeniedError (PermissionError)
    ├── ChainError
    ├── RuntimeUnavailableError, SandboxViolationError, LimitExceededError, CodeError
    └── MissingExtraError                                               (ImportError)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

__all__ = [
    "ArgsTooLargeError",
    "BackendUnavailableError",
    "ChainError",
    "CodeError",
    "ConversionError",
    "ExternalRefError",
    "InputValidationError",
    "InvalidBackendError",
    "InvalidConstraintError",
    "InvalidCursorError",
    "InvalidSchemaError",
    "InvalidToolError",
    "InvalidToolIdError",
    "InvalidVersionError",
    "LimitExceededError",
    "MissingExtraError",
    "NoBackendError",
    "NoCompatibleVersionError",
    "Op",
    "OutputValidationError",
    "PolicyDeniedError",
    "Problem",
    "RuntimeUnavailableError",
    "SandboxViolationError",
    "SchemaTooComplexError",
    "StreamNotSupportedError",
    "ToolCancelledError",
    "ToolError",
    "ToolExecutionError",
    "ToolNotFoundError",
    "ToolTimeoutError",
    "ToolcribError",
    "UnknownMetaSchemaError",
    "UnsupportedDialectError",
    "ValidationError",
]

Op = Literal["resolve", "select_backend", "policy", "validate_input", "execute", "validate_output", "stream"]
"""What was being done to a tool when it failed."""

_SHOWN = 120


class ToolcribError(Exception):
    """Base of every error that toolcrib raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Facts are keyword arguments, which the default pickling of exceptions would lose.
        return _rebuild, (type(self), self.args, self.__dict__.copy())


def _rebuild(cls: type[ToolcribError], args: tuple[Any, ...], facts: dict[str, Any]) -> ToolcribError:
    error = cls.__new__(cls, *args)
    error.__dict__.update(facts)
    return error


def _shown(value: object) -> str:
    """Return the repr of a value, cut to a length that fits a message."""
    try:
        text = repr(value[: _SHOWN + 1] if isinstance(value, str | bytes) else value)
    except (ValueError, RecursionError):  # an integer too long to print, or a container too deep
        text = f"a {type(value).__name__}"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _either(options: Sequence[str]) -> str:
    quoted = [repr(option) for option in options]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a value."""

    path: str
    """Where, as a JSON Pointer into the value; empty for the value itself."""
    keyword: str
    """The schema keyword, or the rule, that refused it."""
    message: str
    """What is wrong and what would be right, in one sentence of at most 500 characters."""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


@dataclass(eq=False)
class InvalidVersionError(ToolcribError, ValueError):
    """Text that is not a SemVer 2.0.0 version."""

    text: object
    reason: str

    def __str__(self) -> str:
        return f"invalid version {_shown(self.text)}: {self.reason}"


@dataclass(eq=False)
class InvalidConstraintError(ToolcribError, ValueError):
    """Text that is not a version constraint, or a window that no version can satisfy."""

    text: object
    reason: str

    def __str__(self) -> str:
        return f"invalid constraint {_shown(self.text)}: {self.reason}"


@dataclass(eq=False)
class InvalidToolError(ToolcribError, ValueError):
    """A tool definition, or a record about a tool, that is none, with the problems found in it, up to 32."""

    problems: tuple[Problem, ...]
    name: object = None
    record: str = "tool"

    def __str__(self) -> str:
        named = "" if self.name is None else f" {_shown(self.name)}"
        return f"invalid {self.record}{named}: {'; '.join(map(str, self.problems))}"


@dataclass(eq=False)
class InvalidToolIdError(ToolcribError, ValueError):
    """Text that is not `name`, `namespace:name` or `namespace:name:version`."""

    text: object
    reason: str

    def __str__(self) -> str:
        return f"invalid tool id {_shown(self.text)}: {self.reason}"


@dataclass(eq=False)
class InvalidBackendError(ToolcribError, ValueError):
    """A backend binding that says too little or names an unknown kind."""

    reason: str

    def __str__(self) -> str:
        return f"invalid backend: {self.reason}"


@dataclass(eq=False)
class ArgsTooLargeError(ToolcribError, ValueError):
    """Example arguments that are too deep or too many to show."""

    reason: str

    def __str__(self) -> str:
        return f"example arguments are too large: {self.reason}"


@dataclass(eq=False)
class InvalidCursorError(ToolcribError, ValueError):
    """A page cursor that was not issued for this query, these filters and this index version."""

    reason: str

    def __str__(self) -> str:
        return f"invalid cursor: {self.reason}; ask again without a cursor"


@dataclass(eq=False)
class NoCompatibleVersionError(ToolcribError, LookupError):
    """No version on offer is acceptable."""

    component: str
    available: tuple[str, ...]
    wanted: str

    def __str__(self) -> str:
        offered = ", ".join(self.available) if self.available else "none"
        return f"no compatible version of {self.component!r}: wanted {self.wanted}, available: {offered}"


@dataclass(eq=False)
class ToolNotFoundError(ToolcribError, LookupError):
    """No tool answers to this reference."""

    ref: str
    suggestions: tuple[str, ...] = ()

    def __str__(self) -> str:
        hint = f"; did you mean {_either(self.suggestions)}?" if self.suggestions else ""
        return f"no tool named {_shown(self.ref)}{hint}"


@dataclass(eq=False)
class InvalidSchemaError(ToolcribError, ValueError):
    """A schema that cannot be used, with every problem found in it."""

    reason: str
    problems: tuple[Problem, ...] = ()

    def __str__(self) -> str:
        details = f": {'; '.join(map(str, self.problems))}" if self.problems else ""
        return f"{self.reason}{details}"


@dataclass(eq=False)
class UnsupportedDialectError(InvalidSchemaError):
    """A `$schema` other than 2020-12, draft-07 and the preloaded documents."""


@dataclass(eq=False)
class ExternalRefError(InvalidSchemaError):
    """A reference that leaves the schema and the preloaded documents; nothing is ever fetched."""


@dataclass(eq=False)
class UnknownMetaSchemaError(UnsupportedDialectError, ExternalRefError):
    """A `$schema` that names somebody's own meta-schema, which is not among the preloaded documents."""


@dataclass(eq=False)
class SchemaTooComplexError(InvalidSchemaError):
    """A schema that could take longer, or go deeper, than any honest one needs."""


@dataclass(eq=False)
class ValidationError(ToolcribError, ValueError):
    """A value that does not fit its schema, with every problem found in it, up to 32."""

    problems: tuple[Problem, ...]
    text: str = ""
    """The message, where it is not the list of the problems."""

    def __str__(self) -> str:
        return self.text or "; ".join(map(str, self.problems))


@dataclass(eq=False)
class ConversionError(ToolcribError, ValueError):
    """A definition, call or result that an adapter cannot translate."""

    reason: str
    adapter: str
    direction: str

    def __str__(self) -> str:
        return f"{self.adapter}, {self.direction}: {self.reason}"


@dataclass(eq=False, kw_only=True)
class ToolError(ToolcribError):
    """A tool that could not be run, and where on its way it failed."""

    tool_id: str
    op: Op
    backend: str | None = None
    reason: str = ""

    def __str__(self) -> str:
        backend = f" on {self.backend}" if self.backend else ""
        return f"{self.tool_id}: {self.op} failed{backend}{': ' if self.reason else ''}{self.reason}"


@dataclass(eq=False, kw_only=True)
class NoBackendError(ToolError):
    """The tool is known, but nothing can run it."""

    op: Op = "select_backend"

    def __str__(self) -> str:
        return f"{self.tool_id} has no backend that can run it{'; ' if self.reason else ''}{self.reason}"


@dataclass(eq=False, kw_only=True)
class InputValidationError(ToolError, ValidationError):
    """Arguments that do not fit the tool's input schema; the tool was not run."""

    op: Op = "validate_input"

    def __str__(self) -> str:
        return f"{self.tool_id}: {ValidationError.__str__(self)}"


@dataclass(eq=False, kw_only=True)
class OutputValidationError(ToolError, ValidationError):
    """A result that does not fit the tool's output schema; the tool did run."""

    op: Op = "validate_output"

    def __str__(self) -> str:
        return f"{self.tool_id}: the result does not fit the output schema: {ValidationError.__str__(self)}"


@dataclass(eq=False, kw_only=True)
class ToolExecutionError(ToolError):
    """The tool itself said no: an MCP `isError`, or an exception in its handler."""

    op: Op = "execute"
    result: Any = None
    """The raw result that carried the error, where there was one."""


@dataclass(eq=False, kw_only=True)
class ToolTimeoutError(ToolError, TimeoutError):
    """The tool did not finish within its deadline."""

    op: Op = "execute"
    timeout: float

    def __str__(self) -> str:
        return f"{self.tool_id} did not finish within {self.timeout:g} s"


@dataclass(eq=False, kw_only=True)
class ToolCancelledError(ToolError):
    """The caller gave up before the tool finished."""

    op: Op = "execute"

    def __str__(self) -> str:
        return f"{self.tool_id} was cancelled{': ' if self.reason else ''}{self.reason}"


@dataclass(eq=False, kw_only=True)
class BackendUnavailableError(ToolError, ConnectionError):
    """The backend could not be reached, or went away."""

    op: Op = "execute"

    def __str__(self) -> str:
        backend = self.backend or "its backend"
        return f"{self.tool_id}: {backend} is unavailable{': ' if self.reason else ''}{self.reason}"


@dataclass(eq=False, kw_only=True)
class StreamNotSupportedError(ToolError):
    """The tool's backend cannot stream; run it instead."""

    op: Op = "stream"

    def __str__(self) -> str:
        backend = f" on {self.backend}" if self.backend else ""
        return f"{self.tool_id} cannot stream{backend}; run it instead"


@dataclass(eq=False, kw_only=True)
class PolicyDeniedError(ToolError, PermissionError):
    """The policy refused this call."""

    op: Op = "policy"

    def __str__(self) -> str:
        return f"{self.tool_id} was refused by the policy{': ' if self.reason else ''}{self.reason}"


@dataclass(eq=False)
class ChainError(ToolcribError):
    """A step of a chain failed; the results of the steps before it are kept."""

    step_index: int
    results: tuple[Any, ...]
    reason: str

    def __str__(self) -> str:
        return f"step {self.step_index + 1} of the chain failed: {self.reason}"


@dataclass(eq=False)
class RuntimeUnavailableError(ToolcribError):
    """A sandbox that this machine cannot offer, and what to install."""

    kind: str
    remedy: str

    def __str__(self) -> str:
        return f"the {self.kind!r} sandbox is not available here: {self.remedy}"


@dataclass(eq=False)
class SandboxViolationError(ToolcribError):
    """The guest broke the protocol or tried a wall."""

    reason: str

    def __str__(self) -> str:
        return f"the code was stopped: {self.reason}"


@dataclass(eq=False)
class LimitExceededError(ToolcribError):
    """The code used more than it was given."""

    limit: str
    reason: str

    def __str__(self) -> str:
        return f"limit {self.limit!r} exceeded: {self.reason}"


@dataclass(eq=False)
class CodeError(ToolcribError):
    """The guest's own mistake, and where in its code."""

    reason: str
    line: int | None = None
    column: int | None = None
    traceback: str = ""

    def __str__(self) -> str:
        return self.reason if self.line is None else f"line {self.line}: {self.reason}"


@dataclass(eq=False)
class MissingExtraError(ToolcribError, ImportError):
    """A feature whose optional dependencies are not installed."""

    feature: str
    extra: str

    def __str__(self) -> str:
        return f"{self.feature} needs the {self.extra!r} extra: pip install 'toolcrib[{self.extra}]'"
