"""The contenders of the gateway benchmark, each in processes of its own: the backend, ours and others'."""

import json
import os
import runpy
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tests"))
SUPPORT = runpy.run_path(str(ROOT / "tests" / "gateway" / "support.py"))
LAUNCH = runpy.run_path(str(ROOT / "tests" / "servers" / "launch.py"))
PEER = Path(__file__).with_name("gateway_peer.py")
SUPERGATEWAY = "supergateway/dist/index.js"
"""A peer that is measured if it is installed beside the others: it is not in the lock."""
FORGING = runpy.run_path(str(ROOT / "tests" / "gateway" / "identity" / "forging.py"))
RULES = 50
GUARDED = f"toolcrib all → stdio, JWT, {RULES} rules, audit"
"""Ours with all access control, to be compared with ours without."""
ARGS = {"a": 2, "b": 3}
TICK = 1 / os.sysconf("SC_CLK_TCK")
START = 120.0


@dataclass
class Target:
    """One way to call the same tool over HTTP."""

    name: str
    url: str
    pid: int
    tool: str = "add"
    args: dict[str, Any] = field(default_factory=lambda: ARGS)
    eras: tuple[str, ...] = ("handshake", "stateless")
    headers: dict[str, str] | None = None
    """Sent with each request."""
    base: str | None = None
    """The contender that it is compared with, beside the direct call."""

    def check(self, result: Any) -> None:
        """Fail if a call returned a wrong result."""
        value = result.structured_content
        if value is None:  # an older peer carries only the text
            value = json.loads(result.content[0].text)
        if result.is_error or value.get("structured", value) != {"sum": 5}:
            raise SystemExit(f"{self.name} gave {result!r}")

    def cpu(self) -> float:
        """Return the CPU seconds of its own process, without the servers behind it."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * TICK

    def rss(self) -> float:
        """Return the MB of memory of its own process, without the servers behind it."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        return 0.0


@contextmanager
def running(command: list[str], port: int, **options: Any) -> Iterator[int]:
    """Run a program until the end of the block; yields its id once it listens on its port."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    try:
        wait_for(port, process)
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a process listens on a port."""
    until = time.monotonic() + START
    while time.monotonic() < until:
        if process.poll() is not None:
            raise SystemExit(f"{process.args} ended with {process.returncode}")
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.005)
    raise SystemExit(f"{process.args} does not listen")


def fastmcp(port: int, *what: str) -> list[str]:
    """Return the command that starts fastmcp's proxy."""
    return [sys.executable, str(PEER), str(port), *what]


def address(port: int) -> str:
    """Return the address of a port."""
    return f"http://127.0.0.1:{port}/mcp"


def guarded(folder: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Return settings with a login, rules and an audit, and the header of an allowed principal.

    All rules are about everybody, so that each of them is asked about the tool.
    """
    keys, audience = folder / "keys.json", "https://crib.example/mcp"
    keys.write_text(json.dumps(FORGING["KEYS"]))
    auth = {"issuer": FORGING["ISSUER"], "audience": audience, "jwks": str(keys)}
    others = [
        {"name": f"rule {number}", "tools": [f"service{number}:*", f"*:delete_{number}_*"], "effect": "deny"}
        for number in range(RULES - 10)
    ]
    unlike: list[dict[str, Any]] = [
        {
            "name": f"shape {number}",
            "tools": ["calc:*"],
            "args": {"properties": {"a": {"const": f"never {number}"}}},
            "effect": "deny",
        }
        for number in range(9)
    ]
    last = {"name": "staff", "who": ["group:staff"], "tools": ["calc:*"], "effect": "allow"}
    settings = {
        "policy": [*others, *unlike, last],
        "audit": {"path": str(folder / "audit.jsonl")},
        "gateway": {"expose": "all", "auth": auth},
    }
    return settings, {"authorization": FORGING["token"](groups=["staff"], exp=int(time.time()) + 86_400)}


def targets(stack: ExitStack, folder: Path) -> list[Target]:
    """Start all contenders; the first is the direct call."""
    direct = stack.enter_context(LAUNCH["HttpServer"]())
    backend = stack.enter_context(LAUNCH["HttpServer"]())
    child = LAUNCH["faulty"]()
    command = [child["command"], *child["args"]]
    found = [Target("direct", direct.config["url"], direct.pid)]
    for kind, config in (("http", backend.config), ("stdio", child)):
        for face in ("all", "meta"):
            at = folder / f"{kind}-{face}"
            at.mkdir()
            place = SUPPORT["Place"](at, {"calc": config}, timeout=60.0, gateway={"expose": face})
            ours = stack.enter_context(SUPPORT["Served"](place))
            name = f"toolcrib {face} → {kind}"
            if face == "all":
                found.append(Target(name, ours.url, ours.pid))
            else:
                args = {"tool_id": "calc:add", "args": ARGS}
                found.append(Target(name, ours.url, ours.pid, "run_tool", args))
    settings, headers = guarded(folder)
    at = folder / "guarded"
    at.mkdir()
    ours = stack.enter_context(
        SUPPORT["Served"](SUPPORT["Place"](at, {"calc": child}, timeout=60.0, **settings))
    )
    found.append(Target(GUARDED, ours.url, ours.pid, headers=headers, base="toolcrib all → stdio"))
    for kind, what in (("http", [backend.config["url"]]), ("stdio", command)):
        port = stack.enter_context(LAUNCH["closed_port"]())
        pid = stack.enter_context(running(fastmcp(port, kind, *what), port))
        found.append(Target(f"fastmcp proxy → {kind}", address(port), pid))
    port = stack.enter_context(LAUNCH["closed_port"]())
    program = LAUNCH["npm_tool"]("mcp-proxy/dist/bin/mcp-proxy.mjs")
    options = ["--port", str(port), "--host", "127.0.0.1", "--server", "stream", "--"]
    pid = stack.enter_context(running([*program, *options, *command], port))
    found.append(Target("npm mcp-proxy → stdio", address(port), pid))
    if (LAUNCH["PACKAGES"] / SUPERGATEWAY).exists():
        port = stack.enter_context(LAUNCH["closed_port"]())
        options = ["--outputTransport", "streamableHttp", "--stateful", "--logLevel", "none"]
        program = [*LAUNCH["npm_tool"](SUPERGATEWAY), "--stdio", shlex.join(command), "--port", str(port)]
        pid = stack.enter_context(running([*program, *options], port))
        # Of the stateless era each request would start the server anew.
        found.append(Target("supergateway → stdio", address(port), pid, eras=("handshake",)))
    return found
