"""Traces of calls: an audit record each, and OpenTelemetry spans and metrics.

Runner(index, observers=(Audit(JsonLines("audit.jsonl")), OpenTelemetry()))
"""

from toolcrib.execution.trace.audit import Audit, AuditRecord
from toolcrib.execution.trace.audit_file import AuditFile, AuditStatus
from toolcrib.execution.trace.files import JsonLines
from toolcrib.execution.trace.levels import Levels, levels_of
from toolcrib.execution.trace.otel import OpenTelemetry, available

__all__ = [
    "Audit",
    "AuditFile",
    "AuditRecord",
    "AuditStatus",
    "JsonLines",
    "Levels",
    "OpenTelemetry",
    "available",
    "levels_of",
]
