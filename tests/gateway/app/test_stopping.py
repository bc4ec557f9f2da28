"""Calls in progress when a gateway shuts down or its client disconnects."""

import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from gateway.little_face import LittleFace, serving
from mcp import Client, MCPError
from mcp.client.subscriptions import SubscriptionLost
from mcp_types import ElicitResult
from servers.launch import python
from waiting import PATIENCE, until

from toolcrib.gateway import Gateway
from toolcrib.gateway.app.asgi import HttpRequest

# ruff: noqa: SIM117 - the outer one is what the test is about

pytestmark = pytest.mark.anyio
CHILD = Path(__file__).parent.parent / "child.py"
MODERN = {
    "accept": "application/json, text/event-stream",
    "content-type": "application/json",
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": "tools/call",
    "mcp-name": "wait",
}
WAIT = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {
        "name": "wait",
        "arguments": {},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    },
}


@asynccontextmanager
async def serve_until_signal(face: LittleFace, **settings: Any) -> AsyncIterator[tuple[str, anyio.Event]]:
    """Serve until a signal arrives; yield the address, and an event that is set at the end."""
    ended, ready = anyio.Event(), anyio.Event()
    urls: list[str] = []

    def on_ready(url: str) -> None:
        urls.append(url)
        ready.set()

    async def serve() -> None:
        await gateway.serve_http(port=0, on_ready=on_ready)
        ended.set()

    async with Gateway({"gateway": settings}, frontends=lambda *_: face) as gateway:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve)
            with anyio.fail_after(PATIENCE):
                await ready.wait()
                yield urls[0], ended
                await ended.wait()


def send_signal(number: int) -> None:
    os.kill(os.getpid(), number)


async def wait_for_shutdown(url: str) -> None:
    """Wait until a gateway has noticed the signal to stop: two signals sent together arrive as one."""

    async def stops() -> bool:
        return bool((await other.get(f"{url}/ready")).json()["status"] == "stopping")

    async with httpx.AsyncClient(timeout=PATIENCE) as other:
        await until(stops)


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_a_call_that_runs_may_end(era: Any) -> None:
    face = LittleFace()
    answers: list[Any] = []

    async def call() -> None:
        answers.append((await client.call_tool("wait", {})).structured_content)

    async with serve_until_signal(face, shutdown_timeout=600.0) as (url, ended):
        async with Client(f"{url}/mcp", mode=era) as client:
            await client.list_tools()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call)
                await face.started.wait()
                send_signal(signal.SIGTERM)
                await wait_for_shutdown(url)
                async with httpx.AsyncClient(timeout=PATIENCE) as other:
                    assert (await other.post(f"{url}/mcp", json={})).status_code == 503
                assert not ended.is_set()
                face.go_on.set()
    assert answers == [{"value": "waited"}]


async def test_a_call_that_does_not_end_is_ended_in_time() -> None:
    face = LittleFace()
    async with serve_until_signal(face, shutdown_timeout=0.2) as (url, _):
        async with (
            httpx.AsyncClient(headers=MODERN, timeout=PATIENCE) as client,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(broken_off, client, url)
            await face.started.wait()
            send_signal(signal.SIGINT)
            await face.cancelled.wait()


async def test_a_second_signal_ends_everything_at_once() -> None:
    face = LittleFace()
    async with serve_until_signal(face, shutdown_timeout=600.0) as (url, ended):
        async with (
            httpx.AsyncClient(headers=MODERN, timeout=PATIENCE) as client,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(broken_off, client, url)
            await face.started.wait()
            send_signal(signal.SIGTERM)
            await wait_for_shutdown(url)
            assert not ended.is_set()
            send_signal(signal.SIGTERM)
            await face.cancelled.wait()


async def broken_off(client: httpx.AsyncClient, url: str) -> None:
    """Make a call that never ends, and expect a 503 at shutdown."""
    answer = await client.post(f"{url}/mcp", json=WAIT)
    assert answer.status_code == 503
    assert answer.json()["id"] == 1
    assert answer.json()["error"]["message"] == "the gateway is stopping"


async def test_streams_for_news_do_not_hold_it_up() -> None:
    async with serve_until_signal(LittleFace(), shutdown_timeout=600.0) as (url, _):
        async with Client(f"{url}/mcp", mode="legacy") as old, Client(f"{url}/mcp") as young:
            await old.list_tools()
            async with young.listen(tools_list_changed=True) as news:
                send_signal(signal.SIGTERM)
                with pytest.raises((StopAsyncIteration, SubscriptionLost)):
                    await anext(aiter(news))


@pytest.mark.parametrize("signals", [1, 2], ids=["in time", "urged"])
async def test_a_question_that_nobody_answers_does_not_hold_it_up(
    signals: int, caplog: pytest.LogCaptureFixture
) -> None:
    face, errors, asked = LittleFace(), list[Any](), anyio.Event()

    async def think(*_: Any) -> Any:
        asked.set()
        await anyio.sleep_forever()

    async def wipe() -> None:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("wipe", {})
        errors.append(caught.value.error.message)

    within = 0.3 if signals == 1 else 600.0
    async with serve_until_signal(face, shutdown_timeout=within) as (url, ended):
        async with (
            Client(f"{url}/mcp", mode="legacy", elicitation_callback=think) as client,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(wipe)
            await asked.wait()
            send_signal(signal.SIGTERM)
            if signals > 1:
                await wait_for_shutdown(url)
                send_signal(signal.SIGTERM)
            await ended.wait()
    assert errors in (["the session ended before the call did"], ["the gateway is stopping"])
    assert "without completing" not in caplog.text


async def test_a_question_may_be_answered_while_it_stops() -> None:
    face, asked, answered = LittleFace(), anyio.Event(), anyio.Event()
    results: list[Any] = []

    async def think(*_: Any) -> Any:
        asked.set()
        await answered.wait()
        return ElicitResult(action="accept", content={"confirm": True})

    async def wipe() -> None:
        results.append((await client.call_tool("wipe", {})).structured_content)

    async with serve_until_signal(face, shutdown_timeout=600.0) as (url, ended):
        async with (
            Client(f"{url}/mcp", mode="legacy", elicitation_callback=think) as client,
            httpx.AsyncClient(base_url=url, timeout=PATIENCE) as other,
            anyio.create_task_group() as tasks,
        ):
            await client.list_tools()  # else it asks for them after the call
            tasks.start_soon(wipe)
            await asked.wait()
            send_signal(signal.SIGTERM)
            await wait_for_shutdown(url)
            ready = await other.get("/ready")
            assert (await other.post("/mcp", json=WAIT, headers=MODERN)).status_code == 503
            assert not ended.is_set()
            answered.set()
    assert ready.json()["status"] == "stopping"
    assert results == [{"value": ["accepted"]}]


async def test_a_large_answer_is_taken_before_it_ends() -> None:
    face = LittleFace()
    call = {**WAIT, "params": {**WAIT["params"], "name": "echo", "arguments": {"a": "x" * 2_000_000}}}  # type: ignore[dict-item]
    async with serve_until_signal(face, shutdown_timeout=600.0) as (url, ended):
        async with httpx.AsyncClient(headers={**MODERN, "mcp-name": "echo"}, timeout=PATIENCE) as client:
            async with client.stream("POST", f"{url}/mcp", json=call) as answer:
                send_signal(signal.SIGTERM)
                with anyio.move_on_after(0.3):
                    await ended.wait()
                assert not ended.is_set()
                assert len(await answer.aread()) > 4_000_000


async def test_a_stateless_client_that_goes_away_ends_its_call() -> None:
    face = LittleFace()
    async with Gateway(frontends=lambda *_: face) as gateway, serving(gateway) as url:
        async with (
            httpx.AsyncClient(headers=MODERN, timeout=PATIENCE) as client,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(lambda: client.post(f"{url}/mcp", json=WAIT))
            await face.started.wait()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(PATIENCE):
            await face.cancelled.wait()


async def test_session_goes_on_and_its_call_ends_when_the_connection_of_the_call_goes_away() -> None:
    face = LittleFace()
    async with Gateway(frontends=lambda *_: face) as gateway, serving(gateway) as url:
        async with Client(f"{url}/mcp", mode="legacy") as client:
            session = None
            async with httpx.AsyncClient(timeout=PATIENCE) as raw:
                hello = {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {},
                    "clientInfo": {"name": "p", "version": "1"},
                }
                headers = {name: MODERN[name] for name in ("accept", "content-type")}
                message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
                opened = await raw.post(f"{url}/mcp", json=message, headers=headers)
                session = headers | {"mcp-session-id": opened.headers["mcp-session-id"]}
                call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "wait"}}
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(lambda: raw.post(f"{url}/mcp", json=call, headers=session))
                    await face.started.wait()
                    tasks.cancel_scope.cancel()
                with anyio.fail_after(PATIENCE):
                    await face.cancelled.wait()
                echo = call | {"id": 3, "params": {"name": "echo"}}
                answer = await raw.post(f"{url}/mcp", json=echo, headers=session)
                assert answer.json()["result"]["structuredContent"] == {"value": {}}
            assert (await client.call_tool("echo", {})).structured_content == {"value": {}}


def test_a_process_ends_well() -> None:
    command = python(str(CHILD), "http")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        url = child.stdout.readline().decode().strip()
        assert httpx.get(f"{url}/health", timeout=PATIENCE).json()["status"] == "ok"
        child.send_signal(signal.SIGINT)
        said, errors = child.communicate(timeout=PATIENCE)
    assert (child.returncode, said) == (0, b"")
    assert errors.endswith(b"the end\n")
    assert b"Traceback" not in errors


DEEP = b"[" * 100_000


async def test_json_that_is_nested_deeply_is_refused_while_it_stops(caplog: pytest.LogCaptureFixture) -> None:
    face = LittleFace()
    async with serve_until_signal(face, shutdown_timeout=600.0) as (url, _):
        async with (
            httpx.AsyncClient(headers=MODERN, timeout=PATIENCE) as client,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(lambda: client.post(f"{url}/mcp", json=WAIT))
            await face.started.wait()
            send_signal(signal.SIGTERM)
            await wait_for_shutdown(url)
            answer = await client.post(f"{url}/mcp", content=DEEP)
            face.go_on.set()
    assert (answer.status_code, answer.json()) == (503, {"error": "the gateway is stopping"})
    assert "Traceback" not in caplog.text


async def test_a_request_of_deeply_nested_json_can_be_broken_off() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    request = HttpRequest(send, {})
    request.body = DEEP
    await request.break_off("the gateway is stopping")
    assert [message.get("status") for message in sent] == [503, None]


@pytest.mark.parametrize("count", [1, 5], ids=["one", "a storm"])
async def test_clients_that_take_nothing_of_their_answers_do_not_hold_it_up(count: int) -> None:
    """Half a response is in the system's buffer and half in ours; a client that stops reading gets no more."""
    face = LittleFace()
    content = {**WAIT, "params": {**WAIT["params"], "name": "echo", "arguments": {"text": "x" * 3_000_000}}}  # type: ignore[dict-item]
    body = json.dumps(content).encode()
    async with serve_until_signal(face, shutdown_timeout=600.0, request_timeout=600.0) as (url, ended):
        host, port = httpx.URL(url).host, httpx.URL(url).port or 0
        async with AsyncExitStack() as clients:
            for _ in range(count):
                client = await clients.enter_async_context(await anyio.connect_tcp(host, port))
                lines = [f"{name}: {value}" for name, value in {**MODERN, "mcp-name": "echo"}.items()]
                head = "\r\n".join(["POST /mcp HTTP/1.1", f"Host: {host}", *lines])
                await client.send(f"{head}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            await until(lambda: len(face.callers) == count)
            send_signal(signal.SIGTERM)
            await ended.wait()
