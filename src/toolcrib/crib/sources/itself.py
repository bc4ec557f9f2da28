"""A server that is toolcrib with the very configuration it stands in: it would start itself without end."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from toolcrib.crib.config.ourselves import own_arguments
from toolcrib.crib.config.settings import Settings
from toolcrib.errors import ConfigError, Problem
from toolcrib.execution.mcp import ServerConfig
from toolcrib.execution.mcp.transport.environment import server_environment
from toolcrib.places import find_config

DEPTH = "TOOLCRIB_DEPTH"
"""The variable that tells a server within how many others it is started."""
DEEPEST = 5
"""Deeper than this nothing is opened: configurations that name each other would go on for ever."""
_VERB = "serve"
_TAKE_A_VALUE = frozenset({"--config", "--toolset"})


def itself_off(settings: Settings, environ: Mapping[str, str] | None) -> tuple[Settings, frozenset[str]]:
    """Return settings in which the servers that are this very configuration are off, and which these are."""
    known = os.environ if environ is None else environ
    off = {
        name: server.replace(disabled=True)
        for name, server in settings.servers.items()
        if not server.disabled and is_itself(server, settings.source, known)
    }
    changed = settings.replace(servers={**settings.servers, **off}) if off else settings
    return changed, frozenset(off)


def is_itself(server: ServerConfig, source: str | None, environ: Mapping[str, str]) -> bool:
    """Return whether it is certain that a server would serve the configuration that it stands in.

    To serve another one within this is nobody's mistake.

    >>> is_itself(ServerConfig(command="toolcrib", args=["serve", "--config", "a.toml"]), "b.toml", {})
    False
    """
    if source is None or server.command is None:
        return False
    try:
        server = server.expanded(environ)
        served = _served(server)
        return served is not None and Path(served).resolve() == Path(source).resolve()
    except (ConfigError, OSError, RuntimeError, ValueError):  # it cannot be started, or that cannot be known
        return False


def _served(server: ServerConfig) -> Path | None:
    """Return the configuration that a server serves; None where it is not toolcrib that serves one."""
    options = dict(_options(own_arguments([server.command or "", *server.args]) or ()))
    if options.get("") != _VERB:
        return None
    folder = Path(server.cwd).expanduser() if server.cwd else Path.cwd()
    if "--config" in options:
        return folder / Path(options["--config"]).expanduser()
    if "--demo" in options:
        return None
    return find_config(folder, server_environment(os.environ, server.env, server.inherit))


def _options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the options and their values, and the verb, the first word that is neither, under no name."""
    rest = iter(words)
    is_verb_read = False
    for word in rest:
        name, equals, value = word.partition("=")
        if name in _TAKE_A_VALUE:
            yield name, value if equals else next(rest, "")
        elif word.startswith("-"):
            yield word, ""
        elif not is_verb_read:
            is_verb_read = True
            yield "", word


def depth_of(environ: Mapping[str, str] | None = None) -> int:
    """Return within how many others of its kind this process runs.

    Raises:
        ConfigError: these are too many.
    """
    text = (os.environ if environ is None else environ).get(DEPTH, "")
    depth = int(text) if text.isdecimal() and text.isascii() else 0
    if depth > DEEPEST:
        fault = f"is {depth}: toolcrib is started by toolcrib too often; does a configuration name itself?"
        raise ConfigError("environment", (Problem(f"/{DEPTH}", "limit", fault),))
    return depth


def deeper(servers: Mapping[str, ServerConfig], depth: int) -> dict[str, ServerConfig]:
    """Return servers whose environment says how deep they are nested."""
    return {
        name: server if server.command is None else server.replace(env={**server.env, DEPTH: str(depth + 1)})
        for name, server in servers.items()
    }
