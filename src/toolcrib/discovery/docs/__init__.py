"""Documentation of tools at the depth asked for: a summary, the schema, or everything."""

from toolcrib.discovery.docs.entry import DocEntry
from toolcrib.discovery.docs.glance import schema_info
from toolcrib.discovery.docs.observed import ObservedShape
from toolcrib.discovery.docs.store import DetailLevel, DetailName, DocStore

__all__ = ["DetailLevel", "DetailName", "DocEntry", "DocStore", "ObservedShape", "schema_info"]
