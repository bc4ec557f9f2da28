"""The clients of the soak: `soak_traffic.py URL SECONDS` keeps a gateway busy and prints outcomes as JSON.

They are a process of their own, so that they do not delay what measures the gateway. Servers called `calm_*`
are never harmed, and each call to them must succeed; those called `hit_*` are killed now and then, and calls
to them may fail, but must succeed again at the end.
"""

import json
import logging
import random
import sys
import time
import warnings
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import anyio
from anyio.abc import SocketStream
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

CALM = ("calm_stdio", "calm_stdio_old", "calm_http", "calm_http_old", "calm_sse")
HIT = ("hit_stdio", "hit_stdio_old", "hit_http", "hit_http_old")
MODES: dict[str, Any] = {"stateless": "auto", "handshake": "legacy"}
DICE = random.Random()  # noqa: S311 - nothing is secret
PATIENCE = 600.0
"""Seconds after which something hangs, however busy the machine is."""
SHOWN = 20
KEPT_BYTES = 64 * 2**20
"""Bytes of large results that a gateway keeps, at most."""
RESULT_BYTES = 2_000_000
WORDS = ("add", "two", "numbers", "give", "text", "back", "wait", "page", "tool", "large", "value", "log")
AWAY = frozenset({"backend_unavailable", "execution_failed", "timeout", "tool_not_found", "no_backends"})
"""Allowed errors of a call whose server was killed or removed from the configuration."""
HEADERS = (
    "Host: 127.0.0.1\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
)
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "soak", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "soak", "version": "1"}}
CODE = """
import asyncio
found = await asyncio.gather(*[calm_stdio.add(a=n, b=1) for n in range(5)])
__out = sum(each["sum"] for each in found)
"""
CODE_VALUE = 15
GARBAGE = (
    b"{",
    b"[" * 50_000,
    b'{"jsonrpc": "2.0", "id": 1, "method": 7}',
    b"\xff\xfe",
    b"[]",
    b"1" * 10_000,
)

Act = Callable[["Load", Client], Awaitable[str]]


class UnexpectedError(Exception):
    """A call that should have succeeded, or have failed otherwise."""


@dataclass
class Load:
    """Clients of a gateway, and the outcomes of their calls."""

    url: str
    ends: float
    outcomes: Counter[str] = field(default_factory=Counter)
    unexpected: list[str] = field(default_factory=list)

    @property
    def goes_on(self) -> bool:
        """Whether there is time left."""
        return time.monotonic() < self.ends

    def connect(self, era: str, path: str = "") -> Client:
        """Return a client of an era, to be entered."""
        transport = streamable_http_client(self.url + path, max_sse_event_size=None)
        return Client(transport, mode=MODES[era], read_timeout_seconds=PATIENCE)

    async def send(self, body: bytes, headers: str = "") -> SocketStream:
        """Send a request over a connection of its own."""
        place = urlsplit(self.url)
        stream = await anyio.connect_tcp("127.0.0.1", place.port or 80)
        head = f"POST {place.path} HTTP/1.1\r\n{HEADERS}{headers}Content-Length: {len(body)}\r\n\r\n"
        await stream.send(head.encode() + body)
        return stream

    async def act(self, act: Act, client: Client) -> None:
        """Perform an action, and count its outcome."""
        try:
            with anyio.fail_after(PATIENCE):
                outcome = await act(self, client)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is counted and shown
            outcome = "unexpected"
            self.unexpected.append(f"{act.__name__}: {flat(error)!r}"[:600])
        self.outcomes[f"{act.__name__} {outcome}"] += 1

    async def work(self, act: Act, era: str, pause: float, path: str = "") -> None:
        """Do something again and again, with a client that stays, until the time is over."""
        while self.goes_on:
            try:
                async with self.connect(era, path) as client:
                    while self.goes_on:
                        await self.act(act, client)
                        await anyio.sleep(DICE.uniform(0, 2 * pause))
            except Exception as error:  # noqa: BLE001 - as above
                self.unexpected.append(f"client of {act.__name__}: {flat(error)!r}"[:600])
                await anyio.sleep(1)


def flat(error: BaseException) -> BaseException:
    """Return the first error of a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def call(client: Client, tool: str, **arguments: Any) -> Any:
    """Return the result of a gateway's tool, which must not be an error."""
    result = await client.call_tool(tool, arguments)
    if result.is_error:
        raise UnexpectedError(str(result.structured_content or result.content)[:500])
    return result.structured_content


async def error_of(client: Client, allowed: frozenset[str], tool: str, **arguments: Any) -> str:
    """Return the code of the error that a call gives, or `ok`; the code must be one of those allowed."""
    result = await client.call_tool(tool, arguments)
    if not result.is_error:
        return "ok"
    error = (result.structured_content or {}).get("error", {})
    if error.get("code") not in allowed:
        raise UnexpectedError(str(error or result.content)[:500])
    return str(error["code"])


async def ordinary(_: Load, client: Client) -> str:
    """Call a tool of a server that is well."""
    a, b = DICE.randrange(1000), DICE.randrange(1000)
    ran = await call(client, "run_tool", tool_id=f"{DICE.choice(CALM)}:add", args={"a": a, "b": b})
    if ran["structured"] != {"sum": a + b}:
        raise UnexpectedError(f"{a} + {b} gave {ran}")
    return "ok"


async def search(_: Load, client: Client) -> str:
    """Search for tools with a random combination of words."""
    query = " ".join(DICE.choices(WORDS, k=4)) + f" {DICE.randrange(10_000)}"
    await call(client, "search_tools", query=query)
    return "ok"


async def finding(load: Load, client: Client) -> str:
    """Search, list and describe tools."""
    await search(load, client)
    await call(client, "describe_tool", tool_id=f"{DICE.choice(CALM)}:echo", detail_level="full")
    await call(client, "list_tools", limit=50, namespace=DICE.choice(CALM))
    await call(client, "list_namespaces")
    return "ok"


async def chain(_: Load, client: Client) -> str:
    """Run a chain over several servers."""
    steps = [
        {"tool_id": "calm_http:echo", "args": {"text": "x" * 1000}},
        {
            "tool_id": "calm_stdio:echo",
            "args": {"text": {"$ref": "steps.0/text"}},
            "for_each": list(range(8)),
        },
        {"tool_id": "calm_sse:add", "args": {"a": 2, "b": 3}},
    ]
    ran = await call(client, "run_chain", steps=steps)
    if ran["final"] != {"sum": 5}:
        raise UnexpectedError(str(ran)[:500])
    return "ok"


async def huge_chain(_: Load, client: Client) -> str:
    """Run a chain whose results together exceed the limit."""
    text = {"$ref": "steps.0/text"}
    steps = [
        {"tool_id": "calm_stdio:echo", "args": {"text": "x" * 300_000}},
        {"tool_id": "calm_stdio:echo", "args": {"text": text}, "for_each": list(range(400))},
    ]
    limits = frozenset({"limit_exceeded", "chain_step_failed"})
    return await error_of(client, limits, "run_chain", steps=steps)


async def code(_: Load, client: Client) -> str:
    """Run code that calls tools."""
    ran = await call(client, "execute_code", code=CODE)
    if ran["value"] != CODE_VALUE:
        raise UnexpectedError(str(ran)[:500])
    return "ok"


async def endless_code(_: Load, client: Client) -> str:
    """Run code that does not end."""
    limits = frozenset({"timeout", "limit_exceeded"})
    return await error_of(client, limits, "execute_code", code="while True:\n    pass\n", timeout_ms=300)


async def late(_: Load, client: Client) -> str:
    """Call a tool that does not answer in time."""
    wanted = {"tool_id": f"{DICE.choice(CALM)}:hang", "args": {"key": "late"}, "timeout_ms": 100}
    outcome = await error_of(client, frozenset({"timeout"}), "run_tool", **wanted)
    if outcome == "ok":
        raise UnexpectedError("a tool that hangs gave a result")
    return outcome


async def cancelled(_: Load, client: Client) -> str:
    """Call a tool that does not answer, and cancel the call."""
    with anyio.move_on_after(DICE.uniform(0.02, 0.3)):
        await call(client, "run_tool", tool_id=f"{DICE.choice(CALM)}:hang", args={"key": "cancelled"})
    return "cancelled"


async def vanish(load: Load, _: Client) -> str:
    """Call a tool, and be gone before the answer."""
    arguments = {"tool_id": f"{DICE.choice(CALM)}:hang", "args": {"key": "vanished"}}
    params = {"name": "run_tool", "arguments": arguments, "_meta": META}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    names = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: run_tool\r\n"
    async with await load.send(body, names):
        await anyio.sleep(DICE.uniform(0, 0.2))
    return "vanished"


async def abandon(load: Load, _: Client) -> str:
    """Open a session, and never come back."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}).encode()
    async with await load.send(body) as stream:
        answer = await stream.receive()
    if not answer.startswith(b"HTTP/1.1 200"):
        raise UnexpectedError(answer[:300].decode(errors="replace"))
    return "abandoned"


async def garbage(load: Load, _: Client) -> str:
    """Send invalid messages."""
    async with await load.send(DICE.choice(GARBAGE), "MCP-Protocol-Version: 2026-07-28\r\n") as stream:
        answer = await stream.receive()
    if not answer.startswith(b"HTTP/1.1 4"):
        raise UnexpectedError(answer[:300].decode(errors="replace"))
    return "refused"


async def visit(load: Load, _: Client) -> str:
    """Come, make a call, and leave."""
    async with load.connect(DICE.choice(list(MODES))) as client:
        await client.list_tools()
        return await ordinary(load, client)


async def large(_: Load, client: Client) -> str:
    """Get a result that is too large to be sent, and read it as a resource."""
    size = DICE.randrange(RESULT_BYTES // 2, RESULT_BYTES)
    args = {"size": size}
    ran = await call(client, "run_tool", tool_id=f"{DICE.choice(CALM)}:big", args=args)
    read = await client.read_resource(ran["truncated"]["uri"])
    if len(getattr(read.contents[0], "text", "")) < size:
        raise UnexpectedError(f"of {size} characters there are {str(read)[:300]}")
    return "ok"


async def flooding(_: Load, client: Client) -> str:
    """Call a server that sends malformed notifications before its answer, and is read slowly for that."""
    return await error_of(client, frozenset({"timeout"}), "run_tool", tool_id="flood:flood", args={})


async def babbling(_: Load, client: Client) -> str:
    """Have a server write invalid lines to its output."""
    wanted = {"tool_id": f"{DICE.choice(HIT[:2])}:babble", "args": {"lines": 200}}
    return await error_of(client, AWAY, "run_tool", **wanted)


async def storm(_: Load, client: Client) -> str:
    """Have a server change its list of tools many times in a row."""
    server = DICE.choice(("storm_stdio", "storm_http"))
    for verb in ("add_tool", "remove_tool"):
        for number in range(10):
            await call(client, "run_tool", tool_id=f"{server}:{verb}", args={"name": f"made_{number}"})
    return "ok"


async def struck(_: Load, client: Client) -> str:
    """Call a tool of a server that is killed now and then, or makes its own end."""
    tool_id = DICE.choice(
        (*[f"{server}:add" for server in HIT] * 5, *[f"{server}:crash" for server in HIT[:2]])
    )
    return await error_of(client, AWAY, "run_tool", tool_id=tool_id, args={"a": 1, "b": 1})


async def passing(_: Load, client: Client) -> str:
    """Call a tool of a server that reloads add and remove."""
    return await error_of(client, AWAY, "run_tool", tool_id="passing:echo", args={})


WORK: tuple[tuple[Act, float], ...] = (
    (ordinary, 0.1),
    (finding, 1.0),
    (chain, 1.0),
    (huge_chain, 60.0),
    (code, 2.0),
    (endless_code, 10.0),
    (late, 0.5),
    (cancelled, 0.5),
    (vanish, 0.5),
    (abandon, 0.5),
    (garbage, 2.0),
    (visit, 1.0),
    (large, 4.0),
    (flooding, 5.0),
    (babbling, 5.0),
    (struck, 0.5),
    (passing, 0.5),
)
"""Actions of a client of each era, and the average seconds between them."""


async def fill(load: Load) -> None:
    """Fill the gateway's caches up to their limits, so that later growth has another cause."""
    results = KEPT_BYTES // RESULT_BYTES
    wanted: tuple[tuple[Act, int], ...] = (
        *[(large, results)] * 2,
        *[(huge_chain, 2)] * 2,
        (search, 256),
        (abandon, 64),
    )
    async with load.connect("stateless") as client, anyio.create_task_group() as tasks:

        async def repeat(act: Act, count: int) -> None:
            for _ in range(count):
                await load.act(act, client)

        for act, count in wanted:
            tasks.start_soon(repeat, act, count)


async def recover(load: Load) -> None:
    """Wait until each server answers that was killed."""
    async with load.connect("stateless") as client:
        for server in HIT:
            wanted = {"tool_id": f"{server}:add", "args": {"a": 1, "b": 1}}
            with anyio.move_on_after(PATIENCE) as scope:
                while True:
                    if await error_of(client, AWAY, "run_tool", **wanted) == "ok":
                        break
                    await anyio.sleep(0.5)
            if scope.cancelled_caught:
                load.unexpected.append(f"{server} did not come back")


async def run(url: str, seconds: float) -> None:
    """Fill a gateway, keep it busy, and print the outcomes."""
    load = Load(url, 0.0)
    await fill(load)
    print("filled", flush=True)
    load.ends = time.monotonic() + seconds
    async with anyio.create_task_group() as tasks:
        for era in MODES:
            for act, pause in WORK:
                tasks.start_soon(load.work, act, era, pause)
            tasks.start_soon(load.work, ordinary, era, 0.2, "/steady")
        tasks.start_soon(load.work, storm, "handshake", 2.0)
    await recover(load)
    found = {"outcomes": load.outcomes, "failed": len(load.unexpected), "shown": load.unexpected[:SHOWN]}
    print(json.dumps(found))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable()  # the SDK logs what comes too late for a call that was cancelled
    anyio.run(run, sys.argv[1], float(sys.argv[2]))
