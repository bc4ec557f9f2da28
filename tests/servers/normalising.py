"""An MCP server that reads addresses as those of the SDK 1.x do: by the WHATWG's rules, with `AnyUrl`.

It has secrets and public notes, lists one address that is not canonical, and repeats the prompts' names, the
templates and the subscriptions that it is asked about. Every answer shows the address that it made of it.
"""

import json
import sys
from typing import Any

from pydantic import AnyUrl

LISTED = ("file:///public/a", "http://host/public/a", "file:///public/My Notes.txt", "odd address")
TEMPLATES = ("file:///public/{name}", "file:///secret/{name}")


def read(uri: str) -> str:
    """Return an address as this server reads it; one that is no URL as it is."""
    try:
        return str(AnyUrl(uri))
    except ValueError:
        return uri


CAPABILITIES = {"resources": {"subscribe": True}, "prompts": {}, "completions": {}}
FIXED: dict[str, dict[str, Any]] = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": CAPABILITIES,
        "serverInfo": {"name": "normalising", "version": "1"},
    },
    "resources/list": {"resources": [{"uri": uri, "name": uri} for uri in (*LISTED, "file:///secret/a")]},
    "resources/templates/list": {
        "resourceTemplates": [{"uriTemplate": uri, "name": uri} for uri in TEMPLATES]
    },
    "prompts/list": {"prompts": [{"name": "open"}, {"name": "closed"}]},
    "resources/subscribe": {},
    "resources/unsubscribe": {},
}
"""The answers that are always the same."""


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """Return the result of a request; None for an unknown one."""
    if method == "resources/read":
        return {"contents": [{"uri": params["uri"], "text": read(params["uri"])}]}
    if method == "prompts/get":
        text = " ".join(params["name"].split())
        return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}
    if method == "completion/complete":
        ref = params["ref"]
        return {"completion": {"values": [read(ref["uri"]) if "uri" in ref else ref["name"].strip()]}}
    return FIXED.get(method)


def main() -> None:
    """Serve one client until it closes the stream."""
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        found = answer(message["method"], message.get("params") or {})
        outcome = (
            {"error": {"code": -32601, "message": "method not found"}} if found is None else {"result": found}
        )
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
