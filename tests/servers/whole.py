"""An MCP server on stdio in the standard library alone, with all that definitions and results may hold."""

import json
import sys
from typing import Any

NAME = sys.argv[1] if len(sys.argv) > 1 else "whole"
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$defs": {"size": {"$anchor": "size", "type": "integer", "minimum": 1}},
    "type": "object",
    "properties": {"size": {"$ref": "#size"}, "word": {"type": "string", "x-own": {"a": None}}},
    "additionalProperties": False,
}
ICON = {"src": "data:image/png;base64,AA==", "mimeType": "image/png", "sizes": ["48x48"], "x-icon": 1}
COMMON = {
    "icons": [ICON],
    "_meta": {"example.com/kind": ["a", {"b": None}]},
    "x-unknown": {"deep": [1, None]},
}
TOOLS: list[dict[str, Any]] = [
    {
        "name": "repeat",
        "title": "Repeat",
        "description": "Repeat a word.",
        "inputSchema": SCHEMA,
        "outputSchema": {"type": "object", "properties": {"words": {"$ref": "#/$defs/words"}},
                         "$defs": {"words": {"type": "array", "items": {"type": "string"}}}},
        "annotations": {"title": "Again", "readOnlyHint": True, "x-hint": "own"},
        "execution": {"taskSupport": "forbidden"},
        **COMMON,
    },
    {"name": "reply", "inputSchema": {"type": "object"}, "description": "Give the result that is asked for."},
    {"name": "erase", "inputSchema": {"type": "object"}, "annotations": {"destructiveHint": True}},
    {"name": "fail", "inputSchema": {"type": "object"}},
    {"name": "refuse", "inputSchema": {"type": "object"}},
    {"name": "wait", "inputSchema": {"type": "object"}},
    {"name": "change", "inputSchema": {"type": "object"}, "description": "Change the lists, and say so."},
    {"name": "odd name", "inputSchema": {"type": "object"}},
]  # fmt: skip
RESOURCES: list[dict[str, Any]] = [
    {"uri": "whole://shared", "name": "shared", "mimeType": "text/plain", "size": 5,
     "annotations": {"audience": ["user"], "priority": 0.5, "x-own": 1}, **COMMON},
    {"uri": f"whole://{NAME}/own", "name": "own"},
]  # fmt: skip
TEMPLATES: list[dict[str, Any]] = [
    {"uriTemplate": "whole://pages/{page}", "name": "pages", "title": "Pages", **COMMON}
]
PROMPTS: list[dict[str, Any]] = [
    {"name": "ask", "title": "Ask", "description": "Ask something.",
     "arguments": [{"name": "what", "required": True, "x-argument": 1}], **COMMON},
    {"name": "dotted.name"},
]  # fmt: skip
CAPABILITIES = {
    "tools": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "prompts": {"listChanged": True},
    "completions": {},
}


def say(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def called(name: str, args: dict[str, Any]) -> dict[str, Any] | None:
    match name:
        case "repeat":
            words = [args.get("word", "word")] * args.get("size", 1)
            blocks = [
                {"type": "text", "text": word, "annotations": {"priority": 1}, "x-block": 1} for word in words
            ]
            return {"content": blocks, "structuredContent": {"words": words}, **COMMON}
        case "reply":
            return args["result"]  # type: ignore[no-any-return]
        case "erase":
            return {"content": [{"type": "text", "text": "erased"}]}
        case "fail":
            return {"content": [{"type": "text", "text": "it broke"}], "isError": True, "x-unknown": 1}
        case "change":
            PROMPTS.append({"name": f"more{len(PROMPTS)}"})
            RESOURCES.append({"uri": f"whole://{NAME}/more{len(RESOURCES)}", "name": "more"})
            say(method="notifications/prompts/list_changed")
            say(method="notifications/resources/list_changed")
            say(method="notifications/resources/updated", params={"uri": "whole://shared"})
            return {"content": []}
    return None


def page(key: str, items: list[dict[str, Any]], params: dict[str, Any]) -> dict[str, Any]:
    """Return one item a page, so that clients have to request all pages."""
    at = int(params.get("cursor", "0"))
    return {key: items[at : at + 1]} | ({"nextCursor": str(at + 1)} if at + 1 < len(items) else {})


def content(method: str, params: dict[str, Any]) -> dict[str, Any]:  # noqa: PLR0911 - an answer for each method
    """Return the answer to a request for resources, prompts or completion."""
    match method:
        case "resources/list":
            return {"result": page("resources", RESOURCES, params)}
        case "resources/templates/list":
            return {"result": page("resourceTemplates", TEMPLATES, params)}
        case "resources/read" if params["uri"] == "whole://nowhere":
            return {"error": {"code": -32002, "message": "not here", "data": {"uri": params["uri"]}}}
        case "resources/read":
            text = {"uri": params["uri"], "text": f"{params['uri']} of {NAME}", "x-own": 1}
            return {"result": {"contents": [text], "_meta": {"example.com/read": True}, "x-unknown": 1}}
        case "prompts/list":
            return {"result": page("prompts", PROMPTS, params)}
        case "prompts/get":
            text = f"{params['name']} of {NAME}: {json.dumps(params.get('arguments'))}"
            message = {"role": "user", "content": {"type": "text", "text": text}, "x-own": 1}
            return {"result": {"messages": [message], "_meta": {"example.com/got": True}}}
        case "completion/complete":
            ref = params["ref"].get("name") or params["ref"]["uri"]
            values = [f"{NAME} {ref} {params['argument']['value']}"]
            return {"result": {"completion": {"values": values, "total": 1, "x-own": 1}}}
        case "resources/subscribe" | "resources/unsubscribe" | "ping":
            return {"result": {}}
    return {"error": {"code": -32601, "message": "method not found"}}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """Return the members of an answer, or None where there is none."""
    match method:
        case "initialize":
            info = {"name": "whole", "version": "1"}
            told = {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "serverInfo": info}
            return {"result": {**told, "instructions": f"Use {NAME} with care."}}
        case "tools/list":
            return {"result": page("tools", TOOLS, params)}
        case "tools/call" if params["name"] == "refuse":
            return {
                "error": {"code": -32042, "message": "sign in first", "data": {"url": "https://a.example"}}
            }
        case "tools/call":
            result = called(params["name"], params.get("arguments") or {})
            return None if result is None else {"result": result}
    return content(method, params)


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            found = answer(message["method"], message.get("params") or {})
            if found is not None:
                say(id=message["id"], **found)


if __name__ == "__main__":
    main()
