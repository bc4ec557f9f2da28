"""An MCP server on stdio in the standard library alone, whose tool returns its argument as the result."""

import json
import sys
from typing import Any

SCHEMA = {"type": "object", "properties": {"result": {"type": "object"}}, "required": ["result"]}
TOOLS = [
    {"name": "reply", "description": "Give a result back.", "inputSchema": SCHEMA},
    {
        "name": "typed",
        "description": "Give a number.",
        "inputSchema": SCHEMA,
        "outputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    },
    {
        "name": "erase",
        "description": "Erase something.",
        "inputSchema": SCHEMA,
        "annotations": {"destructiveHint": True},
    },
    {"name": "crash", "description": "End the server.", "inputSchema": {"type": "object"}},
]


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    match method:
        case "initialize":
            can = {"tools": {}}
            info = {"name": "replies", "version": "1"}
            return {"result": {"protocolVersion": "2025-06-18", "capabilities": can, "serverInfo": info}}
        case "tools/list":
            return {"result": {"tools": TOOLS}}
        case "tools/call" if params["name"] == "crash":
            sys.exit("goodbye")
        case "tools/call":
            return {"result": params["arguments"]["result"]}
    return {"error": {"code": -32601, "message": "method not found"}}


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            said = answer(message["method"], message.get("params") or {})
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **said}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
