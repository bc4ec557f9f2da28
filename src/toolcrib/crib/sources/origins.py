"""The servers of a configuration, as what tools come from."""

from functools import partial

from toolcrib.crib.config.settings import Settings
from toolcrib.crib.sources.listing import Origin
from toolcrib.execution.mcp import McpServers, ServerConfig

__all__ = ["enabled", "names_of", "server_origins"]


def enabled(settings: Settings) -> dict[str, ServerConfig]:
    """Return the servers that are not switched off."""
    return {name: server for name, server in settings.servers.items() if not server.disabled}


def names_of(settings: Settings) -> frozenset[str]:
    """Return the namespaces whose tools come from servers and APIs."""
    return frozenset((*enabled(settings), *settings.openapi))


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
