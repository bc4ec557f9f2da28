"""The cheapest MCP server there is: the standard library alone, started in some 20 ms, handshake era only.

With `--content` it has resources, prompts and completions too. What is called `hang`, or has an address that
ends so, is never answered; with `--hanging-lists` lists of content are not either.
"""

import json
import os
import signal
import sys
from typing import Any

SCHEMA = {"type": "object"}
NAMES = ("echo", "hang", "crash", "spawn")


def reply(number: Any, **outcome: Any) -> None:
    """Answer a request."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": number, **outcome}) + "\n")
    sys.stdout.flush()


def called(number: Any, name: str, arguments: Any) -> None:
    """Answer a call, unless the tool is one that does not."""
    if name == "crash":
        os._exit(7)
    value = {"pid": os.getpid(), "got": arguments}
    if name == "spawn":
        import subprocess  # noqa: PLC0415 - it would double the time of the start

        value = {"pid": subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL).pid}
    if name != "hang":
        reply(number, result={"content": [], "structuredContent": value})


LISTS = {
    "resources/list": {"resources": [{"uri": "tiny:hang", "name": "hang"}, {"uri": "tiny:a", "name": "a"}]},
    "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "tiny:{x}", "name": "x"}]},
    "prompts/list": {"prompts": [{"name": "hang"}, {"name": "a"}]},
}
GIVEN = {
    "resources/read": {"contents": [{"uri": "tiny:a", "text": "a"}]},
    "prompts/get": {"messages": []},
    "completion/complete": {"completion": {"values": []}},
    "resources/subscribe": {},
    "resources/unsubscribe": {},
}


def content(number: Any, method: str, params: Any) -> bool:
    """Answer a request for content, unless it is one that hangs; return whether it was one."""
    if method in LISTS and "--hanging-lists" not in sys.argv:
        reply(number, result=LISTS[method])
    elif method in GIVEN and "hang" not in json.dumps(params):
        reply(number, result=GIVEN[method])
    return method in LISTS or method in GIVEN


def main() -> None:
    """Serve one client until it closes the stream; `--stubborn` is one that no polite word can end."""
    if "--stubborn" in sys.argv:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for line in sys.stdin:
        message = json.loads(line)
        number, method, params = message.get("id"), message.get("method"), message.get("params") or {}
        if method == "initialize":
            info = {"name": "tiny", "version": "1"}
            more = {"resources": {"subscribe": True}, "prompts": {}, "completions": {}}
            declared = {"tools": {}} | (more if "--content" in sys.argv else {})
            found = {"protocolVersion": "2025-06-18", "capabilities": declared, "serverInfo": info}
            reply(number, result=found)
        elif method == "tools/list":
            reply(number, result={"tools": [{"name": name, "inputSchema": SCHEMA} for name in NAMES]})
        elif method == "tools/call":
            called(number, params["name"], params.get("arguments"))
        elif "--content" in sys.argv and content(number, method, params):
            continue
        elif number is not None and method is not None:
            reply(number, error={"code": -32601, "message": "method not found"})
    while "--stubborn" in sys.argv:
        signal.pause()


if __name__ == "__main__":
    main()
