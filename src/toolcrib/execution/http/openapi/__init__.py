"""OpenAPI documents as tools."""

from toolcrib.execution.http.openapi.provider import OpenApiProvider, Skipped

__all__ = ["OpenApiProvider", "Skipped"]
