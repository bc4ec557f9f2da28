"""How deep toolcrib processes are nested, so that a configuration that starts itself comes to an end.

A server that is itself a toolcrib gets two variables. `TOOLCRIB_DEPTH` counts the levels, and nothing opens
below the last one. `TOOLCRIB_GATEWAY` has the configuration file of its parent, and the id of that gateway: a
process that serves the same file declares the same id, by which the parent finds the loop and reports it
(`toolcrib.execution.mcp.gateways`). The file comes first, for a value that begins as a path is not taken for
a secret, which would be searched for in all that the server sends.
"""

import os
import secrets
from collections.abc import Mapping

from toolcrib.crib.config.settings import Settings
from toolcrib.errors import ConfigError, Problem
from toolcrib.execution.mcp import ServerConfig

DEPTH = "TOOLCRIB_DEPTH"
GATEWAY = "TOOLCRIB_GATEWAY"
MAX_DEPTH = 5
"""The maximum depth of nested toolcrib processes."""


def read_depth(environ: Mapping[str, str] | None = None) -> int:
    """Return how many toolcrib processes this one is nested in.

    Raises:
        ConfigError: they are more than `MAX_DEPTH`.
    """
    text = (os.environ if environ is None else environ).get(DEPTH, "")
    depth = int(text) if text.isdecimal() and text.isascii() else 0
    if depth > MAX_DEPTH:
        fault = f"is {depth}: toolcrib has started itself too many times; does a configuration name itself?"
        raise ConfigError("environment", (Problem(f"/{DEPTH}", "limit", fault),))
    return depth


def choose_gateway_id(settings: Settings, environ: Mapping[str, str] | None = None) -> str:
    """Return the id of a gateway: that of the parent where both serve the same file, else a new one."""
    served, _, known = (os.environ if environ is None else environ).get(GATEWAY, "").rpartition(" ")
    is_same_file = settings.source is not None and served == os.path.realpath(settings.source)
    return known if known and is_same_file else secrets.token_hex(8)


def nest_servers(settings: Settings, depth: int, gateway: str) -> dict[str, ServerConfig]:
    """Return the servers of the settings, with environment variables that declare the nesting."""
    file = os.path.realpath(settings.source) if settings.source else ""
    told = {DEPTH: str(depth + 1), GATEWAY: f"{file} {gateway}"}
    return {
        name: server if server.command is None else server.replace(env={**server.env, **told})
        for name, server in settings.started_servers.items()
    }
