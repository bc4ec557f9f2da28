"""A store in one SQLite file, which outlives the process and survives its death at any moment."""

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
    checked_counts,
    checked_ids,
    checked_texts,
    checked_tools,
    checked_values,
)
from toolcrib.discovery.store.connection import CLOSED, connect, explained, transaction
from toolcrib.discovery.store.protocol import StoredTool
from toolcrib.errors import StoreError

_BLOCK = 512
"""How many rows are fetched at once: closing waits for no more than these."""
_VARIABLES = 500
"""How many values one query names; every build of SQLite takes 999."""
_SCAN_FROM = 20_000
"""From how many hashes on a whole kind is read: looked up each, they take twice as long."""
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
"""What marks a SQLite file as a store of ours: `TCRB`."""
STEPS: tuple[tuple[str, ...], ...] = (
    (
        # Rows with long texts stand in tables with a rowid: in one without, each would fill overflow pages.
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
"""What leads from each version to the next; a file has the version of the last step taken.

A step is never changed once it was released: another is added after it.
"""
_FORM = (
    "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master)"
    " FROM pragma_application_id, pragma_user_version"
)
_PAGE_SIZE = 8192  # of 4096, 8192 and 16384 the smallest that wastes little on rows of a kilobyte
_LOG_SIZE = 16 * 2**20
_PATIENCE = 10.0
_PAUSE = 0.01
"""Seconds: how long to try for the log, and how long to wait between."""


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


class SqliteStore:
    """Keeps everything in one file; the contract is that of `Store`.

    The file must be on a local disk; the processes of one machine may share it. All of them read at any
    time; writers take turns, and one that has waited for `timeout` seconds raises `StoreError`. A batch that
    was written survives the death of the process at once, and a power failure from the moment that the
    operating system has written it to disk; either leaves the file whole. Beside the file stand `-wal` and
    `-shm` while it is open, and after a crash.

    Args:
        path: The file; it and its folders are made if need be.
        timeout: For how long to wait for another process that is writing, in seconds.

    Raises:
        StoreError: the path is a directory, may not be written, or holds something other than a store of
            this release or an earlier one; what it holds is left as it is.
    """

    def __init__(self, path: str | os.PathLike[str], *, timeout: float = 10.0) -> None:
        self._path = Path(path).absolute()
        self._name = str(self._path)
        self._timeout = timeout
        self._closed = False
        self._guard = threading.Lock()
        self._snapshots: set[Snapshot] = set()
        self._writing = threading.Lock()
        self._make_place()
        with explained(self._path, timeout):
            self._writer = connect(self._path, "rwc", timeout, lambda new: prepare(new, self._path))

    @property
    def path(self) -> Path:
        """Where the file is."""
        return self._path

    def tools(self) -> Iterator[StoredTool]:
        """Return the tools, by id."""
        sql = "SELECT id, definition, backends, facets, examples, content_hash FROM tools ORDER BY id"
        return starmap(StoredTool, self._rows((sql, ())))

    def write(self, put: Iterable[StoredTool] = (), delete: Iterable[str] = ()) -> None:
        """Keep tools and forget others, as one batch."""
        added, removed = checked_tools(self._name, put), checked_ids(self._name, delete)
        rows = [
            (tool.id, tool.definition, tool.backends, tool.facets, tool.examples, tool.content_hash)
            for tool in added.values()
        ]
        with self._batch() as writer:
            writer.executemany("DELETE FROM tools WHERE id = ?", [(name,) for name in removed])
            writer.executemany(_PUT_TOOL, rows)

    def texts(self, collection: str) -> Iterator[tuple[str, str]]:
        """Return the ids and texts of a collection, by id."""
        checked_ids(self._name, [collection])
        sql = "SELECT id, text FROM texts WHERE collection = ? ORDER BY id"
        return ((name, text) for name, text in self._rows((sql, (collection,))))

    def write_texts(
        self, collection: str, put: Mapping[str, str] | None = None, delete: Iterable[str] = ()
    ) -> None:
        """Keep texts in a collection and forget others, as one batch."""
        checked_ids(self._name, [collection])
        added, removed = checked_texts(self._name, put or {}), checked_ids(self._name, delete)
        with self._batch() as writer:
            writer.executemany(
                "DELETE FROM texts WHERE collection = ? AND id = ?", [(collection, name) for name in removed]
            )
            writer.executemany(_PUT_TEXT, [(collection, name, text) for name, text in added.items()])

    def derived(self, kind: str, hashes: Collection[str]) -> dict[str, bytes]:
        """Return what was saved of a kind for these content hashes."""
        checked_ids(self._name, [kind])
        wanted = checked_ids(self._name, hashes)
        rows = self._rows(*_derived_queries(kind, wanted))
        return {name: value for name, value in rows if name in wanted}

    def save_derived(self, kind: str, values: Mapping[str, bytes]) -> None:
        """Keep values of a kind by content hash."""
        checked_ids(self._name, [kind])
        batch = checked_values(self._name, values)
        # Hashes in order go to neighbouring pages: twice as fast as in the order of the tools.
        rows = [(kind, name, batch[name]) for name in sorted(batch)]
        with self._batch() as writer:
            writer.executemany(_PUT_DERIVED, rows)

    def prune_derived(self, keep: Collection[str], *, kinds: Collection[str] | None = None) -> int:
        """Forget the values of all other content hashes, and of all other kinds where kinds are given."""
        kept = checked_ids(self._name, keep)
        kept_kinds = None if kinds is None else checked_ids(self._name, kinds)
        with self._batch() as writer:
            stale = [
                (kind, name)
                for kind, name in writer.execute("SELECT kind, hash FROM derived")
                if name not in kept or (kept_kinds is not None and kind not in kept_kinds)
            ]
            writer.executemany("DELETE FROM derived WHERE kind = ? AND hash = ?", stale)
        return len(stale)

    def usage(self) -> dict[str, int]:
        """Return how often each tool was used."""
        return {name: uses for name, uses in self._rows(("SELECT tool, uses FROM usage", ()))}  # noqa: C416

    def count_usage(self, counts: Mapping[str, int]) -> None:
        """Add to how often tools were used."""
        batch = checked_counts(self._name, counts)
        with self._batch() as writer:
            writer.executemany(_ADD_USAGE, list(batch.items()))

    def close(self) -> None:
        """Close the file, once the batch that is being written is kept."""
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

    def _make_place(self) -> None:
        """Make the folders, and refuse what SQLite would only fail to open, or open without writing."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = f"its folder cannot be made ({error}); choose another path"
            raise StoreError(self._name, reason) from error
        if self._path.is_dir():
            raise StoreError(self._name, "it is a directory; name a file in it")
        if self._path.exists() and not os.access(self._path, os.R_OK | os.W_OK):
            raise StoreError(self._name, "it may not be read and written; allow both, or choose another path")

    @contextmanager
    def _batch(self) -> Iterator[Connection]:
        """Write one batch: wholly, or not at all."""
        with self._writing, explained(self._path, self._timeout):
            if self._closed:
                raise StoreError(self._name, CLOSED)
            with transaction(self._writer) as writer:
                yield writer

    def _rows(self, *queries: tuple[str, Sequence[str]]) -> Iterator[tuple[Any, ...]]:
        """Return the rows of queries, one query after the other, all as of this moment."""
        rows = self._query(queries)
        next(rows)  # up to the snapshot: what is written from here on is not seen
        return rows

    def _query(self, queries: Iterable[tuple[str, Sequence[str]]]) -> Iterator[tuple[Any, ...]]:
        """Give one empty row when the snapshot is taken, then those of the queries."""
        snapshot = self._snapshot()
        try:
            yield ()
            for sql, parameters in queries:
                yield from snapshot.rows(sql, parameters)
        finally:  # no lock here: the collector may come this way at any moment
            self._snapshots.discard(snapshot)
            snapshot.close()

    def _snapshot(self) -> Snapshot:
        """Return a reader that `close` knows of."""
        with self._guard:
            if self._closed:
                raise StoreError(self._name, CLOSED)
            snapshot = Snapshot(self._path, self._timeout)
            self._snapshots.add(snapshot)
        return snapshot


def _derived_queries(kind: str, hashes: Collection[str]) -> list[tuple[str, Sequence[str]]]:
    """Return the queries whose rows hold what is kept of these hashes, and perhaps of others."""
    if len(hashes) > _SCAN_FROM:
        return [("SELECT hash, value FROM derived WHERE kind = ?", (kind,))]
    queries: list[tuple[str, Sequence[str]]] = []
    ordered = sorted(hashes)
    for start in range(0, len(ordered), _VARIABLES):
        part = ordered[start : start + _VARIABLES]
        marks = ", ".join("?" * len(part))
        sql = f"SELECT hash, value FROM derived WHERE kind = ? AND hash IN ({marks})"  # noqa: S608 - marks only
        queries.append((sql, (kind, *part)))
    return queries


def prepare(connection: sqlite3.Connection, path: Path, steps: Sequence[Sequence[str]] = STEPS) -> None:
    """Make a file a store of the latest version.

    A file that is no store is left as it is, and a store of the latest version is only read.

    Raises:
        StoreError: the file is something else, or was written by a later release.
    """
    version = _version(connection, path, latest=len(steps))
    connection.execute(f"PRAGMA page_size = {_PAGE_SIZE}")
    _log_ahead(connection)
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA journal_size_limit = {_LOG_SIZE}")
    if version < len(steps):
        with transaction(connection):
            for step in steps[_version(connection, path, latest=len(steps)) :]:
                for statement in step:
                    connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {len(steps)}")


def _log_ahead(connection: sqlite3.Connection) -> None:
    """Write to a log first; SQLite does not wait for another process that is switching, so this does."""
    deadline = monotonic() + _PATIENCE
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or monotonic() > deadline:
                raise
            sleep(_PAUSE)
        else:
            return


def _version(connection: sqlite3.Connection, path: Path, *, latest: int) -> int:
    """Return how many steps a file has taken; an empty file has taken none."""
    application, version, tables = connection.execute(_FORM).fetchone()
    if not (application or version or tables):
        return 0
    if application != APPLICATION_ID:
        reason = "it is a SQLite file but not a toolcrib store; choose another path, or move the file away"
        raise StoreError(str(path), reason)
    if version > latest:
        reason = f"it has format {version}, and this release reads up to {latest}"
        raise StoreError(str(path), f"{reason}; upgrade toolcrib, or choose another path")
    return int(version)
