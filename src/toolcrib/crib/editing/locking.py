"""Let one process at a time change the files of a folder."""

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

__all__ = ["locked"]

_TIME = 10.0
"""For how many seconds another process is waited for."""
_PAUSE = 0.02


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, against other processes and threads that ask for it.

    Raises:
        TimeoutError: another process holds it, and goes on holding it.
        OSError: the folder cannot be opened.
    """
    handle = _open(folder)
    try:
        deadline = time.monotonic() + _TIME
        while not _take(handle):
            if time.monotonic() > deadline:
                raise TimeoutError("another process is changing it, and does not end")
            time.sleep(_PAUSE)
        yield
    finally:
        os.close(handle)  # which gives the lock back


if sys.platform == "win32":
    import msvcrt

    def _open(folder: Path) -> int:
        name = f"toolcrib-{sha256(os.fsencode(folder)).hexdigest()[:24]}.lock"
        return os.open(Path(tempfile.gettempdir()) / name, os.O_RDWR | os.O_CREAT)

    def _take(handle: int) -> bool:
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _open(folder: Path) -> int:
        return os.open(folder, os.O_RDONLY)

    def _take(handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except (
            OSError
        ):  # some network file systems know no locks of folders: what is read twice must do there
            return True
        return True
