"""SQLite connections and transactions, and explanations of SQLite's errors."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from toolcrib.errors import StoreError

CLOSED = "it is closed; open it again"
_DAMAGED_REASON = "it is damaged; restore a copy, or move the file away, so that the catalogue is rebuilt"
_REASONS = {
    sqlite3.SQLITE_NOTADB: "it is not a toolcrib store; choose another path, or move the file away",
    sqlite3.SQLITE_CORRUPT: _DAMAGED_REASON,
    sqlite3.SQLITE_FULL: "the disk is full; free some space and try again",
    sqlite3.SQLITE_READONLY: "it or its folder is not writable; make it writable, or choose another path",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; check that its folder is there and may be written",
    sqlite3.SQLITE_IOERR: "the disk failed; check that it has free space and is healthy, and try again",
    sqlite3.SQLITE_TOOBIG: "a value is too large for one row; make it smaller",
}
"""The reason and the remedy, by SQLite's primary result code."""
_DAMAGE_CODES = {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR}
"""The codes of a file that is not a database, is damaged, or lacks a table."""


def connect(
    path: Path, mode: Literal["rw", "rwc"], timeout: float, first: Callable[[sqlite3.Connection], Any]
) -> sqlite3.Connection:
    """Open a connection that any thread may use, and call `first` with it; if that fails, close it.

    The connection begins no transaction by itself, and waits `timeout` seconds for other writers.
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
    """Run the body as one transaction, committed at the end or rolled back on an exception."""
    # IMMEDIATE takes the write lock now: a lock taken at the first write could fail without waiting.
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


@contextmanager
def explain_errors(path: Path, timeout: float) -> Iterator[None]:
    """Turn SQLite's errors into a `StoreError` with a remedy."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:  # in a damaged file, even messages may not decode
        raise StoreError(str(path), _explain(error, timeout)) from error


def _explain(error: sqlite3.Error | UnicodeDecodeError, timeout: float) -> str:
    """Return the reason of an error and the remedy."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:  # raised by Python: a stored text is not UTF-8
        return f"{_DAMAGED_REASON} ({error})"
    primary = code & 0xFF
    if primary in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_PROTOCOL}:
        return (
            f"another process has been writing to it for {timeout:g} s; try again, or allow a longer timeout"
        )
    message = f"{getattr(error, 'sqlite_errorname', code)}: {error}"
    return f"{_REASONS[primary]} ({message})" if primary in _REASONS else f"it cannot be used ({message})"


def is_damage(error: StoreError) -> bool:
    """Return whether an error says that the file is damaged, so that trying again cannot help."""
    cause = error.__cause__
    code = getattr(cause, "sqlite_errorcode", None)
    if code is None:
        return isinstance(cause, sqlite3.OperationalError | UnicodeDecodeError)
    return code & 0xFF in _DAMAGE_CODES


def set_aside(path: Path) -> Path:
    """Rename a damaged file, with its `-wal` and `-shm` files, and return the new path.

    Raises:
        StoreError: the file cannot be renamed.
    """
    aside = path.with_name(f"{path.name}.damaged")
    try:
        for suffix in ("", "-wal", "-shm"):
            if (each := path.with_name(path.name + suffix)).exists():
                each.replace(aside.with_name(aside.name + suffix))
    except OSError as error:
        raise StoreError(str(path), f"it is damaged, and cannot be moved ({error.strerror})") from error
    return aside
