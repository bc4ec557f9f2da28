"""Small values that several gateways or workers share for some time, each stored once."""

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from toolcrib.errors import StoreError

_TIMEOUT = 5.0


class SharedEntries(Protocol):
    """Values by collection and name; implemented by `PostgresStore` and, on one machine, by `FileEntries`."""

    def put_entry(self, collection: str, name: str, value: bytes, lifetime: float) -> bool:
        """Store a value for some seconds, unless there is one of this name; return whether there was none.

        Raises:
            StoreError: the store cannot be reached or used.
        """
        ...

    def entry(self, collection: str, name: str) -> bytes | None:
        """Return a value that was stored for some seconds; None if there is none, or no longer.

        Raises:
            StoreError: the store cannot be reached or used.
        """
        ...


class FileEntries:
    """Entries in a file that the workers of one gateway share, and that ends with their parent.

    A worker that is killed leaves it intact. Nothing is flushed to disk: nothing has to survive the machine.
    """

    def __init__(self, path: Path) -> None:
        """Open the file, or make it."""
        self._path, self._lock = str(path), threading.Lock()
        self._connection = sqlite3.connect(
            path, timeout=_TIMEOUT, isolation_level=None, check_same_thread=False
        )
        with self._use() as connection:
            connection.execute("PRAGMA journal_mode = wal")
            connection.execute("PRAGMA synchronous = off")
            connection.execute(
                "CREATE TABLE IF NOT EXISTS entries (collection TEXT NOT NULL, name TEXT NOT NULL,"
                " value BLOB NOT NULL, ends REAL NOT NULL, PRIMARY KEY (collection, name)) WITHOUT ROWID"
            )
            connection.execute("CREATE INDEX IF NOT EXISTS entries_ends ON entries (ends)")

    def put_entry(self, collection: str, name: str, value: bytes, lifetime: float) -> bool:
        """Store a value for some seconds, unless there is one of this name; return whether there was none."""
        now = time.time()
        with self._use() as connection:
            connection.execute("DELETE FROM entries WHERE ends < ?", (now,))
            sql = "INSERT INTO entries VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
            return connection.execute(sql, (collection, name, value, now + lifetime)).rowcount == 1

    def entry(self, collection: str, name: str) -> bytes | None:
        """Return a value that was stored for some seconds; None if there is none, or no longer."""
        sql = "SELECT value FROM entries WHERE collection = ? AND name = ? AND ends > ?"
        with self._use() as connection:
            row = connection.execute(sql, (collection, name, time.time())).fetchone()
        return None if row is None else bytes(row[0])

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def _use(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._lock:
                yield self._connection
        except sqlite3.Error as error:
            raise StoreError(self._path, f"it cannot be used: {error}") from error
