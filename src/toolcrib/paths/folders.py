"""Folders and files for state that outlives a process."""

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from toolcrib.errors import ConfigError, Problem, StoreError

HOME = "TOOLCRIB_HOME"
"""Environment variable with the folder to use instead of the platform's."""
_APP = "toolcrib"
_WINDOWS = {"config": ("APPDATA", "Roaming"), "data": ("LOCALAPPDATA", "Local")}
_XDG = {"config": ("XDG_CONFIG_HOME", ".config"), "data": ("XDG_DATA_HOME", ".local/share")}


def data_folder(
    environ: Mapping[str, str] | None = None, platform: str = sys.platform, home: Path | None = None
) -> Path:
    """Return the folder for persistent state: `$TOOLCRIB_HOME`, else the user's data folder.

    >>> data_folder({"TOOLCRIB_HOME": "/srv/crib"}).as_posix()
    '/srv/crib'

    Raises:
        ConfigError: the value of the variable is no valid path.
        StoreError: the variable is not set, and the user has no home folder.
    """
    known = os.environ if environ is None else environ
    if folder := known.get(HOME):
        return absolute_path(folder, HOME)
    try:
        return platform_folder("data", known, platform, home) / _APP
    except RuntimeError as error:
        raise StoreError("catalogue", f"the home folder of this user is not known; set {HOME}") from error


def runtime_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder for sockets: `$TOOLCRIB_HOME/run`, the user's runtime folder, or the data folder.

    >>> runtime_folder({"XDG_RUNTIME_DIR": "/run/user/1000"}).as_posix()
    '/run/user/1000/toolcrib'

    Raises:
        ConfigError: the value of the variable is no valid path.
        StoreError: the variable is not set, and the user has no home folder.
    """
    known = os.environ if environ is None else environ
    runtime = Path(known.get("XDG_RUNTIME_DIR") or "")
    # XDG requires absolute paths: a relative one must be ignored
    if not known.get(HOME) and runtime.is_absolute():
        return runtime / _APP
    return data_folder(environ) / "run"


def platform_folder(
    kind: Literal["config", "data"],
    environ: Mapping[str, str],
    platform: str = sys.platform,
    home: Path | None = None,
) -> Path:
    """Return the platform's folder for the configurations or the data of a user's programs.

    Args:
        kind: configurations or data.
        environ: environment variables, which may name another folder.
        platform: a value of `sys.platform`.
        home: home folder of the user; None finds it.

    >>> platform_folder("config", {}, "linux", Path("/home/anna")).as_posix()
    '/home/anna/.config'

    Raises:
        RuntimeError: it is below the home folder, and this user has none.
    """
    if platform == "win32":
        variable, below = _WINDOWS[kind]
        named = environ.get(variable)
        return Path(named) if named else home_folder(home) / "AppData" / below
    if platform == "darwin":
        return home_folder(home) / "Library" / "Application Support"
    variable, below = _XDG[kind]
    folder = Path(environ.get(variable) or "")
    return folder if folder.is_absolute() else home_folder(home) / below


def home_folder(home: Path | None = None) -> Path:
    """Return the given home folder, else the user's.

    Raises:
        RuntimeError: this user has none.
    """
    return Path.home() if home is None else home


def catalogue_file(source: str | Path, environ: Mapping[str, str] | None = None) -> Path:
    """Return the file of the catalogue of a configuration file; each path has its own."""
    return data_folder(environ) / "catalogues" / f"{_digest(source)}.db"


def runs_file(source: str | Path | None, environ: Mapping[str, str] | None = None) -> Path:
    """Return the file of the durable runs of a configuration file, or of programs without one."""
    name = "program" if source is None else _digest(source)
    return data_folder(environ) / "runs" / f"{name}.db"


def seen_file(source: str | Path, environ: Mapping[str, str] | None = None) -> Path:
    """Return the file of what was seen first of the servers of a configuration file."""
    return data_folder(environ) / "seen" / f"{_digest(source)}.lock"


def runs_key(environ: Mapping[str, str] | None = None) -> Path:
    """Return the file of the key that signs durable runs."""
    return data_folder(environ) / "runs.key"


def _digest(source: str | Path) -> str:
    path = Path(source)
    with suppress(OSError, RuntimeError):  # the folder is gone, or links form a circle: use the path as it is
        path = path.resolve()
    return sha256(os.fsencode(path)).hexdigest()[:24]  # 96 bits: short, and without collisions


def audit_key(environ: Mapping[str, str] | None = None) -> Path:
    """Return the file of the key that signs audits."""
    return data_folder(environ) / "audit.key"


def path_fault(path: str) -> str | None:
    """Return the reason why a path is not valid, or None.

    >>> path_fault("~/notes"), path_fault(f"a{chr(0)}b")
    (None, 'must not contain a NUL character')
    """
    if "\0" in path:
        return "must not contain a NUL character"
    try:
        os.fsencode(path)
        Path(path).expanduser()
    except UnicodeEncodeError:
        return "contains half a character, which no file name can"
    except RuntimeError:
        return f"begins with {Path(path).parts[0]!r}, and there is no such home"
    return None


def absolute_path(path: str | os.PathLike[str], source: str) -> Path:
    """Return the absolute form of a path, with `~` expanded.

    Raises:
        ConfigError: it is not valid, or relative to a current folder that is gone.
    """
    text: Any = os.fspath(path)
    fault = path_fault(text) if isinstance(text, str) else "must be text, not bytes"
    if fault is None:
        try:
            return Path(text).expanduser().absolute()
        except OSError:
            fault = "is relative, and the folder that this process is in is gone"
    raise ConfigError(source, (Problem("", "path", f"the path {fault}"),))
