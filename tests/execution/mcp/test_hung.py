"""Servers that hang, or end their streams immediately: deadlines hold, and there is no endless retry."""

import os
import signal
import time
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from execution.mcp.calling import call
from execution.mcp.web import serving
from servers.launch import HttpServer
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from waiting import PATIENCE, until

from toolcrib.errors import BackendUnavailableError, ToolTimeoutError
from toolcrib.execution.mcp import McpServers

pytestmark = pytest.mark.anyio

COURTESY = 4.0
"""Seconds that the SDK would wait for a cancellation to be sent are more than this."""


@pytest.mark.parametrize("flags", [(), ("--handshake",), ("--handshake", "sse")], ids=str)
async def test_deadlines_hold_for_every_call_to_a_server_that_hangs(flags: tuple[str, ...]) -> None:
    transport = "sse" if "sse" in flags else "http"
    with HttpServer(*(flag for flag in flags if flag != "sse"), transport=transport) as server:
        async with McpServers({"one": server.config}) as servers:
            await call(servers, "echo", {"text": "a"})
            servers.replace("one", server.config | {"timeout": 0.2})
            os.kill(server.pid, signal.SIGSTOP)
            try:
                kept = 0
                for _ in range(20):  # a busy machine may take longer itself, though not every time
                    start = time.monotonic()
                    with pytest.raises(ToolTimeoutError):
                        await call(servers, "echo", {"text": "a"})
                    kept += time.monotonic() - start < COURTESY
                    if kept == 4:
                        break
                assert kept == 4
            finally:
                os.kill(server.pid, signal.SIGCONT)
            servers.replace("one", server.config)
            assert (await call(servers, "echo", {"text": "a"})).structured == {"text": "a"}


class Ending:
    """A server of the handshake era whose event streams end immediately and request immediate reconnection."""

    def __init__(self, *, moving: bool = False, moved: bool = False, stuck: bool = False) -> None:
        self.stuck = stuck
        self.moving = moving
        self.moved = moved
        self.streams: list[str | None] = []
        self.heard: list[str] = []

    def app(self) -> Starlette:
        methods = ["GET", "POST", "DELETE"]
        if not self.moved:
            return Starlette(routes=[Route("/mcp", self.meet, methods=methods)])

        async def elsewhere(_: Request) -> Response:
            return RedirectResponse("/there", 307)

        return Starlette(
            routes=[
                Route("/mcp", elsewhere, methods=methods),
                Route("/there", self.meet, methods=methods),
            ]
        )

    async def meet(self, request: Request) -> Response:
        if request.method == "GET":
            self.streams.append(request.headers.get("last-event-id"))
            return self.stream()
        if request.method == "DELETE":
            return Response(status_code=405)
        asked = await request.json()
        self.heard.append(asked["method"])
        if asked["method"].startswith("notifications/"):
            await anyio.sleep(PATIENCE if self.stuck else 0)
            return Response(status_code=202)
        answer: dict[str, Any] = {"error": {"code": -32601, "message": "unknown"}}
        headers = {}
        if asked["method"] == "initialize":
            info = {"name": "ending", "version": "1"}
            answer = {"result": {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": info}}
            headers = {"mcp-session-id": "s"}
        elif asked["method"] == "tools/call":
            if asked["params"]["name"] == "hang":
                await anyio.sleep(PATIENCE)
            return self.stream()
        return JSONResponse({"jsonrpc": "2.0", "id": asked["id"], **answer}, headers=headers)

    def stream(self) -> Response:
        number = len(self.streams) if self.moving else 1

        async def events() -> AsyncIterator[bytes]:
            yield b"id: %d\nretry: 0\ndata:\n\n" % number

        return StreamingResponse(events(), media_type="text/event-stream")


@pytest.mark.parametrize("moved", [False, True])
async def test_streams_that_end_at_once_are_not_asked_for_without_end(moved: bool) -> None:
    ending = Ending(moved=moved)
    with serving(ending.app()) as address:
        async with McpServers({"one": {"url": f"{address}/mcp"}}) as servers:
            with pytest.raises(BackendUnavailableError, match="repeatedly ended the event stream") as caught:
                await call(servers, "never")
            assert caught.value.sent
    assert 4 <= len(ending.streams) <= 20


async def test_a_stream_that_moves_on_is_resumed_more_often() -> None:
    ending = Ending(moving=True)
    with serving(ending.app()) as address:
        async with McpServers({"one": {"url": f"{address}/mcp"}}) as servers:
            start = time.monotonic()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call, servers, "never")
                await until(lambda: len(ending.streams) >= 8)
                tasks.cancel_scope.cancel()
    assert time.monotonic() - start > 2, "it is asked once a second"


async def test_a_cancellation_follows_a_server_that_has_moved() -> None:
    ending = Ending(moved=True)
    with serving(ending.app()) as address:
        async with McpServers({"one": {"url": f"{address}/mcp"}}) as servers:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call, servers, "hang")
                await until(lambda: "tools/call" in ending.heard)
                tasks.cancel_scope.cancel()
            await until(lambda: "notifications/cancelled" in ending.heard)


async def test_a_server_that_does_not_take_the_end_of_the_greeting_is_called_all_the_same() -> None:
    ending = Ending(stuck=True)
    with serving(ending.app()) as address:
        async with (
            McpServers({"one": {"url": f"{address}/mcp"}}) as servers,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(call, servers, "hang")
            await until(lambda: "tools/call" in ending.heard)
            tasks.cancel_scope.cancel()
