"""The status of a server, as known without asking it."""

from typing import Any, Literal

from pydantic import Field

from toolcrib.model.record import Record

__all__ = ["ServerState", "ServerStatus"]

ServerState = Literal["stopped", "starting", "ready", "failed", "closed", "disabled"]
"""`stopped` starts at the next call; so does `failed`, though it may have to wait; the last two never do."""


class ServerStatus(Record):
    """How one server is doing."""

    name: str
    """Its name in the configuration."""
    state: ServerState
    """The state that it is in."""
    transport: str
    """How it is reached: `stdio`, `http` or `sse`; `openapi` for an API."""
    address: str | None = None
    """The host that it is reached at; absent where it is started here."""
    protocol_version: str | None = None
    """What was agreed on; absent while it is not ready."""
    server_info: dict[str, Any] | None = None
    """What it says of itself: its name, its version."""
    tools: int | None = None
    """How many tools its last complete listing had; absent before the first."""
    listed_ago: float | None = None
    """How many seconds ago that was."""
    kept: bool | None = None
    """True where these are the tools of an earlier run, and it has not been listed since."""
    refused: dict[str, str] = Field(default={})
    """The definitions of that listing which are no tools, by name, and why."""
    pid: int | None = None
    """Its process, where it is started here and runs."""
    last_error: str | None = None
    """Why it last failed or went away; absent once it answers again."""
    stderr: str = ""
    """The last lines that it wrote to its standard error."""
    in_flight: int = 0
    """Calls that wait for their answer."""
    starts: int = 0
    """How often it was started or connected to."""
    next_try_in: float | None = None
    """Seconds until a call may try to start it again; absent where one may at once."""
