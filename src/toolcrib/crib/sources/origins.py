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
    """Where tools come from: a server, or an API."""

    name: str
    """The namespace of its tools."""
    key: str
    """What the catalogue and errors call it, such as `mcp:github`."""
    identity: str
    """What it is started or reached by; stored tools are served only where that is the same."""
    list_tools: Callable[[], Awaitable[Tools]]
    """Asks it; raises a `ToolcribError`, or tells `Listing.note` too."""
    patience: float = 30.0
    """For how many seconds after it is asked anybody waits for its first answer."""
    required: bool = False
    prefix: str = ""
    """What stands before an error of it in the log, where that does not name it."""
    kept: bool = False
    """Whether the catalogue has its tools from an earlier run."""
    missed: bool = False
    """Whether it did not answer in an earlier run that the catalogue has others from."""
    needed: bool = False
    """Whether somebody has waited for it, so that it is to be asked."""
    begun: bool = False
    """Whether the task that asks it was started."""
    asked: anyio.Event = field(default_factory=anyio.Event)
    """Set when it is asked for the first time."""
    since: float = 0.0
    """When that was."""
    answered: anyio.Event = field(default_factory=anyio.Event)
    """Set when its first answer is in the catalogue, or has failed to come."""
    known_at: float | None = None
    """When its first answer came into the catalogue."""
    taken: anyio.Event = field(default_factory=anyio.Event)
    """Set when its latest answer is in the catalogue."""
    error: ToolcribError | None = None
    """Why it did not answer the last time; None once it does."""
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    """Ends the asking."""

    @property
    def is_well(self) -> bool:
        """Whether its latest answer is in the catalogue, as far as one was wanted."""
        return self.answered.is_set() and self.error is None

    @property
    def is_known(self) -> bool:
        """Whether the catalogue has its tools, be they from an earlier run."""
        return self.kept or self.known_at is not None


class Absence(Record):
    """A server or an API whose tools may be missing from lists and searches."""

    name: str
    state: Literal["starting", "failed", "missed"]
    """`starting` has not answered yet; `missed` did not in an earlier run, and has not yet in this one."""
    reason: str | None = None
    """Why it failed, without what it wrote itself: a model may see it."""
    kept: bool = False
    """Whether its tools are there, as they were when it last answered."""


def enabled(settings: Settings) -> dict[str, ServerConfig]:
    """Return the servers that are not switched off, as they are started."""
    return {name: server for name, server in settings.started_servers.items() if not server.disabled}


def names_of(settings: Settings) -> frozenset[str]:
    """Return the namespaces whose tools come from servers and APIs."""
    return frozenset((*enabled(settings), *settings.openapi))


def shared_identities(settings: Settings) -> dict[str, str]:
    """Return what the servers are started or reached by, of those that are the same for everybody."""
    return {name: config.identity for name, config in enabled(settings).items() if not config.is_personal}


def server_origins(settings: Settings, servers: McpServers) -> dict[str, Origin]:
    """Return where the tools of MCP servers come from, by name."""
    return {
        name: Origin(
            name=name,
            key=f"mcp:{name}",
            identity=config.identity,
            list_tools=partial(servers.tools, name),
            patience=config.start_timeout,
            required=config.required,
        )
        for name, config in enabled(settings).items()
    }
