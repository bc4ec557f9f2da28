"""Store of durable runs in a SQLite file, which survives the death of the process at any moment.

There are two connections. `_connection` waits for locks and is used in threads. `_quick` never waits
(timeout 0) and never checkpoints, so that `intend_at_once` can write in the event loop: about one page to the
write-ahead log, without fsync. Every `_THREAD_WRITE_INTERVAL`th intent goes through `_connection` instead,
which then copies the log into the file.
"""

import os
import sqlite3
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from toolcrib.discovery.store.connection import CLOSED, connect, explain_errors, transaction
from toolcrib.discovery.store.sqlite import migrate
from toolcrib.errors import StoreError
from toolcrib.runs.store import NO_OUTCOMES, OPEN, Lease, NewCall, StoredCall, StoredRun, lease_error

_MIGRATIONS: tuple[tuple[str, ...], ...] = (
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
        # A table of its own: the state is rewritten with each call, and a row of `runs` would be with it.
        "CREATE TABLE states (run TEXT NOT NULL PRIMARY KEY, state BLOB NOT NULL)",
        # WITHOUT ROWID keeps key and row in one B-tree, so that a call writes one page and not two.
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
    ("ALTER TABLE runs ADD COLUMN fence INTEGER NOT NULL DEFAULT 1",),
)
"""The statements that lead from each version of the schema to the next; released ones never change."""
_CHECKPOINT_PAGES = 4000
"""Length of the log that starts a checkpoint, which waits for the disk; four times the default of SQLite."""
_THREAD_WRITE_INTERVAL = 500
_SEQUENCE_KEY = ""
"""Key of the row of `calls` that holds the sequence: next to the calls, so that one page is written."""
_BEGIN = (
    "INSERT INTO runs (id, owner, head, began, changed, status, holder, fence)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
_RUN = (
    "SELECT id, owner, head, began,"
    " max(changed, coalesce((SELECT max(calls.began) FROM calls WHERE run = id), 0)),"
    " status, holder, fence, step"
)
_GET = f"{_RUN}, (SELECT state FROM states WHERE run = id), result FROM runs WHERE id = ?"  # noqa: S608 - constant
_LIST = f"{_RUN} FROM runs WHERE ? IS NULL OR owner = ? ORDER BY began DESC, id DESC"
_LEASED = "EXISTS (SELECT 1 FROM runs WHERE id = ? AND fence = ? AND status = 'open')"
_INTEND = (
    "INSERT INTO calls (run, key, began, intent)"
    f" SELECT ?, ?, ?, ? WHERE {_LEASED} UNION ALL SELECT ?, ?, ?, ? WHERE {_LEASED}"
    " ON CONFLICT (run, key) DO UPDATE SET began = excluded.began, intent = excluded.intent, outcome = NULL"
)
_ANSWER = f"UPDATE calls SET outcome = ? WHERE run = ? AND key = ? AND {_LEASED}"  # noqa: S608 - constant
_END = (
    "UPDATE runs SET status = ?, holder = '', result = ?, step = ?, changed = ?"
    " WHERE id = ? AND fence = ? AND status = 'open'"
)
_SUSPEND = (
    "INSERT INTO states (run, state) VALUES (?, ?) ON CONFLICT (run) DO UPDATE SET state = excluded.state"
)


class SqliteRunStore:
    """Keeps runs in one file; the contract is that of `RunStore`.

    The file must be on a local disk; the processes of one machine may share it. It uses a write-ahead log
    (WAL) with `synchronous = NORMAL`: written data survives the death of the process; it survives a power
    failure only once the operating system has written it to disk. Neither damages the file.

    Raises:
        StoreError: the file cannot be created, or holds something else.
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
        with explain_errors(self._path, timeout):
            self._connection = connect(self._path, "rwc", timeout, self._prepare)
            self._quick = connect(self._path, "rw", 0.0, _disable_checkpoints)
        self._quick_lock = threading.Lock()
        self._quick_writes = 0

    def _prepare(self, connection: sqlite3.Connection) -> None:
        migrate(connection, self._path, _MIGRATIONS)
        connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")

    def begin(self, run: StoredRun) -> None:
        """Store a new run."""
        row = (run.id, run.owner, run.head, run.began, run.changed, run.status, run.holder, run.fence)
        with self._transaction() as connection:
            connection.execute(_BEGIN, row)
            sequence = (run.id, _SEQUENCE_KEY, run.began, run.sequence or b"")
            connection.execute("INSERT INTO calls (run, key, began, intent) VALUES (?, ?, ?, ?)", sequence)

    def intend(self, lease: Lease, call: NewCall, outcomes: Mapping[str, bytes] = NO_OUTCOMES) -> None:
        """Store the intent of a call, and the state to resume from."""
        with self._lock_connection() as connection:
            is_leased = _write_intent(connection, lease, call, outcomes)
        if not is_leased:
            raise self._lease_error(lease)

    def intend_at_once(
        self, lease: Lease, call: NewCall, outcomes: Mapping[str, bytes] = NO_OUTCOMES
    ) -> bool:
        """Store the intent of a call, unless that fails or another process or thread is writing the file."""
        if not self._quick_lock.acquire(blocking=False):
            return False
        try:
            self._quick_writes += 1
            if self._closed or self._quick_writes % _THREAD_WRITE_INTERVAL == 0:
                return False
            return _write_intent(self._quick, lease, call, outcomes)
        except sqlite3.Error:  # the caller then uses `intend`, which waits for locks and raises a typed error
            return False
        finally:
            self._quick_lock.release()

    def answer(self, lease: Lease, key: str, outcome: bytes) -> None:
        """Store the outcome of a call."""
        row = (outcome, lease.run_id, key, lease.run_id, lease.fence)
        with self._lock_connection() as connection:
            is_written = connection.execute(_ANSWER, row).rowcount > 0
        if not is_written:
            raise self._lease_error(lease, key)

    def end(self, lease: Lease, status: str, result: bytes, step: int, now: float) -> None:
        """Store the result of a run, and delete its calls and its state."""
        with self._transaction() as connection:
            row = (status, result, step, now, lease.run_id, lease.fence)
            has_ended = connection.execute(_END, row).rowcount == 1
            if has_ended:
                connection.execute("DELETE FROM calls WHERE run = ?", (lease.run_id,))
                connection.execute("DELETE FROM states WHERE run = ?", (lease.run_id,))
        if not has_ended:
            raise self._lease_error(lease)

    def hold(self, lease: Lease, holder: str) -> Lease | None:
        """Change the holder of a run, if the lease is still valid."""
        sql = "UPDATE runs SET holder = ?, fence = fence + 1 WHERE id = ? AND fence = ? AND status = 'open'"
        with self._transaction() as connection:
            is_held = connection.execute(sql, (holder, lease.run_id, lease.fence)).rowcount == 1
        return Lease(lease.run_id, lease.fence + 1) if is_held else None

    def get(self, run_id: str) -> StoredRun | None:
        """Return a run, with everything that is stored about it."""
        with self._transaction() as connection:
            row = connection.execute(_GET, (run_id,)).fetchone()
            sql = "SELECT key, intent, outcome FROM calls WHERE run = ?"
            calls = {
                key: StoredCall(intent, outcome)
                for key, intent, outcome in connection.execute(sql, (run_id,))
            }
        if row is None:
            return None
        sequence = calls.pop(_SEQUENCE_KEY, None)
        run = replace(StoredRun(*row), sequence=None if sequence is None else sequence.intent, calls=calls)
        if wrong := _find_wrong_type(run):
            raise StoreError(str(self._path), f"run {run_id!r} has a value of the wrong type: {wrong}")
        return run

    def runs(self, owner: str | None = None) -> Collection[StoredRun]:
        """Return the runs of an owner, or of all, the latest first, as far as they can be read."""
        with self._transaction() as connection:
            runs = [StoredRun(*row) for row in connection.execute(_LIST, (owner, owner))]
        return [run for run in runs if not _find_wrong_type(run)]

    def delete(self, run_ids: Collection[str]) -> None:
        """Delete runs."""
        with self._transaction() as connection:
            for sql in (
                "DELETE FROM calls WHERE run = ?",
                "DELETE FROM states WHERE run = ?",
                "DELETE FROM runs WHERE id = ?",
            ):
                connection.executemany(sql, [(run_id,) for run_id in run_ids])

    def close(self) -> None:
        """Close the file."""
        with self._lock, self._quick_lock:
            self._closed = True
            self._quick.close()
            self._connection.close()

    @contextmanager
    def _lock_connection(self) -> Iterator[sqlite3.Connection]:
        """Lock the connection; a single statement is a transaction of its own."""
        if not self._lock.acquire(timeout=self._timeout):
            reason = f"others in this process have been writing to it for {self._timeout:g} s; try again"
            raise StoreError(str(self._path), reason)
        try:
            if self._closed:
                raise StoreError(str(self._path), CLOSED)
            with explain_errors(self._path, self._timeout):
                yield self._connection
        finally:
            self._lock.release()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock_connection() as connection, transaction(connection):
            yield connection

    def _lease_error(self, lease: Lease, key: str | None = None) -> StoreError:
        """Return the error for a write without effect: the lease is over, or there is no such call."""
        run = self.get(lease.run_id)
        if run is not None and run.lease == lease and run.status == OPEN and key is not None:
            return StoreError(str(self._path), f"run {lease.run_id!r} has no call {key!r}")
        return lease_error(str(self._path), lease, run)


def _disable_checkpoints(connection: sqlite3.Connection) -> None:
    """Turn off checkpoints, which wait for the disk; `_connection` makes them."""
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA wal_autocheckpoint = 0")


def _write_intent(
    connection: sqlite3.Connection, lease: Lease, call: NewCall, outcomes: Mapping[str, bytes]
) -> bool:
    """Write a call in one transaction; return whether the lease was valid."""
    place = (lease.run_id, lease.fence)
    intent = (lease.run_id, call.key, call.at, call.intent, *place)
    row = (*intent, lease.run_id, _SEQUENCE_KEY, call.at, call.sequence, *place)
    if call.state is None and not outcomes:  # one statement is a transaction by itself, and the quickest
        return connection.execute(_INTEND, row).rowcount > 0
    with transaction(connection):
        is_leased = connection.execute(_INTEND, row).rowcount > 0
        for each, outcome in outcomes.items() if is_leased else ():
            connection.execute(_ANSWER, (outcome, lease.run_id, each, *place))
        if is_leased and call.state is not None:
            connection.execute(_SUSPEND, (lease.run_id, call.state))
    return is_leased


_TYPES: dict[str, Any] = {
    "head": bytes,
    "began": float,
    "changed": float,
    "status": str,
    "holder": str,
    "fence": int,
    "step": int,
    "result": bytes | None,
    "state": bytes | None,
    "sequence": bytes | None,
}
"""SQLite keeps a value of any type in a column, so whoever can write the file can put anything there."""


def _find_wrong_type(run: StoredRun) -> str:
    """Return the name of the first column with a value of a wrong type; empty if there is none."""
    values: list[tuple[str, Any, Any]] = [(name, getattr(run, name), kind) for name, kind in _TYPES.items()]
    for call in run.calls.values():
        values += [("intent", call.intent, bytes), ("outcome", call.outcome, bytes | None)]
    wrong = [name for name, value, kind in values if not isinstance(value, kind)]
    wrong += [] if run.status in {OPEN, "done", "failed"} else ["status"]
    return wrong[0] if wrong else ""
