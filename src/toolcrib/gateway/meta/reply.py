"""Replies of meta-tools, cut to the size that a client takes."""

from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from toolcrib.gateway.frontend import CallingClient
from toolcrib.gateway.results import KeptResults, encoded, size_of, truncated

__all__ = ["MetaCall", "Reply", "ResultLimiter"]

_TEXT = "text/plain"
_LINK = "The whole result, which is too large to be sent at once"


@dataclass(frozen=True, slots=True)
class MetaCall:
    """One call of a meta-tool, its arguments read."""

    args: dict[str, Any]
    client: CallingClient
    notes: list[str] = field(default_factory=list)
    """What was repaired in the arguments."""


@dataclass(slots=True)
class Reply:
    """One answer: its structured content, and what else goes to the client beside it."""

    structured: dict[str, Any]
    content: list[Mapping[str, Any]] = field(default_factory=list)
    """Blocks as in MCP; empty where the structured content as text is all there is to show."""
    text: str | None = None
    """What is shown as text where there are no blocks; None for the structured content as JSON."""
    held: bool = True
    """Whether the value holds the texts among the blocks."""
    is_error: bool = False


class ResultLimiter:
    """Makes replies as small as a client wants them; what they lose is kept to be read."""

    def __init__(self, kept: KeptResults, limit: int) -> None:
        self._kept = kept
        self._limit = limit

    def value(self, reply: Reply, name: str) -> Reply:
        """Return a reply, whose large part is under one name such as `structured`, made small enough.

        The value itself is what is kept, a text as it is; the text of the reply is its JSON.
        """
        value = reply.structured[name]
        text = value if isinstance(value, str) else encoded(value)
        size = size_of(text)
        if not reply.content and size <= self._limit:
            reply.text = text
            return reply
        room = self._limit - size if size <= self._limit else self._limit // 2
        reply.content = self._within(reply, room)
        if size > self._limit:
            kind = "text/plain" if isinstance(value, str) else "application/json"
            self._replace(reply, reply.structured | {name: None}, text, size, kind)
        return reply

    def whole(self, reply: Reply, smaller: dict[str, Any]) -> Reply:
        """Return a reply that is kept as a whole where it is too large, and `smaller` sent in its place."""
        text = encoded(reply.structured)
        size = size_of(text)
        if size <= self._limit:
            reply.text = text
            return reply
        if size_of(encoded(smaller)) > self._limit:
            smaller = {name: [] if isinstance(part, list) else part for name, part in smaller.items()}
        self._replace(reply, smaller, text, size, "application/json")
        return reply

    def _replace(self, reply: Reply, smaller: dict[str, Any], text: str, size: int, kind: str) -> None:
        uri = self._kept.keep(text, kind)
        replacement = truncated(text, uri, size)
        reply.structured = smaller | {"truncated": replacement}
        others = [block for block in reply.content if not (reply.held and block.get("type") == "text")]
        reply.content = [{"type": "text", "text": _said(replacement)}, *others]
        if uri:
            reply.content.append(_link(uri, kind, size))

    def _within(self, reply: Reply, room: int) -> list[Mapping[str, Any]]:
        """Return the blocks of a reply, those for which there is no room as links to what they hold."""
        blocks = []
        for block in reply.content:
            data = _data(block, texts=not reply.held)
            size = size_of(data)
            if size <= room:
                room -= size
                blocks.append(block)
            else:
                blocks.append(self._linked(block, data))
        return blocks

    def _linked(self, block: Mapping[str, Any], data: str) -> Mapping[str, Any]:
        """Return a link to what a block holds."""
        kind = _kind(block)
        held: str | bytes = data
        if kind != _TEXT:
            try:
                held = b64decode(data, validate=True)
            except ValueError:  # a server's own idea of base64
                kind = _TEXT
        size, uri = size_of(held), self._kept.keep(held, kind)
        if uri is None:
            return {"type": "text", "text": f"({kind} of {size:,} bytes, too large to be sent)"}
        return _link(uri, kind, size)


def _kind(block: Mapping[str, Any]) -> str:
    if block.get("type") == "text":
        return _TEXT
    holder = block["resource"] if block.get("type") == "resource" else block
    return str(holder.get("mimeType") or "application/octet-stream")


def _data(block: Mapping[str, Any], *, texts: bool) -> str:
    """Return what makes a block large; of a text nothing where the value holds it too."""
    held: Any = block.get("data")
    if block.get("type") == "text" and texts:
        held = block.get("text")
    if block.get("type") == "resource" and isinstance(block.get("resource"), Mapping):
        held = block["resource"].get("blob")
    return held if isinstance(held, str) else ""


def _link(uri: str, kind: str, size: int) -> dict[str, Any]:
    return {
        "type": "resource_link",
        "uri": uri,
        "name": uri.rpartition("/")[2],
        "description": _LINK,
        "mimeType": kind,
        "size": size,
    }


def _said(payload: Mapping[str, Any]) -> str:
    where = f"read the whole at {payload['uri']}" if payload["uri"] else "ask for less"
    return f"{payload['preview']}…\n(This is the beginning of {payload['bytes']:,} bytes; {where}.)"
