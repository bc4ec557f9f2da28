"""An MCP server of the stateless era on stdio, in the standard library alone, that says how fresh its lists are.

Its arguments are `ttlMs` and `cacheScope`. What it lists is named after how often it has listed it.
"""

import json
import sys
from typing import Any

KEYS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
SAID = {"resultType": "complete", "ttlMs": int(sys.argv[1]), "cacheScope": sys.argv[2]}
DISCOVERED = {
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
    "serverInfo": {"name": "fresh", "version": "1"},
}
TIMES = dict.fromkeys(KEYS, 0)


def answer(method: str) -> dict[str, Any]:
    """Return the members of an answer."""
    if method == "server/discover":
        return {"result": DISCOVERED | SAID}
    if method not in KEYS:
        return {"error": {"code": -32601, "message": "method not found"}}
    TIMES[method] += 1
    name = f"listed_{TIMES[method]}"
    item = {"name": name, "inputSchema": {"type": "object"}, "uri": f"fresh://{name}"}
    item["uriTemplate"] = f"fresh://{name}/{{page}}"
    return {"result": SAID | {KEYS[method]: [item]}}


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            reply = {"jsonrpc": "2.0", "id": message["id"], **answer(message["method"])}
            sys.stdout.write(json.dumps(reply) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
