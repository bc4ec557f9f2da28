"""Private temporary folders, whose leftovers from killed processes the next process removes."""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from toolcrib.isolation.owner import is_gone, own_mark

_PREFIX = "toolcrib-"
_PRIVATE = 0o700


@contextmanager
def private_folder(purpose: str) -> Iterator[Path]:
    """Make an empty folder that nobody else can look into, remove it, and before that those of the dead.

    Its name is that of the process that made it, so that the next one can remove what a killed process left.

    Raises:
        OSError: it cannot be made.
    """
    own, prefix = own_mark(), f"{_PREFIX}{purpose}-"
    if own is not None:  # where processes can be listed
        _remove_abandoned(prefix)
    folder = Path(tempfile.mkdtemp(prefix=f"{prefix}{own or 'host'}-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_abandoned(prefix: str) -> None:
    with suppress(OSError):
        for folder in list(Path(tempfile.gettempdir()).glob(f"{prefix}*")):
            if _is_abandoned(folder, prefix):
                shutil.rmtree(folder, ignore_errors=True)


def _is_abandoned(folder: Path, prefix: str) -> bool:
    """Return whether a folder is ours, and its process has ended."""
    if not is_gone(folder.name.removeprefix(prefix).rpartition("-")[0]):
        return False
    with suppress(OSError):  # another was faster
        found = folder.lstat()
        private = stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) == _PRIVATE
        return private and found.st_uid == os.geteuid()
    return False
