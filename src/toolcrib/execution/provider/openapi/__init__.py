"""OpenAPI documents as tools."""

from toolcrib.execution.provider.openapi.provider import OpenApiProvider, Skipped

__all__ = ["OpenApiProvider", "Skipped"]
