"""Measures calls through each contender: latency, CPU time and throughput."""

import gc
import random
import statistics
import sys
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import anyio
from gateway_targets import Target
from mcp import Client
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

ORDER = random.Random(2026)  # noqa: S311 - no secret
MODES: dict[str, Any] = {"handshake": "legacy", "stateless": "auto"}
CROWDS = (1, 16, 64)
# How often calls back to back are measured, and how many times the calls of a round that is each time.
PASSES = 3
CALLS_IN_PASS = 5


@dataclass
class Measured:
    """The measurements of one contender."""

    target: Target
    waits: list[list[float]] = field(default_factory=list)
    """Seconds of each call, by round."""
    cpu: float = 0.0
    """CPU seconds per call, all contenders interleaved."""
    back_to_back: list[float] = field(default_factory=list)
    """CPU seconds per call, back to back, by pass."""
    speeds: dict[int, list[float]] = field(default_factory=dict)
    """Calls per second, by how many clients."""
    rss: float = 0.0

    @property
    def all_waits(self) -> list[float]:
        """The seconds of all calls."""
        return [each for turn in self.waits for each in turn]

    def percentile(self, percent: int) -> float:
        """Return within how many ms so many of a hundred calls are answered."""
        return 1000 * statistics.quantiles(self.all_waits, n=100)[percent - 1]

    def ratios(self, base: "Measured") -> list[float]:
        """Return, for each round, how the median compares with that of another."""
        medians = [
            (statistics.median(a), statistics.median(b)) for a, b in zip(self.waits, base.waits, strict=True)
        ]
        return [ours / theirs for ours, theirs in medians]


def say(text: str) -> None:
    """Print the current step on standard error."""
    print(text, file=sys.stderr)


async def contest(
    targets: list[Target], era: str, *, rounds: int, calls: int, crowds: bool
) -> list[Measured]:
    """Let the contenders take turns with one client each, then with many."""
    found = [Measured(target) for target in targets if era in target.eras]
    async with AsyncExitStack() as stack:
        clients = [await connect(stack, each.target, era) for each in found]
        pairs = list(zip(found, clients, strict=True))
        used = [each.target.cpu() for each in found]
        for _ in range(rounds):
            gc.collect()
            await latency(pairs, calls)
        for each, before in zip(found, used, strict=True):
            each.cpu = (each.target.cpu() - before) / (rounds * calls)
        for turn in range(PASSES):
            for each, client in pairs if turn % 2 else pairs[::-1]:
                before = each.target.cpu()
                await latency([(Measured(each.target), client)], CALLS_IN_PASS * calls)
                each.back_to_back.append((each.target.cpu() - before) / (CALLS_IN_PASS * calls))
    say(f"{era}: latency measured")
    for crowd in CROWDS if crowds else ():
        for each in found:
            await throughput(each, era, crowd, max(2 * calls, 3 * crowd))
        say(f"{era}: {crowd} clients measured")
    for each in found:
        each.rss = each.target.rss()
    return found


async def connect(stack: AsyncExitStack, target: Target, era: str, *, warm: int = 3) -> Client:
    """Return a client after its first calls, so that one-time costs are paid."""
    server: Any = target.url
    if target.headers is not None:
        http = await stack.enter_async_context(create_mcp_http_client(target.headers))
        server = streamable_http_client(target.url, http_client=http)
    client = await stack.enter_async_context(Client(server, mode=MODES[era], read_timeout_seconds=60))
    await client.list_tools()
    for _ in range(warm):
        target.check(await client.call_tool(target.tool, target.args))
    return client


async def latency(pairs: list[tuple[Measured, Client]], calls: int) -> None:
    """Make a round of calls one after another, each contender's in turn, so that they share the noise.

    The order is random: a call is faster after one that leaves the caches warm for it.
    """
    for each, _ in pairs:
        each.waits.append([])
    for _ in range(calls):
        for each, client in ORDER.sample(pairs, len(pairs)):
            begun = time.perf_counter()
            result = await client.call_tool(each.target.tool, each.target.args)
            each.waits[-1].append(time.perf_counter() - begun)
            each.target.check(result)


async def throughput(each: Measured, era: str, crowd: int, calls: int) -> None:
    """Make concurrent calls by many clients."""
    target = each.target
    async with AsyncExitStack() as stack:
        clients = [await connect(stack, target, era, warm=0) for _ in range(crowd)]
        left = iter(range(calls))

        async def work(client: Client) -> None:
            for _ in left:
                target.check(await client.call_tool(target.tool, target.args))

        begun = time.perf_counter()
        async with anyio.create_task_group() as tasks:
            for client in clients:
                tasks.start_soon(work, client)
        each.speeds.setdefault(crowd, []).append(calls / (time.perf_counter() - begun))
