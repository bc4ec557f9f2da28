"""Measures what verifying a large catalogue against its lock costs, and scanning it, on copies of real tools.

Three cases of verifying: nothing has changed, one description in a hundred has, and one schema in a hundred
has. The lock is read from its file once, when a process starts. The scan compares each tool with all others:
10,000 tools of which no two are alike, and then as many copies. Then calls of a tool of a server, with a lock
and without. CPU time of this process; how slow the machine is stands beside it.
"""

import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
from turns import QUICK

from toolcrib import Crib
from toolcrib.errors import InvalidToolError
from toolcrib.model import Tool
from toolcrib.trust import KnownTools, Lock, scan

ROOT = Path(__file__).parents[1]
TOOLS = ROOT.parent / "shared" / "data" / "real-tools" / "mcp_tools.jsonl"
LISTED = ROOT.parent / "shared" / "data" / "retrieval"
COUNT = 500 if QUICK else 10_000
PROMISED = 2.0
"""CPU seconds within which 10,000 tools are verified."""
SCANNED = 5.0
"""Those within which they are scanned."""
EVERY = 100
ROUNDS = 2 if QUICK else 15
CALLS = 20 if QUICK else 100
SERVER = """
from mcp.server import MCPServer

server = MCPServer("s")


@server.tool()
def echo(text: str) -> str:
    \"\"\"Return a text.\"\"\"
    return text


server.run("stdio")
"""


def real_tools() -> Iterator[Tool]:
    """Yield copies of real tools without end, each copy of a server of its own."""
    rows = [json.loads(line) for line in TOOLS.read_text(encoding="utf-8").splitlines()]
    servers = {(row["source"], row["server"]): place for place, row in enumerate(rows)}
    turn = 0
    while True:
        for row in rows:
            fields = {name: row[name] for name in row if name not in {"source", "server"}}
            server = servers[row["source"], row["server"]]
            try:
                yield Tool.from_json(fields | {"namespace": f"server-{turn}-{server}"})
            except InvalidToolError:
                continue
        turn += 1


def different_tools() -> Iterator[Tool]:
    """Yield tools of which no two are alike: listed ones, and copies of real ones with other words."""
    seen: set[tuple[str, str]] = set()
    for place, path in enumerate(sorted(LISTED.glob("scale_*/tools.jsonl"))):
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            words = row["name"], row.get("description") or ""
            server = re.sub(r"\W+", "-", row["namespace"]).strip("-")
            if words in seen:
                continue
            seen.add(words)
            try:
                yield Tool(
                    name=words[0], namespace=f"{server}-{place}", description=words[1], input_schema={}
                )
            except InvalidToolError:
                continue
    for place, tool in enumerate(real_tools()):
        schema = reworded(tool.input_schema, place)
        yield tool.replace(description=reworded(tool.description, place), input_schema=schema)


def reworded(value: Any, number: int) -> Any:
    """Return JSON with another word before each stop of its sentences."""
    if isinstance(value, str):
        return re.sub(r"(\w)([.,])", rf"\1 q{number}\2", value) if " " in value else value
    if isinstance(value, dict):
        return {key: reworded(member, number) for key, member in value.items()}
    if isinstance(value, list):
        return [reworded(member, number) for member in value]
    return value


def change_some(tools: list[Tool], change: Callable[[Tool], Tool]) -> list[Tool]:
    """Return the tools, one in a hundred of them changed."""
    return [change(tool) if place % EVERY == 0 else tool for place, tool in enumerate(tools)]


def more_words(tool: Tool) -> Tool:
    """Return a tool with a longer description."""
    return tool.replace(description=f"{tool.description} Read this first.")


def one_more_argument(tool: Tool) -> Tool:
    """Return a tool with another argument, which is required."""
    schema = tool.input_schema
    properties = schema.get("properties", {}) | {"confirm": {"type": "boolean"}}
    required = [*schema.get("required", ()), "confirm"]
    return tool.replace(input_schema=schema | {"properties": properties, "required": required})


def spent(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the CPU seconds that some work takes, and its result."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


async def measure_call(folder: Path) -> dict[str, float]:
    """Return the CPU microseconds of a call, without a lock and with one; the least of several rounds."""
    server = folder / "server.py"
    server.write_text(SERVER, encoding="utf-8")
    least: dict[str, float] = {}
    configs = {name: folder / name / "toolcrib.toml" for name in ("unlocked", "locked")}
    async with AsyncExitStack() as stack:
        cribs = {}
        for name, path in configs.items():
            path.parent.mkdir()
            table = {"command": sys.executable, "args": [str(server)]}
            lines = [f"{key} = {json.dumps(value)}" for key, value in table.items()]
            path.write_text("\n".join(["[servers.s]", *lines]), encoding="utf-8")
            cribs[name] = await stack.enter_async_context(Crib(path))
            await cribs[name].ready()
            if name == "locked":
                await cribs[name].trust.lock(by="benchmark")
        for _ in range(ROUNDS):
            for name, crib in cribs.items():
                start = time.process_time()
                for _ in range(CALLS):
                    await crib.run("s:echo", {"text": "a"})
                taken = (time.process_time() - start) / CALLS * 1e6
                least[name] = min(taken, least.get(name, taken))
    return least


def slowness() -> float:
    """Return how many times as long as on the machine of the promise everything takes here."""
    sys.path.insert(0, str(ROOT / "tests"))
    import effort  # noqa: PLC0415 - the measure that the tests have

    return effort.slowness()


def main() -> None:
    """Print a line for each case."""
    if not TOOLS.exists():
        raise SystemExit(f"the benchmark needs {TOOLS}, which is not part of the repository")
    source = real_tools()
    tools = [next(source) for _ in range(COUNT)]
    lock = Lock.of(tools)
    print(f"toolcrib.trust, CPU seconds for {COUNT:,} tools on a machine of {slowness():.1f} times the time")
    for name, current in (
        ("verify, nothing changed", tools),
        (f"verify, words of 1 in {EVERY} changed", change_some(tools, more_words)),
        (f"verify, arguments of 1 in {EVERY} changed", change_some(tools, one_more_argument)),
    ):
        seconds, drifts = spent(lambda current=current: lock.compare(current))
        print(f"  {name:42} {seconds:6.2f}   {len(drifts):4} found (promised: {PROMISED * COUNT / 10_000:g})")
    different = list(islice(different_tools(), COUNT))
    known = KnownTools(different)
    seconds, _ = spent(lambda: [scan(tool, others=known) for tool in different])
    print(f"  {'scan, no two alike':42} {seconds:6.2f}   (promised: {SCANNED * COUNT / 10_000:g})")
    # Copies of one tool are of one server here, or all would be clones of each other.
    tools = [tool.replace(namespace=f"server-{(tool.namespace or '').rpartition('-')[2]}") for tool in tools]
    seconds, known = spent(lambda: KnownTools(tools))
    print(f"  {'take up the tools for the scan':42} {seconds:6.2f}")
    seconds, reports = spent(lambda: [scan(tool, others=known) for tool in tools])
    found = sum(bool(each.findings) for each in reports)
    print(f"  {'scan':42} {seconds:6.2f}   {found:4} found (promised: {SCANNED * COUNT / 10_000:g})")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "tools.lock"
        print(f"  {'write the lock':42} {spent(lambda: lock.save(path))[0]:6.2f}")
        size = path.stat().st_size / 2**20
        print(f"  {'read it':42} {spent(lambda: Lock.load(path))[0]:6.2f}   {size:.1f} MiB")
        for name, micros in anyio.run(measure_call, Path(folder)).items():
            print(f"  {f'a call, {name}':42} {micros:6.0f} microseconds")


if __name__ == "__main__":
    main()
