"""Tools that are HTTP requests: individual endpoints, and the operations of an OpenAPI document.

Importing it loads none of the extras; httpx and the YAML reader are imported where they are first used.
"""

from toolcrib.execution.http.client import HttpOptions
from toolcrib.execution.http.credentials import Secret
from toolcrib.execution.http.endpoints import Endpoint, HttpProvider
from toolcrib.execution.http.openapi import OpenApiProvider, Skipped

__all__ = ["Endpoint", "HttpOptions", "HttpProvider", "OpenApiProvider", "Secret", "Skipped"]
