"""Processes that have left the process group of their server, found by a mark in their environment.

A daemon has another group, session and parent than the server that started it, but inherits its environment.
Linux shows that under /proc; elsewhere nothing is found.
"""

import os
import secrets
import signal
from contextlib import suppress
from itertools import count

import anyio
from anyio import CapacityLimiter, to_thread

MARK = "TOOLCRIB_SERVER"
"""The environment variable that names a server to all that it starts."""
_TOKEN = secrets.token_hex(8)
_NUMBERS = count(1)
_TERM_GRACE_SECONDS = 0.5
"""Between SIGTERM and SIGKILL."""
_POLL_SECONDS = 0.05
_ROUNDS = 10
"""Rounds of finding and killing them: one may start another meanwhile."""


def new_mark() -> str:
    """Return a mark that no other server has."""
    return f"{all_marks()}{next(_NUMBERS)}"


def all_marks() -> str:
    """Return the common prefix of the marks of this process's servers, which its forks do not share."""
    return f"{_TOKEN}-{os.getpid()}-"


async def end_strays(mark: str) -> None:
    """End the processes that carry a mark: SIGTERM, and SIGKILL for those that are left."""
    own_thread = CapacityLimiter(1)  # it must not wait for those of others
    if not await to_thread.run_sync(_signal_marked, mark, signal.SIGTERM, limiter=own_thread):
        return
    with anyio.move_on_after(_TERM_GRACE_SECONDS):
        while await to_thread.run_sync(_signal_marked, mark, None, limiter=own_thread):  # noqa: ASYNC110 - nothing tells
            await anyio.sleep(_POLL_SECONDS)
    for _ in range(_ROUNDS):
        if not await to_thread.run_sync(_signal_marked, mark, signal.SIGKILL, limiter=own_thread):
            return


def _signal_marked(mark: str, number: signal.Signals | None) -> bool:
    """Send a signal to every process with a mark, and return whether there was one."""
    if not hasattr(os, "pidfd_open"):
        return False
    found = False
    for pid in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 - paths of all would take most of the time
        if not _is_marked(pid, mark):
            continue
        with suppress(OSError):  # it is gone, or not ours to signal
            process = os.pidfd_open(int(pid))
            try:
                if _is_marked(pid, mark):  # still: its number may have become another's
                    if number is not None:
                        signal.pidfd_send_signal(process, number)
                    found = True
            finally:
                os.close(process)
    return found


def _is_marked(pid: str, mark: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:  # noqa: PTH123 - as above
            environment = file.readall()
    except OSError:  # it is gone, or not ours to look at
        return False
    return f"{MARK}={mark}".encode() in environment.split(b"\0")
