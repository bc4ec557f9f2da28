"""Records of calls, answers and events."""

from collections.abc import Awaitable, Callable, Container
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from math import inf
from typing import Any, Literal

from pydantic import Field

from toolcrib.errors import ToolcribError
from toolcrib.execution.principal import Principal
from toolcrib.model.backend import AnyBackend, ToolBackend
from toolcrib.model.record import Record
from toolcrib.model.tool import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A tool and the arguments to run it with, before it is known where."""

    tool: Tool
    """The tool to run."""
    args: dict[str, Any]
    """To be read only: the caller's own object may be in it."""
    principal: Principal | None = None
    """Who asks, where it is known: part of the cache key, the policy's question and the audit."""

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
