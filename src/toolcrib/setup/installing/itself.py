"""Know toolcrib among the servers of a client, however it is started or reached."""

from urllib.parse import urlsplit

from toolcrib.crib.config.gateway import GatewaySettings, is_loopback
from toolcrib.crib.config.ourselves import told_us
from toolcrib.execution.mcp.config import ServerConfig

__all__ = ["ITSELF", "is_toolcrib"]

ITSELF = "it is toolcrib itself"
"""Why one server is never taken over."""
_ANYWHERE = frozenset({"0.0.0.0", "::"})  # noqa: S104 - told apart, not bound to
_DEFAULT_PORT: int = GatewaySettings.model_fields["port"].default


def is_toolcrib(server: ServerConfig, port: int | None = None) -> bool:
    """Return whether a server is toolcrib itself.

    Args:
        server: how it is started or reached.
        port: where our gateway listens; None for where it usually does.

    >>> is_toolcrib(ServerConfig(command="uvx", args=["toolcrib[cli]", "serve"]))
    True
    >>> is_toolcrib(ServerConfig(command="docs", args=["serve", "/src/toolcrib"]))
    False
    """
    if server.url is not None:
        return _reaches_us(server.url, _DEFAULT_PORT if port is None else port)
    return "serve" in (told_us([server.command or "", *server.args]) or ())


def _reaches_us(url: str, port: int) -> bool:
    try:
        parts = urlsplit(url)
        host, given = parts.hostname or "", parts.port
    except ValueError:
        return False
    local = is_loopback(host) or host in _ANYWHERE
    return local and given == port and (parts.path == "/mcp" or parts.path.startswith("/mcp/"))
