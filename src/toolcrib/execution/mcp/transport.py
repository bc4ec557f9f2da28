"""The way to a server that its settings name."""

from contextlib import AbstractAsyncContextManager
from typing import Any

from toolcrib.execution.mcp.config import ServerConfig
from toolcrib.execution.mcp.http import http_transport, sse_transport
from toolcrib.execution.mcp.stdio import stdio_transport
from toolcrib.execution.mcp.tail import StderrTail

__all__ = ["Streams", "transport_to"]

Streams = AbstractAsyncContextManager[tuple[Any, Any]]
"""What a transport gives: a stream to read messages from, and one to write them to."""


def transport_to(config: ServerConfig, *, name: str, stderr: StderrTail) -> Streams:
    """Return the transport to a server, not yet entered; its settings must be expanded."""
    if config.transport == "stdio":
        return stdio_transport(config, name=name, stderr=stderr)
    return http_transport(config) if config.transport == "http" else sse_transport(config)
