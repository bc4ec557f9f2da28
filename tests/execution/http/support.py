"""Helpers of the tests of HTTP providers."""

from collections.abc import Mapping
from typing import Any

from toolcrib.execution import Call, Emit
from toolcrib.execution.http import HttpProvider, OpenApiProvider
from toolcrib.model import Tool

LOCAL = ["127.0.0.1"]
Provider = HttpProvider | OpenApiProvider


def tool_of(provider: Provider, name: str) -> Tool:
    """Return a tool by its name."""
    return next(tool for tool in provider.tools() if tool.name == name)


def call_of(provider: Provider, name: str, args: Mapping[str, Any], emit: Emit | None = None) -> Call:
    """Return a call of a tool."""
    tool = tool_of(provider, name)
    assert tool.backend is not None
    return Call(tool=tool, args=dict(args), backend=tool.backend, emit=emit)


async def run(provider: Provider, tool: str, /, **args: Any) -> Any:
    """Run a tool and return its value."""
    return (await provider.call(call_of(provider, tool, args))).structured


def document_of(
    operation: Mapping[str, Any], *, path: str = "/echo/x", method: str = "get", **more: Any
) -> dict[str, Any]:
    """Return a document with one operation, called `op`."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "t", "version": "1"},
        "paths": {path: {method: {"operationId": "op", **operation}}},
        **more,
    }
