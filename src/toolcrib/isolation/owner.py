"""Marks of processes: what a killed process leaves behind can be recognized and removed by the next one."""

import os
from pathlib import Path


def own_mark() -> str | None:
    """Return the mark of this process; None if processes cannot be listed.

    It is made of digits and dashes: among which processes we are counted, our number, and when we started.
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
    return len(parts) == 3 and parts[0] == _pid_namespace() and _mark_of(int(parts[1])) != mark  # noqa: PLR2004 - as made


def _mark_of(pid: int) -> str | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return f"{_pid_namespace()}-{pid}-{text.rpartition(')')[2].split()[19]}"


def _pid_namespace() -> str:
    """Return the id of our pid namespace: processes of another container cannot be seen, and may be alive."""
    try:
        return str(Path("/proc/self/ns/pid").stat().st_ino)
    except OSError:
        return ""
