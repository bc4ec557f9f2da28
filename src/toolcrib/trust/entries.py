"""The entries of a lock: what was approved of a tool or a server, by whom and when."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from toolcrib.model.toolid import ToolId
from toolcrib.trust.parts import ServerParts, ToolParts


@dataclass(frozen=True, slots=True)
class Review:
    """The person who approved something, and the time."""

    by: str
    """The name of a person, or of the program that approves on their behalf."""
    at: datetime
    """The time, in UTC."""


@dataclass(frozen=True, slots=True)
class LockedTool:
    """The entry of a tool in the lock."""

    id: ToolId
    """Its id, with the version."""
    parts: ToolParts
    """Its definition."""
    digests: Mapping[str, str]
    """The digest of each part of the definition."""
    approval: Review | None = None
    """The approval; None for a tool that was only seen."""


@dataclass(frozen=True, slots=True)
class LockedServer:
    """The entry of a server in the lock."""

    parts: ServerParts
    """Its address or command, and the definitions that it sends."""
    digests: Mapping[str, str]
    """The digest of each of these parts."""
    approval: Review | None = None
    """The approval; None for a server that was only seen."""


@dataclass(frozen=True, slots=True)
class Block:
    """A tool that nobody may call, whatever its definition."""

    reason: str
    """The reason."""
    approval: Review
    """The person who blocked it, and the time."""


@dataclass(frozen=True, slots=True)
class Suppression:
    """A finding of the scan that was reviewed and is a false positive."""

    reason: str
    """The reason."""
    approval: Review
    """The person who decided it, and the time."""


@dataclass(frozen=True, slots=True)
class Entries:
    """All that a lock holds, sorted."""

    tools: Mapping[str, LockedTool] = field(default_factory=dict)
    """The tools, by id, which includes the version only if the lock has several versions of the tool."""
    servers: Mapping[str, LockedServer] = field(default_factory=dict)
    """The servers, by name."""
    blocked: Mapping[str, Block] = field(default_factory=dict)
    """The blocked tools, by id without a version."""
    suppressions: Mapping[tuple[str, str], Suppression] = field(default_factory=dict)
    """The false positives, by the id of the tool, without a version, and the rule."""
