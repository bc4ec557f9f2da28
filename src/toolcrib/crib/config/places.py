"""Where state is kept between runs."""

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from toolcrib.errors import ConfigError, Problem, StoreError

__all__ = ["HOME", "anchored", "catalogue_file", "data_folder", "path_fault"]

HOME = "TOOLCRIB_HOME"
"""The variable that names another folder than the platform's."""
_APP = "toolcrib"


def data_folder(environ: Mapping[str, str] | None = None, platform: str = sys.platform) -> Path:
    """Return the folder for what outlives a process: `$TOOLCRIB_HOME`, else the user's data folder.

    >>> data_folder({"TOOLCRIB_HOME": "/srv/crib"}).as_posix()
    '/srv/crib'

    Raises:
        ConfigError: what the variable says can be no folder.
        StoreError: there is no variable, and no home.
    """
    known = os.environ if environ is None else environ
    if home := known.get(HOME):
        return anchored(home, HOME)
    try:
        return _of_platform(known, platform)
    except RuntimeError as error:
        raise StoreError("catalogue", f"the home of this user is not known; set {HOME}") from error


def _of_platform(known: Mapping[str, str], platform: str) -> Path:
    if platform == "win32":
        local = known.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / _APP
    if platform == "darwin":
        return Path.home() / "Library" / "Application Support" / _APP
    shared = Path(known.get("XDG_DATA_HOME") or "")
    return (shared if shared.is_absolute() else Path.home() / ".local" / "share") / _APP


def catalogue_file(source: str | Path, environ: Mapping[str, str] | None = None) -> Path:
    """Return the file that keeps the catalogue of a configuration file: one for each, wherever it lies."""
    path = Path(source)
    with suppress(OSError, RuntimeError):  # of a folder that is gone, or links in a circle, the name must do
        path = path.resolve()
    digest = sha256(os.fsencode(path)).hexdigest()[:24]
    return data_folder(environ) / "catalogues" / f"{digest}.db"


def path_fault(path: str) -> str | None:
    """Return why a path can be that of no file, or None.

    >>> path_fault("~/notes"), path_fault(f"a{chr(0)}b")
    (None, 'must not hold a NUL character')
    """
    if "\0" in path:
        return "must not hold a NUL character"
    try:
        os.fsencode(path)
        Path(path).expanduser()
    except UnicodeEncodeError:
        return "holds half a character, which no file name can"
    except RuntimeError:
        return f"begins with {Path(path).parts[0]!r}, and there is no such home"
    return None


def anchored(path: str | os.PathLike[str], source: str) -> Path:
    """Return a path as an absolute one, `~` filled in.

    Raises:
        ConfigError: it can be that of no file, or is relative to a folder that is gone.
    """
    text: Any = os.fspath(path)
    fault = path_fault(text) if isinstance(text, str) else "must be text, not bytes"
    if fault is None:
        try:
            return Path(text).expanduser().absolute()
        except OSError:
            fault = "is relative, and the folder that this process is in is gone"
    raise ConfigError(source, (Problem("", "path", f"the path {fault}"),))
