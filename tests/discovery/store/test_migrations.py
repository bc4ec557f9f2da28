"""The way from an earlier form of the file to the latest."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolcrib.discovery.store.connection import explain_errors
from toolcrib.discovery.store.sqlite import APPLICATION_ID, MIGRATIONS, migrate
from toolcrib.errors import StoreError

FIRST = ("CREATE TABLE part (id TEXT PRIMARY KEY)", "INSERT INTO part VALUES ('bolt')")
SECOND = ("ALTER TABLE part ADD COLUMN size INTEGER DEFAULT 8", "INSERT INTO part VALUES ('nut', 9)")
BROKEN = ("DELETE FROM part", "CREATE TABLE part (id TEXT)")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(path, isolation_level=None)
    yield connection
    connection.close()


def version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def test_an_empty_file_takes_every_step(connection: sqlite3.Connection, path: Path) -> None:
    migrate(connection, path, [FIRST, SECOND])
    assert connection.execute("SELECT * FROM part").fetchall() == [("bolt", 8), ("nut", 9)]
    assert version(connection) == 2
    assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)


def test_an_earlier_file_takes_the_steps_it_lacks(connection: sqlite3.Connection, path: Path) -> None:
    migrate(connection, path, [FIRST])
    connection.execute("INSERT INTO part VALUES ('gear')")
    migrate(connection, path, [FIRST, SECOND])
    assert connection.execute("SELECT * FROM part").fetchall() == [("bolt", 8), ("gear", 8), ("nut", 9)]
    migrate(connection, path, [FIRST, SECOND])
    assert version(connection) == 2


def test_steps_that_fail_leave_the_file_as_it_was(connection: sqlite3.Connection, path: Path) -> None:
    migrate(connection, path, [FIRST])
    with (
        pytest.raises(StoreError, match=r"it cannot be used .*table part already exists"),
        explain_errors(path, 1.0),
    ):
        migrate(connection, path, [FIRST, SECOND, BROKEN])
    assert connection.execute("SELECT * FROM part").fetchall() == [("bolt",)]
    assert version(connection) == 1
    migrate(connection, path, [FIRST, SECOND])
    assert version(connection) == 2


def test_a_later_file_is_refused(connection: sqlite3.Connection, path: Path) -> None:
    migrate(connection, path, [FIRST, SECOND])
    with pytest.raises(StoreError, match="it has format 2, and this release reads up to 1; upgrade toolcrib"):
        migrate(connection, path, [FIRST])


def test_a_latest_file_is_opened_while_another_writes(connection: sqlite3.Connection, path: Path) -> None:
    migrate(connection, path)
    connection.execute("BEGIN IMMEDIATE")
    other = sqlite3.connect(path, isolation_level=None, timeout=0)
    migrate(other, path)
    assert version(other) == len(MIGRATIONS)
    other.close()


def test_a_full_disk_says_what_to_do(connection: sqlite3.Connection, path: Path) -> None:
    migrate(connection, path, [FIRST])
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")
    with (
        pytest.raises(StoreError, match=r"the disk is full; free some space and try again \(SQLITE_FULL: "),
        explain_errors(path, 1.0),
    ):
        migrate(connection, path, [FIRST, ("CREATE TABLE more (id)", "CREATE TABLE most (id)")])
    assert version(connection) == 1
