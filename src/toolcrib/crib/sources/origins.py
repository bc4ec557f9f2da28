"""Sources of tools: the servers and APIs of a configuration."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import anyio

from toolcrib.crib.config.settings import Settings
from toolcrib.errors import ToolcribError
from toolcrib.execution.mcp import McpServers, ServerConfig
from toolcrib.model import Tool
from toolcrib.model.record import Record

Tools = tuple[Tool, ...]


@dataclass(slots=True, eq=False)
class Origin:
    """An origin of tools: a server, or an API."""

    name: str
    """The namespace of its tools."""
    key: str
    """Its name in the catalogue and in errors, such as `mcp:github`."""
    identity: str
    """Hash of its command or address; stored tools are served only while it is the same."""
    list_tools: Callable[[], Awaitable[Tools]]
    """Requests its tools; may also pass them to `ToolLister.note`. Raises a `ToolcribError`."""
    patience: float = 30.0
    """Seconds after the request for which callers wait for its first answer."""
    download: str = ""
    """What to say if it is late because its program may have to download it first; else empty."""
    required: bool = False
    prefix: str = ""
    """Put before its errors in the log if they do not name it."""
    kept: bool = False
    """Whether the catalogue has its tools from an earlier run."""
    missed: bool = False
    """Whether it did not answer in the run that stored the tools of others."""
    needed: bool = False
    """Whether a caller has waited for it, so that it must be asked."""
    begun: bool = False
    """Whether the task that asks it has been started."""
    asked: anyio.Event = field(default_factory=anyio.Event)
    """Set at the first request for its tools."""
    since: float = 0.0
    """The time of that request."""
    answered: anyio.Event = field(default_factory=anyio.Event)
    """Set when its first answer is in the catalogue, or the first request has failed."""
    known_at: float | None = None
    """The time at which its first answer entered the catalogue."""
    taken: anyio.Event = field(default_factory=anyio.Event)
    """Set when its latest answer is in the catalogue."""
    error: ToolcribError | None = None
    """The error of the latest request; None after a success."""
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    """Cancels the task that asks it."""

    @property
    def is_well(self) -> bool:
        """Whether it has answered, and its latest request did not fail."""
        return self.answered.is_set() and self.error is None

    @property
    def is_known(self) -> bool:
        """Whether the catalogue has its tools, of this run or an earlier one."""
        return self.kept or self.known_at is not None


class Absence(Record):
    """A server or an API whose tools may be missing from lists and searches."""

    name: str
    state: Literal["starting", "failed", "missed"]
    """`starting` has not answered yet; `missed` did not in an earlier run, and has not yet in this one."""
    reason: str | None = None
    """Why, if that is known, without the server's own output, since a model may see this."""
    kept: bool = False
    """Whether the catalogue has its tools as of its last answer."""


def enabled(settings: Settings) -> dict[str, ServerConfig]:
    """Return the servers that are not disabled, with inherited settings."""
    return {name: server for name, server in settings.started_servers.items() if not server.disabled}


def names_of(settings: Settings) -> frozenset[str]:
    """Return the names of all enabled servers and APIs, which are the namespaces of their tools."""
    return frozenset((*enabled(settings), *settings.openapi))


def shared_identities(settings: Settings) -> dict[str, str]:
    """Return the identities of the enabled servers that are the same for everybody."""
    return {name: config.identity for name, config in enabled(settings).items() if not config.is_personal}


def server_origins(settings: Settings, servers: McpServers) -> dict[str, Origin]:
    """Return the origins of the tools of MCP servers, by name."""
    return {
        name: Origin(
            name=name,
            key=f"mcp:{name}",
            identity=config.identity,
            list_tools=partial(servers.tools, name),
            patience=config.start_limit,
            download=config.download,
            required=config.required,
        )
        for name, config in enabled(settings).items()
    }
