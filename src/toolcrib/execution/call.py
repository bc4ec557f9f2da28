"""The records of a call: its context, request, answer and outcome, and the events of a stream."""

from collections.abc import Awaitable, Callable, Container
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from pydantic import Field

from toolcrib.errors import LoginRequiredError, PolicyDeniedError, ToolcribError, ToolLoginRequiredError
from toolcrib.execution.kept import ReadKept
from toolcrib.execution.policy.rule import Effect, Rule
from toolcrib.execution.principal import Principal, SubjectToken
from toolcrib.model.backend import AnyBackend, ToolBackend, label
from toolcrib.model.findings import ResultFinding
from toolcrib.model.protocols import ToolSource
from toolcrib.model.record import Record
from toolcrib.model.shape import ShapedTool
from toolcrib.model.tool import Tool

if TYPE_CHECKING:
    from mcp.shared.exceptions import MCPError


_TRACES = count(1)
PageNotifier = Callable[[str, bool], None]
"""Takes the id of a completed elicitation, and whether the request that it belongs to is still running."""


class CallClient(Protocol):
    """The MCP client behind a request, as servers reach it: for input, logs and tasks."""

    @property
    def peer(self) -> object:
        """Identity of the client's connection: equal for requests of the same client alone."""
        ...

    @property
    def session(self) -> object | None:
        """Identity of its session; None in the stateless era, which has no sessions."""
        ...

    @property
    def capabilities(self) -> dict[str, Any]:
        """The capabilities that it declares among elicitation, sampling and roots, as in MCP."""
        ...

    @property
    def takes_server_requests(self) -> bool:
        """Whether servers may send it requests: it is of the handshake era and declares such a capability."""
        ...

    @property
    def extensions(self) -> dict[str, Any]:
        """The extensions that it declares and that a gateway relays."""
        ...

    @property
    def takes_tasks(self) -> bool:
        """Whether its request may be answered with a task, or concerns one."""
        ...

    def note_task(
        self, call: "Call", handle: dict[str, Any], findings: tuple[ResultFinding, ...] = ()
    ) -> None:
        """Store a task that a server began instead of responding, and the findings in its handle."""
        ...

    @property
    def log_level(self) -> str | None:
        """Least severe level of the log messages that it wants; None for no messages."""
        ...

    @property
    def has_set_level(self) -> bool:
        """Whether it chose that level itself; by default, only servers that declare logging send messages."""
        ...

    async def log(self, params: dict[str, Any]) -> None:
        """Send it the parameters of a `notifications/message`, unless they are below its level."""
        ...

    def note_refusal(self, error: "MCPError") -> None:
        """Store the refusal of a server that needs a capability which the client does not declare."""
        ...

    def take_server_state(self) -> dict[str, Any]:
        """Return the state and the responses of a repeated request, for the server, once."""
        ...

    def pass_on(self, result: dict[str, Any], findings: tuple[ResultFinding, ...] = ()) -> bool:
        """Answer its request with the question of a stateless server; return whether that is possible.

        It is where its request maps to one request to a server: the client repeats it with the responses.
        `findings` are what the check of results found in the question.
        """
        ...

    async def log_in(self, error: LoginRequiredError | ToolLoginRequiredError) -> bool:
        """Have the person behind it log in to the server of an error, and return whether they did.

        Otherwise the error has the address of the page for it, if there is one.
        """
        ...

    def page_notifier(self) -> PageNotifier | None:
        """Return a callback that reports a completed elicitation; None if the client takes no such message.

        The callback holds no reference to the request.
        """
        ...


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision of the rules and the policy about a call."""

    effect: Effect
    """`ask`: a person has to agree first."""
    rule: Rule | None = None
    """The rule that matched; None if none did."""
    is_risky: bool = False
    """Whether a person is asked because the tool may destroy something and no rule consents to it."""
    allowed_by: str | None = None
    """Name of the rule that allows the call, or the name returned by the program's policy; for the audit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """Consent of a person to the calls of one request: given, refused, or still to be requested."""

    ask: "Callable[[Request, Decision], Awaitable[None]] | None" = None
    """Asks a person; raises `PolicyDeniedError` without consent. None: no person can be asked."""
    may_suspend: bool = True
    """Whether `ask` may suspend the call until the client repeats its request. A suspended tool would run
    again from its beginning, so such an `ask` is not for calls that a tool makes itself."""
    granted: frozenset[str] = frozenset()
    """Ids of the tools that a person has agreed to."""
    confirm_destructive: bool = False
    """Whether a destructive tool needs consent even where no rule asks for it."""
    refusal: PolicyDeniedError | None = None
    """A refusal by the person; every call of this context fails with it, so that observers record each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """Facts about one call, created when the call arrives and passed down to its executor.

    Chains and code pass their own context on to each call that they make.
    """

    principal: Principal | None = None
    """The caller; None if unknown."""
    client: CallClient | None = None
    """The MCP client behind the call: servers may ask it for input and send it logs."""
    approval: Approval = Approval()
    """Consent that a person has given, and the way to ask for more."""
    subject_token: SubjectToken | None = None
    """The token of the request, for servers whose tokens are obtained by token exchange."""
    tools: ToolSource | None = None
    """The tools that the call may reach; None for all tools of the runner."""
    read_kept: ReadKept | None = None
    """Reads the kept results that handles in the arguments stand for; None where there are none."""
    trace: int = field(default_factory=_TRACES.__next__, compare=False, repr=False)
    """A number shared by all calls of one request, such as those of a chain; derived contexts keep it."""

    def nested(self) -> "CallContext":
        """Return the context of calls that the tool makes itself, on behalf of its caller.

        If a question may suspend the call, nested calls ask none: one that needs a person's consent must have
        it before the tool begins, or is refused.
        """
        approval = self.approval
        if approval.ask is not None and approval.may_suspend:
            approval = replace(approval, ask=None)
        # The function is code of the program: its calls may reach every tool of the crib that the rules allow
        # its caller, and not only those that the caller's view lists.
        return replace(self, approval=approval, tools=None, read_kept=None)


NESTED_APPROVAL: ContextVar[Approval] = ContextVar("toolcrib_nested_approval", default=Approval())  # noqa: B039 - it is frozen
"""The consent for calls that the function of a local tool makes of itself, and passes no context on.

It holds nothing of the request, since tasks that the function starts may keep it.
"""


class CallSuspendedError(Exception):
    """Stops a call before it is dispatched: the client repeats the request with the answer of a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A tool and its arguments, before a backend is chosen."""

    tool: Tool
    """The tool to run."""
    args: dict[str, Any]
    """Read-only: it may contain objects of the caller."""
    context: CallContext = CallContext()
    """The facts of the call."""
    with_handles: dict[str, Any] | None = None
    """The arguments with handles in place of kept results, for the audit; None if there were no handles."""
    shaped: ShapedTool | None = None
    """The tool as the caller sees it, where a toolset gives it another shape."""

    @property
    def principal(self) -> Principal | None:
        """The caller, if known: part of the cache key, of the decision and of the audit."""
        return self.context.principal

    @property
    def tool_id(self) -> str:
        """The id of the tool."""
        return str(self.tool.id)

    @property
    def read_only(self) -> bool:
        """Whether the tool is annotated as read-only."""
        hints = self.tool.annotations
        return hints is not None and hints.read_only_hint is True

    @property
    def destructive(self) -> bool:
        """Whether the tool may destroy something, by its annotations; without any it may, as in MCP."""
        hints = self.tool.annotations
        return not self.read_only and (hints is None or hints.destructive_hint is not False)

    @property
    def repeatable(self) -> bool:
        """Whether running the tool twice has the same effect as running it once."""
        hints = self.tool.annotations
        return hints is not None and (hints.read_only_hint is True or hints.idempotent_hint is True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """Progress, or a part of the result, that a tool reports while it runs."""

    kind: Literal["progress", "chunk"]
    """Progress, or a part of the result."""
    data: Any
    """For a chunk, a part of the result; for progress, `{progress?, total?, message?, level?}`."""


Emit = Callable[[Update], Awaitable[None]]
"""Passes an update on, and returns when there is room for the next one, which provides back-pressure."""


class MessageCheck(Protocol):
    """Checks messages of a server during one request, besides its result."""

    @property
    def findings(self) -> tuple[ResultFinding, ...]:
        """The findings so far."""
        ...

    async def check_message(self, message: Any) -> Any:
        """Return progress or a log message as it may be passed on; a placeholder if it has to be withheld."""
        ...

    async def check_answer(self, answer: Any) -> Any:
        """Return a question or the handle of a task as it may be passed on.

        Raises:
            ResultBlockedError, RequestRefusedError: it has to be withheld.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Request):
    """A request on its way to one backend."""

    backend: ToolBackend
    """The backend that runs the tool."""
    emit: Emit | None = None
    """Takes the updates; None without a listener."""
    streamed: bool = False
    """Whether the caller reads a stream, and not the result alone."""
    deadline: float = inf
    """Time at which the call is cancelled, on the clock of the event loop."""
    pause: Callable[[], AbstractContextManager[None]] = nullcontext
    """Stops the deadline while the client is asked for input, unless the caller chose the timeout."""
    on_asked: Callable[[], None] | None = None
    """Called when the client is asked for input: the answer must then not be shared with other callers."""
    check: MessageCheck | None = None
    """Checks messages of a server besides its result; None: nothing is checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The result of one call on a backend."""

    structured: Any = None
    """The value, as JSON, never wrapped."""
    mcp_result: Any = None
    """The raw result, if it came from an MCP server."""
    notes: tuple[str, ...] = ()
    """Remarks for the caller, such as that the answer came from the cache."""
    is_personal: bool = False
    """Whether the client was asked for input, so that the answer must not be shared."""
    is_task: bool = False
    """Whether the tool continues as a task of its server: the raw result is the handle, without a value."""
    findings: tuple[ResultFinding, ...] = ()
    """Findings of the result check."""


class Stage(NamedTuple):
    """A part of a call, and the seconds from the beginning of the call to its own beginning and end."""

    name: str
    """`resolve`: find the tool, and wait for its server. `check`: the rules and the arguments. `consent`: a
    person is asked. `kind:name`: a backend, with all tries on it."""
    began: float
    ended: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The end of one call: an answer, or an error."""

    tool_id: str
    """The id of the tool, or the reference if it was not found."""
    request: Request | None
    """The request; None if the tool was not found or the arguments are not an object."""
    backend: ToolBackend | None
    """The last backend that was tried; None if the call ended before that."""
    answer: Answer | None
    """The answer; None with an error."""
    error: BaseException | None
    """None with an answer; a `ToolcribError`, or the cancellation of the caller."""
    duration: float
    """Seconds."""
    principal: Principal | None = None
    """The caller, if known."""
    is_allowed: bool = False
    """Whether the call was authorized."""
    rule: str | None = None
    """The rule that allowed it, if one did."""
    raw_args: Any = field(default=None, repr=False)
    """The arguments as the caller passed them, of any type."""
    trace: int = field(default=0, repr=False)
    """The number shared by all calls of one request, as in `CallContext`."""
    marks: tuple[tuple[str | ToolBackend, float], ...] = field(default=(), repr=False)
    """The stages that it went through, in order, each with its start in seconds since the call began."""

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages that it went through, in order."""
        ends = (*(began for _, began in self.marks[1:]), self.duration)
        names = (stage if isinstance(stage, str) else label(stage) for stage, _ in self.marks)
        starts = (began for _, began in self.marks)
        return tuple(map(Stage, names, starts, ends))

    @property
    def is_suspended(self) -> bool:
        """Whether the call waits for its client to repeat the request, so that it has not ended."""
        return isinstance(self.error, CallSuspendedError)


class StreamEvent(Record):
    """An event of a streamed call; the last one is `done` or `error`."""

    kind: Literal["progress", "chunk", "done", "error"]
    """The kind of event."""
    tool_id: str
    """The id of the tool; until the tool is found, the reference."""
    ref: str | None = None
    """The reference, if it differs from the id: an id without its version, or with a constraint."""
    data: Any = None
    """For `done` the value, for `error` the result of `toolcrib.errors.explain`, else as in `Update`."""
    backend: AnyBackend | None = None
    """The backend that ran the tool, once known."""
    error: ToolcribError | None = Field(default=None, exclude=True, repr=False)
    """The exception itself, for callers in this process; not part of the JSON."""

    def to_json(self, *, without: Container[str] = ()) -> dict[str, Any]:
        """Return the event as JSON, without the exception."""
        return super().to_json(
            without={"error"} | {name for name in type(self).model_fields if name in without}
        )
