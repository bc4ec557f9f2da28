"""Replies and definitions in the words of the protocol."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import mcp_types
from mcp import MCPError
from pydantic import ValidationError

from toolcrib.errors.base import shown
from toolcrib.gateway.meta.definitions import Definition
from toolcrib.gateway.meta.descriptions import described
from toolcrib.gateway.meta.portrait import Sight
from toolcrib.gateway.meta.reply import Reply
from toolcrib.gateway.results import encoded
from toolcrib.model.suggest import choose
from toolcrib.model.tokens import estimated_tokens

__all__ = ["no_such_tool", "published", "result", "tokens_of"]

_BLOCKS: Mapping[str, type[mcp_types.ContentBlock]] = {
    "text": mcp_types.TextContent,
    "image": mcp_types.ImageContent,
    "audio": mcp_types.AudioContent,
    "resource_link": mcp_types.ResourceLink,
    "resource": mcp_types.EmbeddedResource,
}


def published(definition: Definition, sight: Sight) -> mcp_types.Tool:
    """Return a definition as it is listed, over what the catalogue contains."""
    name = definition.tool.name
    return mcp_types.Tool(
        name=name,
        title=definition.title,
        description=described(name, sight),
        input_schema=definition.tool.input_schema,
        output_schema=definition.tool.output_schema,
        annotations=_hints(definition, sight),
    )


def tokens_of(tools: Iterable[mcp_types.Tool]) -> int:
    """Return about how many tokens definitions take, as they are listed."""
    listed = [tool.model_dump(by_alias=True, exclude_none=True, mode="json") for tool in tools]
    return sum(estimated_tokens(encoded(tool)) for tool in listed)


def no_such_tool(name: str, names: Sequence[str]) -> MCPError:
    """Return the error for a tool that is not listed."""
    return MCPError(mcp_types.INVALID_PARAMS, f"no tool {shown(name)}{choose(name, names)}")


def _hints(definition: Definition, sight: Sight) -> mcp_types.ToolAnnotations:
    """Return what a tool says of itself: one that runs others is as harmless as the worst of them."""
    if not definition.runs:
        return mcp_types.ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
    if sight.read_only:
        return mcp_types.ToolAnnotations(read_only_hint=True, open_world_hint=True)
    return mcp_types.ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=True)


def result(reply: Reply, meta: dict[str, Any]) -> mcp_types.CallToolResult:
    """Return a reply as the result of a call."""
    if reply.content:
        content = [_block(block) for block in reply.content]
    else:
        text = encoded(reply.structured) if reply.text is None else reply.text
        content = [mcp_types.TextContent(text=text)]
    # Everything in it is made here: to check megabytes of JSON again would take longer than the call.
    return mcp_types.CallToolResult.model_construct(
        meta=meta,
        content=content,
        structured_content=reply.structured,
        is_error=reply.is_error,
        result_type="complete",
    )


def _block(block: Mapping[str, Any]) -> mcp_types.ContentBlock:
    """Return a block of content; one of a kind that nobody knows is shown as text."""
    kind = _BLOCKS.get(str(block.get("type")))
    if kind is not None:
        try:
            return kind.model_validate(block)
        except ValidationError:  # a server's own idea of it, which a client must not stumble over
            pass
    return mcp_types.TextContent(text=encoded(block))
