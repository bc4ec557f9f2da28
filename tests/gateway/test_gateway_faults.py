"""Servers that die, hang, babble and grow behind a gateway, and clients that leave: nobody else notices."""

import json
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from gateway.support import Place, Served, call_failing_tool, call_tool, connected
from mcp import Client
from servers.launch import HttpServer, alive, children, faulty, tiny
from waiting import PATIENCE, until

pytestmark = pytest.mark.anyio

KILOBYTES = 900_000
MEGABYTES = 10_000_000
WAYS = [
    pytest.param("handshake", "faulty", id="handshake-faulty", marks=pytest.mark.proof),
    pytest.param("stateless", "faulty", id="stateless-faulty"),
    pytest.param("stateless", "remote", id="stateless-remote", marks=pytest.mark.proof),
]
"""Eras of the client, and servers: the one on stdio and the one that is reached over HTTP."""
HOW = {"faulty": "stdio", "remote": "HTTP"}
Note = Callable[[str, object], None]


class Ward:
    """A gateway over servers of which some are faulty."""

    def __init__(self, served: Served, http: HttpServer) -> None:
        self.served, self.http = served, http

    async def revive(self, name: str) -> None:
        """Start a server again, where that is not left to the gateway."""
        if name == "remote":
            await self.http.restart()


@pytest.fixture(scope="module")
async def ward(tmp_path_factory: pytest.TempPathFactory, anyio_backend: str) -> AsyncIterator[Ward]:  # noqa: ARG001 - of the same scope
    """A gateway that lives on from fault to fault, as it would with users."""
    with HttpServer() as http:
        servers = {
            "faulty": faulty(start_timeout=PATIENCE),
            "remote": http.config,
            "noisy": faulty("--noise", "--banner", start_timeout=PATIENCE),
            "sound": tiny(),
        }
        with Served(Place(tmp_path_factory.mktemp("ward"), servers, timeout=PATIENCE)) as served:
            async with connected(served, "stateless") as client:
                for name in servers:
                    await ran(client, f"{name}:echo", text="hello")
            yield Ward(served, http)


@pytest.fixture(params=["stateless", pytest.param("handshake", marks=pytest.mark.proof)])
def era(request: pytest.FixtureRequest) -> str:
    """An era of the protocol."""
    said: str = request.param
    return said


@pytest.fixture
async def client(ward: Ward, era: str) -> AsyncIterator[Client]:
    """A client of an era."""
    async with connected(ward.served, era) as client:
        yield client


@pytest.fixture
def note(record_property: Note, era: str) -> Callable[[str, float], None]:
    """Return a function that records a measured time for the tables."""

    def keep(what: str, begun: float) -> None:
        record_property(f"{what}, {era} client", f"{time.monotonic() - begun:.2f} s")

    return keep


async def ran(client: Client, tool_id: str, **args: Any) -> Any:
    """Return the structured result of a tool that is run through the gateway."""
    return (await call_tool(client, "run_tool", tool_id=tool_id, args=args))["structured"]


async def read_counters(client: Client, name: str = "faulty") -> dict[str, Any]:
    """Return the counters of a faulty server."""
    noted: dict[str, Any] = await ran(client, f"{name}:seen")
    return noted


async def until_seen(client: Client, what: str, key: str) -> None:
    """Wait until a faulty server has noted something under a key."""

    async def is_noted() -> bool:
        return key in (await read_counters(client))[what]

    await until(is_noted)


@pytest.mark.parametrize(("era", "name"), WAYS, indirect=["era"])
async def test_a_server_that_dies_mid_call_is_an_error_at_once_and_is_there_again_for_the_next(
    ward: Ward, client: Client, era: str, name: str, note: Callable[[str, float], None]
) -> None:
    begun = time.monotonic()
    with anyio.fail_after(PATIENCE):
        error = await call_failing_tool(client, "run_tool", tool_id=f"{name}:crash", args={})
    note(f"a server dies mid-call ({HOW[name]}): typed error", begun)
    assert error["code"] in {"backend_unavailable", "execution_failed"}
    assert error["tool_id"] == f"{name}:crash"
    assert await ran(client, "sound:echo", text="meanwhile")
    await ward.revive(name)
    begun = time.monotonic()
    assert (await ran(client, f"{name}:echo", text="own"))["text"] == "own"
    note(f"a server dies mid-call ({HOW[name]}): the next call of the same client", begun)
    async with connected(ward.served, era) as another:
        assert (await ran(another, f"{name}:echo", text="another"))["text"] == "another"


async def test_a_server_that_hangs_meets_the_deadline_and_others_are_answered_meanwhile(
    client: Client, era: str, note: Callable[[str, float], None]
) -> None:
    for seconds in (1, 10, 60):  # a busy machine may not come to the call so soon
        key, begun = f"deadline-{era}-{seconds}", time.monotonic()
        errors: list[dict[str, Any]] = []

        async def wait(key: str = key, seconds: int = seconds, errors: list[Any] = errors) -> None:
            options = {"tool_id": "faulty:hang", "args": {"key": key}, "timeout_ms": seconds * 1000}
            errors.append(await call_failing_tool(client, "run_tool", **options))

        async def is_under_way(key: str = key, errors: list[Any] = errors) -> bool:
            return bool(errors) or key in (await read_counters(client))["begun"]

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await until(is_under_way)
            meanwhile = not errors
        note("a server hangs, with a deadline of 1 s: timeout", begun)
        if meanwhile:
            break
    assert meanwhile
    assert errors[0]["code"] == "timeout"
    await until_seen(client, "cancelled", key)


async def test_stray_output_of_a_server_harms_no_call(client: Client) -> None:
    assert (await ran(client, "noisy:echo", text="é"))["text"] == "é"
    await ran(client, "noisy:babble", lines=100)
    assert (await ran(client, "noisy:echo", text="still"))["text"] == "still"


@pytest.mark.parametrize(("era", "name"), WAYS, indirect=["era"])
@pytest.mark.parametrize(
    "size", [pytest.param(KILOBYTES, id="900KB"), pytest.param(MEGABYTES, id="10MB", marks=pytest.mark.proof)]
)
async def test_a_large_result_is_told_of_and_can_be_read_whole(
    client: Client, name: str, size: int, note: Callable[[str, float], None]
) -> None:
    begun = time.monotonic()
    result = await call_tool(client, "run_tool", tool_id=f"{name}:big", args={"size": size})
    note(f"a text of {size:,} characters ({HOW[name]}): answered", begun)
    [cut] = [value for value in result.values() if isinstance(value, dict) and "uri" in value]
    assert cut["bytes"] >= size
    assert len(json.dumps(result)) < 100_000
    read = await client.read_resource(cut["uri"])
    [contents] = read.contents
    assert isinstance(contents, types.TextResourceContents)
    assert contents.text.count("x") == size
    assert (await ran(client, f"{name}:echo", text="next"))["text"] == "next"


async def test_a_tool_that_a_server_adds_is_found_and_clients_are_told(
    ward: Ward, era: str, note: Callable[[str, float], None]
) -> None:
    name = f"zebra_{era}"
    told = Told()

    async def hear(message: Any) -> None:
        if isinstance(getattr(message, "root", message), types.ToolListChangedNotification):
            told.set()

    async with connected(ward.served, era, message_handler=hear) as client, listening(client, era, told):
        told.seen = told.times
        await ran(client, "faulty:add_tool", name=name)  # it stays: one that came and went is told to nobody
        begun = time.monotonic()
        await until(lambda: finds(client, name))
        note("a server adds a tool: search finds it", begun)
        await told.again()
        note("a server adds a tool: clients are notified", begun)
        assert (await ran(client, f"faulty:{name}", text="hi"))["text"] == "hi"


class Told:
    """Counts the change notifications of a client."""

    def __init__(self) -> None:
        self.times = self.seen = 0

    def set(self) -> None:
        self.times += 1

    async def again(self) -> None:
        await until(lambda: self.times > self.seen)


async def finds(client: Client, name: str) -> bool:
    """Return whether a search finds a tool of a faulty server."""
    found = await call_tool(client, "search_tools", query=name.replace("_", " "), namespace="faulty")
    return f"faulty:{name}" in [tool["id"] for tool in found["tools"]]


@asynccontextmanager
async def listening(client: Client, era: str, told: Told) -> AsyncIterator[None]:
    """Subscribe to changes, in the era that requires it."""
    if era == "handshake":
        yield
        return
    async with client.listen(tools_list_changed=True) as news, anyio.create_task_group() as tasks:

        async def hear() -> None:
            async for _ in news:
                told.set()

        tasks.start_soon(hear)
        yield
        tasks.cancel_scope.cancel()


async def test_a_client_that_cancels_cancels_the_call_at_the_server(
    ward: Ward, client: Client, era: str, note: Callable[[str, float], None]
) -> None:
    key = f"cancel-{era}"
    async with connected(ward.served, "stateless") as other:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: ran(client, "faulty:hang", key=key))
            await until_seen(other, "begun", key)
            tasks.cancel_scope.cancel()
        begun = time.monotonic()
        await until_seen(other, "cancelled", key)
    note("a client cancels: the server's call is cancelled", begun)
    assert (await ran(client, "faulty:echo", text="after"))["text"] == "after"


async def test_a_stateless_client_that_drops_its_connection_cancels_the_call(
    ward: Ward, record_property: Note
) -> None:
    key = "dropped"
    async with connected(ward.served, "stateless") as other:
        with socket.create_connection(("127.0.0.1", ward.served.port)) as connection:
            connection.sendall(stateless_call(ward.served.port, "faulty:hang", {"key": key}))
            await until_seen(other, "begun", key)
        begun = time.monotonic()
        await until_seen(other, "cancelled", key)
    record_property(
        "a client drops its connection mid-call: the server's call is cancelled, stateless client",
        f"{time.monotonic() - begun:.2f} s",
    )


def stateless_call(port: int, tool_id: str, args: dict[str, Any]) -> bytes:
    """Return an HTTP request that runs a tool."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": "run_tool", "arguments": {"tool_id": tool_id, "args": args}, "_meta": meta}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n"
        f"Mcp-Method: tools/call\r\nMcp-Name: run_tool\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


@pytest.mark.proof
async def test_a_server_that_starts_slowly_is_waited_for(tmp_path: Path, record_property: Note) -> None:
    servers = {"slow": faulty("--slow", "2", start_timeout=PATIENCE), "sound": tiny()}
    with Served(Place(tmp_path, servers, timeout=PATIENCE)) as served:
        async with connected(served, "stateless") as client:
            begun = time.monotonic()
            assert (await ran(client, "slow:echo", text="at last"))["text"] == "at last"
            record_property(
                "a server needs 2 s to start: the first call", f"{time.monotonic() - begun:.2f} s"
            )


async def test_killing_the_gateway_leaves_no_process_and_loses_no_catalogue(
    tmp_path: Path, record_property: Note
) -> None:
    served = Served(Place(tmp_path, {"one": tiny(), "two": tiny("--stubborn")}, timeout=PATIENCE))
    with served:
        async with connected(served, "handshake") as client:
            pids = {(await ran(client, f"{name}:echo"))["pid"] for name in ("one", "two")}
            assert all(alive(pid) for pid in pids)
            helpers = children(served.pid)
            begun = time.monotonic()
            served.kill()
            await until(lambda: not any(alive(pid) for pid in pids | helpers), "they end with the gateway")
        record_property("kill -9 of the gateway: its servers are gone", f"{time.monotonic() - begun:.2f} s")
        record_property("kill -9 of the gateway: it listens again", f"{served.start():.2f} s")
        async with connected(served, "stateless") as client:
            begun = time.monotonic()
            listed = await call_tool(client, "list_tools")
            record_property("kill -9 of the gateway: the first list", f"{time.monotonic() - begun:.3f} s")
        assert {"one:echo", "two:echo"} <= {tool["id"] for tool in listed["tools"]}
