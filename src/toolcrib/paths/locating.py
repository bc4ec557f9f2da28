"""Finds configuration files: the one in force, and the user's own."""

import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path

from toolcrib.errors import ConfigError, Problem
from toolcrib.paths.folders import HOME, absolute_path, platform_folder

_PROJECT_FILES = ("toolcrib.toml", "mcp.json", ".mcp.json")
_USER_FILES = ("toolcrib.toml", "mcp.json")
_APP = "toolcrib"


def find_config(
    start: str | os.PathLike[str] | None = None, environ: Mapping[str, str] | None = None
) -> Path | None:
    """Return the configuration file in force, or None.

    That is `toolcrib.toml`, else `mcp.json`, else `.mcp.json` in a folder, by default the current one; if it
    has none of them, `toolcrib.toml` or `mcp.json` in the user's `config_folder`.

    Raises:
        ConfigError: other users could have written the file in the folder, and so could choose which servers
            run as this user; or the value of `$TOOLCRIB_HOME` is not a valid path.
    """
    try:
        here = Path.cwd() if start is None else absolute_path(start, "folder")
    except OSError:  # the current folder is gone: the user's own configuration may still exist
        here = None
    found = None if here is None else project_config(here)
    if found is not None:
        return found
    try:
        return _find_first(config_folder(environ), _USER_FILES)
    except ConfigError:
        if (os.environ if environ is None else environ).get(HOME):
            raise
        return None  # a user without a home folder, such as a service, has no configuration


def user_config(environ: Mapping[str, str] | None = None) -> Path:
    """Return the user's own configuration file, or its path if it does not exist yet."""
    folder = config_folder(environ)
    return _find_first(folder, _USER_FILES) or folder / _USER_FILES[0]


def project_config(folder: Path) -> Path | None:
    """Return the configuration file in a folder, or None.

    Raises:
        ConfigError: other users could have written it.
    """
    found = _find_first(folder, _PROJECT_FILES)
    if found is not None and (fault := _why_untrusted(found)):
        message = f"it is not used automatically: {fault}; name it with --config if you trust it"
        raise ConfigError(str(found), (Problem("", "trust", message),))
    return found


def config_folder(
    environ: Mapping[str, str] | None = None, platform: str = sys.platform, home: Path | None = None
) -> Path:
    """Return the folder of the user's own configuration: `$TOOLCRIB_HOME`, else that of the platform.

    >>> config_folder({"XDG_CONFIG_HOME": "/home/anna/.config"}, "linux").as_posix()
    '/home/anna/.config/toolcrib'

    Raises:
        ConfigError: the value of the variable is no valid path; or it is not set, and the user has no home.
    """
    known = os.environ if environ is None else environ
    if folder := known.get(HOME):
        return absolute_path(folder, HOME)
    try:
        return platform_folder("config", known, platform, home) / _APP
    except RuntimeError as error:
        problem = Problem("", "home", f"the home folder of this user is not known; set {HOME}")
        raise ConfigError("configuration folder", (problem,)) from error


def _find_first(folder: Path, names: tuple[str, ...]) -> Path | None:
    """Return the first of some files that exists in a folder; an unreadable one counts as missing."""
    for name in names:
        try:
            if (folder / name).is_file():
                return folder / name
        except OSError:
            continue
    return None


def _why_untrusted(path: Path) -> str | None:
    """Return the reason why other users may have written a file, or None.

    A configuration starts programs as this user, so a file that others can change would let them run any
    command when this user enters the folder.
    """
    if sys.platform == "win32":
        return None
    try:
        # the link counts too: its owner chooses which file of ours it points to
        link, file, folder = path.lstat(), path.stat(), path.parent.stat()
    except OSError:
        return None  # reading it reports the reason
    if not {link.st_uid, file.st_uid} <= {os.geteuid(), 0}:
        return "it belongs to another user"
    if _others_write(file):
        return "others may write to it"
    # in a folder with the sticky bit, such as /tmp, others cannot replace a file of ours
    if folder.st_mode & stat.S_IWOTH and not folder.st_mode & stat.S_ISVTX:
        return "everybody may write to the folder that it is in"
    return None


def _others_write(known: os.stat_result) -> bool:
    """Return whether others than the owner can write a file; the owner's private group does not count."""
    if known.st_mode & stat.S_IWOTH:
        return True
    return bool(known.st_mode & stat.S_IWGRP) and not _is_private(known.st_uid, known.st_gid)


def _is_private(uid: int, gid: int) -> bool:
    """Return whether a group is the private group that many systems create for each user."""
    import grp  # noqa: PLC0415 - not on every platform
    import pwd  # noqa: PLC0415

    try:
        user, group = pwd.getpwuid(uid), grp.getgrgid(gid)
    except KeyError:
        return False
    return user.pw_gid == gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}
