"""The tables of a SQLite store, and the way from an earlier form of them to this one."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from time import monotonic, sleep

from toolcrib.discovery.store.connection import transaction
from toolcrib.errors import StoreError

__all__ = ["APPLICATION_ID", "STEPS", "prepare"]

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
