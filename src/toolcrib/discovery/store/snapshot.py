"""A SQLite file as it was at one moment, whatever is written meanwhile."""

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from toolcrib.discovery.store.connection import CLOSED, connect, explained
from toolcrib.errors import StoreError

__all__ = ["Snapshot"]

_BLOCK = 512
"""How many rows are fetched at once: closing waits for no more than these."""


class Snapshot:
    """A reader with a connection of its own, for one thread; any other may close it between two blocks."""

    def __init__(self, path: Path, timeout: float) -> None:
        self._path = path
        self._timeout = timeout
        self._closed = False
        # The collector may finish an abandoned reader inside the very call that closes it.
        self._lock = threading.RLock()
        with explained(path, timeout):
            self._connection = connect(path, "rw", timeout, _begin)

    def rows(self, sql: str, parameters: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """Return the rows of a query.

        Raises:
            StoreError: the file cannot be read, or the snapshot was closed before its last row.
        """
        with self._held() as connection:
            cursor = connection.execute(sql, parameters)
        while True:
            with self._held():
                block = cursor.fetchmany(_BLOCK)
            if not block:
                return
            yield from block

    def close(self) -> None:
        """Let go of the connection."""
        with self._lock:
            self._closed = True
            self._connection.close()

    @contextmanager
    def _held(self) -> Iterator[sqlite3.Connection]:
        """Hold the connection, if it is still open."""
        with self._lock, explained(self._path, self._timeout):
            if self._closed:
                raise StoreError(str(self._path), CLOSED)
            yield self._connection


def _begin(connection: sqlite3.Connection) -> None:
    """Choose the moment: a transaction sees the file as it was at its first read."""
    connection.execute("BEGIN")
    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
