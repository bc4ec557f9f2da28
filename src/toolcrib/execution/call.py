"""The records of a call: its context, what was asked, what came back, and the events of a stream."""

from collections.abc import Awaitable, Callable, Container
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, Literal, Protocol

from pydantic import Field

from toolcrib.errors import PolicyDeniedError, ToolcribError
from toolcrib.execution.principal import Principal, SubjectToken
from toolcrib.execution.rule import Effect, Rule
from toolcrib.model.backend import AnyBackend, ToolBackend
from toolcrib.model.protocols import ToolSource
from toolcrib.model.record import Record
from toolcrib.model.tool import Tool

if TYPE_CHECKING:
    from mcp.shared.exceptions import MCPError


PageNotifier = Callable[[str, bool], None]
"""Told the id of an elicitation, and whether the request that it was for is still under way."""


class CallClient(Protocol):
    """The client behind a request, as far as servers may ask it and tell it something."""

    @property
    def peer(self) -> object:
        """Equal for requests of the same client, where that can be known; answers go to no other peer."""
        ...

    @property
    def capabilities(self) -> dict[str, Any]:
        """The capabilities among elicitation, sampling and roots that it declares, as MCP has them."""
        ...

    @property
    def takes_server_requests(self) -> bool:
        """Whether a server asks it by requests of its own: it is of the handshake era, and can be asked."""
        ...

    @property
    def extensions(self) -> dict[str, Any]:
        """The extensions that it declares and that servers may make use of by way of a gateway."""
        ...

    @property
    def takes_tasks(self) -> bool:
        """Whether its request may be answered with a task, or is about one."""
        ...

    def note_task(self, call: "Call", handle: dict[str, Any]) -> None:
        """Take the task that a server has begun in place of an answer."""
        ...

    @property
    def log_level(self) -> str | None:
        """From which level on it wants log messages; None: none at all."""
        ...

    @property
    def has_set_level(self) -> bool:
        """Whether it named that level itself; else messages are for it where a server declares to log."""
        ...

    async def log(self, params: dict[str, Any]) -> None:
        """Send it a log message, the parameters of `notifications/message`, unless its level is too low."""
        ...

    def note_refusal(self, error: "MCPError") -> None:
        """Note that a server refused, because the client has not a capability that it needs."""
        ...

    def take_server_state(self) -> dict[str, Any]:
        """Return what a request that it makes again carries to the server: state and responses, once."""
        ...

    def pass_on(self, result: dict[str, Any]) -> bool:
        """Take the question of a stateless server as the answer to its own request, if that can be.

        It can where its request stands for one request to a server, and is made again with the responses.
        """
        ...

    def page_notifier(self) -> PageNotifier | None:
        """Return what tells it at once that a page is done with, if it can be told; it keeps no request."""
        ...


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision about a call."""

    effect: Effect
    rule: Rule | None = None
    """The rule that decides; None where none does."""
    is_risky: bool = False
    """Whether a person has to agree because the tool may destroy something, and no rule consents to it."""
    allowed_by: str | None = None
    """The name of the rule that allows it, or what the policy of the program names; for the audit."""

    @property
    def needs_person(self) -> bool:
        """Whether a person has to agree first."""
        return self.is_risky or self.effect == "ask"


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """Consent of a person to the calls of one request: given, refused, or still to be asked for."""

    ask: "Callable[[Request, Decision], Awaitable[None]] | None" = None
    """Asks a person about a call; raises `PolicyDeniedError` unless they agree. None: nobody can be asked."""
    granted: frozenset[str] = frozenset()
    """Ids of the tools that a person has agreed to."""
    confirm_destructive: bool = False
    """Whether a destructive tool needs consent even where no rule asks for it."""
    refusal: PolicyDeniedError | None = None
    """The refusal of a person, to be recorded for each call that they were asked about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """Facts about one call, made once where it enters and passed down to its executor.

    A chain and code pass the context of their own call on to each call that they make.
    """

    principal: Principal | None = None
    """Who calls, where that is known."""
    client: CallClient | None = None
    """The MCP client behind the call: servers may ask it for input, and send it progress and logs."""
    approval: Approval = Approval()
    """What a person has agreed to, and whether one can be asked."""
    subject_token: SubjectToken | None = None
    """The token of the request, for servers whose tokens it is exchanged for."""
    tools: ToolSource | None = None
    """The tools that the call may reach; None: all of the runner's."""
    step: str = ""
    """Place of the call in a chain, such as `2.0`; no two calls of a chain have the same."""


class CallSuspendedError(Exception):
    """The call stops before it begins: its client makes the request again, with the answer of a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A tool and the arguments to run it with, before it is known where."""

    tool: Tool
    """The tool to run."""
    args: dict[str, Any]
    """To be read only: the caller's own object may be in it."""
    context: CallContext = CallContext()
    """Who asks, and how."""

    @property
    def principal(self) -> Principal | None:
        """Return who asks, where it is known: part of the cache key, the policy's question and the audit."""
        return self.context.principal

    @property
    def tool_id(self) -> str:
        """Return the id of the tool."""
        return str(self.tool.id)

    @property
    def read_only(self) -> bool:
        """Return whether the tool says that it changes nothing."""
        hints = self.tool.annotations
        return hints is not None and hints.read_only_hint is True

    @property
    def destructive(self) -> bool:
        """Return whether the tool may destroy something: it says so, or does not deny it."""
        hints = self.tool.annotations
        return not self.read_only and (hints is None or hints.destructive_hint is not False)

    @property
    def repeatable(self) -> bool:
        """Return whether running it twice does no more than running it once."""
        hints = self.tool.annotations
        return hints is not None and (hints.read_only_hint is True or hints.idempotent_hint is True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """Something that a tool tells while it runs."""

    kind: Literal["progress", "chunk"]
    """Whether it is progress or a part of the result."""
    data: Any
    """Of a chunk a part of the result; of progress `{progress?, total?, message?, level?}`."""


Emit = Callable[[Update], Awaitable[None]]
"""Passes an update on; it returns when there is room for the next one, and that is the back-pressure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Request):
    """A request on its way to one backend."""

    backend: ToolBackend
    """Where the call goes."""
    emit: Emit | None = None
    """Where updates go; None where nobody listens."""
    streamed: bool = False
    """Whether the caller reads a stream, and not the result alone."""
    deadline: float = inf
    """When its time is over, on the clock of the event loop."""
    pause: Callable[[], AbstractContextManager[None]] | None = None
    """Stops the clock while the client behind it is asked; None where its caller gave it so many seconds."""
    on_asked: Callable[[], None] | None = None
    """Called when the client behind it is asked for something: nobody else may have its answer then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a backend gave back for one call."""

    structured: Any = None
    """The value, as JSON, never wrapped."""
    mcp_result: Any = None
    """The raw result, where it came from an MCP server."""
    notes: tuple[str, ...] = ()
    """What the caller should know of how it came about, such as an answer from the cache."""
    is_personal: bool = False
    """Whether the client behind the call was asked for something, so that it is nobody else's answer."""
    is_task: bool = False
    """Whether the tool goes on as a task of its server: the raw result is its handle, and has no value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one call ended: with an answer, or with an error."""

    tool_id: str
    """The id of the tool, or the reference that no tool answers to."""
    request: Request | None
    """None where the tool was not found."""
    backend: ToolBackend | None
    """The last one that was tried; None where it did not come to that."""
    answer: Answer | None
    """The answer; None with an error."""
    error: BaseException | None
    """None with an answer; a `ToolcribError`, or the cancellation of the caller."""
    duration: float
    """Seconds."""
    principal: Principal | None = None
    """Who asked, where that is known."""
    is_allowed: bool = False
    """Whether the policy let it run, or there is none."""
    rule: str | None = None
    """The rule of the policy that let it run, where a rule did."""
    raw_args: Any = field(default=None, repr=False)
    """The arguments as they came, which need not even be an object."""

    @property
    def is_suspended(self) -> bool:
        """Whether the call only waits for its client to make the request again, so that nothing has ended."""
        return isinstance(self.error, CallSuspendedError)


class StreamEvent(Record):
    """One thing that a running tool tells; the last is the one `done` or the one `error`."""

    kind: Literal["progress", "chunk", "done", "error"]
    """What it is."""
    tool_id: str
    """The id of the tool; the reference as it was asked for, until the tool is found."""
    ref: str | None = None
    """What was asked for, where that is not the id: an id without its version, or with a constraint."""
    data: Any = None
    """Of `done` the value, of `error` what `toolcrib.errors.explain` says, else as in `Update`."""
    backend: AnyBackend | None = None
    """Where it ran, once that is known."""
    error: ToolcribError | None = Field(default=None, exclude=True, repr=False)
    """The exception itself, for callers in this process; it is not part of the JSON."""

    def to_json(self, *, without: Container[str] = ()) -> dict[str, Any]:
        """Return the event as JSON, without the exception."""
        return super().to_json(
            without={"error"} | {name for name in type(self).model_fields if name in without}
        )
