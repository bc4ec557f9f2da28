"""A scripted MCP server on stdio; the standard library alone, started in 30 ms.

The script is JSON, the first argument. `discover` says how the first question of the stateless era is met:
`refuse` (as most servers of the handshake era do), `ignore`, `stick` (nothing is answered from then on), `hangup`,
`modern` (answered), `locked` (answered too late), `fussy` (answered when asked again), `stranger` (with revisions that nobody knows), `vague` or `ahead`
(refused, without saying which revisions it knows, or with such that nobody does); those that are `modern`, `locked`
or `ahead` refuse the handshake, as they would be asked for it if they were late. `pages` are the pages of its
listing, `meta` its `_meta`; `list` may be `unknown`, `bad`, `endless`, `exit` or `storm` (a change, then an error) instead. `calls` has,
by tool, what it does when called: a list of `{"result": ...}`, `{"error": ...}`, `{"notify": method, "params": ...}`
with `"$token"` for the progress token and `"held": true` to send it in one piece with the next, `{"raw": text, "times": count}` without end, `{"pings": count}` with ids of a thousand characters, `{"exit": status}`,
`{"stderr": text}` or `{"turns": [result, ...]}`, one for each call. It says nothing until there is the file `gate`.
"""

import json
import os
import sys
import time
from typing import Any

MODERN = "2026-07-28"
SCRIPT: dict[str, Any] = json.loads(sys.argv[1]) if __name__ == "__main__" else {}
TURNS: dict[str, int] = {}


def say(message: Any, *, held: bool = False) -> None:
    """Send a message; one that is held leaves with the next, in one piece."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    if not held:
        sys.stdout.flush()


def discover(number: Any) -> None:
    """Meet the first question of the stateless era."""
    way = SCRIPT.get("discover", "refuse")
    if way == "stick":
        sys.stdin.read()
    elif way == "hangup":
        sys.exit(SCRIPT.get("words"))
    elif way in {"modern", "locked", "fussy", "stranger"}:
        asked = TURNS["discover"] = TURNS.get("discover", 0) + 1
        if way == "locked" and asked == 1:
            return
        if way == "fussy" and asked == 1:
            refuse(number, {"supported": [MODERN], "requested": MODERN})
            return
        capabilities = {"tools": {"listChanged": SCRIPT.get("listChanged", False)}}
        versions = ["2099-01-01"] if way == "stranger" else [MODERN]
        found = {"supportedVersions": versions, "capabilities": capabilities, "resultType": "complete"}
        say({"id": number, "result": found | {"ttlMs": 0, "cacheScope": "public"}})
    elif way in {"vague", "ahead"}:
        refuse(number, {"supported": ["2099-01-01"], "requested": MODERN} if way == "ahead" else "no")
    elif way != "ignore":
        say({"id": number, "error": {"code": -32601, "message": "Method not found"}})


def refuse(number: Any, data: Any) -> None:
    """Refuse a revision."""
    say({"id": number, "error": {"code": -32022, "message": "Unsupported revision", "data": data}})


def initialize(number: Any) -> None:
    """Meet the handshake."""
    if SCRIPT.get("discover") in {"modern", "locked", "ahead"}:
        supported = "2099-01-01" if SCRIPT["discover"] == "ahead" else MODERN
        refuse(number, {"supported": [supported], "requested": "2025-11-25"})
        return
    info = {"name": "scripted", "version": "1"}
    capabilities = {"tools": {"listChanged": True}, "logging": {}}
    version = SCRIPT.get("version", "2025-06-18")
    say(
        {
            "id": number,
            "result": {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info},
        }
    )


def listing(number: Any, cursor: Any) -> None:
    """Give one page of the tools."""
    if SCRIPT.get("list") == "unknown":
        say({"id": number, "error": {"code": -32601, "message": "Method not found"}})
    elif SCRIPT.get("list") == "exit":
        sys.exit(9)
    elif SCRIPT.get("list") == "storm":
        print("listed", file=sys.stderr, flush=True)  # noqa: T201
        say({"method": "notifications/tools/list_changed"})
        say({"id": number, "error": {"code": -32603, "message": "no"}})
    elif SCRIPT.get("list") == "bad":
        say({"id": number, "result": {"tools": "none"}})
    elif SCRIPT.get("list") == "endless":
        say({"id": number, "result": {"tools": [], "nextCursor": "again"}})
    else:
        pages = SCRIPT.get("pages", [[{"name": name, "inputSchema": {}} for name in SCRIPT.get("calls", {})]])
        page = int(cursor or 0)
        more = {"nextCursor": str(page + 1)} if page + 1 < len(pages) else {}
        meta = {"_meta": SCRIPT["meta"]} if "meta" in SCRIPT else {}
        say({"id": number, "result": {"tools": pages[page], **more, **meta}})


def run_steps(number: Any, params: Any) -> None:
    """Run the steps that the script has for a tool."""
    steps = SCRIPT.get("calls", {}).get(params["name"])
    if steps is None:
        say({"id": number, "error": {"code": -32602, "message": f"no tool named {params['name']!r}"}})
        return
    token = params.get("_meta", {}).get("progressToken")
    for step in steps:
        if "notify" in step:
            told = json.loads(json.dumps(step.get("params", {})).replace('"$token"', json.dumps(token)))
            say({"method": step["notify"], "params": told}, held=step.get("held", False))
        elif "pings" in step:
            for count in range(step["pings"]):
                say({"id": f"{count:01000}", "method": "ping"})
        elif "raw" in step:
            flood(step)
        elif "stderr" in step:
            print(step["stderr"], file=sys.stderr, flush=True)  # noqa: T201
        elif "exit" in step:
            os._exit(step["exit"])
        elif "turns" in step:
            turn = TURNS[params["name"]] = TURNS.get(params["name"], -1) + 1
            said = json.dumps(step["turns"][min(turn, len(step["turns"]) - 1)])
            say({"id": number, "result": json.loads(said.replace('"$params"', json.dumps(params)))})
        else:
            said = (
                json.dumps(step).replace('"$params"', json.dumps(params)).replace('"$pid"', str(os.getpid()))
            )
            say({"id": number, **json.loads(said)})


def flood(step: Any) -> None:
    """Write a text many times, between a first and a last part, again and again until the reader is gone."""
    text = (step.get("first", "") + step["raw"] * step["times"] + step.get("last", "")).encode()
    with open(2 if step.get("to") == "stderr" else 1, "wb", buffering=0, closefd=False) as stream:
        while True:
            left = memoryview(text)
            while left:
                left = left[stream.write(left) :]


def main() -> None:
    """Serve one client."""
    if SCRIPT.get("stderr"):
        print(SCRIPT["stderr"], file=sys.stderr, flush=True)  # noqa: T201
    if "exit" in SCRIPT:
        sys.exit(SCRIPT["exit"])
    while "gate" in SCRIPT and not os.path.exists(SCRIPT["gate"]):  # noqa: PTH110 - quicker to start
        time.sleep(0.01)
    for line in sys.stdin:
        message = json.loads(line)
        number, params = message.get("id"), message.get("params") or {}
        match message.get("method"):
            case "server/discover":
                discover(number)
            case "initialize":
                initialize(number)
            case "tools/list":
                listing(number, params.get("cursor"))
            case "tools/call":
                run_steps(number, params)
            case str() if number is not None:
                say({"id": number, "error": {"code": -32601, "message": "Method not found"}})


if __name__ == "__main__":
    main()
