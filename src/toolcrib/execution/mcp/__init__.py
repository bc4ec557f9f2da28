"""MCP servers as backends: how they are configured, started, followed and called."""

from toolcrib.execution.mcp.config import ServerConfig
from toolcrib.execution.mcp.servers import McpServers
from toolcrib.execution.mcp.status import ServerState, ServerStatus

__all__ = ["McpServers", "ServerConfig", "ServerState", "ServerStatus"]
