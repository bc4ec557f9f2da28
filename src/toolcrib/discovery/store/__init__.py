"""Stores of the catalogue: in memory, in one SQLite file, or in a PostgreSQL database that gateways share.

A store does not interpret its rows: definitions are written and read as text.
"""

from toolcrib.discovery.store.memory import MemoryStore
from toolcrib.discovery.store.postgres import PostgresStore, StoreChanges
from toolcrib.discovery.store.protocol import Store, StoredTool
from toolcrib.discovery.store.queued import StoreStatus
from toolcrib.discovery.store.sqlite import SqliteStore

__all__ = [
    "MemoryStore",
    "PostgresStore",
    "SqliteStore",
    "Store",
    "StoreChanges",
    "StoreStatus",
    "StoredTool",
]
