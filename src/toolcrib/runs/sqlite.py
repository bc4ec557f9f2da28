"""Runs in one SQLite file, which outlive the death of the process at any moment."""

import os
import sqlite3
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from toolcrib.discovery.store.connection import CLOSED, connect, explained, transaction
from toolcrib.discovery.store.sqlite import prepare
from toolcrib.errors import StoreError
from toolcrib.runs.store import NOTHING, OPEN, StoredCall, StoredRun

__all__ = ["SqliteRunStore"]

_STEPS: tuple[tuple[str, ...], ...] = (
    (
        """
        CREATE TABLE runs (
            id TEXT NOT NULL PRIMARY KEY,
            owner TEXT NOT NULL,
            head BLOB NOT NULL,
            began REAL NOT NULL,
            changed REAL NOT NULL,
            status TEXT NOT NULL,
            holder TEXT NOT NULL,
            step INTEGER NOT NULL DEFAULT 0,
            result BLOB
        )
        """,
        # Apart from the rest, for it is written again with each call.
        "CREATE TABLE states (run TEXT NOT NULL PRIMARY KEY, state BLOB NOT NULL)",
        # In one tree, so that a call writes one page.
        """
        CREATE TABLE calls (
            run TEXT NOT NULL,
            key TEXT NOT NULL,
            began REAL NOT NULL,
            intent BLOB NOT NULL,
            outcome BLOB,
            PRIMARY KEY (run, key)
        ) WITHOUT ROWID
        """,
    ),
)
"""What leads from each version to the next; a step is never changed once it was released."""
_LOG_PAGES = 4000
"""After how many pages the log is copied into the file, which waits for the disk: seldom, within a call."""
_BEGIN = "INSERT INTO runs (id, owner, head, began, changed, status, holder) VALUES (?, ?, ?, ?, ?, ?, ?)"
_GET = (
    "SELECT id, owner, head, began,"
    " max(changed, coalesce((SELECT max(calls.began) FROM calls WHERE run = id), 0)),"
    " status, holder, step, (SELECT state FROM states WHERE run = id), result FROM runs WHERE id = ?"
)
_LIST = (
    "SELECT id, owner, head, began,"
    " max(changed, coalesce((SELECT max(calls.began) FROM calls WHERE run = id), 0)),"
    " status, holder, step FROM runs"
    " WHERE ? IS NULL OR owner = ? ORDER BY began DESC, id DESC"
)
_INTEND = (
    "INSERT INTO calls (run, key, began, intent)"
    " SELECT ?, ?, ?, ? WHERE EXISTS (SELECT 1 FROM runs WHERE id = ? AND status = 'open')"
    " ON CONFLICT (run, key) DO UPDATE SET began = excluded.began, intent = excluded.intent, outcome = NULL"
)
_ANSWER = "UPDATE calls SET outcome = ? WHERE run = ? AND key = ?"
_END = (
    "UPDATE runs SET status = ?, holder = '', result = ?, step = ?, changed = ? WHERE id = ? AND status = ?"
)
_SUSPEND = (
    "INSERT INTO states (run, state) VALUES (?, ?) ON CONFLICT (run) DO UPDATE SET state = excluded.state"
)


class SqliteRunStore:
    """Keeps runs in one file; the contract is that of `RunStore`.

    The file must be on a local disk; the processes of one machine may share it. It is written ahead to a log
    (WAL) with `synchronous = NORMAL`: what was written survives the death of the process at once, and a power
    failure from the moment that the operating system has written it to disk; either leaves the file whole.

    Raises:
        StoreError: the file cannot be made, or holds something else.
    """

    def __init__(self, path: str | os.PathLike[str], *, timeout: float = 10.0) -> None:
        self._path = Path(path).absolute()
        self._timeout = timeout
        self._lock = threading.Lock()
        self._closed = False
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path.touch(mode=0o600)
        except OSError as error:
            raise StoreError(str(self._path), f"it cannot be made ({error.strerror or error})") from error
        with explained(self._path, timeout):
            self._connection = connect(self._path, "rwc", timeout, self._prepare)

    def _prepare(self, connection: sqlite3.Connection) -> None:
        prepare(connection, self._path, _STEPS)
        connection.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")

    def begin(self, run: StoredRun) -> None:
        """Keep a new run."""
        row = (run.id, run.owner, run.head, run.began, run.changed, run.status, run.holder)
        with self._batch() as connection:
            connection.execute(_BEGIN, row)

    def intend(
        self,
        run_id: str,
        key: str,
        intent: bytes,
        state: bytes | None,
        now: float,
        outcomes: Mapping[str, bytes] = NOTHING,
    ) -> None:
        """Keep what a call is to do, and what the run goes on from."""
        row = (run_id, key, now, intent, run_id)
        if state is None and not outcomes:
            self._write_one(_INTEND, row, f"there is no open run {run_id!r}")
            return
        with self._batch() as connection:
            if connection.execute(_INTEND, row).rowcount != 1:
                raise StoreError(str(self._path), f"there is no open run {run_id!r}")
            for each, outcome in outcomes.items():
                connection.execute(_ANSWER, (outcome, run_id, each))
            if state is not None:
                connection.execute(_SUSPEND, (run_id, state))

    def answer(self, run_id: str, key: str, outcome: bytes) -> None:
        """Keep what came of a call."""
        self._write_one(
            _ANSWER, (outcome, run_id, key), f"there is no open run {run_id!r} with a call {key!r}"
        )

    def end(self, run_id: str, status: str, result: bytes, step: int, now: float) -> None:
        """Keep what came of a run, and forget the rest."""
        with self._batch() as connection:
            if connection.execute(_END, (status, result, step, now, run_id, OPEN)).rowcount != 1:
                raise StoreError(str(self._path), f"there is no open run {run_id!r}")
            connection.execute("DELETE FROM calls WHERE run = ?", (run_id,))
            connection.execute("DELETE FROM states WHERE run = ?", (run_id,))

    def hold(self, run_id: str, before: str, holder: str) -> bool:
        """Make somebody the holder of a run, if `before` still is."""
        sql = "UPDATE runs SET holder = ? WHERE id = ? AND holder = ? AND status = ?"
        with self._batch() as connection:
            return connection.execute(sql, (holder, run_id, before, OPEN)).rowcount == 1

    def get(self, run_id: str) -> StoredRun | None:
        """Return a run, with all that is kept of it."""
        with self._batch() as connection:
            row = connection.execute(_GET, (run_id,)).fetchone()
            return None if row is None else replace(StoredRun(*row), calls=_calls(connection, run_id))

    def runs(self, owner: str | None = None) -> Collection[StoredRun]:
        """Return the runs of an owner, or of all, the latest first."""
        with self._batch() as connection:
            return [StoredRun(*row) for row in connection.execute(_LIST, (owner, owner))]

    def delete(self, run_ids: Collection[str]) -> None:
        """Forget runs."""
        with self._batch() as connection:
            for sql in (
                "DELETE FROM calls WHERE run = ?",
                "DELETE FROM states WHERE run = ?",
                "DELETE FROM runs WHERE id = ?",
            ):
                connection.executemany(sql, [(run_id,) for run_id in run_ids])

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._closed = True
            self._connection.close()

    @contextmanager
    def _batch(self) -> Iterator[sqlite3.Connection]:
        with self._lock, explained(self._path, self._timeout):
            if self._closed:
                raise StoreError(str(self._path), CLOSED)
            with transaction(self._connection) as connection:
                yield connection

    def _write_one(self, sql: str, values: tuple[Any, ...], otherwise: str) -> None:
        """Write by one statement, which is a batch of its own and the quickest."""
        with self._lock:
            if self._closed:
                raise StoreError(str(self._path), CLOSED)
            try:
                written = self._connection.execute(sql, values).rowcount
            except sqlite3.Error:
                with explained(self._path, self._timeout):
                    raise
        if written != 1:
            raise StoreError(str(self._path), otherwise)


def _calls(connection: sqlite3.Connection, run_id: str) -> dict[str, StoredCall]:
    sql = "SELECT key, intent, outcome FROM calls WHERE run = ? ORDER BY began"
    return {key: StoredCall(intent, outcome) for key, intent, outcome in connection.execute(sql, (run_id,))}
