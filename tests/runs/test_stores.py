"""Where durable runs are kept."""

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from contracts.run_store import RunStoreContract, begun

from toolcrib.errors import StoreError
from toolcrib.runs import MemoryRunStore, RunStore, SqliteRunStore


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


def test_a_file_is_shared_by_whoever_opens_it_and_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "runs.db"
    one, other = SqliteRunStore(path), SqliteRunStore(path)
    one.begin(begun("a"))
    other.intend("a", "0", b"one", b"state", 2.0)
    run = one.get("a")
    assert run is not None
    assert run.state == b"state"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    one.close()
    other.close()


def test_a_file_that_is_something_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("these are my notes, and not a database at all\n" * 40, encoding="utf-8")
    with pytest.raises(StoreError):
        SqliteRunStore(path)
    assert path.read_text(encoding="utf-8").startswith("these are my notes")
