"""Small values that several processes share for some time, each stored once, and token buckets."""

import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from toolcrib.errors import StoreError
from toolcrib.model.token_buckets import Shortage, TokenRequest

_TIMEOUT = 5.0
_PRECISION = 1e-6
"""Seconds that count as nothing: times since 1970 are no more precise."""
_RATES = "rates"
"""The collection of the token buckets; each ends when it is full, as one that is not kept is."""


class SharedEntries(Protocol):
    """Values by collection and name; implemented by `PostgresStore` and, on one machine, by `FileEntries`."""

    def put_entry(self, collection: str, name: str, value: bytes, lifetime: float) -> bool:
        """Store a value for `lifetime` seconds, unless the name has one; return whether it was stored.

        Raises:
            StoreError: the store cannot be reached or used.
        """
        ...

    def entry(self, collection: str, name: str) -> bytes | None:
        """Return a value that `put_entry` stored; None if there is none, or it expired.

        Raises:
            StoreError: the store cannot be reached or used.
        """
        ...


class FileEntries:
    """Entries and token buckets in a file that processes of one machine share.

    A process that is killed leaves it intact. Nothing is flushed to disk: nothing has to survive the machine.
    """

    def __init__(self, path: Path) -> None:
        """Open the file, or make it."""
        self._path, self._lock = str(path), threading.Lock()
        with self._explain():
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
        """Store a value for `lifetime` seconds, unless the name has one; return whether it was stored."""
        now = time.time()
        with self._use() as connection:
            connection.execute("DELETE FROM entries WHERE ends < ?", (now,))
            sql = "INSERT INTO entries VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
            return connection.execute(sql, (collection, name, value, now + lifetime)).rowcount == 1

    def entry(self, collection: str, name: str) -> bytes | None:
        """Return a value that `put_entry` stored; None if there is none, or it expired."""
        sql = "SELECT value FROM entries WHERE collection = ? AND name = ? AND ends > ?"
        with self._use() as connection:
            row = connection.execute(sql, (collection, name, time.time())).fetchone()
        return None if row is None else bytes(row[0])

    def take_tokens(self, wanted: Sequence[TokenRequest]) -> Shortage | None:
        """Take a token from each bucket, or, if one of them has none, from no bucket at all."""
        with self._use() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                shortage = _take_tokens(connection, wanted, time.time())
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
        return shortage

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def _use(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._explain():
            yield self._connection

    @contextmanager
    def _explain(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(self._path, f"it cannot be used: {error}") from error


def _take_tokens(
    connection: sqlite3.Connection, wanted: Sequence[TokenRequest], now: float
) -> Shortage | None:
    """Take a token of each bucket, if all of them have one."""
    taken: list[tuple[str, str, bytes, float]] = []
    for each in wanted:
        sql = "SELECT ends FROM entries WHERE collection = ? AND name = ?"
        row = connection.execute(sql, (_RATES, each.name)).fetchone()
        # Never later than that of an empty bucket: the clock of the machine may have been set back.
        full_at = max(now, min(now + each.burst * each.interval, now if row is None else row[0]))
        wait = full_at - now - (each.burst - 1) * each.interval
        if wait > _PRECISION:
            if row is not None and row[0] > full_at:
                sql = "UPDATE entries SET ends = ? WHERE collection = ? AND name = ?"
                connection.execute(sql, (full_at, _RATES, each.name))
            return Shortage(each, wait)
        taken.append((_RATES, each.name, b"", full_at + each.interval))
    connection.execute("DELETE FROM entries WHERE ends < ?", (now,))
    connection.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?)", taken)
    return None
