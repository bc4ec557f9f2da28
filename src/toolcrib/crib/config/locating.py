"""Where configurations lie: which one is in force, and where a user's own would be."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from toolcrib.crib.config.places import HOME, anchored
from toolcrib.errors import ConfigError, Problem

__all__ = ["config_folder", "find_config", "user_config"]

_HERE = ("toolcrib.toml", "mcp.json", ".mcp.json")
_USERS = ("toolcrib.toml", "mcp.json")
_APP = "toolcrib"


def find_config(
    start: str | os.PathLike[str] | None = None, environ: Mapping[str, str] | None = None
) -> Path | None:
    """Return the configuration file that is in force, or None where there is none.

    In a folder, the current one where none is given, that is `toolcrib.toml`, else `mcp.json`, else
    `.mcp.json`; where it has none of them, `toolcrib.toml` or `mcp.json` in the user's `config_folder`.
    """
    try:
        here = Path.cwd() if start is None else anchored(start, "folder")
    except OSError:  # the current folder is gone: what is the user's may still be there
        here = None
    found = None if here is None else _first(here, _HERE)
    if found is not None:
        return found
    try:
        return _first(config_folder(environ), _USERS)
    except ConfigError:
        if (os.environ if environ is None else environ).get(HOME):
            raise
        return None  # a process without a home has no configuration of its own


def user_config(environ: Mapping[str, str] | None = None) -> Path:
    """Return the user's own configuration file: the one that is there, or the one to make."""
    folder = config_folder(environ)
    return _first(folder, _USERS) or folder / _USERS[0]


def config_folder(environ: Mapping[str, str] | None = None, platform: str = sys.platform) -> Path:
    """Return the folder of the user's own configuration: `$TOOLCRIB_HOME`, else that of the platform.

    >>> config_folder({"XDG_CONFIG_HOME": "/home/anna/.config"}, "linux").as_posix()
    '/home/anna/.config/toolcrib'

    Raises:
        ConfigError: what the variable says can be no folder; or there is no variable, and no home.
    """
    known = os.environ if environ is None else environ
    if home := known.get(HOME):
        return anchored(home, HOME)
    try:
        return _of_platform(known, platform)
    except RuntimeError as error:
        problem = Problem("", "home", f"the home of this user is not known; set {HOME}")
        raise ConfigError("configuration folder", (problem,)) from error


def _of_platform(known: Mapping[str, str], platform: str) -> Path:
    if platform == "win32":
        roaming = known.get("APPDATA")
        return (Path(roaming) if roaming else Path.home() / "AppData" / "Roaming") / _APP
    if platform == "darwin":
        return Path.home() / "Library" / "Application Support" / _APP
    shared = Path(known.get("XDG_CONFIG_HOME") or "")
    return (shared if shared.is_absolute() else Path.home() / ".config") / _APP


def _first(folder: Path, names: tuple[str, ...]) -> Path | None:
    """Return the first of some files that is in a folder; one that cannot be looked at is not in it."""
    for name in names:
        try:
            if (folder / name).is_file():
                return folder / name
        except OSError:
            continue
    return None
