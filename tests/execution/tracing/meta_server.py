"""An MCP server with one tool, which tells the trace that its call belongs to; the standard library alone."""

import json
import sys
from typing import Any

TOOL = {"name": "trace", "description": "Tell the trace.", "inputSchema": {"type": "object"}}
INFO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "m", "version": "1"},
}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return the outcome of a request."""
    match method:
        case "initialize":
            return {"result": INFO}
        case "tools/list":
            return {"result": {"tools": [TOOL]}}
        case "tools/call" if params["arguments"].get("fail"):
            return {"result": {"content": [], "isError": True}}
        case "tools/call":
            told = {"traceparent": params.get("_meta", {}).get("traceparent")}
            return {"result": {"content": [], "structuredContent": told}}
    return {"error": {"code": -32601, "message": "method not found"}}


def main() -> None:
    """Serve one client until it closes the stream."""
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            outcome = answer(message["method"], message.get("params") or {})
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
