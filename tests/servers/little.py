"""A little MCP server on stdio in the standard library alone; its first argument names its behaviour."""

import json
import os
import sys
import time
from typing import Any

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
NOTHING = {"type": "object", "properties": {}}
ODD = {"type": "object", "properties": {"a": {"type": 5}}}
tools: dict[str, tuple[str, dict[str, Any]]] = {
    "shout": ("Write a text in capital letters.", TEXT),
    "get_pid": ("Tell the number of this process.", NOTHING),
    "wait_long": ("Do nothing for a long time.", NOTHING),
    "learn": ("Learn another tool, and say so.", NOTHING),
    "crash": ("Say goodbye, and end the server.", NOTHING),
}
LIST = {"tags": {"type": "string", "isArray": True}}
FLOAT = {"price": {"type": "float"}}
MORE: dict[str, dict[str, tuple[str, dict[str, Any]]]] = {
    "holding": {"hold": ("Wait until there is a file.", TEXT)},
    "odd": {"odd": ("", ODD)},
    "light": {  # as in the light argument schema
        "tag": ("Tag.", {"type": "object", "properties": LIST}),
        "price": ("Price.", {"type": "object", "properties": FLOAT}),
    },
}


def say(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def nested(levels: int) -> dict[str, Any]:
    schema = NOTHING
    for _ in range(levels // 2):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def listed() -> list[dict[str, Any]]:
    return [
        {"name": name, "description": description, "inputSchema": schema}
        for name, (description, schema) in tools.items()
    ]


def called(name: str, args: dict[str, Any]) -> Any:
    """Return the result of a tool; None if it never responds."""
    match name:
        case "shout":
            return args["text"].upper()
        case "whisper":
            return args["text"].lower()
        case "get_pid":
            return os.getpid()
        case "hold":
            while not os.path.exists(args["text"]):  # noqa: PTH110 - as below
                time.sleep(0.01)
            return os.getpid()
        case "learn":
            tools["whisper"] = ("Write a text in small letters.", TEXT)
            del tools["wait_long"]
            say(method="notifications/tools/list_changed")
            return "learnt"
        case "crash":
            sys.exit("token=sk-SECRET at /home/anna/.config/key.json")
    return None


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """Return the members of an answer, or None where there is none."""
    match method:
        case "initialize":
            info = {"name": "little", "version": "1"}
            can = {"tools": {"listChanged": True}}
            return {"result": {"protocolVersion": "2025-06-18", "capabilities": can, "serverInfo": info}}
        case "ping":
            return {"result": {}}
        case "tools/list":
            return {"result": {"tools": listed()}}
        case "tools/call":
            value = called(params["name"], params.get("arguments") or {})
            found = {"content": [], "structuredContent": {"result": value}}
            return None if value is None else {"result": found}
    return {"error": {"code": -32601, "message": "method not found"}}


def main(how: str = "well", *rest: str) -> None:
    if how == "hang":
        time.sleep(600)
    while how == "gate" and not os.path.exists(rest[0]):  # noqa: PTH110 - as below
        time.sleep(0.01)
    if how == "fail":
        sys.exit(rest[0] if rest else "the licence has expired")
    if how == "unless" and not os.path.exists(rest[0]):  # noqa: PTH110 - pathlib would double the start
        sys.exit("the switch is off")
    if how == "deep":
        tools["deep"] = ("", nested(int(rest[0])))
    tools.update(MORE.get(how, {}))
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and (said := answer(message["method"], message.get("params") or {})) is not None:
            say(id=message["id"], **said)


if __name__ == "__main__":
    main(*sys.argv[1:])
