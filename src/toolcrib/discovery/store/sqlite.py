"""Store in one SQLite file in WAL mode, which survives a crash of the process at any moment.

Writes go through one connection, one batch at a time. Each iterator has a connection of its own with a read
transaction (`Snapshot`), so that it sees the file as it was when it began, neither waits for writers nor
blocks them, and can be closed together with the store.
"""

import os
import sqlite3
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import starmap
from pathlib import Path
from sqlite3 import Connection
from time import monotonic, sleep
from typing import Any, Self

from toolcrib.discovery.store.batch import (
    check_counts,
    check_ids,
    check_texts,
    check_tools,
    check_values,
)
from toolcrib.discovery.store.connection import CLOSED, connect, explain_errors, transaction
from toolcrib.discovery.store.protocol import StoredTool
from toolcrib.errors import StoreError

_FETCH_SIZE = 512
"""Rows fetched under one hold of the lock, which bounds the time that `close` waits."""
_MAX_VARIABLES = 500
"""The maximum number of values in one query; every build of SQLite accepts 999."""
_SCAN_FROM = 20_000
"""With more hashes than this, all values of the kind are read: single lookups take twice as long."""
_PUT_TOOL = (
    "INSERT INTO tools (id, definition, backends, facets, examples, content_hash) VALUES (?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (id) DO UPDATE SET definition = excluded.definition, backends = excluded.backends,"
    " facets = excluded.facets, examples = excluded.examples, content_hash = excluded.content_hash"
)
_PUT_TEXT = (
    "INSERT INTO texts (collection, id, text) VALUES (?, ?, ?)"
    " ON CONFLICT (collection, id) DO UPDATE SET text = excluded.text"
)
_PUT_DERIVED = (
    "INSERT INTO derived (kind, hash, value) VALUES (?, ?, ?)"
    " ON CONFLICT (kind, hash) DO UPDATE SET value = excluded.value"
)
_ADD_USAGE = (
    "INSERT INTO usage (tool, uses) VALUES (?, ?)"
    " ON CONFLICT (tool) DO UPDATE SET uses = usage.uses + excluded.uses"
)
APPLICATION_ID = 0x54435242
"""The `application_id` that marks a SQLite file as a toolcrib store: the letters `TCRB`."""
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        # Tables with long texts have a rowid: in a WITHOUT ROWID table, long rows need overflow pages.
        """
        CREATE TABLE tools (
            id TEXT NOT NULL PRIMARY KEY,
            definition TEXT NOT NULL,
            backends TEXT NOT NULL,
            facets TEXT NOT NULL,
            examples TEXT NOT NULL,
            content_hash TEXT NOT NULL
        )
        """,
        """
        CREATE TABLE texts (
            collection TEXT NOT NULL,
            id TEXT NOT NULL,
            text TEXT NOT NULL,
            PRIMARY KEY (collection, id)
        )
        """,
        """
        CREATE TABLE derived (
            kind TEXT NOT NULL,
            hash TEXT NOT NULL,
            value BLOB NOT NULL,
            PRIMARY KEY (kind, hash)
        ) WITHOUT ROWID
        """,
        "CREATE TABLE usage (tool TEXT NOT NULL PRIMARY KEY, uses INTEGER NOT NULL) WITHOUT ROWID",
    ),
)
"""The statements that lead from each version of the file to the next; `user_version` counts those applied.

A migration is never changed after its release; a new one is appended.
"""
_SELECT_VERSION = (
    "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master)"
    " FROM pragma_application_id, pragma_user_version"
)
_PAGE_SIZE = 8192  # of 4096, 8192 and 16384 the smallest that wastes little on rows of a kilobyte
_MAX_WAL_BYTES = 16 * 2**20
_WAL_TIMEOUT = 10.0
_WAL_RETRY_INTERVAL = 0.01
"""Seconds to try to switch to WAL, and between two attempts."""


class Snapshot:
    """A read transaction on a connection of its own, for one thread; any thread may close it."""

    def __init__(self, path: Path, timeout: float) -> None:
        self._path = path
        self._timeout = timeout
        self._closed = False
        # Reentrant: the garbage collector may close an abandoned reader inside a call that holds the lock.
        self._lock = threading.RLock()
        with explain_errors(path, timeout):
            self._connection = connect(path, "rw", timeout, _begin_snapshot)

    def rows(self, sql: str, parameters: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """Return the rows of a query.

        Raises:
            StoreError: the file cannot be read, or the snapshot was closed before its last row.
        """
        with self._use_connection() as connection:
            cursor = connection.execute(sql, parameters)
        while True:
            with self._use_connection():
                block = cursor.fetchmany(_FETCH_SIZE)
            if not block:
                return
            yield from block

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._closed = True
            self._connection.close()

    @contextmanager
    def _use_connection(self) -> Iterator[sqlite3.Connection]:
        """Hold the lock of the connection; raise if it is closed."""
        with self._lock, explain_errors(self._path, self._timeout):
            if self._closed:
                raise StoreError(str(self._path), CLOSED)
            yield self._connection


def _begin_snapshot(connection: sqlite3.Connection) -> None:
    """Begin a read transaction that sees the file as it is now."""
    connection.execute("BEGIN")
    # SQLite takes the snapshot at the first read, not at BEGIN.
    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()


class SqliteStore:
    """A `Store` in one SQLite file.

    The file must be on a local disk; the processes of one machine may share it. All of them can read at any
    time; writers take turns, and one that has waited for `timeout` seconds raises `StoreError`. A written
    batch survives a crash of the process; it survives a power failure only once the operating system has
    written it to disk. Neither damages the file. The files `-wal` and `-shm` exist beside it while it is
    open, and after a crash.

    Args:
        path: the file; it and its folders are created if needed.
        timeout: the seconds to wait for another process that is writing.

    Raises:
        StoreError: the path is a directory, may not be written, or is not a store of this release or an
            earlier one; its content is not changed.
    """

    def __init__(self, path: str | os.PathLike[str], *, timeout: float = 10.0) -> None:
        self._path = Path(path).absolute()
        self._name = str(self._path)
        self._timeout = timeout
        self._closed = False
        self._guard = threading.Lock()
        self._snapshots: set[Snapshot] = set()
        self._writing = threading.Lock()
        self._prepare_folder()
        with explain_errors(self._path, timeout):
            self._writer = connect(self._path, "rwc", timeout, lambda new: migrate(new, self._path))

    @property
    def path(self) -> Path:
        """The path of the file."""
        return self._path

    def tools(self) -> Iterator[StoredTool]:
        """Return the tools, sorted by id."""
        sql = "SELECT id, definition, backends, facets, examples, content_hash FROM tools ORDER BY id"
        return starmap(StoredTool, self._rows((sql, ())))

    def write(self, put: Iterable[StoredTool] = (), delete: Iterable[str] = ()) -> None:
        """Put and delete tools, as one batch."""
        added, removed = check_tools(self._name, put), check_ids(self._name, delete)
        rows = [
            (tool.id, tool.definition, tool.backends, tool.facets, tool.examples, tool.content_hash)
            for tool in added.values()
        ]
        with self._write_batch() as writer:
            writer.executemany("DELETE FROM tools WHERE id = ?", [(name,) for name in removed])
            writer.executemany(_PUT_TOOL, rows)

    def texts(self, collection: str) -> Iterator[tuple[str, str]]:
        """Return the ids and texts of a collection, sorted by id."""
        check_ids(self._name, [collection])
        sql = "SELECT id, text FROM texts WHERE collection = ? ORDER BY id"
        return ((name, text) for name, text in self._rows((sql, (collection,))))

    def write_texts(
        self, collection: str, put: Mapping[str, str] | None = None, delete: Iterable[str] = ()
    ) -> None:
        """Put and delete texts of a collection, as one batch."""
        check_ids(self._name, [collection])
        added, removed = check_texts(self._name, put or {}), check_ids(self._name, delete)
        with self._write_batch() as writer:
            writer.executemany(
                "DELETE FROM texts WHERE collection = ? AND id = ?", [(collection, name) for name in removed]
            )
            writer.executemany(_PUT_TEXT, [(collection, name, text) for name, text in added.items()])

    def derived(self, kind: str, hashes: Collection[str]) -> dict[str, bytes]:
        """Return the derived values of a kind for these content hashes."""
        check_ids(self._name, [kind])
        wanted = check_ids(self._name, hashes)
        rows = self._rows(*_derived_queries(kind, wanted))
        return {name: value for name, value in rows if name in wanted}

    def save_derived(self, kind: str, values: Mapping[str, bytes]) -> None:
        """Save derived values of a kind by content hash."""
        check_ids(self._name, [kind])
        batch = check_values(self._name, values)
        # Sorted hashes go to neighbouring pages of the B-tree, which is twice as fast as any other order.
        rows = [(kind, name, batch[name]) for name in sorted(batch)]
        with self._write_batch() as writer:
            writer.executemany(_PUT_DERIVED, rows)

    def prune_derived(self, keep: Collection[str], *, kinds: Collection[str] | None = None) -> int:
        """Delete the values of all other content hashes, and of all other kinds if kinds are given."""
        kept = check_ids(self._name, keep)
        kept_kinds = None if kinds is None else check_ids(self._name, kinds)
        with self._write_batch() as writer:
            stale = [
                (kind, name)
                for kind, name in writer.execute("SELECT kind, hash FROM derived")
                if name not in kept or (kept_kinds is not None and kind not in kept_kinds)
            ]
            writer.executemany("DELETE FROM derived WHERE kind = ? AND hash = ?", stale)
        return len(stale)

    def usage(self) -> dict[str, int]:
        """Return the number of uses of each tool."""
        return {name: uses for name, uses in self._rows(("SELECT tool, uses FROM usage", ()))}  # noqa: C416

    def count_usage(self, counts: Mapping[str, int]) -> None:
        """Add to the usage counts."""
        batch = check_counts(self._name, counts)
        with self._write_batch() as writer:
            writer.executemany(_ADD_USAGE, list(batch.items()))

    def close(self) -> None:
        """Close the file, after the batch that is being written."""
        with self._guard:
            self._closed = True
        for snapshot in self._snapshots.copy():
            snapshot.close()
        with self._writing:
            self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _prepare_folder(self) -> None:
        """Create the folders, and check the path: SQLite's own errors would not say what is wrong with it."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = f"its folder cannot be made ({error}); choose another path"
            raise StoreError(self._name, reason) from error
        if self._path.is_dir():
            raise StoreError(self._name, "it is a directory; name a file in it")
        if self._path.exists() and not os.access(self._path, os.R_OK | os.W_OK):
            raise StoreError(
                self._name, "it is not readable and writable; allow both, or choose another path"
            )

    @contextmanager
    def _write_batch(self) -> Iterator[Connection]:
        """Run the body as one write transaction."""
        with self._writing, explain_errors(self._path, self._timeout):
            if self._closed:
                raise StoreError(self._name, CLOSED)
            with transaction(self._writer) as writer:
                yield writer

    def _rows(self, *queries: tuple[str, Sequence[str]]) -> Iterator[tuple[Any, ...]]:
        """Return the rows of queries, one query after the other, all of one snapshot taken now."""
        rows = self._query(queries)
        next(rows)  # a generator runs only when it is advanced; this takes the snapshot before returning
        return rows

    def _query(self, queries: Iterable[tuple[str, Sequence[str]]]) -> Iterator[tuple[Any, ...]]:
        """Yield an empty row when the snapshot is taken, then the rows of the queries."""
        snapshot = self._snapshot()
        try:
            yield ()
            for sql, parameters in queries:
                yield from snapshot.rows(sql, parameters)
        finally:  # without `_guard`: the garbage collector may run this while this thread holds it
            self._snapshots.discard(snapshot)
            snapshot.close()

    def _snapshot(self) -> Snapshot:
        """Open a snapshot that `close` will close."""
        with self._guard:
            if self._closed:
                raise StoreError(self._name, CLOSED)
            snapshot = Snapshot(self._path, self._timeout)
            self._snapshots.add(snapshot)
        return snapshot


def _derived_queries(kind: str, hashes: Collection[str]) -> list[tuple[str, Sequence[str]]]:
    """Return queries whose rows include the values of these hashes, and maybe of others."""
    if len(hashes) > _SCAN_FROM:
        return [("SELECT hash, value FROM derived WHERE kind = ?", (kind,))]
    queries: list[tuple[str, Sequence[str]]] = []
    ordered = sorted(hashes)
    for start in range(0, len(ordered), _MAX_VARIABLES):
        part = ordered[start : start + _MAX_VARIABLES]
        marks = ", ".join("?" * len(part))
        sql = f"SELECT hash, value FROM derived WHERE kind = ? AND hash IN ({marks})"  # noqa: S608 - marks only
        queries.append((sql, (kind, *part)))
    return queries


def migrate(connection: sqlite3.Connection, path: Path, steps: Sequence[Sequence[str]] = MIGRATIONS) -> None:
    """Create the tables of a new file, or bring an older store to the latest version.

    A file that is not a store is not changed, and a store of the latest version is only read.

    Raises:
        StoreError: the file is not a store, or was written by a later release.
    """
    version = _read_version(connection, path, latest=len(steps))
    connection.execute(f"PRAGMA page_size = {_PAGE_SIZE}")
    _enable_wal(connection)
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA journal_size_limit = {_MAX_WAL_BYTES}")
    if version < len(steps):
        with transaction(connection):
            # The version is read again inside the transaction: another process may have migrated meanwhile.
            for step in steps[_read_version(connection, path, latest=len(steps)) :]:
                for statement in step:
                    connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {len(steps)}")


def _enable_wal(connection: sqlite3.Connection) -> None:
    """Switch to write-ahead logging; SQLite does not wait for another process that does, so this retries."""
    deadline = monotonic() + _WAL_TIMEOUT
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or monotonic() > deadline:
                raise
            sleep(_WAL_RETRY_INTERVAL)
        else:
            return


def _read_version(connection: sqlite3.Connection, path: Path, *, latest: int) -> int:
    """Return the version of a file, the number of migrations applied; 0 for an empty file."""
    application, version, tables = connection.execute(_SELECT_VERSION).fetchone()
    if not (application or version or tables):
        return 0
    if application != APPLICATION_ID:
        reason = "it is a SQLite file but not a toolcrib store; choose another path, or move the file away"
        raise StoreError(str(path), reason)
    if version > latest:
        reason = f"it has format {version}, and this release reads up to {latest}"
        raise StoreError(str(path), f"{reason}; upgrade toolcrib, or choose another path")
    return int(version)
