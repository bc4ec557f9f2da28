"""Atomic replacement of files, and locks between processes."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

TEMPORARY_PREFIX = "toolcrib-"
"""Prefix in the names of files that are being written: `.NAME.toolcrib-…`."""
_LOCK_TIMEOUT = 10.0
_POLL_SECONDS = 0.02


def replace_file(target: Path, content: bytes, *, rights: int, like: Path) -> None:
    """Replace the content of a file atomically; a reader sees the old content or the new."""
    import tempfile  # noqa: PLC0415 - light commands ask where files are, and write none

    # in the same folder, since a rename is atomic only within one file system
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.{TEMPORARY_PREFIX}")
    made = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(
                file.fileno()
            )  # or the rename may reach the disk before the content, and a crash empties it
        if hasattr(os, "chown") and like.exists():
            known = like.stat()
            with suppress(PermissionError):  # only root may give files away
                os.chown(made, known.st_uid, known.st_gid)
        made.chmod(rights)
        made.replace(target)
    except BaseException:
        made.unlink(missing_ok=True)
        raise


@contextmanager
def lock_path(path: Path, *, within: float = _LOCK_TIMEOUT) -> Iterator[None]:
    """Hold the advisory lock of a folder or a file, against other processes and threads.

    Raises:
        TimeoutError: another process has held it for `within` seconds.
        OSError: it cannot be opened.
    """
    handle = _open(path)
    try:
        deadline = time.monotonic() + within
        while not _try_lock(handle):
            if time.monotonic() > deadline:
                raise TimeoutError("another process is changing it, and does not end")
            time.sleep(_POLL_SECONDS)
        yield
    finally:
        os.close(handle)  # which releases the lock


if sys.platform == "win32":
    import msvcrt
    import tempfile

    def _open(path: Path) -> int:
        # Windows cannot open folders, so a file in the temporary folder stands for the path.
        name = f"toolcrib-{sha256(os.fsencode(path)).hexdigest()[:24]}.lock"
        return os.open(Path(tempfile.gettempdir()) / name, os.O_RDWR | os.O_CREAT)

    def _try_lock(handle: int) -> bool:
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _open(path: Path) -> int:
        return os.open(path, os.O_RDONLY)

    def _try_lock(handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # some network file systems lock no folders; callers re-read before they write
            return True
        return True
