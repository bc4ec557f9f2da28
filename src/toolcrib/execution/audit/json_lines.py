"""Records as lines of JSON, appended to a file or a stream."""

import json
import os
from pathlib import Path
from threading import Lock
from typing import TextIO

from toolcrib.errors import StoreError
from toolcrib.model.json_text import compact_json
from toolcrib.model.record import Record


class JsonLines:
    """A sink that appends one line per record, safe to share between threads.

    A path is opened for each line and appended to in one write, so that several processes may share the file
    and it may be moved away at any time. A line that cannot be written is counted in `lost`; the call that it
    tells of goes on.

    Raises:
        StoreError: the file cannot be opened for appending.
    """

    __slots__ = ("_lock", "_target", "_torn", "lost")

    def __init__(self, target: str | os.PathLike[str] | TextIO) -> None:
        self._target = Path(target) if isinstance(target, str | os.PathLike) else target
        self._lock = Lock()
        self._torn = False
        self.lost = 0
        """How many records could not be written."""
        if isinstance(self._target, Path):
            try:
                self._target = self._target.expanduser()
                os.close(_opened(self._target))
            except (OSError, ValueError, RuntimeError) as error:  # ... a null byte; a home that nobody has
                reason = (isinstance(error, OSError) and error.strerror) or error
                raise StoreError(str(self._target), f"it cannot be appended to: {reason}") from error

    def __call__(self, record: Record) -> None:
        """Write a record, or count it as lost."""
        try:
            self.write(record)
        except (OSError, ValueError, TypeError):  # a full disk; a closed stream; what JSON cannot say
            with self._lock:
                self.lost += 1

    def write(self, record: Record) -> None:
        """Write a record.

        Raises:
            OSError: it cannot be written; a pipe that is full is not waited for.
            ValueError: the stream is closed, or JSON cannot say it.
            TypeError: JSON cannot say it.
        """
        line = serialize_record(record)
        with self._lock:
            self._write(f"{line}\n")

    def _write(self, line: str) -> None:
        if not isinstance(self._target, Path):
            self._target.write(line)
            self._target.flush()
            return
        file = _opened(self._target)
        try:
            # The rest of a line that broke off must not run into this one.
            data = (b"\n" if self._torn else b"") + line.encode()
            written = os.write(file, data)
            self._torn = written < len(data)
            if self._torn:
                raise OSError("only a part of the line could be written")
        finally:
            os.close(file)


def serialize_record(record: Record) -> str:
    """Return a record as one line of JSON that can always be encoded as UTF-8.

    Raises:
        ValueError, TypeError: JSON cannot say it.
    """
    line = compact_json(record.to_json())
    try:
        line.encode()
    except UnicodeEncodeError:
        # A client's name may hold half of a surrogate pair, which UTF-8 does not have and a JSON escape does.
        return json.dumps(record.to_json(), separators=(",", ":"))
    return line


def _opened(path: Path) -> int:
    # A pipe that nobody reads would else be waited for without end.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0)
    return os.open(path, flags, 0o600)
