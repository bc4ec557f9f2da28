"""Measures calls of tools: ours beside the MCP SDK and fastmcp, in CPU time of this process per call.

Servers run in processes of their own, so their cost is not in it. `--write` puts the tables into
docs/execution-measurements.md.
"""

import argparse
import gc
import logging
import os
import platform
import runpy
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anyio
import fastmcp
from mcp import Client, StdioServerParameters
from mcp.server import MCPServer
from turns import turns

from toolcrib import tool
from toolcrib.discovery import Index
from toolcrib.execution import Runner
from toolcrib.execution.mcp import McpServers

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "execution-measurements.md"
sys.path.append(str(ROOT / "tests"))  # for what its modules share
LAUNCH = runpy.run_path(str(ROOT / "tests" / "servers" / "launch.py"))
ROUNDS = turns(21)
"""Rounds in which the contenders take turns; the median of the rounds is reported."""
AT_ONCE = 64
STEPS = 100
ARGS = {"a": 2, "b": 3}

Once = Callable[[], Awaitable[Any]]

INTRO = """\
# Execution measurements

<!-- Made by `.venv/bin/python benchmarks/execution.py --write`; do not edit it by hand. -->
"""
MEANING = """\
CPU time of the calling process, in µs per call: the median of {rounds} rounds in which the contenders take
turns. A ratio is relative to the contender in the first row of its table: the median over the rounds,
with the interquartile range. Servers over stdio and HTTP run in processes of their own and are not
counted. All contenders validate arguments and results.
"""


@dataclass
class Contender:
    """One way to make the same call."""

    name: str
    once: Once
    calls: int
    """Calls of a round."""
    unit: int = 1
    """Calls that `once` makes."""
    cpu: list[float] = field(default_factory=list)
    """Seconds per call, by round."""
    wall: list[float] = field(default_factory=list)

    async def round(self) -> None:
        """Measure one round."""
        gc.collect()
        turns = max(1, self.calls // self.unit)
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(turns):
            await self.once()
        made = turns * self.unit
        self.cpu.append((time.process_time() - cpu) / made)
        self.wall.append((time.perf_counter() - wall) / made)


@dataclass
class Contest:
    """Contenders that are to be compared; the first is ours."""

    title: str
    contenders: list[Contender]
    bars: dict[str, str] = field(default_factory=dict)
    """The bar of a contender's ratio, by its name."""

    async def run(self) -> None:
        """Let the contenders take turns."""
        progress(self.title)
        for contender in self.contenders:
            await contender.once()  # what is made once and kept is made here
        gc.freeze()
        for turn in range(ROUNDS):
            order = self.contenders if turn % 2 else self.contenders[::-1]
            for contender in order:
                await contender.round()

    def table(self) -> str:
        """Return the table of the contest."""
        ours = self.contenders[0]
        rows = []
        for each in self.contenders:
            ratios = sorted(cpu / base for cpu, base in zip(each.cpu, ours.cpu, strict=True))
            low, middle, high = statistics.quantiles(ratios, n=4)
            shown = "1" if each is ours else f"{middle:.2f} ({low:.2f}-{high:.2f})"
            micros = statistics.median(each.cpu) * 1e6
            speed = 1 / statistics.median(each.wall)
            rows.append((each.name, f"{micros:,.0f}", shown, self.bars.get(each.name, ""), f"{speed:,.0f}"))
        head = ("", "CPU µs per call", "ratio to first", "target", "calls per second")
        return f"## {self.title}\n\n{table(head, rows)}"


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return a table in Markdown."""
    rule = ("---", *["--:"] * (len(head) - 1))
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))


def progress(text: str) -> None:
    """Print the current step on standard error."""
    print(text, file=sys.stderr)


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def add_in_thread(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def check_result(value: Any, expected: Any) -> None:
    """Fail if a call returned a wrong result."""
    if value != expected:
        raise SystemExit(f"expected {expected!r}, got {value!r}")


def ours(runner: Runner, tool_id: str, expected: Any) -> Once:
    """Return a call by our runner."""

    async def once() -> None:
        check_result((await runner.run(tool_id, ARGS)).structured, expected)

    return once


def theirs(client: Any, name: str, expected: Any) -> Once:
    """Return a call by the client of the SDK or of fastmcp."""

    async def once() -> None:
        check_result((await client.call_tool(name, ARGS)).structured_content, expected)

    return once


def many(once: Once) -> Once:
    """Return a function that makes as many concurrent calls as one upstream accepts."""

    async def together() -> None:
        async with anyio.create_task_group() as tasks:
            for _ in range(AT_ONCE):
                tasks.start_soon(once)

    return together


async def local(stack: AsyncExitStack) -> list[Contest]:
    """Compare calls that stay in this process."""
    index = Index()
    index.register_many([(add, None), (add_in_thread, None)])
    runner = Runner(index, local=[add, add_in_thread])
    sdk, peer = MCPServer("sdk"), fastmcp.FastMCP("peer")
    for server in (sdk, peer):
        server.tool()(add.function)
        server.tool()(add_in_thread.function)
    sdk_client = await stack.enter_async_context(Client(sdk))
    peer_client = await stack.enter_async_context(fastmcp.Client(peer))
    steps = [{"toolId": "add", "args": ARGS} for _ in range(STEPS)]

    async def chain() -> None:
        check_result((await runner.run_chain(steps)).final, 5)

    async def apart() -> None:
        for _ in range(STEPS):
            await runner.run("add", ARGS)

    def contest(name: str, kind: str) -> Contest:
        return Contest(
            f"A local tool, {kind}",
            [
                Contender("toolcrib", ours(runner, name, 5), 400),
                Contender("mcp, in process", theirs(sdk_client, name, {"result": 5}), 100),
                Contender("fastmcp, in memory", theirs(peer_client, name, {"result": 5}), 40),
            ],
            {"mcp, in process": "at least 4", "fastmcp, in memory": "at least 10"},
        )

    return [
        contest("add", "a coroutine"),
        contest("add_in_thread", "a plain function, in a worker thread"),
        Contest(
            f"A chain of {STEPS} local steps, per step",
            [
                Contender("toolcrib, one chain", chain, 4 * STEPS, STEPS),
                Contender("toolcrib, calls one by one", apart, 4 * STEPS, STEPS),
            ],
        ),
    ]


async def remote(stack: AsyncExitStack) -> list[Contest]:
    """Compare calls to a server in another process, over each transport and in each era."""
    contests = []
    for era, flags in (("stateless", ()), ("handshake", ("--handshake",))):
        server = stack.enter_context(LAUNCH["HttpServer"](*flags))
        child = LAUNCH["faulty"](*flags)
        index = Index()
        configs = {"http": server.config, "stdio": child}
        servers = await stack.enter_async_context(McpServers(configs))
        for name in configs:
            index.register_many([(each, each.backend) for each in await servers.tools(name)])
        runner = Runner(index, mcp=servers)
        clients = {
            "http": await stack.enter_async_context(Client(server.config["url"])),
            "stdio": await stack.enter_async_context(
                Client(StdioServerParameters(command=child["command"], args=child["args"]))
            ),
        }
        for name, client in clients.items():
            await client.list_tools()
            contests += against_sdk(f"{name}, {era} era", ours(runner, f"{name}:add", {"sum": 5}), client)
    return contests


def against_sdk(what: str, call: Once, client: Any) -> list[Contest]:
    """Compare one call, and many concurrent ones, with those of the bare client of the SDK."""
    bare = theirs(client, "add", {"sum": 5})
    name = "mcp `Client`"
    return [
        Contest(
            f"An MCP server over {what}",
            [Contender(name, bare, 40), Contender("toolcrib", call, 40)],
            {"toolcrib": "at most 1.15"},
        ),
        Contest(
            f"{AT_ONCE} calls at once over one upstream, {what}",
            [
                Contender(name, many(bare), AT_ONCE, AT_ONCE),
                Contender("toolcrib", many(call), AT_ONCE, AT_ONCE),
            ],
        ),
    ]


async def measure() -> list[Contest]:
    """Run every contest."""
    async with AsyncExitStack() as stack:
        progress("starting servers")
        contests = [*await local(stack), *await remote(stack)]
        for contest in contests:
            await contest.run()
    return contests


def main() -> None:
    """Print the tables, and write them into the page if requested."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    parser.add_argument("--quick", action="store_true", help="measure just enough to show that it runs")
    wanted = parser.parse_args()
    logging.disable(logging.INFO)  # the peers would print every request
    contests = anyio.run(measure)
    versions = ", ".join(f"{name} {version(name)}" for name in ("mcp", "fastmcp", "anyio", "pydantic"))
    machine = (
        f"Python {platform.python_version()}, {os.cpu_count()} cores ({platform.machine()}), {versions}."
    )
    parts = [INTRO.rstrip(), MEANING.format(rounds=ROUNDS).rstrip(), machine]
    page = "\n\n".join([*parts, *(contest.table() for contest in contests)]) + "\n"
    print(page)
    if wanted.write:
        PAGE.write_text(page, encoding="utf-8")
        progress(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
