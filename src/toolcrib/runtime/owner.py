"""Who made what a process that is killed leaves behind, so that whoever comes after can tidy up."""

import os
from pathlib import Path


def own_mark() -> str | None:
    """Return what distinguishes this process from all others; None where processes cannot be listed.

    It is made of digits and dashes: among which processes we are counted, our number, and when we started.
    """
    return _mark(os.getpid())


def is_gone(mark: str) -> bool:
    """Return whether the process with a mark has ended; of those that we could not see it is unknown.

    >>> is_gone("1-2-3"), is_gone("no mark"), is_gone(own_mark() or "")
    (False, False, False)
    """
    parts = mark.split("-")
    if not all(part.isascii() and part.isdecimal() for part in parts):
        return False
    return len(parts) == 3 and parts[0] == _space() and _mark(int(parts[1])) != mark  # noqa: PLR2004 - as made


def _mark(pid: int) -> str | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return f"{_space()}-{pid}-{text.rpartition(')')[2].split()[19]}"


def _space() -> str:
    """Return among which processes we are: those of another container, which we cannot see, may be alive."""
    try:
        return str(Path("/proc/self/ns/pid").stat().st_ino)
    except OSError:
        return ""
