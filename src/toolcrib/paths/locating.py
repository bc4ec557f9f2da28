"""Where configurations lie: which one is in force, and where a user's own would be."""

import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path

from toolcrib.errors import ConfigError, Problem
from toolcrib.paths.folders import HOME, anchored, platform_folder

_HERE = ("toolcrib.toml", "mcp.json", ".mcp.json")
_USERS = ("toolcrib.toml", "mcp.json")
_APP = "toolcrib"


def find_config(
    start: str | os.PathLike[str] | None = None, environ: Mapping[str, str] | None = None
) -> Path | None:
    """Return the configuration file that is in force, or None where there is none.

    In a folder, the current one where none is given, that is `toolcrib.toml`, else `mcp.json`, else
    `.mcp.json`; where it has none of them, `toolcrib.toml` or `mcp.json` in the user's `config_folder`.

    Raises:
        ConfigError: others than this user could have written the one in the folder, so that what it starts
            is theirs to say; or what `$TOOLCRIB_HOME` says can be no folder.
    """
    try:
        here = Path.cwd() if start is None else anchored(start, "folder")
    except OSError:  # the current folder is gone: what is the user's may still be there
        here = None
    found = None if here is None else project_config(here)
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


def project_config(folder: Path) -> Path | None:
    """Return the configuration file that is in a folder, or None where it has none.

    Raises:
        ConfigError: others than this user could have written it.
    """
    found = _first(folder, _HERE)
    if found is not None and (fault := _distrust(found)):
        message = f"it is not used unasked: {fault}; name it with --config if you trust it"
        raise ConfigError(str(found), (Problem("", "trust", message),))
    return found


def config_folder(
    environ: Mapping[str, str] | None = None, platform: str = sys.platform, home: Path | None = None
) -> Path:
    """Return the folder of the user's own configuration: `$TOOLCRIB_HOME`, else that of the platform.

    >>> config_folder({"XDG_CONFIG_HOME": "/home/anna/.config"}, "linux").as_posix()
    '/home/anna/.config/toolcrib'

    Raises:
        ConfigError: what the variable says can be no folder; or there is no variable, and no home.
    """
    known = os.environ if environ is None else environ
    if folder := known.get(HOME):
        return anchored(folder, HOME)
    try:
        return platform_folder("config", known, platform, home) / _APP
    except RuntimeError as error:
        problem = Problem("", "home", f"the home of this user is not known; set {HOME}")
        raise ConfigError("configuration folder", (problem,)) from error


def _first(folder: Path, names: tuple[str, ...]) -> Path | None:
    """Return the first of some files that is in a folder; one that cannot be looked at is not in it."""
    for name in names:
        try:
            if (folder / name).is_file():
                return folder / name
        except OSError:
            continue
    return None


def _distrust(path: Path) -> str | None:
    """Return why others may have written a file, whose servers would run as this user; None: they cannot."""
    if sys.platform == "win32":
        return None
    try:
        link, file, folder = path.lstat(), path.stat(), path.parent.stat()
    except OSError:
        return None  # reading it reports the reason
    if not {link.st_uid, file.st_uid} <= {os.geteuid(), 0}:
        return "it belongs to another user"
    if _others_write(file):
        return "others may write to it"
    if folder.st_mode & stat.S_IWOTH and not folder.st_mode & stat.S_ISVTX:
        return "everybody may write to the folder that it is in"
    return None


def _others_write(known: os.stat_result) -> bool:
    """Return whether a file can be written by more than its owner; a group of that one alone is no other."""
    if known.st_mode & stat.S_IWOTH:
        return True
    return bool(known.st_mode & stat.S_IWGRP) and not _is_private(known.st_uid, known.st_gid)


def _is_private(uid: int, gid: int) -> bool:
    """Return whether a group is the one that many systems make for each user."""
    import grp  # noqa: PLC0415 - not on every platform
    import pwd  # noqa: PLC0415

    try:
        user, group = pwd.getpwuid(uid), grp.getgrgid(gid)
    except KeyError:
        return False
    return user.pw_gid == gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}
