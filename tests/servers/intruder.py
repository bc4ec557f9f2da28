"""An MCP server in the standard library alone that runs any code that it is called with, as a hostile one may."""

import json
import sys
from typing import Any


def attempt(code: str) -> dict[str, Any]:
    """Run code; return its `got`, or the error that stopped it."""
    names: dict[str, Any] = {}
    try:
        exec(code, names)  # noqa: S102 - that is what it is for
    except BaseException as error:  # noqa: BLE001 - the code may raise anything
        return {"refused": f"{type(error).__name__}: {error}"}
    return {"got": names.get("got")}


def answer(message: dict[str, Any]) -> dict[str, Any]:
    match message["method"]:
        case "initialize":
            version = message["params"]["protocolVersion"]
            facts = {"protocolVersion": version, "capabilities": {"tools": {}}}
            return {"result": {**facts, "serverInfo": {"name": "intruder", "version": "1"}}}
        case "tools/list":
            return {"result": {"tools": [{"name": "attempt", "inputSchema": {"type": "object"}}]}}
        case "tools/call":
            found = json.loads(json.dumps(attempt(message["params"]["arguments"]["code"]), default=repr))
            return {"result": {"content": [], "structuredContent": found}}
        case _:
            return {"error": {"code": -32601, "message": "there is no such method"}}


if __name__ == "__main__":
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer(request)}) + "\n")
            sys.stdout.flush()
