"""An MCP server on stdio with pages of MCP Apps, in the standard library alone.

Its arguments are its name, the era that it speaks, and further addresses that its tools name as their pages. All
of its addresses are the same as those of every other server of this program; what stands there tells its name.
"""

import json
import sys
from typing import Any

NAME, ERA, *OTHERS = sys.argv[1:]
EXTENSION = "io.modelcontextprotocol/ui"
PAGE = "ui://clock/app.html"
MIME_TYPE = "text/html;profile=mcp-app"
UI = {"csp": {"connectDomains": ["https://a.example"]}, "permissions": {"camera": {}}, "prefersBorder": True}
CAPABILITIES = {
    "tools": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "prompts": {"listChanged": True},
    "completions": {},
    "extensions": {EXTENSION: {"mimeTypes": [MIME_TYPE]}},
}
SCHEMA = {"type": "object"}
TOOLS: list[dict[str, Any]] = [
    {"name": "show", "inputSchema": SCHEMA,
     "_meta": {"ui": {"resourceUri": PAGE, "visibility": ["model", "app"]}, "ui/resourceUri": PAGE,
               "openai/outputTemplate": PAGE, "example.com/own": PAGE}},
    {"name": "link", "inputSchema": SCHEMA, "description": "Return links to pages, and pages."},
    {"name": "declared", "inputSchema": SCHEMA, "description": "Return what the client declares."},
    {"name": "touch", "inputSchema": SCHEMA, "description": "Say that the page has changed."},
    *({"name": f"other_{number}", "inputSchema": SCHEMA,
       "_meta": {"ui": {"resourceUri": uri}, "ui/resourceUri": uri}} for number, uri in enumerate(OTHERS)),
]  # fmt: skip
RESOURCES = [
    {"uri": PAGE, "name": "clock", "mimeType": MIME_TYPE, "_meta": {"ui": UI}},
    {"uri": f"plain://{NAME}", "name": "plain"},
]
TEMPLATES = [{"uriTemplate": "ui://clock/{zone}", "name": "zones"}]
PROMPTS = [{"name": "present"}]
GREETED: list[Any] = []


def say(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def page(uri: str) -> dict[str, Any]:
    """Return the content of an address."""
    return {"uri": uri, "mimeType": MIME_TYPE, "text": f"{uri} of {NAME}", "_meta": {"ui": UI}}


def blocks() -> list[dict[str, Any]]:
    """Return links to pages and pages, and the same at an address that is no page."""
    return [
        {"type": "resource_link", "uri": PAGE, "name": "clock"},
        {"type": "resource", "resource": page(PAGE)},
        {"type": "resource_link", "uri": f"plain://{NAME}", "name": "plain"},
    ]


def called(name: str, params: dict[str, Any]) -> dict[str, Any]:
    match name:
        case "link":
            content = blocks() + [{"type": "resource_link", "uri": uri, "name": "other"} for uri in OTHERS]
            return {"content": content, "_meta": {"ui": {"resourceUri": PAGE}}}
        case "declared":
            meta = params.get("_meta", {})
            seen = meta.get("io.modelcontextprotocol/clientCapabilities", GREETED and GREETED[-1])
            return {"content": [], "structuredContent": {"extensions": (seen or {}).get("extensions")}}
        case "touch":
            say(method="notifications/resources/updated", params={"uri": PAGE})
    return {"content": [{"type": "text", "text": NAME}]}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:  # noqa: C901, PLR0911 - one for each
    """Return the result of a request; None where there is no such method."""
    match method:
        case "initialize" if ERA == "handshake":
            GREETED.append(params["capabilities"])
            info = {"name": "apps", "version": "1"}
            return {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "serverInfo": info}
        case "server/discover" if ERA == "stateless":
            info = {"name": "apps", "version": "1"}
            return {"supportedVersions": ["2026-07-28"], "capabilities": CAPABILITIES, "serverInfo": info}
        case "tools/list":
            return {"tools": TOOLS}
        case "tools/call":
            return called(params["name"], params)
        case "resources/list":
            return {"resources": RESOURCES}
        case "resources/templates/list":
            return {"resourceTemplates": TEMPLATES}
        case "resources/read":
            return {"contents": [page(params["uri"]), page("ui://clock/part.js")]}
        case "prompts/list":
            return {"prompts": PROMPTS}
        case "prompts/get":
            return {"messages": [{"role": "user", "content": block} for block in blocks()]}
        case "completion/complete":
            return {"completion": {"values": [f"{params['ref']['uri']} of {NAME}"]}}
        case "resources/subscribe" | "resources/unsubscribe":
            return {}
    return None


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            found = answer(message["method"], message.get("params") or {})
            complete = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
            if found is None:
                say(id=message["id"], error={"code": -32601, "message": "method not found"})
            else:
                say(id=message["id"], result=found | (complete if ERA == "stateless" else {}))


if __name__ == "__main__":
    main()
