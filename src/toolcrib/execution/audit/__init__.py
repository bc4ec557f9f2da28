"""The audit log: a record of each call, kept in a file whose lines are hash-chained and signed.

Runner(index, observers=(Audit(JsonLines("audit.jsonl")),))
"""

from toolcrib.execution.audit.file import AuditFile, AuditStatus
from toolcrib.execution.audit.json_lines import JsonLines
from toolcrib.execution.audit.levels import Levels, levels_of
from toolcrib.execution.audit.records import Audit, AuditRecord

__all__ = ["Audit", "AuditFile", "AuditRecord", "AuditStatus", "JsonLines", "Levels", "levels_of"]
