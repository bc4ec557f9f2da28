"""What building something costs: CPU time, and the memory that the process then holds."""

import gc
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from toolcrib.model.record import Record

__all__ = ["Cost", "cost_of", "resident_bytes"]

Made = TypeVar("Made")
_STATUS = Path("/proc/self/status")
_LABEL = "VmRSS:"


class Cost(Record):
    """What building something took."""

    cpu_seconds: float
    """In the whole process, whatever the number of threads."""
    rss_bytes: int | None = None
    """By how much the memory of the process grew, or None where the system does not say."""


def cost_of(build: Callable[[], Made], *, status: Path = _STATUS) -> tuple[Made, Cost]:
    """Build something, and return it with what that cost.

    Memory is told by the operating system, so measure in a process of its own: what was freed before is used
    again, and does not show.
    """
    gc.collect()
    before = resident_bytes(status)
    start = time.process_time()
    made = build()
    spent = time.process_time() - start
    gc.collect()
    after = resident_bytes(status)
    grown = None if before is None or after is None else after - before
    return made, Cost(cpu_seconds=spent, rss_bytes=grown)


def resident_bytes(status: Path = _STATUS) -> int | None:
    """Return how much memory this process holds, where the system keeps a status file that says so."""
    try:
        lines = status.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return None
    sizes = (line.split()[1] for line in lines if line.startswith(_LABEL))
    return next((int(size) * 1024 for size in sizes), None)
