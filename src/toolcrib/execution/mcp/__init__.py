"""MCP servers as backends: their configuration, lifecycle and calls."""

from toolcrib.execution.mcp.config import ContentChange, OnContent, ServerConfig
from toolcrib.execution.mcp.content import (
    Completion,
    Prompt,
    PromptArgument,
    PromptResult,
    Resource,
    ResourceContents,
    ResourceTemplate,
)
from toolcrib.execution.mcp.pool import McpServers
from toolcrib.execution.mcp.server_health import ServerState, ServerStatus

__all__ = [
    "Completion",
    "ContentChange",
    "McpServers",
    "OnContent",
    "Prompt",
    "PromptArgument",
    "PromptResult",
    "Resource",
    "ResourceContents",
    "ResourceTemplate",
    "ServerConfig",
    "ServerState",
    "ServerStatus",
]
