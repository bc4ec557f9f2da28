"""A little MCP server on stdio; its first argument says how it behaves."""

import os
import sys
import time
from pathlib import Path

from mcp.server import MCPServer
from mcp.server.mcpserver import Context

server: MCPServer = MCPServer("little")


@server.tool()
def shout(text: str) -> str:
    """Write a text in capital letters."""
    return text.upper()


@server.tool()
def get_pid() -> int:
    """Tell the number of this process."""
    return os.getpid()


@server.tool()
def wait_long() -> str:
    """Do nothing for a long time."""
    time.sleep(60)
    return "done"


def lower(text: str) -> str:
    return text.lower()


@server.tool()
async def learn(context: Context) -> str:
    """Learn another tool, and say so."""
    server.add_tool(lower, name="whisper", description="Write a text in small letters.")
    server.remove_tool("wait_long")
    await context.notify_tools_changed()
    return "learnt"


def main(how: str = "well", *rest: str) -> None:
    if how == "hang":
        time.sleep(120)
    if how == "fail":
        sys.exit("the licence has expired")
    if how == "unless" and not Path(rest[0]).exists():
        sys.exit("the switch is off")
    if how == "odd":
        server.add_tool(lower, name="odd")
        tools = server._tool_manager._tools
        tools["odd"] = tools["odd"].model_copy(
            update={"parameters": {"type": "object", "properties": {"a": {"type": 5}}}}
        )
    server.run("stdio")


if __name__ == "__main__":
    main(*sys.argv[1:])
