"""Appends records as lines of JSON to a file or a stream."""

import json
import os
from pathlib import Path
from threading import Lock
from typing import TextIO

from toolcrib.errors import StoreError
from toolcrib.model.json_text import compact_json
from toolcrib.model.record import Record


class JsonLines:
    """A sink that appends one line per record, safe for use from many threads.

    A file is opened for each line, which is appended in one write, so that several processes may share it and
    it may be rotated at any time. A line that cannot be written is counted in `lost`; its call is not
    affected.

    Raises:
        StoreError: the file cannot be opened for appending.
    """

    __slots__ = ("_lock", "_target", "_torn", "lost")

    def __init__(self, target: str | os.PathLike[str] | TextIO) -> None:
        self._target = Path(target) if isinstance(target, str | os.PathLike) else target
        self._lock = Lock()
        self._torn = False
        self.lost = 0
        """The number of records that could not be written."""
        if isinstance(self._target, Path):
            try:
                self._target = self._target.expanduser()
                os.close(_open_for_append(self._target))
            except (OSError, ValueError, RuntimeError) as error:  # ... a null byte; a home that nobody has
                reason = (isinstance(error, OSError) and error.strerror) or error
                raise StoreError(str(self._target), f"it cannot be appended to: {reason}") from error

    def __call__(self, record: Record) -> None:
        """Write a record, or count it as lost."""
        try:
            self.write(record)
        except (OSError, ValueError, TypeError):  # a full disk; a closed stream; no JSON
            with self._lock:
                self.lost += 1

    def write(self, record: Record) -> None:
        """Write a record.

        Raises:
            OSError: it cannot be written, or a pipe is full.
            ValueError: the stream is closed, or the record is not JSON.
            TypeError: the record is not JSON.
        """
        line = serialize_record(record)
        with self._lock:
            self._write(f"{line}\n")

    def _write(self, line: str) -> None:
        if not isinstance(self._target, Path):
            self._target.write(line)
            self._target.flush()
            return
        file = _open_for_append(self._target)
        try:
            # After an incomplete line a line break first, so that only that one line is damaged.
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
        ValueError, TypeError: it is not JSON.
    """
    line = compact_json(record.to_json())
    try:
        line.encode()
    except UnicodeEncodeError:
        # A client's name may hold half of a surrogate pair, which UTF-8 does not have and a JSON escape does.
        return json.dumps(record.to_json(), separators=(",", ":"))
    return line


def _open_for_append(path: Path) -> int:
    # Without O_NONBLOCK, opening a pipe without a reader would block for ever.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0)
    return os.open(path, flags, 0o600)
