"""A little MCP server on stdio whose output the command must display well: progress, odd texts, many tools."""

import json
import os
import sys
from typing import Any

MIXED = "talk://mixed"
TEXT = "Danger \x1b[31m\x1b]0;owned\x07 \u202e backwards \x9b1m"
PROPERTIES = {
    "a\x1b[2J": {"description": TEXT},
    "b": True,
    "c": {"anyOf": [{"type": "string"}, {"type": ["integer", "null"]}]},
    "d": {"type": "array", "items": {}},
    "e": {"enum": ["x", 1]},
    "f": {"$ref": "#/$defs/part"},
    "g": {"type": "string", "default": "it"},
}
HOSTILE = {"type": "object", "properties": PROPERTIES, "$defs": {"part": {}}}
CITY = {"type": "object", "properties": {"zip": {"type": "object", "properties": {"beyond": {}}}}}
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "home": {"type": "object", "properties": {"street": {"type": "string"}, "city": CITY}},
    },
    "required": ["name"],
}
ITEM = {"type": "object", "properties": {"sku": {"type": "string"}}, "required": ["sku"]}
ORDER = {
    "type": "object",
    "properties": {
        "to": {"$ref": "#/$defs/person", "description": "Who gets it."},
        "items": {"type": "array", "items": ITEM},
    },
    "required": ["to"],
    "$defs": {"person": PERSON},
}
GREETING = {"type": "text", "text": f"Greet {os.getpid()}."}
CONTENT: dict[str, dict[str, Any]] = {
    "resources/list": {"resources": [{"uri": MIXED, "name": "mixed"}]},
    "resources/templates/list": {"resourceTemplates": []},
    "resources/read": {
        "contents": [
            {"uri": MIXED, "text": f"process {os.getpid()}"},
            {"uri": MIXED, "blob": "/wAK/w=="},
        ]
    },
    "prompts/list": {"prompts": [{"name": "greet"}]},
    "prompts/get": {"messages": [{"role": "user", "content": GREETING}]},
}
LISTED = [
    {"name": "hostile", "description": TEXT, "inputSchema": HOSTILE},
    {
        "name": "count",
        "description": "Count to three, and tell how far it is.",
        "inputSchema": {"type": "object"},
    },
    {"name": "bare", "inputSchema": {"type": "object", "properties": 5}},
    {"name": "shapeless"},
    {"name": "order", "inputSchema": ORDER},
    {"name": "wide", "inputSchema": {"type": "object", "properties": {f"p{n}": {} for n in range(60)}}},
    *(
        {
            "name": f"tool_{number}",
            "description": "One of many tools. " * 5,
            "inputSchema": {"type": "object"},
        }
        for number in range(100)
    ),
]


def say(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def count(params: dict[str, Any]) -> dict[str, Any]:
    token = params.get("_meta", {}).get("progressToken")
    for number in (1, 2, 3) if token is not None else ():
        told = {"progressToken": token, "progress": number, "total": 3, "message": f"at {number}"}
        say(method="notifications/progress", params=told)
    return {
        "content": [
            {"type": "text", "text": "counted"},
            {"type": "image", "data": "QUJD", "mimeType": "image/png"},
        ]
    }


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    match method:
        case "initialize":
            info = {"name": "talker", "version": "1"}
            can: dict[str, Any] = {"tools": {}, "resources": {}, "prompts": {}}
            return {"result": {"protocolVersion": "2025-06-18", "capabilities": can, "serverInfo": info}}
        case "tools/list":
            return {"result": {"tools": LISTED}}
        case "tools/call":
            return {"result": count(params)}
    if method in CONTENT and params.get("uri") in {None, MIXED} and params.get("name") in {None, "greet"}:
        return {"result": CONTENT[method]}
    return {"error": {"code": -32601, "message": "no such method"}}


if __name__ == "__main__":
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" in asked:
            say(id=asked["id"], **answer(asked["method"], asked.get("params") or {}))
