"""Durable runs: code and chains whose calls are recorded, so that another process can resume them."""

from toolcrib.runs.memory import MemoryRunStore
from toolcrib.runs.postgres import PostgresRunStore
from toolcrib.runs.run_record import RunCall, RunDetails, RunRecord
from toolcrib.runs.sqlite import SqliteRunStore
from toolcrib.runs.store import Lease, NewCall, RunStore, StoredCall, StoredRun

__all__ = [
    "Lease",
    "MemoryRunStore",
    "NewCall",
    "PostgresRunStore",
    "RunCall",
    "RunDetails",
    "RunRecord",
    "RunStore",
    "SqliteRunStore",
    "StoredCall",
    "StoredRun",
]
