"""What a program can be told by its servers, and asked by them."""

from collections.abc import Awaitable, Callable
from typing import Any

from toolcrib.execution.records import Call
from toolcrib.model.tool import Tool

__all__ = ["OnInput", "OnTools"]

OnTools = Callable[[str, tuple[Tool, ...]], None]
"""Is told the tools of a server, by its name, after every complete listing; it must not block."""

OnInput = Callable[[Call, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Gives a server the input that it asks for in the middle of a call: takes its requests, by key, as MCP has
them (`elicitation/create`, `sampling/createMessage`), and returns the responses, by the same keys."""
