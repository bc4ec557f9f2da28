"""Errors of running tools, chains and code."""

from dataclasses import dataclass, field
from typing import Any, Literal

from toolcrib.errors.base import Problem, ToolcribError
from toolcrib.errors.definitions import ValidationError
from toolcrib.errors.text import describe_failure

Op = Literal["resolve", "select_backend", "policy", "validate_input", "execute", "validate_output", "stream"]
"""The step of a tool call that failed."""
Unconfirmed = Literal["declined", "dismissed", "unanswered"]
"""The outcome of a confirmation request that a person did not confirm.

`declined`: the person said no. `dismissed`: the client dismissed the question without an answer, as clients
without a user do. `unanswered`: no answer came in time.
"""
_LOGIN_ANSWERS: dict[Unconfirmed | None, str] = {
    None: "",
    "declined": "; the user was asked, and declined to log in",
    "dismissed": "; the user was to be asked, but the client dismissed the question without an answer",
    "unanswered": "; the user was asked, but has not logged in",
}


@dataclass(eq=False, kw_only=True)
class ToolError(ToolcribError):
    """A tool call that failed, with the step that failed."""

    tool_id: str
    """The id of the tool, or the reference to it."""
    op: Op
    """The step that failed."""
    backend: str | None = None
    """`kind:name` of the backend; None if none was selected yet."""
    reason: str = ""
    """Further explanation; may be empty."""
    findings: tuple[Any, ...] = ()
    """Findings of the result check in the tool's output, as `ResultFinding`s."""

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
    result: Any = None
    """The invalid result, so that it is not lost."""

    def __str__(self) -> str:
        return f"{self.tool_id}: the result does not fit the output schema: {ValidationError.__str__(self)}"


@dataclass(eq=False, kw_only=True)
class ToolExecutionError(ToolError):
    """The tool itself failed: an MCP `isError`, or an exception in its handler."""

    op: Op = "execute"
    result: Any = None
    """The raw result with the error; None if there was none."""

    def __str__(self) -> str:
        # The backend of a function is named after its tool, and that of a server after its namespace.
        place = (self.backend or "").partition(":")[2]
        is_told = not self.backend or f"{self.tool_id}:".startswith(f"{place}:")
        backend = "" if is_told else f" on {self.backend}"
        return f"{self.tool_id} failed{backend}{': ' if self.reason else ''}{self.reason}"


@dataclass(eq=False, kw_only=True)
class ResultBlockedError(ToolError, PermissionError):
    """The result of a tool is withheld because of its content; the tool did run."""

    op: Op = "execute"

    def __str__(self) -> str:
        return f"{self.tool_id} has run, and its result is withheld: it holds {self.reason}"


@dataclass(eq=False, kw_only=True)
class ToolTimeoutError(ToolError, TimeoutError):
    """The tool did not finish within its deadline."""

    op: Op = "execute"
    timeout: float
    """The timeout, in seconds."""

    def __str__(self) -> str:
        return f"{self.tool_id} did not finish within {self.timeout:g} s"


@dataclass(eq=False, kw_only=True)
class ToolCancelledError(ToolError):
    """The caller cancelled the call before the tool finished."""

    op: Op = "execute"

    def __str__(self) -> str:
        return f"{self.tool_id} was cancelled{': ' if self.reason else ''}{self.reason}"


@dataclass(eq=False, kw_only=True)
class BackendUnavailableError(ToolError, ConnectionError):
    """The backend could not be reached, or the connection was lost."""

    op: Op = "execute"
    sent: bool = True
    """Whether the call may have reached the backend; if it did not, it is safe to repeat."""
    advice: str = ""
    """A suggestion, as in `ServerUnavailableError.advice`; may be empty."""

    def __str__(self) -> str:
        backend = self.backend or "its backend"
        why = describe_failure(self.reason, advice=self.advice)
        return f"{self.tool_id}: {backend} is unavailable{': ' if why else ''}{why}"


@dataclass(eq=False, kw_only=True)
class ToolLoginRequiredError(BackendUnavailableError):
    """The server of a tool requires a login, a shared one or the caller's own; the tool was not run."""

    server: str
    """The name of the server in the configuration."""
    url: str | None = None
    """The page where the caller, and nobody else, can log in with a browser; None if there is none."""
    answer: Unconfirmed | None = None
    """The outcome of the request to log in; None if nobody was asked."""
    sent: bool = False

    def __str__(self) -> str:
        where = f"; log in at {self.url} and call again" if self.url else ""
        return f"{BackendUnavailableError.__str__(self)}{_LOGIN_ANSWERS[self.answer]}{where}"


@dataclass(eq=False, kw_only=True)
class StreamNotSupportedError(ToolError):
    """The tool's backend cannot stream; run it instead."""

    op: Op = "stream"

    def __str__(self) -> str:
        backend = f" on {self.backend}" if self.backend else ""
        return f"{self.tool_id} cannot stream{backend}; run it instead"


@dataclass(eq=False, kw_only=True)
class PolicyDeniedError(ToolError, PermissionError):
    """The policy refused a call; if `op` is `execute`, its destination was not allowed."""

    op: Op = "policy"
    rule: str | None = None
    """The name of the rule that refused it; None if no rule did."""
    answer: Unconfirmed | None = None
    """The outcome of the confirmation request; None if nobody was asked."""

    def __str__(self) -> str:
        message = "was not sent" if self.op == "execute" else "was refused by the policy"
        if self.rule is not None:
            message = f"was refused by the rule {self.rule!r}"
        return f"{self.tool_id} {message}{': ' if self.reason else ''}{self.reason}"


@dataclass(eq=False, kw_only=True)
class ToolWithheldError(PolicyDeniedError):
    """A tool, prompt or resource that has changed since it was approved, or that nobody has approved."""

    op: Op = "resolve"
    level: str | None = None
    """The level of the change: `patch`, `minor` or `major`; None if it was withheld for another reason."""

    def __str__(self) -> str:
        return f"{self.tool_id} is withheld: {self.reason}"


@dataclass(eq=False, kw_only=True)
class RateLimitError(ToolError):
    """A call that exceeds a rate limit of the configuration; the tool was not run."""

    op: Op = "policy"
    limit: str
    """The name of the rate limit."""
    retry_after: float
    """Seconds until a call is within the limit again, unless other calls come first."""

    def __str__(self) -> str:
        return f"{self.tool_id} was not run: {self.reason}; try again in {max(self.retry_after, 0.1):.3g} s"


@dataclass(eq=False)
class ChainError(ToolcribError):
    """A step of a chain failed; the error has the results of the steps before it."""

    step_index: int
    """The index of the step, from 0, as in references and problems."""
    results: tuple[Any, ...]
    """The results of the steps that ran."""
    reason: str
    """The reason why the step failed."""
    step_id: str | None = field(default=None, kw_only=True)
    """The id of the step; None if it has none."""

    def __str__(self) -> str:
        place = f"/{self.step_index}"
        step = place if self.step_id is None else f"{self.step_id!r} ({place})"
        return f"step {step} failed: {self.reason}"


@dataclass(eq=False, kw_only=True)
class InvalidChainError(ChainError, ValidationError):
    """An invalid chain, with every problem found in it; none of its steps was run."""

    step_index: int = 0
    """The index of the first step with a problem."""
    results: tuple[Any, ...] = ()
    reason: str = ""

    def __str__(self) -> str:
        return f"the chain cannot run: {ValidationError.__str__(self)}"


@dataclass(eq=False)
class ServerUnavailableError(ToolcribError, ConnectionError):
    """An MCP server that cannot be started, reached or understood."""

    server: str
    """The name of the server in the configuration."""
    reason: str
    """The reason why it is unavailable."""
    stderr: str = ""
    """The last lines of its standard error."""
    advice: str = field(default="", kw_only=True)
    """A guess at what would help, such as a variable that the server did not get; may be empty."""

    def __str__(self) -> str:
        why = describe_failure(self.reason, self.stderr, self.advice)
        return f"server {self.server!r} is unavailable: {why}"


@dataclass(eq=False)
class LoginRequiredError(ServerUnavailableError):
    """An MCP server that requires a login; there is none, or it has expired."""

    url: str | None = None
    """The page where the caller, and nobody else, can log in with a browser; None if there is none."""
    answer: Unconfirmed | None = None
    """The outcome of the request to log in; None if nobody was asked."""

    def __str__(self) -> str:
        where = f"; log in at {self.url} and ask again" if self.url else ""
        return f"{ServerUnavailableError.__str__(self)}{_LOGIN_ANSWERS[self.answer]}{where}"


@dataclass(eq=False)
class LoginError(ToolcribError, PermissionError):
    """A login to an MCP server that failed."""

    server: str
    """The name of the server in the configuration."""
    reason: str
    """The reason for the failure."""

    def __str__(self) -> str:
        return f"no login to server {self.server!r}: {self.reason}"


@dataclass(eq=False)
class RequestRefusedError(ToolcribError):
    """An MCP server that refused a request other than a tool call, or returned a malformed response."""

    server: str
    """The name of the server in the configuration."""
    method: str
    """The MCP method, such as `resources/read`."""
    reason: str
    """The server's reason."""
    code: int | None = None
    """The JSON-RPC error code; None if there was none."""

    def __str__(self) -> str:
        return f"server {self.server!r} refused {self.method}: {self.reason}"


@dataclass(eq=False)
class CribStateError(ToolcribError, RuntimeError):
    """A crib in the wrong state: not open, closed, or already open."""

    reason: str
    """The state, and the remedy."""

    def __str__(self) -> str:
        return self.reason


@dataclass(eq=False)
class ConfigError(ToolcribError, ValueError):
    """A configuration that cannot be used, with every problem found in it."""

    source: str
    """The file, or another description of the source."""
    problems: tuple[Problem, ...]
    """All problems, at most `MAX_PROBLEMS`."""

    def __str__(self) -> str:
        return f"{self.source}: {'; '.join(map(str, self.problems))}"


@dataclass(eq=False)
class RuntimeUnavailableError(ToolcribError):
    """A sandbox that is not available on this machine, or is busy."""

    kind: str
    """The kind of sandbox."""
    remedy: str
    """The package to install or the setting to change."""
    retry_after: float | None = field(default=None, kw_only=True)
    """Seconds after which to try again, if it is busy; None if that would not help."""
    where: str = field(default="here", kw_only=True)
    """The scope in which it is unavailable; by default all code on this machine."""

    def __str__(self) -> str:
        if self.retry_after is not None:
            return f"the {self.kind!r} sandbox is busy: {self.remedy}; try again in {self.retry_after:g} s"
        return f"the {self.kind!r} sandbox is not available {self.where}: {self.remedy}"


@dataclass(eq=False)
class SandboxViolationError(ToolcribError):
    """Guest code broke the protocol of its sandbox or tried to escape."""

    reason: str
    """The violation."""
    result: Any = field(default=None, kw_only=True, repr=False)
    """The `ExecuteResult` up to the error."""

    def __str__(self) -> str:
        return f"the code was stopped: {self.reason}"


@dataclass(eq=False)
class LimitExceededError(ToolcribError):
    """The code exceeded a limit."""

    limit: str
    """A field of `Limits`; `timeout` for the deadline, `lookups` for searches and descriptions."""
    reason: str
    """The allowed amount, and the excess."""
    result: Any = field(default=None, kw_only=True, repr=False)
    """The `ExecuteResult` up to the error."""

    def __str__(self) -> str:
        return f"limit {self.limit!r} exceeded: {self.reason}"


@dataclass(eq=False)
class CodeError(ToolcribError):
    """An error in the guest code, with its location."""

    reason: str
    """The message of the error in the code."""
    line: int | None = None
    """The line of the code, from 1; None if unknown."""
    column: int | None = None
    """The column in that line; None if unknown."""
    traceback: str = ""
    """The traceback of the code; may be empty."""
    unsupported: bool = field(default=False, kw_only=True)
    """Whether the code uses a feature that this sandbox lacks, but another one may have."""
    result: Any = field(default=None, kw_only=True, repr=False)
    """The `ExecuteResult` up to the error."""

    def __str__(self) -> str:
        return self.reason if self.line is None else f"line {self.line}: {self.reason}"


@dataclass(eq=False)
class StoreError(ToolcribError, OSError):
    """A store that cannot be opened, read or written, or a value that it cannot store."""

    path: str
    """The file, or the name of a store that is not a file."""
    reason: str
    """The reason, and the remedy."""

    def __str__(self) -> str:
        return f"store {self.path!r}: {self.reason}"


@dataclass(eq=False)
class VaultError(StoreError):
    """The credential vault is damaged or cannot be opened."""

    def __str__(self) -> str:
        return f"vault {self.path!r}: {self.reason}"


@dataclass(eq=False)
class EmbeddingError(ToolcribError, RuntimeError):
    """An embedding model that cannot be read or reached, or does not return vectors."""

    reason: str
    """The reason, and the remedy."""
    model: str = ""
    """The folder of the model, or its name and address; may be empty."""
    status: int | None = None
    """The HTTP status of the response; None if there was none."""

    def __str__(self) -> str:
        return f"embedding{' with ' if self.model else ''}{self.model} failed: {self.reason}"


@dataclass(eq=False)
class ModelError(ToolcribError, RuntimeError):
    """A language model that cannot be reached, or does not answer."""

    reason: str
    """The reason, and the remedy."""
    model: str = ""
    """The name of the model and its address; may be empty."""
    status: int | None = None
    """The HTTP status of the response; None if there was none."""

    def __str__(self) -> str:
        return f"asking{' ' if self.model else ''}{self.model} failed: {self.reason}"


@dataclass(eq=False)
class MissingExtraError(ToolcribError, ImportError):
    """A feature whose optional dependencies are not installed."""

    feature: str
    """The feature that needs the extra."""
    extra: str
    """The extra to install."""

    def __str__(self) -> str:
        return f"{self.feature} needs the {self.extra!r} extra: pip install 'toolcrib[{self.extra}]'"


@dataclass(eq=False)
class MissingPackageError(ToolcribError, ImportError):
    """A feature whose package, which no extra of toolcrib installs, is not installed."""

    feature: str
    """The feature that needs the package."""
    package: str
    """The package to install, by its name on the package index."""

    def __str__(self) -> str:
        return f"{self.feature} needs the package {self.package!r}: pip install '{self.package}'"


@dataclass(eq=False)
class UnsupportedPackageError(MissingExtraError):
    """A feature whose optional dependency is installed in a version that it does not work with."""

    package: str
    """The dependency."""
    installed: str
    """The installed version."""
    supported: str
    """The supported versions."""

    def __str__(self) -> str:
        wanted = f"{self.package}{self.supported}, and {self.installed} is installed"
        return f"{self.feature} needs {wanted}: pip install 'toolcrib[{self.extra}]'"
