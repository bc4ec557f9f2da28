"""The records that requests of the API are read into, and those of its own answers."""

from typing import Annotated, Any, Literal

from pydantic import Field

from toolcrib.model.record import Record

_Limit = Annotated[int, Field(ge=1, le=1000)]
_Text = Annotated[str, Field(min_length=1)]


class LoginBody(Record):
    """Logs a browser in: with a code, or with the token in the `Authorization` header."""

    code: str | None = None
    """The one-time code of the link that `toolcrib console` prints; absent with a token."""


class ListQuery(Record):
    """The wanted page of a list."""

    limit: _Limit = 100
    cursor: str | None = None
    """The `nextCursor` of the page before."""


class ToolsQuery(ListQuery):
    """A page of the tools that meet conditions."""

    namespace: str | None = None
    tags: tuple[str, ...] = ()
    backend: str | None = None


class SearchQuery(Record):
    """A search for tools."""

    query: _Text
    """The task, in plain words."""
    limit: Annotated[int, Field(ge=1, le=100)] = 20
    namespace: str | None = None
    tags: tuple[str, ...] = ()


class LevelQuery(Record):
    """The wanted level of detail of a tool's documentation."""

    level: Literal["summary", "schema", "full"] = "full"


class RunBody(Record):
    """A call of a tool."""

    tool_id: _Text
    args: Any = Field(default={})
    timeout: Annotated[float, Field(gt=0, le=86_400)] | None = None
    """Seconds."""
    confirmed: str | None = None
    """The key of the question that a person has agreed to."""


class ConvertBody(Record):
    """Tools to write in the format of a provider."""

    ids: Annotated[tuple[_Text, ...], Field(min_length=1, max_length=1000)]
    to: _Text
    """A format: openai, anthropic, gemini, mcp or a2a."""
    options: dict[str, Any] = Field(default={})
    """Options of the format, such as `strict`."""


class CallConditions(Record):
    """Conditions on calls; absent ones admit all."""

    tool: str | None = None
    """An id, or the beginning of ids with a `*`."""
    who: str | None = None
    """A subject, or a client."""
    outcome: str | None = None
    """`ok`, `failed`, or the code of an error."""
    since: float | None = None
    """Seconds since 1970."""
    until: float | None = None
    """Seconds since 1970."""
    text: str | None = None
    """A part of the id, the caller or the outcome."""
    mine: bool = False
    """Only calls of the caller's own account."""


class CallsQuery(CallConditions):
    """A page of the calls that meet conditions, the newest first."""

    limit: _Limit = 200
    cursor: Annotated[int, Field(ge=1)] | None = None


class ExportQuery(CallConditions):
    """The calls to export, and the format."""

    format: Literal["csv", "json"] = "json"


class OverviewQuery(Record):
    """The time that an overview is about."""

    minutes: Annotated[int, Field(ge=1, le=24 * 60)] = 60


class ApproveBody(Record):
    """Subjects to approve as they are now."""

    subjects: tuple[_Text, ...] = ()
    """Ids of tools without versions, `server/NAME`, `prompt/SERVER/NAME` or `template/SERVER/URI`."""
    everything: bool = False
    """Approve all that has changed, except what is blocked."""


class BlockBody(Record):
    """A tool that nobody may use."""

    id: _Text
    reason: _Text


class SuppressBody(Record):
    """A finding of the scan that is harmless."""

    id: _Text
    """The tool, or the server whose words they are."""
    rule: _Text
    reason: _Text


class AnswerBody(Record):
    """The answer to a call that waits."""

    approve: bool


class WebhookAnswerBody(Record):
    """A signed answer to a call that waits."""

    id: str
    """The id of the call."""
    approve: bool
    by: _Text
    """Name of the person who answers."""


class LinkAnswerBody(Record):
    """Shows, or answers, the call of a link that was sent to a person."""

    token: str
    """The part of the link after the id."""
    approve: bool | None = None
    """Absent: the call is shown."""


class AccessBody(Record):
    """A caller, a tool and arguments, for the decision of the rules about them."""

    tool_id: _Text
    subject: str = ""
    """As rules name callers: `token:NAME`, `user:SUBJECT`, `local:USER`."""
    client: str = ""
    groups: tuple[_Text, ...] = ()
    args: dict[str, Any] = Field(default={})


class SimulateBody(Record):
    """Rules to try on the latest calls."""

    rules: tuple[dict[str, Any], ...] | None = None
    """Rules as `[[policy]]` tables write them; absent: those that hold."""


class BeginRunBody(Record):
    """Code, or the steps of a chain, to run durably."""

    code: str | None = None
    """Python that calls tools."""
    steps: tuple[dict[str, Any], ...] | None = None


class ResumeBody(Record):
    """Instructions for resuming a run whose last calls have no known outcome."""

    repeat: bool = False
    """Make these calls again."""
    answers: dict[str, Any] = Field(default={})
    """Answers to use in place of making them again, by key."""


class RevokeBody(Record):
    """The person whose login to forget; without a subject, this machine's user."""

    issuer: str = ""
    subject: str = ""


class Me(Record):
    """The person who is logged in, with their rights and the parts of the gateway that they can use."""

    issuer: str
    subject: str
    client: str
    groups: tuple[str, ...] = ()
    operator: bool
    """True: they may answer calls that wait, and start and stop servers."""
    auditor: bool
    """True: they see the calls of everybody, as operators do."""
    version: str
    """The version of toolcrib."""
    config: str | None = None
    """The file of the configuration, for operators."""
    toolsets: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    """The formats that tools can be written in."""


class Series(Record):
    """Calls in each minute of a time, the oldest first."""

    start: float
    """Beginning of the first minute, in seconds since 1970."""
    calls: tuple[int, ...]
    failed: tuple[int, ...]
    p50: tuple[float | None, ...]
    """The median of the seconds that calls took."""
    p95: tuple[float | None, ...]


class ToolUse(Record):
    """Use of one tool during a time."""

    tool_id: str
    calls: int
    failed: int
    seconds: float
    """All of its calls together."""
    tokens: int
    """About how many tokens its results had."""


class Overview(Record):
    """State of the gateway: servers, tools, and the calls of a time."""

    servers: dict[str, int]
    """Servers and APIs by state."""
    unhealthy: tuple[str, ...]
    tools: int
    running: int
    """Calls that have not ended."""
    waiting: int
    """Calls waiting for approval."""
    calls: int
    failed: int
    p50: float | None = None
    p95: float | None = None
    series: Series
    top: tuple[ToolUse, ...]
    """The tools with the most calls."""
    sessions: int | None = None
    """Connected clients of the handshake era, for operators."""


class LoginHolder(Record):
    """Somebody's login to a server; without a subject that of this machine's user, which programs share."""

    issuer: str = ""
    subject: str = ""


class ServerLine(Record):
    """State of a server or an API, with the repair of a failure."""

    name: str
    state: str
    transport: str
    healthy: bool
    why: str | None = None
    """Reason of its failure."""
    repair: Literal["start", "login", "config"] | None = None
    """The repair: a start, a login, or a change of its settings."""
    hint: str | None = None
    """Advice for a repair that no button makes."""
    paused: bool = False
    """True: an operator has stopped it."""
    tools: int | None = None
    kept: bool | None = None
    in_flight: int = 0
    pid: int | None = None
    starts: int = 0
    listed_ago: float | None = None
    next_try_in: float | None = None
    protocol_version: str | None = None
    server_info: dict[str, Any] | None = None
    refused: dict[str, str] = Field(default={})
    """Definitions that are no valid tools, with the reasons."""
    logins: tuple[LoginHolder, ...] = ()
    """Persons who have logged in to it, for operators."""


class LogTail(Record):
    """Last lines of a server's standard error."""

    name: str
    text: str


class LoginPage(Record):
    """The page on which a person logs in to a server."""

    url: str
