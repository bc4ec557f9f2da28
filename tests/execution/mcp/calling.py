"""Calls to servers, for tests of their outcome."""

import json
import sys
from math import inf
from pathlib import Path
from typing import Any

import anyio
from servers.launch import children
from waiting import PATIENCE

from toolcrib.execution import Answer, Call, Emit
from toolcrib.execution.mcp import McpServers
from toolcrib.execution.mcp.transport.watchdog import watchdog_pid
from toolcrib.model import McpBackend, Tool

SCRIPTED = str(Path(__file__).with_name("scripted.py"))


def scripted_server(*, settings: dict[str, Any] | None = None, **script: Any) -> dict[str, Any]:
    """Return how the scripted server is started."""
    return {
        "command": sys.executable,
        "args": ["-S", "-I", SCRIPTED, json.dumps(script)],
        **(settings or {}),
    }


def says(text: str) -> dict[str, Any]:
    """Return the step that answers with a text."""
    return {"result": {"content": [{"type": "text", "text": text}]}}


def tool_of(name: str, *, server: str = "one", **fields: Any) -> Tool:
    """Return a definition that takes anything."""
    fields.setdefault("input_schema", {"type": "object"})
    return Tool(name=name, namespace=server, **fields)


def child_processes() -> set[int]:
    """Return the processes that were started here, but for the one that watches over the others."""
    return children() - {watchdog_pid()}


async def call(
    servers: McpServers,
    tool: Tool | str,
    args: dict[str, Any] | None = None,
    *,
    server: str = "one",
    emit: Emit | None = None,
    deadline: float = inf,
) -> Answer:
    """Call a tool of a server, and fail if it hangs."""
    definition = tool_of(tool, server=server) if isinstance(tool, str) else tool
    backend = McpBackend(server_name=server)
    wanted = Call(tool=definition, args=args or {}, backend=backend, emit=emit, deadline=deadline)
    with anyio.fail_after(PATIENCE):
        return await servers.call(wanted)
