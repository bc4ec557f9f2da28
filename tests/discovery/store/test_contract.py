"""Every store keeps the contract of stores."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from contracts.store import StoreContract

from toolcrib.discovery import MemoryStore, PostgresStore, SqliteStore, Store
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


class TestPostgres(StoreContract):
    @pytest.fixture
    def store(self, database: str) -> Iterator[Store]:
        with PostgresStore(database) as store:
            yield store


class TestQueuedPostgres(StoreContract):
    @pytest.fixture
    def store(self, database: str) -> Iterator[Store]:
        with QueuedStore(PostgresStore(database)) as store:
            yield store


class TestQueued(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        with QueuedStore(SqliteStore(tmp_path / "store.db")) as store:
            yield store
