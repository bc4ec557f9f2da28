"""How a SQLite file is opened and written as a whole, and how its failures are reported."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from toolcrib.errors import StoreError

CLOSED = "it is closed; open it again"
_DAMAGED = "it is damaged; put back a copy, or move the file away, so that the catalogue is built anew"
_REASONS = {
    sqlite3.SQLITE_NOTADB: "it is not a toolcrib store; choose another path, or move the file away",
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_FULL: "the disk is full; free some space and try again",
    sqlite3.SQLITE_READONLY: "it or its folder may not be written; allow it, or choose another path",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; check that its folder is there and may be written",
    sqlite3.SQLITE_IOERR: "the disk failed; check that it has free space and is well, and try again",
    sqlite3.SQLITE_TOOBIG: "a value is too large for one row; make it smaller",
}
"""What went wrong and what to do, by SQLite's primary result code."""
_DAMAGES = {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR}
"""The codes of a file that is no database, or not a whole one, or lacks a table."""


def connect(
    path: Path, mode: Literal["rw", "rwc"], timeout: float, first: Callable[[sqlite3.Connection], Any]
) -> sqlite3.Connection:
    """Return a connection for any thread, once `first` was done with it; what fails is closed.

    It begins no transaction by itself, and waits for other writers for `timeout` seconds.
    """
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode={mode}",
        uri=True,
        timeout=timeout,
        isolation_level=None,
        check_same_thread=False,
    )
    done = False
    try:
        first(connection)
        done = True
    finally:
        if not done:
            connection.close()
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Keep everything that is written inside, or nothing; other writers wait from its beginning."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


@contextmanager
def explained(path: Path, timeout: float) -> Iterator[None]:
    """Raise SQLite's errors as a `StoreError` that says what to do."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:  # damage may hit what SQLite says of it, too
        raise StoreError(str(path), _reason(error, timeout)) from error


def _reason(error: sqlite3.Error | UnicodeDecodeError, timeout: float) -> str:
    """Return what went wrong and what to do."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:  # Python's own complaint about what it read: the text is none
        return f"{_DAMAGED} ({error})"
    primary = code & 0xFF
    if primary in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_PROTOCOL}:
        return f"another process has been writing it for {timeout:g} s; try again, or allow a longer timeout"
    message = f"{getattr(error, 'sqlite_errorname', code)}: {error}"
    return f"{_REASONS[primary]} ({message})" if primary in _REASONS else f"it cannot be used ({message})"


def is_damage(error: StoreError) -> bool:
    """Return whether a file of our own failed since it is damaged, which no other try will mend."""
    cause = error.__cause__
    code = getattr(cause, "sqlite_errorcode", None)
    if code is None:
        return isinstance(cause, sqlite3.OperationalError | UnicodeDecodeError)
    return code & 0xFF in _DAMAGES


def set_aside(path: Path) -> Path:
    """Move a damaged file and what SQLite keeps beside it out of the way, and return where it is now.

    Raises:
        StoreError: it cannot be moved.
    """
    aside = path.with_name(f"{path.name}.damaged")
    try:
        for suffix in ("", "-wal", "-shm"):
            if (each := path.with_name(path.name + suffix)).exists():
                each.replace(aside.with_name(aside.name + suffix))
    except OSError as error:
        raise StoreError(str(path), f"it is damaged, and cannot be moved ({error.strerror})") from error
    return aside
