"""An MCP server that repeats its secrets in every place and encoding: the standard library alone.

The secret is `SHOP_TOKEN` of its environment, or with `--http` the Authorization header of each request. With
`--broken` it writes the secret to standard error and exits. `--modern` makes it of the stateless era.
"""

import base64
import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote

Json = dict[str, Any]
MODERN = "2026-07-28"
ENCODINGS = {
    "plain": lambda text: text,
    "quoted": lambda text: f"got '{text}'",
    "bearer": lambda text: f"Authorization: Bearer {text}",
    "nested": lambda text: json.dumps({"a": json.dumps({"b": text})}),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "urlsafe": lambda text: base64.urlsafe_b64encode(text.encode()).decode().rstrip("="),
    "basic": lambda text: base64.b64encode(f"user:{text}".encode()).decode(),
    "inside": lambda text: base64.b64encode(f"Bearer {text} ends".encode()).decode(),
    "hex": lambda text: text.encode().hex(),
    "upper": lambda text: text.encode().hex().upper(),
    "url": lambda text: quote(text, safe=""),
    "percent": lambda text: "".join(f"%{byte:02x}" for byte in text.encode()),
    "query": lambda text: f"https://example.org/?key={quote(text, safe='').replace('%2F', '%2f')}",
}
PLACES = ("error", "data", "is_error", "content", "structured", "key", "progress", "log", "stderr")
SCHEMA = {"type": "object", "properties": {"place": {"type": "string"}, "encoding": {"type": "string"}}}


def respond(method: str, params: Json, secret: str, notify: Any) -> Json:  # noqa: C901, PLR0911 - one case each
    """Return the result or the error of a request."""
    match method:
        case "initialize":
            capabilities: Json = {
                "tools": {},
                "resources": {},
                "prompts": {},
                "completions": {},
                "logging": {},
            }
            info = {"name": "telltale", "version": secret}
            version = params["protocolVersion"]
            return {"result": {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info,
                               "instructions": f"use {secret}"}}  # fmt: skip
        case "server/discover" if "--modern" in sys.argv:
            capabilities = {"tools": {}, "resources": {}, "prompts": {}, "completions": {}, "logging": {}}
            return {"result": {"supportedVersions": [MODERN], "capabilities": capabilities,
                               "serverInfo": {"name": "telltale", "version": secret},
                               "instructions": f"use {secret}", "resultType": "complete"}}  # fmt: skip
        case "tools/list":
            tool = {"name": "tell", "description": f"Tell {secret}.", "inputSchema": SCHEMA}
            return complete({"tools": [tool]})
        case "resources/list":
            listed = {"uri": "telltale://it", "name": "it", "description": secret}
            return complete({"resources": [listed]})
        case "resources/templates/list":
            return complete({"resourceTemplates": []})
        case "prompts/list":
            return complete({"prompts": [{"name": "it", "description": secret}]})
        case "resources/read":
            return complete({"contents": [{"uri": params["uri"], "text": f"it is {secret}"}]})
        case "prompts/get":
            return {"error": {"code": -32602, "message": f"no {secret}", "data": {"why": secret}}}
        case "completion/complete":
            return complete({"completion": {"values": [secret]}})
        case "tools/call":
            return tell(params, secret, notify)
        case _:
            return {"error": {"code": -32601, "message": "method not found"}}


def complete(result: Json) -> Json:
    """Return a result as both eras have it."""
    return {"result": result | ({"resultType": "complete"} if "--modern" in sys.argv else {})}


def tell(params: Json, secret: str, notify: Any) -> Json:  # noqa: C901, PLR0911 - one case each
    """Answer a call with the secret where it is wanted, written as is wanted."""
    place, encoding = params["arguments"]["place"], params["arguments"]["encoding"]
    told = ENCODINGS[encoding](secret)
    text = [{"type": "text", "text": f"told: {told}"}]
    match place:
        case "error":
            return {"error": {"code": -32000, "message": f"refused: {told}"}}
        case "data":
            return {"error": {"code": -32000, "message": "refused", "data": {"why": [told]}}}
        case "is_error":
            return complete({"content": text, "isError": True})
        case "structured":
            return complete({"content": [], "structuredContent": {"deep": [{"told": told}]}})
        case "key":
            return complete({"content": [], "structuredContent": {told: 1}})
        case "progress":
            token = params.get("_meta", {}).get("progressToken")
            if token is not None:
                notify("notifications/progress", {"progressToken": token, "progress": 1, "message": told})
        case "log":
            notify("notifications/message", {"level": "error", "data": {"told": told}})
        case "stderr":
            sys.stderr.write(f"failed: {told}\n")
            sys.stderr.flush()
            os._exit(3)
        case "content":
            return complete({"content": text})
    return complete({"content": []})


class Handler(BaseHTTPRequestHandler):
    """Handles each request independently, as servers without sessions do."""

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        secret = self.headers.get("authorization", "nothing").removeprefix("Bearer ")
        if "id" not in message:
            self.answer(202, b"")
            return
        outcome = respond(message["method"], message.get("params") or {}, secret, lambda *_: None)
        self.answer(200, json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}).encode())

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the library has it
        pass


def main() -> None:
    """Serve one client on the pipe until it closes it, or any over HTTP."""
    if "--http" in sys.argv:
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        print(server.server_port, flush=True)  # noqa: T201 - whoever starts it reads the port
        server.serve_forever()
    secret = os.environ["SHOP_TOKEN"]
    if "--broken" in sys.argv:
        sys.exit(f"cannot start with the token {secret} in /srv/private")

    def say(**message: Any) -> None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()

    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            params = message.get("params") or {}
            outcome = respond(
                message["method"], params, secret, lambda name, told: say(method=name, params=told)
            )
            say(id=message["id"], **outcome)


if __name__ == "__main__":
    main()
