"""Bounds on the memory that clients can make a gateway use."""

import hashlib
import json
import os
from contextlib import AsyncExitStack
from typing import Any

import anyio
import httpx
import pytest
from anyio.abc import SocketAttribute
from gateway.app.raw import HEADERS, HELLO, call, connect, everything, open_session, site, stateless
from gateway.little_face import LittleFace, serving
from gateway.memory import MEGABYTE, forgetting
from prometheus_client.parser import text_string_to_metric_families
from servers.launch import faulty
from waiting import PATIENCE, until

from toolcrib.gateway import Gateway
from toolcrib.gateway.limits import MAX_ABOUT, MAX_IN_FLIGHT, MAX_STREAMS, share_of

pytestmark = pytest.mark.anyio
MANY = httpx.Limits(max_connections=None)


def hello(**about: Any) -> dict[str, Any]:
    params = HELLO["params"]
    assert isinstance(params, dict)
    return {**HELLO, "params": {**params, **about}}


def tokens_named(*names: str) -> dict[str, Any]:
    """Return tokens that are called as they are spelled."""
    return {name: {"hash": f"sha256:{hashlib.sha256(name.encode()).hexdigest()}"} for name in names}


async def refusals(client: httpx.AsyncClient, who: dict[str, str] | None = None) -> dict[str, float]:
    """Return how many requests each limit has refused."""
    text = (await client.get("/metrics", headers=who)).text
    return {
        sample.labels["limit"]: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "toolcrib_limited_total"
    }


@pytest.mark.parametrize(
    "about",
    [
        {"clientInfo": {"name": "n" * MAX_ABOUT, "version": "1"}},
        {"clientInfo": {"name": "n", "version": "1" * MAX_ABOUT}},
        {"capabilities": {"experimental": {"x": {"y": "z" * MAX_ABOUT}}}},
        {"unknown": ["x"] * MAX_ABOUT},
    ],
    ids=["name", "version", "capabilities", "anything"],
)
async def test_client_info_is_kept_up_to_a_size(about: dict[str, Any]) -> None:
    async with site() as client:
        answer = await client.post("/mcp", json=hello(**about))
        await open_session(client, hello(clientInfo={"name": "n" * 1000, "version": "1"}))
        again = await client.post("/mcp", json=hello(**about))
        counted = await refusals(client)
    assert "may have at most 65,536 bytes" in answer.text
    assert "may have at most 65,536 bytes" in again.text
    assert counted == {"client_info": 2}


async def test_a_subscription_is_kept_up_to_a_size_and_for_tools_alone() -> None:
    async with site() as client:
        message = stateless(client, "any")
        client.headers["mcp-method"] = message["method"] = "subscriptions/listen"
        del client.headers["mcp-name"]
        about = {"_meta": message["params"]["_meta"]}

        def listen(uris: list[str]) -> dict[str, Any]:
            wanted = {"toolsListChanged": True, "resourceSubscriptions": uris}
            return {**message, "params": {**about, "notifications": wanted}}

        refused = await client.post("/mcp", json=listen(["a://b"] * MAX_ABOUT))
        async with client.stream("POST", "/mcp", json=listen(["a://b"])) as answer:
            heard = await anext(line async for line in answer.aiter_lines() if line.startswith("data:"))
    assert "may have at most 65,536 bytes" in refused.text
    assert "a://b" not in heard


async def test_one_principal_does_not_take_the_streams_of_another() -> None:
    ann, bob = ({"authorization": f"Bearer {name}"} for name in ("ann", "bob"))
    async with (
        site(tokens=tokens_named("ann", "bob")) as few,
        httpx.AsyncClient(base_url=few.base_url, headers=HEADERS, limits=MANY, timeout=PATIENCE) as client,
    ):
        message = stateless(client, "any")
        client.headers["mcp-method"] = message["method"] = "subscriptions/listen"
        del client.headers["mcp-name"]
        message["params"] = {
            "_meta": message["params"]["_meta"],
            "notifications": {"toolsListChanged": True},
        }

        held = []  # a stream ends with what reads it

        async def listen(stack: AsyncExitStack, who: dict[str, str]) -> str:
            stream = client.stream("POST", "/mcp", json=message, headers=who)
            held.append((await stack.enter_async_context(stream)).aiter_lines())
            while "jsonrpc" not in (line := await anext(held[-1])):
                pass
            return line

        async with AsyncExitStack() as streams:
            share = share_of(MAX_STREAMS, ("tokens", "bob"))
            heard = [await listen(streams, bob) for _ in range(share)]
            beyond = await listen(streams, bob)
            other = await listen(streams, ann)
            counted = await refusals(client, ann)

        async def is_free() -> bool:
            async with AsyncExitStack() as again:
                return "acknowledged" in await listen(again, bob)

        await until(is_free)
    assert all("acknowledged" in each for each in (*heard, other))
    assert "close some" in beyond
    assert counted == {"streams": 1}


async def test_a_session_keeps_nothing_of_what_it_was_asked() -> None:
    async with site(face=LittleFace()) as client:
        message = call("echo")
        message["params"]["arguments"] = {"text": "x" * MEGABYTE}
        sessions = []
        for _ in range(8):
            answer = await client.post("/mcp", json=HELLO)
            sessions.append(answer.headers["mcp-session-id"])
        async with forgetting():
            for session in sessions:
                answer = await client.post("/mcp", json=message, headers={"mcp-session-id": session})
                assert len(answer.content) > MEGABYTE
            del answer


@pytest.mark.proof
async def test_nothing_is_kept_of_calls_that_a_server_never_answered() -> None:
    async with (
        Gateway({"mcpServers": {"bad": faulty()}}) as gateway,
        serving(gateway) as url,
        httpx.AsyncClient(base_url=url, headers=HEADERS, timeout=PATIENCE) as client,
    ):
        message = stateless(client, "run_tool")

        async def run(tool: str, timeout: int, **args: Any) -> str:  # noqa: ASYNC109 - the gateway's
            wanted = {"tool_id": f"bad:{tool}", "args": args, "timeout_ms": timeout}
            message["params"]["arguments"] = wanted
            return (await client.post("/mcp", json=message)).text

        assert "structured" in await run("add", int(PATIENCE * 1000), a=1, b=2)
        async with forgetting():
            for _ in range(8):
                assert '"timeout"' in await run("hang", 50, key="x" * MEGABYTE)
            del message["params"]


async def test_a_session_has_so_many_requests_at_once_and_those_after_it_are_refused() -> None:
    face = LittleFace()
    async with site(face=face) as client:
        await open_session(client)
        async with anyio.create_task_group() as tasks:
            for number in range(MAX_IN_FLIGHT):
                tasks.start_soon(_call_and_leave, client, call("wait", number + 10))
            await until(lambda: len(face.callers) == MAX_IN_FLIGHT)
            async with httpx.AsyncClient(  # the other has as many connections as it may
                base_url=client.base_url, headers=client.headers, timeout=PATIENCE
            ) as another:
                beyond = await another.post("/mcp", json=call("echo", "beyond"))
            tasks.cancel_scope.cancel()

        async def is_answered() -> bool:
            return "result" in (await client.post("/mcp", json=call("echo", "after"))).text

        await until(is_answered)
        counted = await refusals(client)
    assert "not answered yet" in beyond.text
    assert counted["in_flight"] >= 1


async def _call_and_leave(client: httpx.AsyncClient, message: dict[str, Any]) -> None:
    """Make a call, and leave before the answer."""
    await client.post("/mcp", json=message)


async def test_the_idlest_session_goes_when_a_newcomer_has_no_room() -> None:
    async with site(sessions=2) as client:
        sessions = []
        for _ in range(2):
            answer = await client.post("/mcp", json=HELLO)
            sessions.append(answer.headers["mcp-session-id"])
        first, second = sessions
        used = await client.post("/mcp", json=call("echo"), headers={"mcp-session-id": first})
        garbage = await client.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "ping"})
        newcomer = await client.post("/mcp", json=HELLO)
        left = await client.post("/mcp", json=call("echo"), headers={"mcp-session-id": first})
        gone = await client.post("/mcp", json=call("echo"), headers={"mcp-session-id": second})
        counted = await refusals(client)
    assert (used.status_code, garbage.status_code, newcomer.status_code) == (200, 503, 200)
    assert (left.status_code, gone.status_code) == (200, 404)
    assert counted == {"sessions": 1, "idle_session": 1}


async def test_one_principal_does_not_end_the_sessions_of_another_by_opening_its_own() -> None:
    ann, bob = ({"authorization": f"Bearer {name}"} for name in ("ann", "bob"))
    async with site(sessions=4, tokens=tokens_named("ann", "bob")) as client:
        begun = await client.post("/mcp", json=HELLO, headers=ann)
        session = {"mcp-session-id": begun.headers["mcp-session-id"]}
        flood = [(await client.post("/mcp", json=HELLO, headers=bob)).status_code for _ in range(9)]
        left = await client.post("/mcp", json=call("echo"), headers={**ann, **session})
    assert flood == [200] * 9
    assert left.status_code == 200


async def test_newcomers_that_come_together_get_the_room_of_one_idle_session_each(
    caplog: pytest.LogCaptureFixture,
) -> None:
    body = json.dumps(HELLO).encode()
    head = "".join(f"{name}: {value}\r\n" for name, value in {**HEADERS, "host": "localhost"}.items())
    request = f"POST /mcp HTTP/1.1\r\n{head}content-length: {len(body)}\r\n\r\n".encode() + body
    async with site(sessions=8) as client, AsyncExitStack() as stack:
        for _ in range(8):
            await client.post("/mcp", json=HELLO)
        streams = [await stack.enter_async_context(await connect(client)) for _ in range(8)]
        for stream in streams:
            await stream.send(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
            await stream.receive()
        for stream in streams:  # without a turn of the loop in between
            os.write(stream.extra(SocketAttribute.raw_socket).fileno(), request)  # noqa: S610 - not Django's
        newcomers = [int((await stream.receive()).split()[1]) for stream in streams]
        counted = await refusals(client)
    assert newcomers == [200] * 8
    assert counted == {"idle_session": 8}
    assert not [record for record in caplog.records if record.levelname in {"WARNING", "ERROR"}]


async def test_a_session_that_is_answered_does_not_go_and_refusals_are_counted_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    face = LittleFace()
    async with site(face=face, sessions=1) as client:
        await open_session(client)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_call_and_leave, client, call("wait"))
            await face.started.wait()
            del client.headers["mcp-session-id"]
            newcomers = [(await client.post("/mcp", json=HELLO)).status_code for _ in range(3)]
            counted = await refusals(client)
            face.go_on.set()
    assert newcomers == [503] * 3
    assert counted == {"sessions": 3}
    assert not [record for record in caplog.records if record.levelname in {"WARNING", "ERROR"}]


async def test_large_requests_that_arrive_together_are_refused_beyond_so_many_bytes() -> None:
    head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"

    async def is_refused() -> bool:
        async with await connect(client) as other:
            await other.send(head % (150 * MEGABYTE) + b"x")
            with anyio.move_on_after(0.1):
                return b" 503 " in await everything(other)
        return False

    async with site(request_bytes=300 * MEGABYTE) as client:
        async with await connect(client) as first:
            await first.send(head % (300 * MEGABYTE) + b"x")
            await until(is_refused)
            small = await client.post("/mcp", json=HELLO)
        counted = await refusals(client)
    assert small.status_code == 200
    assert counted["request_bytes"] >= 1
