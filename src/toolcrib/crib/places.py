"""Where state is kept between runs."""

import os
import sys
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

__all__ = ["HOME", "catalogue_file", "data_folder"]

HOME = "TOOLCRIB_HOME"
"""The variable that names another folder than the platform's."""
_APP = "toolcrib"


def data_folder(environ: Mapping[str, str] | None = None, platform: str = sys.platform) -> Path:
    """Return the folder for what outlives a process: `$TOOLCRIB_HOME`, else the user's data folder.

    >>> data_folder({"TOOLCRIB_HOME": "/srv/crib"}).as_posix()
    '/srv/crib'
    """
    known = os.environ if environ is None else environ
    if home := known.get(HOME):
        return Path(home).expanduser().absolute()
    if platform == "win32":
        local = known.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / _APP
    if platform == "darwin":
        return Path.home() / "Library" / "Application Support" / _APP
    shared = Path(known.get("XDG_DATA_HOME") or "")
    return (shared if shared.is_absolute() else Path.home() / ".local" / "share") / _APP


def catalogue_file(source: str | Path, environ: Mapping[str, str] | None = None) -> Path:
    """Return the file that keeps the catalogue of a configuration file: one for each, wherever it lies."""
    path = Path(source).resolve()
    digest = sha256(os.fsencode(path)).hexdigest()[:24]
    return data_folder(environ) / "catalogues" / f"{digest}.db"
