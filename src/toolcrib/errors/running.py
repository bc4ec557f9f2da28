"""Errors of running tools, chains and code."""

from dataclasses import dataclass, field
from typing import Any, Literal

from toolcrib.errors.base import Problem, ToolcribError
from toolcrib.errors.definitions import ValidationError

Op = Literal["resolve", "select_backend", "policy", "validate_input", "execute", "validate_output", "stream"]
"""What was being done to a tool when it failed."""
Unconfirmed = Literal["declined", "dismissed", "unanswered"]
"""How a question to a person ended, if not with a yes: they said no, the client closed the question without
an answer, as one does that runs without a user, or no answer came in time."""
_LOGIN_ANSWERS: dict[Unconfirmed | None, str] = {
    None: "",
    "declined": "; the user was asked, and declined to log in",
    "dismissed": "; the user was to be asked, and the client dismissed the question without an answer",
    "unanswered": "; the user was asked, and has not logged in",
}


@dataclass(eq=False, kw_only=True)
class ToolError(ToolcribError):
    """A tool that could not be run, and where on its way it failed."""

    tool_id: str
    """The id of the tool, or the reference to it."""
    op: Op
    """What was being done when it failed."""
    backend: str | None = None
    """`kind:name` of the backend, once one was selected."""
    reason: str = ""
    """Why, where there is more to say."""

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
    """What the tool gave, so that nothing is lost."""

    def __str__(self) -> str:
        return f"{self.tool_id}: the result does not fit the output schema: {ValidationError.__str__(self)}"


@dataclass(eq=False, kw_only=True)
class ToolExecutionError(ToolError):
    """The tool itself failed: an MCP `isError`, or an exception in its handler."""

    op: Op = "execute"
    result: Any = None
    """The raw result that carried the error, where there was one."""


@dataclass(eq=False, kw_only=True)
class ToolTimeoutError(ToolError, TimeoutError):
    """The tool did not finish within its deadline."""

    op: Op = "execute"
    timeout: float
    """The seconds that it had."""

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
    sent: bool = True
    """Whether the call may have reached it; only one that certainly did not is safe to repeat anywhere."""

    def __str__(self) -> str:
        backend = self.backend or "its backend"
        return f"{self.tool_id}: {backend} is unavailable{': ' if self.reason else ''}{self.reason}"


@dataclass(eq=False, kw_only=True)
class ToolLoginRequiredError(BackendUnavailableError):
    """The server of a tool wants a login, of everybody or of whoever calls; the tool was not run."""

    server: str
    """The name of the server in the configuration."""
    url: str | None = None
    """Where whoever calls can log in with a browser, where there is such a page; it is for them alone."""
    answer: Unconfirmed | None = None
    """How the question to log in ended; None where nobody was asked."""
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
    """The policy refused this call; or, where `op` is `execute`, it would have gone where it may not."""

    op: Op = "policy"
    rule: str | None = None
    """The name of the rule that refused it, where a rule did."""
    answer: Unconfirmed | None = None
    """How the question to a person ended; None where nobody was asked."""

    def __str__(self) -> str:
        message = "was not sent" if self.op == "execute" else "was refused by the policy"
        if self.rule is not None:
            message = f"was refused by the rule {self.rule!r}"
        return f"{self.tool_id} {message}{': ' if self.reason else ''}{self.reason}"


@dataclass(eq=False)
class ChainError(ToolcribError):
    """A step of a chain failed; the results of the steps before it are kept."""

    step_index: int
    """Its place in the chain, the first being 0, as in references and problems."""
    results: tuple[Any, ...]
    """The results of the steps that ran."""
    reason: str
    """Why the step failed."""
    step_id: str | None = field(default=None, kw_only=True)
    """The id of the step, where it has one."""

    def __str__(self) -> str:
        place = f"/{self.step_index}"
        step = place if self.step_id is None else f"{self.step_id!r} ({place})"
        return f"step {step} failed: {self.reason}"


@dataclass(eq=False, kw_only=True)
class InvalidChainError(ChainError, ValidationError):
    """A chain that cannot work, with every problem found in it; none of its steps was run."""

    step_index: int = 0
    """The first step that something is wrong with."""
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
    """Why it is unavailable."""
    stderr: str = ""
    """The last lines that it wrote to its standard error."""

    def __str__(self) -> str:
        last = f"; its stderr ends with: {self.stderr}" if self.stderr else ""
        return f"server {self.server!r} is unavailable: {self.reason}{last}"


@dataclass(eq=False)
class LoginRequiredError(ServerUnavailableError):
    """An MCP server that wants a login, and has none, or one that has ended."""

    url: str | None = None
    """Where whoever asks can log in with a browser, where there is such a page; it is for them alone."""
    answer: Unconfirmed | None = None
    """How the question to log in ended; None where nobody was asked."""

    def __str__(self) -> str:
        where = f"; log in at {self.url} and ask again" if self.url else ""
        return f"{ServerUnavailableError.__str__(self)}{_LOGIN_ANSWERS[self.answer]}{where}"


@dataclass(eq=False)
class LoginError(ToolcribError, PermissionError):
    """A login to an MCP server that failed."""

    server: str
    """The name of the server in the configuration."""
    reason: str
    """Why."""

    def __str__(self) -> str:
        return f"no login to server {self.server!r}: {self.reason}"


@dataclass(eq=False)
class RequestRefusedError(ToolcribError):
    """An MCP server that refused a request other than the call of a tool, or answered it with nonsense."""

    server: str
    """The server, by its name in the configuration."""
    method: str
    """The method of MCP, such as `resources/read`."""
    reason: str
    """Why, in the server's words."""
    code: int | None = None
    """The JSON-RPC code of the refusal, where it is one."""

    def __str__(self) -> str:
        return f"server {self.server!r} refused {self.method}: {self.reason}"


@dataclass(eq=False)
class CribStateError(ToolcribError, RuntimeError):
    """A crib that is not open, or not any more, or already."""

    reason: str
    """What the state is, and what to do."""

    def __str__(self) -> str:
        return self.reason


@dataclass(eq=False)
class ConfigError(ToolcribError, ValueError):
    """A configuration that cannot be used, with every problem found in it."""

    source: str
    """The file, or what stands for one."""
    problems: tuple[Problem, ...]
    """Everything wrong with the configuration, at most `MAX_PROBLEMS`."""

    def __str__(self) -> str:
        return f"{self.source}: {'; '.join(map(str, self.problems))}"


@dataclass(eq=False)
class RuntimeUnavailableError(ToolcribError):
    """A sandbox that this machine cannot offer, and what to install; or one that is busy."""

    kind: str
    """The kind of sandbox."""
    remedy: str
    """What to install or change."""
    retry_after: float | None = field(default=None, kw_only=True)
    """In how many seconds to try again, where it is busy; None where that would not help."""
    where: str = field(default="here", kw_only=True)
    """For what it is unavailable, where it is not for all code on this machine."""

    def __str__(self) -> str:
        if self.retry_after is not None:
            return f"the {self.kind!r} sandbox is busy: {self.remedy}; try again in {self.retry_after:g} s"
        return f"the {self.kind!r} sandbox is not available {self.where}: {self.remedy}"


@dataclass(eq=False)
class SandboxViolationError(ToolcribError):
    """The guest broke the protocol or tried a wall."""

    reason: str
    """What the guest did."""
    result: Any = field(default=None, kw_only=True, repr=False)
    """The `ExecuteResult` of what there was until then."""

    def __str__(self) -> str:
        return f"the code was stopped: {self.reason}"


@dataclass(eq=False)
class LimitExceededError(ToolcribError):
    """The code used more than it was given."""

    limit: str
    """A field of `Limits`; `timeout` for the deadline, `lookups` for searches and descriptions."""
    reason: str
    """How much was allowed, and what exceeded it."""
    result: Any = field(default=None, kw_only=True, repr=False)
    """The `ExecuteResult` of what there was until then."""

    def __str__(self) -> str:
        return f"limit {self.limit!r} exceeded: {self.reason}"


@dataclass(eq=False)
class CodeError(ToolcribError):
    """The guest's own mistake, and where in its code."""

    reason: str
    """The message of the error in the code."""
    line: int | None = None
    """The line of the code, the first being 1, where known."""
    column: int | None = None
    """The column in that line, where known."""
    traceback: str = ""
    """The traceback of the code, where it has one."""
    unsupported: bool = field(default=False, kw_only=True)
    """Whether the sandbox's language lacks what the code uses; another sandbox may have it."""
    result: Any = field(default=None, kw_only=True, repr=False)
    """The `ExecuteResult` of what there was until then."""

    def __str__(self) -> str:
        return self.reason if self.line is None else f"line {self.line}: {self.reason}"


@dataclass(eq=False)
class StoreError(ToolcribError, OSError):
    """A store that cannot be opened, read or written, or a value that it cannot keep."""

    path: str
    """The file, or the name of a store that is none."""
    reason: str
    """What could not be done."""

    def __str__(self) -> str:
        return f"store {self.path!r}: {self.reason}"


@dataclass(eq=False)
class VaultError(StoreError):
    """The vault of credentials, where it is damaged or cannot be opened."""

    def __str__(self) -> str:
        return f"vault {self.path!r}: {self.reason}"


@dataclass(eq=False)
class EmbeddingError(ToolcribError, RuntimeError):
    """A model that cannot be read or reached, that gave no vectors, or gave something else."""

    reason: str
    """What went wrong."""
    model: str = ""
    """The folder of the model, or its name and address, where known."""
    status: int | None = None
    """The HTTP status of the answer, where there was one."""

    def __str__(self) -> str:
        return f"embedding{' with ' if self.model else ''}{self.model} failed: {self.reason}"


@dataclass(eq=False)
class MissingExtraError(ToolcribError, ImportError):
    """A feature whose optional dependencies are not installed."""

    feature: str
    """What needs the extra."""
    extra: str
    """The extra to install."""

    def __str__(self) -> str:
        return f"{self.feature} needs the {self.extra!r} extra: pip install 'toolcrib[{self.extra}]'"


@dataclass(eq=False)
class MissingPackageError(ToolcribError, ImportError):
    """A feature whose package, which no extra of toolcrib brings, is not installed."""

    feature: str
    """What needs the package."""
    package: str
    """The package to install, as an index knows it."""

    def __str__(self) -> str:
        return f"{self.feature} needs the package {self.package!r}: pip install '{self.package}'"


@dataclass(eq=False)
class UnsupportedPackageError(MissingExtraError):
    """A feature whose optional dependency is installed in a version that it does not work with."""

    package: str
    """The dependency."""
    installed: str
    """The version that is there."""
    supported: str
    """The versions that work."""

    def __str__(self) -> str:
        wanted = f"{self.package}{self.supported}, and {self.installed} is installed"
        return f"{self.feature} needs {wanted}: pip install 'toolcrib[{self.extra}]'"
