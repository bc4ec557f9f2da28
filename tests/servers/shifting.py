"""An MCP server on stdio in the standard library alone that serves the content of a JSON file, read anew at
each request.

The file has any of `name`, `instructions`, `tools`, `prompts` and `templates`. The call of a tool called
`switch` replaces the file by the one beside it whose name ends with `.next`, and announces the change before
it answers.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

HAS = {"tools": {"listChanged": True}, "prompts": {"listChanged": True}, "resources": {"listChanged": True}}


def say(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


LISTS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "templates",
}
NAMES = {"templates": "resourceTemplates"}


def answer(method: str, params: dict[str, Any], file: Path) -> dict[str, Any] | None:
    """Return the result of a request; None of one that is not known."""
    now = json.loads(file.read_text(encoding="utf-8"))
    if method in LISTS:
        kind = LISTS[method]
        return {NAMES.get(kind, kind): now.get(kind, [])}
    if method == "initialize":
        info = {"name": now.get("name", "shifting"), "version": "1"}
        found = {"protocolVersion": "2025-06-18", "capabilities": HAS, "serverInfo": info}
        return found | {key: now[key] for key in ("instructions",) if key in now}
    if method == "tools/call" and params["name"] == "switch":
        os.replace(file.with_suffix(".next"), file)  # noqa: PTH105 - as quick as it can be
        for kind in ("tools", "prompts", "resources"):
            say(method=f"notifications/{kind}/list_changed")
    text = {"role": "user", "content": {"type": "text", "text": params.get("name", "")}}
    return {
        "ping": {},
        "resources/read": {"contents": [{"uri": params.get("uri"), "text": "read"}]},
        "prompts/get": {"messages": [text]},
        "tools/call": {"content": [], "structuredContent": {"called": params.get("name")}},
    }.get(method)


def main(file: str) -> None:
    """Serve one client until it closes the stream."""
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        result = answer(message["method"], message.get("params") or {}, Path(file))
        if result is None:
            say(id=message["id"], error={"code": -32601, "message": "method not found"})
        else:
            say(id=message["id"], result=result)


if __name__ == "__main__":
    main(*sys.argv[1:])
