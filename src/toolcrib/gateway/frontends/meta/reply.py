"""Replies of meta-tools, cut to the size that a client takes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolcrib.execution.chains.budget import json_size
from toolcrib.gateway.frontends.shared.frontend import CallingClient
from toolcrib.gateway.results import (
    KeptResults,
    block_data,
    encoded,
    encoded_in_turns,
    link_to,
    preview_of,
    sendable,
    size_of,
    truncated,
)

Part = tuple[dict[str, Any], str, Any]
"""A value that a smaller reply lacks: the object in it that it belongs to, its name there, and itself."""


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
        try:
            text = encoded(value)
        except ValueError:  # the tool ran: what came of it is sent as well as it can be
            value = reply.structured[name] = sendable(value)
            text = encoded(value)
        text = value if isinstance(value, str) else text
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

    def whole(self, reply: Reply, smaller: dict[str, Any], text: str | None = None) -> Reply:
        """Return a reply that is kept as a whole where it is too large, and `smaller` sent in its place.

        `text` is its JSON, where that has been written already.
        """
        text = encoded(reply.structured) if text is None else text
        size = size_of(text)
        if size <= self._limit:
            reply.text = text
            return reply
        if size_of(encoded(smaller)) > self._limit:
            smaller = {name: [] if isinstance(part, list) else part for name, part in smaller.items()}
        self._replace(reply, smaller, text, size, "application/json")
        return reply

    async def ran(self, payload: dict[str, Any], smaller: dict[str, Any], parts: Sequence[Part]) -> Reply:
        """Return the reply of what ran tools; where it is too large it is kept, and `smaller` sent.

        Of the parts that this lacks it gets those that fit.
        """
        try:
            text = await encoded_in_turns(payload)
        except ValueError:  # as above
            return await self.ran(sendable(payload), sendable(smaller), ())
        if size_of(text) <= self._limit:
            return Reply(payload, text=text)
        room = self._limit - size_of(encoded(smaller))
        for holder, name, value in parts:
            _, size = await json_size(value, max_values=room, max_bytes=room)
            if size <= room:
                holder[name] = value
                room -= size
        return self.whole(Reply(payload), smaller, text)

    def _replace(self, reply: Reply, smaller: dict[str, Any], text: str, size: int, kind: str) -> None:
        uri = self._kept.keep(text, kind)
        replacement = truncated(text, uri, size)
        reply.structured = smaller | {"truncated": replacement}
        others = [block for block in reply.content if not (reply.held and block.get("type") == "text")]
        reply.content = [{"type": "text", "text": preview_of(replacement)}, *others]
        if uri:
            reply.content.append(link_to(uri, kind, size))

    def _within(self, reply: Reply, room: int) -> list[Mapping[str, Any]]:
        """Return the blocks of a reply, those for which there is no room as links to what they hold."""
        blocks = []
        for block in reply.content:
            data = block_data(block, texts=not reply.held)
            size = size_of(data)
            if size <= room:
                room -= size
                blocks.append(block)
            else:
                blocks.append(self._kept.linked(block, data))
        return blocks
