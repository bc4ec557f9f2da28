"""Every store keeps the contract of stores."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from contracts.store import StoreContract

from toolcrib.discovery import MemoryStore, SqliteStore, Store
from toolcrib.discovery.store.queued import QueuedStore


class TestMemory(StoreContract):
    @pytest.fixture
    def store(self) -> Iterator[Store]:
        with MemoryStore() as store:
            yield store


class TestSqlite(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        with SqliteStore(tmp_path / "store.db") as store:
            yield store


class TestQueued(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        with QueuedStore(SqliteStore(tmp_path / "store.db")) as store:
            yield store
