"""OpenTelemetry spans and metrics of calls.

Runner(index, observers=(OpenTelemetry(),))
"""

from toolcrib.execution.tracing.otel import OpenTelemetry, available

__all__ = ["OpenTelemetry", "available"]
