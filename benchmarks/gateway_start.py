"""Measures the time from the start of a gateway with many stdio servers to its first answers."""

import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from gateway_load import say
from gateway_targets import LAUNCH, SUPPORT, Target, address, fastmcp, wait_for
from mcp import Client

ANSWER = 300.0


@dataclass
class Started:
    """The measurements of one start, in seconds."""

    name: str
    up: float = 0.0
    """From the start of the process until it listened."""
    answers: dict[str, float] = field(default_factory=dict)
    """Seconds until each first response."""
    started: int = 0
    """Servers running after the first responses."""
    rss: float = 0.0


async def ask(url: str, found: Started, questions: dict[str, Callable[[Client], Awaitable[Any]]]) -> None:
    """Ask questions, each for the first time."""
    async with Client(url, mode="legacy", read_timeout_seconds=ANSWER) as client:
        for name, question in questions.items():
            begun = time.perf_counter()
            await question(client)
            found.answers[name] = time.perf_counter() - begun


def measure(name: str, command: list[str], port: int, count: int, **options: Any) -> Started:
    """Start a gateway, and ask it."""
    say(f"starting {name}")
    found = Started(name)
    begun = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    try:
        wait_for(port, process)
        found.up = time.perf_counter() - begun
        anyio.run(ask, address(port), found, QUESTIONS[name.partition(" ")[0]](count))
        found.started = len(LAUNCH["children"](process.pid))
        found.rss = Target(name, "", process.pid).rss()
    finally:
        process.terminate()
        process.wait(60)
    return found


def ours(count: int) -> dict[str, Callable[[Client], Awaitable[Any]]]:
    """Return the requests to toolcrib."""

    async def surface(client: Client) -> None:
        await client.list_tools()

    async def listing(client: Client) -> None:
        result = await client.call_tool("list_tools", {"limit": 100})
        if result.is_error or len((result.structured_content or {})["tools"]) != min(100, 4 * count):
            raise SystemExit(f"not all tools are there: {result!r}"[:500])

    async def search(client: Client) -> None:
        result = await client.call_tool("search_tools", {"query": "echo a text"})
        if result.is_error or not (result.structured_content or {})["tools"]:
            raise SystemExit(f"nothing was found: {result!r}"[:500])

    async def run(client: Client) -> None:
        result = await client.call_tool("run_tool", {"tool_id": f"s{count - 1}:echo", "args": {}})
        if result.is_error:
            raise SystemExit(f"it did not run: {result!r}"[:500])

    return {
        "tools/list": surface,
        "all tools listed": listing,
        "search": search,
        "call of the last server": run,
    }


def theirs(count: int) -> dict[str, Callable[[Client], Awaitable[Any]]]:
    """Return the requests to a mount."""

    async def listing(client: Client) -> None:
        found = (await client.list_tools()).tools
        if len(found) != 4 * count:
            raise SystemExit(f"not all tools are there: {len(found)}")

    async def run(client: Client) -> None:
        await client.call_tool(f"s{count - 1}_echo", {})

    return {"tools/list": listing, "all tools listed": listing, "call of the last server": run}


QUESTIONS = {"toolcrib": ours, "fastmcp": theirs}


def starts(folder: Path, count: int) -> list[Started]:
    """Measure starts over so many stdio servers: ours with nothing kept, ours again, and fastmcp's mount."""
    tiny = LAUNCH["tiny"]()
    place = SUPPORT["Place"](folder, {f"s{number}": tiny for number in range(count)})
    with ExitStack() as stack:  # what the catalogue keeps is put there by a gateway that has seen all servers
        first = stack.enter_context(SUPPORT["Served"](place))
        filled = Started("toolcrib")
        anyio.run(ask, first.url, filled, {"all": fill(count)})
    with LAUNCH["closed_port"]() as port:
        arguments = place.arguments("--transport", "http", "--port", str(port))
        command = [sys.executable, *LAUNCH["TOOLCRIB"], *arguments]
        again = measure("toolcrib (stored catalogue)", command, port, count, env=place.environ)
        peer = fastmcp(port, "mount", str(count), tiny["command"], *tiny["args"])
        return [again, measure("fastmcp mount", peer, port, count)]


def fill(count: int) -> Callable[[Client], Awaitable[Any]]:
    """Return a function that waits until all servers have been listed."""

    async def wait(client: Client) -> None:
        for number in range(count):
            with anyio.fail_after(ANSWER):
                while True:
                    page = await client.call_tool("list_tools", {"namespace": f"s{number}"})
                    if not page.is_error and (page.structured_content or {})["tools"]:
                        break
                    await anyio.sleep(0.1)

    return wait
