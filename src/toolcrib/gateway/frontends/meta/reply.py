"""Calls and replies of meta-tools, and the limit on the size of a reply."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolcrib.execution import Principal
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
    """One call of a meta-tool, with validated arguments."""

    args: dict[str, Any]
    client: CallingClient
    notes: list[str] = field(default_factory=list)
    """The repairs that were made to the arguments."""


@dataclass(slots=True)
class Reply:
    """The reply to one call: its structured content, and its other blocks."""

    structured: dict[str, Any]
    content: list[Mapping[str, Any]] = field(default_factory=list)
    """Blocks as in MCP; empty if the structured content as text is enough."""
    text: str | None = None
    """The text to send without blocks; None for the structured content as JSON."""
    held: bool = True
    """Whether the structured value contains the texts of the blocks."""
    is_error: bool = False


class ResultLimiter:
    """Limits replies to `gateway.result_bytes`; results over that are stored, to be read as resources."""

    def __init__(self, kept: KeptResults, limit: int) -> None:
        self._kept = kept
        self._limit = limit

    def limit_value(self, reply: Reply, name: str, principal: Principal) -> Reply:
        """Limit a reply whose large part is the value under one name, such as `structured`.

        Of a value that is too large, the value itself is stored: a text unchanged, anything else as JSON.
        """
        value = reply.structured[name]
        try:
            text = encoded(value)
        except ValueError:  # the tool ran: what came of it is sent as well as it can be
            value = reply.structured[name] = sendable(value)
            text = encoded(value)
        text = value if isinstance(value, str) else text
        size = size_of(text) if reply.text is None else max(size_of(text), size_of(reply.text))
        if not reply.content and size <= self._limit:
            reply.text = text if reply.text is None else reply.text
            return reply
        room = self._limit - size if size <= self._limit else self._limit // 2
        reply.content = self._limit_blocks(reply, room, principal)
        if size > self._limit:
            reply.text = None
            kind = "text/plain" if isinstance(value, str) else "application/json"
            self._keep(reply, reply.structured | {name: None}, text, kind, principal)
        return reply

    def limit_whole(
        self, reply: Reply, smaller: dict[str, Any], principal: Principal, text: str | None = None
    ) -> Reply:
        """Limit a reply: one that is too large is stored as a whole, and `smaller` sent in its place.

        `text` is its JSON, if that is known already.
        """
        text = encoded(reply.structured) if text is None else text
        if size_of(text) <= self._limit:
            reply.text = text
            return reply
        if size_of(encoded(smaller)) > self._limit:
            smaller = {name: [] if isinstance(part, list) else part for name, part in smaller.items()}
        self._keep(reply, smaller, text, "application/json", principal)
        return reply

    async def limit_parts(
        self, payload: dict[str, Any], smaller: dict[str, Any], parts: Sequence[Part], principal: Principal
    ) -> Reply:
        """Return a reply with many values; one that is too large is stored.

        In its place `smaller` is sent, with those parts that fit.
        """
        try:
            text = await encoded_in_turns(payload)
        except ValueError:  # as above
            return await self.limit_parts(sendable(payload), sendable(smaller), (), principal)
        if size_of(text) <= self._limit:
            return Reply(payload, text=text)
        room = self._limit - size_of(encoded(smaller))
        for holder, name, value in parts:
            _, size = await json_size(value, max_values=room, max_bytes=room)
            if size <= room:
                holder[name] = value
                room -= size
        return self.limit_whole(Reply(payload), smaller, principal, text)

    def _keep(
        self, reply: Reply, smaller: dict[str, Any], text: str, kind: str, principal: Principal
    ) -> None:
        """Store a reply that is too large, and send `smaller` with a link in its place."""
        size, uri = size_of(text), self._kept.keep(text, kind, principal)
        replacement = truncated(text, uri, size)
        reply.structured = smaller | {"truncated": replacement}
        others = [block for block in reply.content if not (reply.held and block.get("type") == "text")]
        reply.content = [{"type": "text", "text": preview_of(replacement)}, *others]
        if uri:
            reply.content.append(link_to(uri, kind, size))

    def _limit_blocks(self, reply: Reply, room: int, principal: Principal) -> list[Mapping[str, Any]]:
        """Return the blocks of a reply; those that are too large are replaced by links."""
        blocks = []
        for block in reply.content:
            data = block_data(block, texts=not reply.held)
            size = size_of(data)
            if size <= room:
                room -= size
                blocks.append(block)
            else:
                blocks.append(self._kept.keep_block(block, data, principal))
        return blocks
