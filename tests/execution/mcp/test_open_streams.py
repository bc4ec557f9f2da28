"""Servers whose responses never end: a cancelled call releases its connection."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import anyio
import pytest
from execution.mcp.calling import call, says, tool_of
from execution.mcp.web import serving
from mcp.shared.exceptions import MCPError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from waiting import PATIENCE, until

from toolcrib.errors import BackendUnavailableError
from toolcrib.execution import Call
from toolcrib.execution.mcp import McpServers, ServerConfig
from toolcrib.execution.mcp.calls import call_tool
from toolcrib.execution.mcp.server_health import Breaker
from toolcrib.execution.mcp.tool_watcher import ToolListWatcher
from toolcrib.execution.mcp.transport import http_client
from toolcrib.execution.mcp.upstream import Upstream
from toolcrib.model import McpBackend

pytestmark = pytest.mark.anyio

# How many calls may run at once, the connections there are beside theirs, and more than both.
SLOTS = 2
SPARE = 8
MANY = 16
TRANSPORTS = ["handshake", "stateless", "sse"]
PING = 0.02


class Unending:
    """A server with a tool that answers, and others that hold their response open for good.

    `silent` never begins its response, `pings` begins a stream of events that only has comments in it, and
    `resumable` one that says where it could be resumed. Over SSE it is the posts that do not end.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.begun = 0
        """How many responses were held open."""
        self.open = 0
        """How many still are."""
        self.most = 0
        """How many were at once."""
        self.events, self.told = anyio.create_memory_object_stream[bytes](1000)

    @contextmanager
    def serving(self) -> Iterator[dict[str, Any]]:
        routes = [Route("/mcp", self.meet, methods=["GET", "POST", "DELETE"])]
        with serving(Starlette(routes=routes)) as address:
            transport = "sse" if self.kind == "sse" else "http"
            yield {"url": f"{address}/mcp", "transport": transport, "max_concurrency": SLOTS}
        self.events.close()
        self.told.close()

    async def meet(self, request: Request) -> Response:
        if request.method == "POST":
            return await self.posted(request)
        if self.kind != "sse" or request.method != "GET":
            return Response(status_code=405)
        return StreamingResponse(self.all_events(), media_type="text/event-stream")

    async def posted(self, request: Request) -> Response:
        asked = await request.json()
        if "method" not in asked:  # the reply to one of its questions
            with self.held():
                await self.gone(request)
        if "id" not in asked or "method" not in asked:
            return Response(status_code=202)
        answer = {"jsonrpc": "2.0", "id": asked["id"], **self.answer(asked)}
        name = asked.get("params", {}).get("name")
        if name == "questions":
            ping = {"jsonrpc": "2.0", "method": "ping"}
            asking = [ping | {"id": f"q{number}"} for number in range(MANY)]
            events = b"".join(b"data: %s\n\n" % json.dumps(each).encode() for each in (*asking, answer))
            return Response(events, media_type="text/event-stream")
        if name == "echo" or asked["method"] != "tools/call":
            return await self.answered(answer)
        if name == "answered":  # though the response to its post does not end
            await self.answered(answer)
        if name in {"silent", "answered"}:
            with self.held():
                await self.gone(request)
            return Response(status_code=202)
        return StreamingResponse(self.stream(name), media_type="text/event-stream")

    async def answered(self, answer: dict[str, Any]) -> Response:
        response = JSONResponse(answer)
        if self.kind != "sse":
            return response
        await self.events.send(b"event: message\ndata: " + bytes(response.body) + b"\n\n")
        return Response(status_code=202)

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        if asked["method"] == "initialize":
            info = {"name": "unending", "version": "1"}
            return {"result": {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": info}}
        if asked["method"] == "server/discover" and self.kind == "stateless":
            found = {"supportedVersions": ["2026-07-28"], "capabilities": {}, "resultType": "complete"}
            return {"result": found | {"ttlMs": 0, "cacheScope": "public"}}
        if asked["method"] == "tools/call":
            return says("here")
        return {"error": {"code": -32601, "message": "unknown"}}

    async def all_events(self) -> AsyncIterator[bytes]:
        yield b"event: endpoint\ndata: /mcp\n\n"
        async for event in self.told:
            yield event

    async def stream(self, name: str) -> AsyncIterator[bytes]:
        with self.held():
            if name == "resumable":
                yield b"id: 1\nretry: 3600000\ndata:\n\n"
            while True:
                yield b": ping\n\n"
                await anyio.sleep(PING)

    async def gone(self, request: Request) -> None:
        while not await request.is_disconnected():  # noqa: ASYNC110 - nothing else tells of it
            await anyio.sleep(PING)

    @contextmanager
    def held(self) -> Iterator[None]:
        self.begun += 1
        self.open += 1
        self.most = max(self.most, self.open)
        try:
            yield
        finally:
            self.open -= 1


async def give_up(servers: McpServers, server: Unending, tool: str) -> None:
    """Call a tool, and cancel the call when the server holds its response open."""
    before = server.begun
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(call, servers, tool))
        await until(lambda: server.begun > before)
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("tool", ["silent", "pings", "resumable"])
@pytest.mark.parametrize("kind", TRANSPORTS)
async def test_calls_that_are_given_up_leave_no_connection_open(kind: str, tool: str) -> None:
    server = Unending(kind)
    with server.serving() as config:
        async with McpServers({"one": config}) as servers:
            for _ in range(MANY):
                await give_up(servers, server, tool)
            await until(lambda: server.open == 0)
            assert (await call(servers, "echo")).structured == "here"
            assert servers.status()["one"].starts == 1


async def test_an_answer_ends_its_post_where_the_server_does_not() -> None:
    server = Unending("sse")
    with server.serving() as config:
        async with McpServers({"one": config}) as servers:
            for _ in range(MANY):
                await call(servers, "answered")
            await until(lambda: server.open == 0)
            assert (await call(servers, "echo")).structured == "here"


async def test_a_server_whose_connections_are_all_held_fails_and_is_connected_to_again() -> None:
    server = Unending("handshake")
    wanted = Call(tool=tool_of("echo"), args={}, backend=McpBackend(server_name="one"))
    with server.serving() as config:
        upstream = Upstream(
            "one",
            ServerConfig(**config),
            environ={},
            watcher=ToolListWatcher("one", None),
            breaker=Breaker(base=PATIENCE, cap=PATIENCE, threshold=1),
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(upstream.run)
            connection = await upstream.connect()
            for _ in range(MANY):  # past the slots that calls take
                tasks.start_soon(expect_end, partial(connection.request, "tools/call", {"name": "silent"}))
            await until(lambda: server.open == SLOTS + SPARE)
            with pytest.raises(BackendUnavailableError, match=r"all connections to .* are in use") as caught:
                await call_tool(upstream, wanted)
            assert not caught.value.sent
            await until(lambda: upstream.status().state == "failed")
            assert "are in use" in (upstream.status().last_error or "")
            await until(lambda: server.open == 0)
            with pytest.raises(BackendUnavailableError, match="is not tried again for"):
                await call_tool(upstream, wanted)
            await upstream.stop("over")


async def expect_end(request: Callable[[], Awaitable[Any]]) -> None:
    with pytest.raises(MCPError):
        await request()


async def test_replies_that_a_server_does_not_take_leave_connections_to_its_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_client, "NOTIFICATION_SECONDS", PATIENCE)  # none is given up meanwhile
    server = Unending("handshake")
    with server.serving() as config:
        async with McpServers({"one": config}) as servers:
            assert (await call(servers, "questions")).structured == "here"
            await until(lambda: server.open >= http_client.MAX_NOTIFICATIONS)
            assert (await call(servers, "echo")).structured == "here"
            assert server.most == http_client.MAX_NOTIFICATIONS
