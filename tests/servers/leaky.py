"""An MCP server that echoes results and messages from its arguments: the standard library alone.

The tool `say` answers with the result that it gets as an argument, after the notifications and the questions
that it gets too. Resources and prompts have the text of the first argument of the command; the second is the
description of the tool. With `modern` as the third it speaks the stateless era, where its result may be a
question, whose answer it gives back, or a task, which `tasks/get` describes as the argument `task` has it.
"""

import json
import sys
from typing import Any

Json = dict[str, Any]
SCHEMA = {"type": "object"}
MODERN = sys.argv[3:] == ["modern"]
TASKS = "io.modelcontextprotocol/tasks"
task: Json = {}
"""The task that was begun last."""


def write(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def respond(method: str, params: Json, text: str) -> Json:  # noqa: C901, PLR0911, PLR0912 - one case each
    """Return the result or the error of a request."""
    match method:
        case "server/discover" if MODERN:
            every: Json = {"tools": {}, "resources": {}, "prompts": {}, "extensions": {TASKS: {}}}
            return {"result": {"supportedVersions": ["2026-07-28"], "capabilities": every}}
        case "tasks/get":
            return {"result": {"resultType": "complete", **task}}
        case "initialize":
            capabilities: Json = {
                "tools": {},
                "resources": {},
                "prompts": {},
                "completions": {},
                "logging": {},
            }
            version = params["protocolVersion"]
            info = {"name": "leaky", "version": "1"}
            return {"result": {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}}
        case "tools/list":
            words = sys.argv[2] if len(sys.argv) > 2 else "Say something."
            say = {"name": "say", "description": words, "inputSchema": SCHEMA}
            return {"result": {"tools": [say]}}
        case "resources/list":
            return {"result": {"resources": [{"uri": "leaky://it", "name": "it"}]}}
        case "resources/templates/list":
            return {"result": {"resourceTemplates": []}}
        case "prompts/list":
            return {"result": {"prompts": [{"name": "it"}, {"name": "none"}]}}
        case "resources/read":
            return {"result": {"contents": [{"uri": params["uri"], "text": text}]}}
        case "prompts/get" if params["name"] == "none":
            return {"error": {"code": -32602, "message": f"refused: {text}", "data": {"why": text}}}
        case "prompts/get":
            message = {"role": "user", "content": {"type": "text", "text": text}}
            return {"result": {"messages": [message]}}
        case "completion/complete":
            return {"result": {"completion": {"values": [text]}}}
        case "tools/call":
            return say_it(params)
        case _:
            return (
                {"result": {}}
                if method == "logging/setLevel"
                else {"error": {"code": -32601, "message": "?"}}
            )


def say_it(params: Json) -> Json:
    """Send the notifications of a call, and return its result or its error."""
    given = params["arguments"]
    if "inputResponses" in params:
        told = json.dumps([params["inputResponses"], params.get("requestState")])
        return {"result": {"content": [{"type": "text", "text": told}]}}
    task.update(given.get("task", {}))
    token = params.get("_meta", {}).get("progressToken")
    for message in given.get("progress", ()):
        if token is not None:
            told = {"progressToken": token, "progress": 1, "message": message}
            write(method="notifications/progress", params=told)
    for data in given.get("logs", ()):
        write(method="notifications/message", params={"level": "error", "data": data})
    if "error" in given:
        return {
            "error": {
                "code": given.get("code", -32000),
                "message": given["error"],
                "data": {"why": given["error"]},
            }
        }
    return {"result": given.get("result", {"content": []})}


def main() -> None:
    """Serve one client on the pipe until it closes it."""
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            write(id=message["id"], **respond(message["method"], message.get("params") or {}, sys.argv[1]))


if __name__ == "__main__":
    main()
