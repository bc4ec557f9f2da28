"""Where durable runs are kept."""

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from contracts.run_store import RunStoreContract, begun, first_lease, new_call

from toolcrib.errors import StoreError
from toolcrib.runs import MemoryRunStore, PostgresRunStore, RunStore, SqliteRunStore


class TestMemoryRunStore(RunStoreContract):
    @pytest.fixture
    def store(self) -> RunStore:  # type: ignore[override]  # nothing is to be closed
        return MemoryRunStore()


class TestSqliteRunStore(RunStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[RunStore]:
        store = SqliteRunStore(tmp_path / "runs.db")
        yield store
        store.close()


class TestPostgresRunStore(RunStoreContract):
    @pytest.fixture
    def store(self, database: str) -> Iterator[RunStore]:
        store = PostgresRunStore(database)
        yield store
        store.close()


def test_sqlite_file_is_shared_between_stores_and_private(tmp_path: Path) -> None:
    path = tmp_path / "new" / "runs.db"
    one, other = SqliteRunStore(path), SqliteRunStore(path)
    one.begin(begun("a"))
    other.intend(first_lease("a"), new_call("0", b"one", b"state", 2.0))
    run = one.get("a")
    assert run is not None
    assert run.state == b"state"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    one.close()
    other.close()


def test_foreign_file_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("these are my notes, and not a database at all\n" * 40, encoding="utf-8")
    with pytest.raises(StoreError):
        SqliteRunStore(path)
    assert path.read_text(encoding="utf-8").startswith("these are my notes")


WRONG_TYPES = {
    "head": ("runs", "'text'"),
    "began": ("runs", "'yesterday'"),
    "changed": ("runs", "x'00'"),
    "step": ("runs", "'many'"),
    "fence": ("runs", "'first'"),
    "status": ("runs", "1"),
    "state": ("states", "'text'"),
    "intent": ("calls", "12"),
    "outcome": ("calls", "'text'"),
}


@pytest.mark.parametrize("column", WRONG_TYPES)
def test_value_of_the_wrong_type_is_a_typed_error_of_its_run_only(tmp_path: Path, column: str) -> None:
    store = SqliteRunStore(tmp_path / "runs.db")
    for name in ("a", "b"):
        store.begin(begun(name))
        store.intend(first_lease(name), new_call("0", b"one", b"state", 2.0))
        store.answer(first_lease(name), "0", b"done")
    table, value = WRONG_TYPES[column]
    with store._transaction() as connection:
        named = "id" if table == "runs" else "run"
        assert connection.execute(f"UPDATE {table} SET {column} = {value} WHERE {named} = 'a'").rowcount  # noqa: S608 - names of ours
    with pytest.raises(StoreError, match="wrong type"):
        store.get("a")
    assert "b" in {run.id for run in store.runs()}
    assert store.get("b") is not None
    store.close()
