"""Stores of the catalogue: in memory, or in one SQLite file that survives restarts and crashes.

A store does not interpret its rows: definitions are written and read as text.
"""

from toolcrib.discovery.store.memory import MemoryStore
from toolcrib.discovery.store.protocol import Store, StoredTool
from toolcrib.discovery.store.queued import StoreStatus
from toolcrib.discovery.store.sqlite import SqliteStore

__all__ = ["MemoryStore", "SqliteStore", "Store", "StoreStatus", "StoredTool"]
