"""Private folders that do not outlive their host for long, even one that is killed.

A folder carries in its name who made it, so that whoever comes after a process that was killed can tell which
folders nobody needs any more.
"""

import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from toolcrib.runtime.owner import is_gone, own_mark

__all__ = ["make_folder"]

_PREFIX = "toolcrib-monty-"
_PRIVATE = 0o700


def make_folder() -> Path:
    """Return an empty folder of our own, having removed those of processes that are gone."""
    own = own_mark()
    if own is not None:  # where the system tells who is alive
        _sweep()
    return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{own or 'host'}-"))


def _sweep() -> None:
    with suppress(OSError):
        for folder in list(Path(tempfile.gettempdir()).glob(f"{_PREFIX}*")):
            if _is_left(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_left(folder: Path) -> bool:
    """Return whether a folder is ours, and of a process that is gone."""
    if not is_gone(folder.name.removeprefix(_PREFIX).rpartition("-")[0]):
        return False
    with suppress(OSError):  # another was faster
        found = folder.lstat()
        private = stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) == _PRIVATE
        return private and found.st_uid == os.geteuid()
    return False
