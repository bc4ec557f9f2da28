"""The frontend protocol: the tools that clients see, and what it may ask of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from toolcrib.execution import Principal
from toolcrib.execution.call import Approval, Call, CallContext, CallSuspendedError
from toolcrib.model import RunResult
from toolcrib.model.findings import ResultFinding

if TYPE_CHECKING:
    import mcp_types

ToolDefinition: TypeAlias = "mcp_types.Tool | Mapping[str, Any]"
"""A tool as it is listed: of the SDK's type, or as MCP writes it, which is passed on as it is."""
ToolResult: TypeAlias = "mcp_types.CallToolResult | dict[str, Any]"
"""The result of a call, likewise."""


class InputNeeded(CallSuspendedError):  # noqa: N818 - it is no error: it carries a question out of the handler
    """Raised in a stateless request that its client must make again, with an answer."""

    def __init__(self, result: "mcp_types.InputRequiredResult") -> None:
        super().__init__("the client is asked for input, and makes the request again")
        self.result = result


class ConfirmationResult(StrEnum):
    """The outcome of a question to a person."""

    ACCEPTED = "accepted"
    DECLINED = "declined"
    """The person said no."""
    DISMISSED = "dismissed"
    """The question was closed without an answer, as by a client that runs without a user."""
    UNANSWERED = "unanswered"
    """There was no answer: none in time, or one without a yes or no."""
    UNASKED = "unasked"
    """The client cannot ask anybody."""


@dataclass(frozen=True, slots=True)
class StartedTask:
    """A task that a server has begun in place of the answer to a call."""

    call: Call
    """The call, without its arguments."""
    handle: dict[str, Any]
    """The server's answer, with its id of the task."""
    findings: tuple[ResultFinding, ...] = ()
    """What the check of results found in it."""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """A question that a person answers with yes or no."""

    key: str
    """Its id within the request; the same each time the request is repeated."""
    text: str
    """The question."""


class CallingClient(Protocol):
    """The client behind one request."""

    @property
    def principal(self) -> Principal:
        """The caller: the subject of the token, else the client by its self-declared name."""
        ...

    def context(self, approval: Approval = ...) -> CallContext:
        """Return the context of a call that its request makes, with the consent of its user."""
        ...

    @property
    def wants_progress(self) -> bool:
        """Whether it asked for progress notifications."""
        ...

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Send a progress notification, if it requested them."""
        ...

    @property
    def can_ask(self) -> bool:
        """Whether it can ask a person; nothing is asked yet."""
        ...

    async def confirm(self, question: Confirmation) -> ConfirmationResult:
        """Ask a person, and return the answer.

        With the stateless protocol the client makes the request again, with the answer. So call this before
        doing anything else.

        Raises:
            InputNeeded: the endpoint answers the request with the question.
        """
        ...


class Frontend(Protocol):
    """The tools of one endpoint, as its clients list and call them.

    Safe to use from many tasks at once. `call` returns failures as results with `is_error`, and raises only
    `InputNeeded`, cancellation, and `MCPError`: for an unknown tool, or one whose server refuses the call
    with a protocol error. For a tool that exists but is not listed, because it cannot run here, the result
    may be a failure with the reason.
    """

    def __hash__(self) -> int:
        """Return its hash, which objects have of themselves: what is known of it is kept by it."""
        ...

    def about(self) -> str:
        """Return what a model should know before it uses the tools."""
        ...

    def tools(self) -> "Sequence[ToolDefinition]":
        """Return the tools, in the same order each time."""
        ...

    async def call(self, name: str, arguments: Mapping[str, Any], client: CallingClient) -> "ToolResult":
        """Call a tool for a client."""
        ...

    def on_change(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call back, from any thread, when `tools` may return something else; return an unsubscribe function.

        The callback is called often and must be quick: it compares the tools later.
        """
        ...


@runtime_checkable
class SettlingFrontend(Protocol):
    """A frontend whose list is worth waiting for a moment."""

    async def settled(self) -> dict[str, Any]:
        """Wait, within a bounded time, until `tools` returns what can be known.

        Returns what MCP says of how long that is fresh and for whom, where it is not as usual.
        """
        ...


@runtime_checkable
class TaskFrontend(Protocol):
    """A frontend whose calls may go on as tasks."""

    @property
    def has_own_tasks(self) -> bool:
        """Whether it has tools that make several calls, and go on as tasks where that takes long."""
        ...

    def finished(self, name: str, finish: Callable[[], RunResult], principal: Principal) -> "ToolResult":
        """Return the result of a call whose task has ended, of the tool that a principal called by a name.

        `finish` returns the result of the tool, or raises its error.
        """
        ...
