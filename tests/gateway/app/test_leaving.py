"""Slots of servers and places of code mode: clients that leave give them back, and none takes all of them."""

import hashlib
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest
from gateway.app.raw import ABOUT, ERA, HEADERS, HELLO, open_session
from gateway.little_face import serving
from servers.launch import tiny
from waiting import PATIENCE, until

from toolcrib.gateway import Gateway

pytestmark = pytest.mark.anyio
SLOTS = 8
DAY = 86_400_000
# How many of them one principal may have, and one client of those that name themselves.
OF_ONE = 6
OF_CLIENT = 5
ASKING = {**HELLO, "params": {**HELLO["params"], "capabilities": {"elicitation": {}}}}  # type: ignore[dict-item]
ERAS = {"handshake": HELLO, "handshake, asked": ASKING, "stateless": None}
HANGING: dict[str, tuple[str, dict[str, Any]]] = {
    "call": ("tools/call", {"name": "run_tool", "arguments": {"tool_id": "tiny:hang", "timeout_ms": DAY}}),
    "chain": (
        "tools/call",
        {"name": "run_chain", "arguments": {"steps": [{"tool_id": "tiny:hang"}], "timeout_ms": DAY}},
    ),
    "code": (
        "tools/call",
        {"name": "execute_code", "arguments": {"code": "await tiny.hang()", "timeout_ms": DAY}},
    ),
    "resource": ("resources/read", {"uri": "tiny:hang"}),
    "prompt": ("prompts/get", {"name": "tiny-hang"}),
    "completion": (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "tiny-a"}, "argument": {"name": "hang", "value": ""}},
    ),
}


@asynccontextmanager
async def gateway_of(
    *flags: str, server: Mapping[str, Any] | None = None, **settings: Any
) -> AsyncIterator[tuple[Gateway, str]]:
    """Serve a server that has few slots; yield the gateway and where it is."""
    config = {
        "store": "memory",
        "servers": {"tiny": tiny("--content", *flags, max_concurrency=SLOTS, **(server or {}))},
        "gateway": settings,
    }
    async with Gateway(config) as gateway, serving(gateway) as url:
        yield gateway, url


@asynccontextmanager
async def client_of(
    url: str, hello: Mapping[str, Any] | None = None, token: str = ""
) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client with connections of its own; without a greeting it is of the stateless era."""
    headers = HEADERS | ({"authorization": f"Bearer {token}"} if token else {})
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=PATIENCE) as client:
        if hello is not None:
            await open_session(client, hello)
        yield client


async def ask(client: httpx.AsyncClient, number: int, method: str, params: dict[str, Any]) -> Any:
    """Return the answer to a request; without a session it comes from a client with a name of its own."""
    headers = {}
    if "mcp-session-id" not in client.headers:
        info = {"io.modelcontextprotocol/clientInfo": {"name": f"raw {number}", "version": "1"}}
        params = params | {"_meta": ABOUT | info}
        headers = {"mcp-protocol-version": ERA, "mcp-method": method}
        name = params.get("name") or params.get("uri")
        headers |= {"mcp-name": name} if name else {}
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    answer = await client.post("/mcp", json=message, headers=headers)
    if answer.headers["content-type"].startswith("application/json"):
        return answer.json()
    return json.loads([line for line in answer.text.splitlines() if line.startswith("data:")][-1][5:])


def in_flight(gateway: Gateway) -> int:
    return gateway.status()["tiny"].in_flight


async def echoes(url: str, token: str = "") -> Any:
    """Return the result of an `echo` call from a well-behaved client."""
    async with client_of(url, token=token) as client:
        arguments = {"tool_id": "tiny:echo", "args": {"x": 1}, "timeout_ms": int(PATIENCE * 1000)}
        found = await ask(client, 1, "tools/call", {"name": "run_tool", "arguments": arguments})
        return found["result"]["structuredContent"]["structured"]["got"]


@asynccontextmanager
async def waiting(
    client: httpx.AsyncClient, count: int, method: str, params: dict[str, Any]
) -> AsyncIterator[None]:
    """Have as many requests wait for the length of the block; then their connections are closed."""
    async with anyio.create_task_group() as tasks:
        for number in range(count):
            tasks.start_soon(ask, client, 100 + number, method, params)
        yield
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("kind", HANGING)
@pytest.mark.parametrize("era", ERAS)
async def test_requests_whose_clients_leave_give_their_slots_back(era: str, kind: str) -> None:
    async with gateway_of() as (gateway, url), AsyncExitStack() as stack:
        client = await stack.enter_async_context(client_of(url, ERAS[era]))
        assert await echoes(url) == {"x": 1}
        async with waiting(client, SLOTS + 4, *HANGING[kind]):
            await until(lambda: in_flight(gateway) >= OF_CLIENT, "the slots of a principal are taken")
        await until(lambda: in_flight(gateway) == 0, "the slots are given back")
        assert await echoes(url) == {"x": 1}


LIST_METHODS = ["resources/list", "resources/templates/list", "prompts/list"]


@pytest.mark.parametrize("method", LIST_METHODS)
@pytest.mark.parametrize("era", ERAS)
async def test_lists_that_hang_take_one_slot_for_all_clients_that_ask_for_them(era: str, method: str) -> None:
    async with (
        gateway_of("--hanging-lists") as (gateway, url),
        client_of(url, ERAS[era]) as client,
        waiting(client, SLOTS + 4, method, {}),
    ):
        await until(lambda: in_flight(gateway) >= 1, "the list is asked for")
        assert in_flight(gateway) <= len(LIST_METHODS)
        assert await echoes(url) == {"x": 1}


async def ran(client: httpx.AsyncClient, tool: str, **arguments: Any) -> Any:
    """Return the structured content of a meta-tool's result."""
    answer = await ask(client, 1, "tools/call", {"name": tool, "arguments": arguments})
    return answer["result"]["structuredContent"]


@pytest.mark.parametrize("kind", HANGING)
@pytest.mark.parametrize("era", ERAS)
async def test_principal_that_stays_leaves_slots_for_another(era: str, kind: str) -> None:
    tokens = {
        name: {"hash": f"sha256:{hashlib.sha256(f'of-{name}'.encode()).hexdigest()}"}
        for name in ("ann", "bob")
    }
    async with (
        gateway_of(tokens=tokens) as (gateway, url),
        client_of(url, ERAS[era], "of-ann") as ann,
    ):
        assert await echoes(url, "of-bob") == {"x": 1}
        async with waiting(ann, SLOTS + 4, *HANGING[kind]):
            await until(lambda: in_flight(gateway) >= OF_ONE, "the slots of a principal are taken")
            assert await echoes(url, "of-bob") == {"x": 1}
            assert in_flight(gateway) == OF_ONE


async def test_clients_under_many_names_leave_slots_and_places_of_code_for_the_program_itself() -> None:
    async with gateway_of() as (gateway, url), client_of(url) as client:
        assert await echoes(url) == {"x": 1}
        async with waiting(client, 20, *HANGING["code"]):
            await until(lambda: in_flight(gateway) >= OF_ONE, "the slots of a principal are taken")
            assert (await gateway.crib.run("tiny:echo", {"x": 2})).structured["got"] == {"x": 2}
            assert (await gateway.crib.execute("__out = 3", timeout=PATIENCE)).value == 3


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("run_tool", {"tool_id": "tiny:hang", "timeout_ms": DAY}),
        ("run_chain", {"steps": [{"tool_id": "tiny:hang"}], "timeout_ms": DAY}),
        ("execute_code", {"code": "await tiny.hang()", "timeout_ms": DAY}),
    ],
)
async def test_timeout_over_the_limit_is_cut_and_said_so(tool: str, arguments: dict[str, Any]) -> None:
    async with gateway_of(max_timeout=0.5) as (_, url), client_of(url) as client:
        found = await ran(client, tool, **arguments)
    cut = "timeout_ms was cut to 500, the most that this gateway lets a client ask for"
    assert found["notes"] == [cut]
    assert "error" in found


async def test_timeout_over_the_limit_of_a_call_that_succeeds_is_said_so_too() -> None:
    async with gateway_of() as (_, url), client_of(url) as client:
        long = await ran(client, "run_tool", tool_id="tiny:echo", timeout_ms=DAY)
        short = await ran(client, "run_tool", tool_id="tiny:echo", timeout_ms=60_000)
    assert long["notes"] == [
        "timeout_ms was cut to 600,000, the most that this gateway lets a client ask for"
    ]
    assert "notes" not in short


async def test_chain_without_a_timeout_ends_at_the_limit() -> None:
    async with gateway_of(max_timeout=0.5) as (_, url), client_of(url) as client:
        found = await ran(client, "run_chain", steps=[{"tool_id": "tiny:hang", "timeout": DAY}])
    assert "0.5 s" in found["error"]["message"]


async def test_subscription_that_a_server_does_not_answer_ends_with_an_error() -> None:
    async with (
        gateway_of(server={"timeout": 0.5}) as (_, url),
        client_of(url, HELLO) as client,
    ):
        answer = await ask(client, 1, "resources/subscribe", {"uri": "tiny:hang"})
    assert "did not answer resources/subscribe within 0.5 s" in answer["error"]["message"]
