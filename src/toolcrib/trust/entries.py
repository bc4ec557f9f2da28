"""The entries of a lock: what was approved of a tool or a server, by whom and when."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from toolcrib.model.toolid import ToolId
from toolcrib.trust.parts import ServerParts, ToolParts


@dataclass(frozen=True, slots=True)
class Review:
    """Who has approved something, and when."""

    by: str
    """The name of a person, or of what approves in their place."""
    at: datetime
    """When, in UTC."""


@dataclass(frozen=True, slots=True)
class LockedTool:
    """A tool as the lock has it."""

    id: ToolId
    """Its id, with the version."""
    parts: ToolParts
    """Its definition."""
    digests: Mapping[str, str]
    """The digest of each part of the definition."""
    approval: Review | None = None
    """Who approved it; None of a tool that was only seen."""


@dataclass(frozen=True, slots=True)
class LockedServer:
    """A server as the lock has it."""

    parts: ServerParts
    """How it is reached, and what it says of itself."""
    digests: Mapping[str, str]
    """The digest of each of these parts."""
    approval: Review | None = None
    """Who approved it; None of a server that was only seen."""


@dataclass(frozen=True, slots=True)
class Block:
    """A tool that nobody may call, whatever it says of itself."""

    reason: str
    """Why."""
    approval: Review
    """Who blocked it."""


@dataclass(frozen=True, slots=True)
class Suppression:
    """A finding of the scan that has been looked at, and is none."""

    reason: str
    """Why."""
    approval: Review
    """Who decided it."""


@dataclass(frozen=True, slots=True)
class Entries:
    """All that a lock holds, sorted."""

    tools: Mapping[str, LockedTool] = field(default_factory=dict)
    """The tools, by id; the version belongs to it only where the lock has several of one tool."""
    servers: Mapping[str, LockedServer] = field(default_factory=dict)
    """The servers, by name."""
    blocked: Mapping[str, Block] = field(default_factory=dict)
    """The blocked tools, by id without a version."""
    suppressions: Mapping[tuple[str, str], Suppression] = field(default_factory=dict)
    """The findings that are none, by the id of the tool, without a version, and the rule."""
