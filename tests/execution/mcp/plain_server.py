"""An MCP server of the handshake era in the standard library alone, which starts fast and can misbehave."""

import json
import os
import subprocess
import sys
import time
from typing import Any

TOOLS = (
    *("echo", "big", "env", "cwd", "pids", "die", "orphan", "silent", "deaf"),
    *("close-output", "close-input", "raw", "busy", "heard"),
)
HEARD: list[Any] = []


def say(message: Any, *, end: str = "\n") -> None:
    sys.stdout.write(json.dumps(message) + end)
    sys.stdout.flush()


def reply(request: dict[str, Any], result: Any) -> None:
    say({"jsonrpc": "2.0", "id": request["id"], "result": result})


def text(value: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value}]}


def handshake(request: dict[str, Any]) -> None:
    version = request["params"]["protocolVersion"]
    info = {"name": "plain", "version": "1"}
    reply(request, {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info})


def grandchild() -> "subprocess.Popen[bytes]":
    """Start a process in the same group that keeps the pipes open."""
    return subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])


def call(request: dict[str, Any]) -> None:  # noqa: C901, PLR0912 - one case for each tool
    name, args = request["params"]["name"], request["params"].get("arguments") or {}
    HEARD.append(name)
    match name:
        case "echo":
            reply(request, text(args["text"]))
        case "big":
            reply(request, text("x" * args["size"]))
        case "env":
            reply(request, text(json.dumps(dict(os.environ))))
        case "cwd":
            reply(request, text(os.getcwd()))  # noqa: PTH109 - the whole of what it is asked
        case "pids":
            reply(request, text(json.dumps([os.getpid(), grandchild().pid])))
        case "die":
            sys.stderr.write("out of luck\n")
            sys.stderr.flush()
            os._exit(args.get("status", 3))
        case "orphan":
            sys.stderr.write(f"{grandchild().pid}\n")
            sys.stderr.flush()
            os._exit(0)
        case "silent":
            pass
        case "deaf":
            reply(request, text("no more"))
            time.sleep(600)
        case "busy":
            time.sleep(args["seconds"])
            reply(request, text("done"))
        case "heard":
            reply(request, text(json.dumps(HEARD)))
        case "close-output":
            os.close(1)
            time.sleep(600)
        case "close-input":
            os.close(0)
            reply(request, text("closed"))
            time.sleep(600)
        case "raw":
            sys.stdout.buffer.write(args["before"].encode("latin-1"))
            sys.stdout.buffer.write(args["line"].replace("ID", str(request["id"])).encode("latin-1") + b"\n")
            sys.stdout.flush()


def main() -> None:
    if "--banner" in sys.argv:
        sys.stdout.write("Welcome!\n\n\xff\xfe{not json\n42\n[1, 2]\n" + json.dumps({"level": "info"}) + "\n")
        sys.stdout.flush()
    if "--log" in sys.argv:
        sys.stdout.write("".join(f"INFO step {number} of the start\n" for number in range(90)))
        sys.stdout.flush()
    for line in sys.stdin:
        request = json.loads(line)
        HEARD.append(request.get("method"))
        match request.get("method"):
            case "initialize":
                handshake(request)
            case "tools/list":
                reply(
                    request, {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]}
                )
            case "tools/call":
                call(request)
            case str() if "id" in request:
                error = {"code": -32601, "message": "unknown method"}
                say({"jsonrpc": "2.0", "id": request["id"], "error": error})
    if "--stubborn" in sys.argv:
        time.sleep(600)


if __name__ == "__main__":
    if "--stubborn" in sys.argv:
        import signal

        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    main()
