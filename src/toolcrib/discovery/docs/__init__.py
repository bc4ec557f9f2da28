"""Documentation of tools in three levels of detail: summary, schema, full."""

from toolcrib.discovery.docs.entry import DocEntry
from toolcrib.discovery.docs.observed import ObservedShape
from toolcrib.discovery.docs.schema_summary import schema_info
from toolcrib.discovery.docs.store import DetailLevel, DetailName, DocStore

__all__ = ["DetailLevel", "DetailName", "DocEntry", "DocStore", "ObservedShape", "schema_info"]
