"""Marks of processes, by which the next process recognizes and removes what a killed one left behind.

A pid alone is not enough: it is used again after the process has ended, and means another process in another
pid namespace. So a mark has the namespace, the pid and the start time.
"""

import os
from pathlib import Path


def own_mark() -> str | None:
    """Return the mark of this process; None if processes cannot be listed.

    It has only digits and dashes, so that it can be part of the names of files, groups and containers.
    """
    return _mark_of(os.getpid())


def is_gone(mark: str) -> bool:
    """Return whether the process with a mark has ended; False if that cannot be known.

    >>> is_gone("1-2-3"), is_gone("no mark"), is_gone(own_mark() or "")
    (False, False, False)
    """
    parts = mark.split("-")
    if not all(part.isascii() and part.isdecimal() for part in parts):
        return False
    return len(parts) == 3 and parts[0] == _pid_namespace() and _mark_of(int(parts[1])) != mark  # noqa: PLR2004 - namespace, pid, start time


def _mark_of(pid: int) -> str | None:
    # Field 22 of stat is the start time in ticks since boot. The name of the program, field 2, may itself
    # hold spaces and parentheses, so the fields are counted after the last parenthesis.
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return f"{_pid_namespace()}-{pid}-{text.rpartition(')')[2].split()[19]}"


def _pid_namespace() -> str:
    """Return the id of our pid namespace; processes in another one, such as a container, are not visible."""
    try:
        return str(Path("/proc/self/ns/pid").stat().st_ino)
    except OSError:
        return ""
