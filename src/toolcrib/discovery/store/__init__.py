"""Where the catalogue is kept: in memory, or in one file that survives restarts and crashes.

A store keeps rows and reads none of them: definitions go in and come out as text.
"""

from toolcrib.discovery.store.memory import MemoryStore
from toolcrib.discovery.store.protocol import Store, StoredTool
from toolcrib.discovery.store.queued import StoreStatus
from toolcrib.discovery.store.sqlite import SqliteStore

__all__ = ["MemoryStore", "SqliteStore", "Store", "StoreStatus", "StoredTool"]
