"""Reading and atomic replacement of files, and locks between processes."""

import os
import stat
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


def read_file(path: Path, max_bytes: int) -> bytes:
    """Return the content of a file.

    Raises:
        OSError: it cannot be read, is no file but a folder, a pipe or a device, or is larger than that.
    """
    # A pipe that nobody writes to would be waited for: it is opened without waiting, and then looked at.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise OSError("it is a folder")
        if not stat.S_ISREG(mode):
            raise OSError("it is a pipe or a device, not a file")
        with os.fdopen(handle, "rb", closefd=False) as file:
            content = file.read(max_bytes + 1)
    finally:
        os.close(handle)
    if len(content) > max_bytes:
        raise OSError(f"it is larger than {max_bytes // 2**20} MiB")
    return content


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
            os.fsync(file.fileno())  # or a crash may leave the file empty: the rename reaches the disk first
        if hasattr(os, "chown") and like.exists():
            known = like.stat()
            with suppress(PermissionError):  # only root may give files away
                os.chown(made, known.st_uid, known.st_gid)
        made.chmod(rights)
        made.replace(target)
    except BaseException:
        made.unlink(missing_ok=True)
        raise


def file_rights(target: Path) -> int:
    """Return the mode for the file that replaces another: that of the other, or what the umask leaves."""
    if target.exists():
        return target.stat().st_mode & 0o7777
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask


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
                raise TimeoutError("another process is changing it, and does not finish")
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
