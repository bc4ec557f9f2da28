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

__all__ = ["make_folder"]

_PREFIX = "toolcrib-monty-"
_PARTS = 4
_PRIVATE = 0o700


def make_folder() -> Path:
    """Return an empty folder of our own, having removed those of processes that are gone."""
    own = _owner(os.getpid())
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
    parts = folder.name.removeprefix(_PREFIX).split("-", _PARTS - 1)
    if len(parts) != _PARTS or not all(part.isdecimal() and part.isascii() for part in parts[:-1]):
        return False
    space, pid, started = parts[:-1]
    if space != _space() or _owner(int(pid)) == f"{space}-{pid}-{started}":
        return False
    with suppress(OSError):  # another was faster
        found = folder.lstat()
        private = stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) == _PRIVATE
        return private and found.st_uid == os.geteuid()
    return False


def _owner(pid: int) -> str | None:
    """Return what tells a process from all others: where it is counted, its number, and when it started."""
    try:
        told = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return f"{_space()}-{pid}-{told.rpartition(')')[2].split()[19]}"
    except OSError:
        return None


def _space() -> str:
    """Return among which processes we are: those of another container, which we cannot see, may be alive."""
    return str(Path("/proc/self/ns/pid").stat().st_ino)
