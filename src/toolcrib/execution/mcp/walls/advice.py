"""Notes for users about the wall of a server: its state, and access the server may lack."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath

from toolcrib.errors import ServerUnavailableError
from toolcrib.execution.mcp.config import ServerConfig
from toolcrib.execution.mcp.walls.programs import absolute, is_below
from toolcrib.execution.mcp.walls.view import ServerView
from toolcrib.execution.mcp.walls.wall import look_ahead

_PATH = re.compile(r"(?<![\w.:/-])(?:~|/(?=[^/\s]))[^\s'\"`,;:()<>|]*")
_KERNEL = ("/proc", "/dev", "/sys")
_CONTAINERS = ("docker", "podman", "nerdctl")
_SHOWN = 3


def is_contained(config: ServerConfig) -> bool:
    """Return whether a command starts a container, so that the server has a wall already.

    >>> is_contained(ServerConfig(command="docker", args=["run", "-i", "mcp/time"]))
    True
    """
    return PurePath(config.command or "").name in _CONTAINERS


def check_wall(name: str, config: ServerConfig) -> list[str]:
    """Return the paths in the settings of a server that are there, and that it cannot see behind its wall.

    Raises:
        ServerUnavailableError: the wall cannot be put up.
    """
    view = look_ahead(name, config)
    folder = absolute(config.cwd or ".")
    values = [value.rpartition("=")[2] for value in (*config.args, *config.env.values())]
    return list(_find_hidden(view, (absolute(value, folder) for value in values if _is_path(value))))


def describe_hidden(name: str, config: ServerConfig, stderr: str) -> str:
    """Return which paths a server behind a wall may have missed, and how to open them; empty if none."""
    if config.sandbox is None:
        return ""
    try:
        hidden = check_wall(name, config)
        hidden += _find_hidden(look_ahead(name, config), map(absolute, _PATH.findall(stderr)))
    except ServerUnavailableError:  # which is the reason by itself
        return ""
    found = list(dict.fromkeys(hidden))
    if not found:
        return ""
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    pronoun = "it" if len(found) == 1 else "them"
    shown = f"{', '.join(found[:_SHOWN])}{more}"
    return f"it may need {shown}, which it cannot see in its sandbox; add {pronoun} to read or write"


def _is_path(value: str) -> bool:
    return not value.startswith("-") and "://" not in value and ("/" in value or "." in value)


def _find_hidden(view: ServerView, places: Iterable[Path]) -> Iterator[str]:
    visible = [mount.path for mount in view.mounts]
    for place in places:
        try:
            is_there = place.exists()
        except (OSError, ValueError):  # it is no path
            continue
        if is_there and not is_below(place, [*visible, *_KERNEL]) and len(place.parts) > 1:
            yield str(place)
