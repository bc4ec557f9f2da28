"""Servers over HTTP: sessions that are lost, servers that go and come back, changes, headers, cancellation."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import anyio
import mcp_types as types
import pytest
from execution.mcp.calling import call, tool_of
from execution.mcp.web import serving
from mcp.server.lowlevel import Server
from servers.launch import HttpServer
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from waiting import PATIENCE, until

from toolcrib.errors import (
    BackendUnavailableError,
    ServerUnavailableError,
    ToolExecutionError,
)
from toolcrib.execution.mcp import McpServers
from toolcrib.execution.mcp.server_health import Breaker

pytestmark = pytest.mark.anyio


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((), id="stateless"),
        pytest.param(("--handshake",), id="handshake", marks=pytest.mark.proof),
    ],
)
def lasting(request: pytest.FixtureRequest) -> Iterator[HttpServer]:
    with HttpServer(*request.param) as running:
        yield running


@pytest.fixture
def server(lasting: HttpServer) -> HttpServer:
    """Return a running server, whatever state other tests left it in."""
    if not lasting.runs:
        lasting.kill()
        lasting.start()
    return lasting


async def call_echo(servers: McpServers) -> Any:
    return (await call(servers, "echo", {"text": "a"})).structured


async def test_a_server_that_was_restarted_between_calls_is_called_as_if_nothing_had_happened(
    server: HttpServer,
) -> None:
    async with McpServers({"one": server.config}) as servers:
        assert await call_echo(servers) == {"text": "a"}
        await server.restart()
        assert await call_echo(servers) == {"text": "a"}
        status = servers.status()["one"]
        assert status.state == "ready"
        assert status.starts == (1 if status.protocol_version == "2026-07-28" else 2)


async def test_a_server_that_was_restarted_is_listed_as_if_nothing_had_happened(server: HttpServer) -> None:
    async with McpServers({"one": server.config}) as servers:
        count = len(await servers.tools("one"))
        await server.restart()
        assert len(await servers.tools("one")) == count
        server.kill()
        with pytest.raises(ServerUnavailableError, match="nothing listens at"):
            await servers.tools("one")


async def test_a_server_that_dies_during_a_call_may_have_run_it(server: HttpServer) -> None:
    async with McpServers({"one": server.config}) as servers:
        await call_echo(servers)
        with pytest.raises(BackendUnavailableError) as caught:
            await call(servers, "crash")
        assert caught.value.sent
    await until(lambda: not server.runs, "it has ended, and the next test starts it again")


async def test_a_server_that_is_gone_is_told_as_never_reached_and_used_when_it_is_back(
    server: HttpServer,
) -> None:
    breaker = partial(Breaker, base=0.01, threshold=1000, cap=0.01)
    async with McpServers({"one": server.config}, breaker=breaker) as servers:
        await call_echo(servers)
        server.kill()
        for _ in range(3):
            with pytest.raises(BackendUnavailableError, match="nothing listens at") as caught:
                await call_echo(servers)
            assert not caught.value.sent
        assert servers.status()["one"].state == "failed"
        assert "nothing listens" in (servers.status()["one"].last_error or "")
        await server.restart()
        assert await call_echo(servers) == {"text": "a"}


async def test_a_call_that_is_given_up_reaches_the_server_and_others_go_on(server: HttpServer) -> None:
    async with McpServers({"one": server.config}) as servers:
        async with anyio.create_task_group() as tasks:
            begun = anyio.Event()

            async def emit(_: Any) -> None:
                begun.set()

            tasks.start_soon(partial(call, servers, "hang", {"key": "given up"}, emit=emit))
            await begun.wait()
            assert await call_echo(servers) == {"text": "a"}
            tasks.cancel_scope.cancel()
        await wait_until_cancelled(servers, "given up")
        assert servers.status()["one"].starts == 1


async def wait_until_cancelled(servers: McpServers, key: str) -> None:
    async def cancelled() -> bool:
        return key in (await call(servers, "seen")).structured["cancelled"]

    await until(cancelled)


class Heard:
    """The tools of each listing."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.changed = anyio.Event()

    def __call__(self, _: str, tools: Any) -> None:
        self.names = {tool.name for tool in tools}
        self.changed.set()

    async def follows(self, servers: McpServers, name: str) -> None:
        """Add tools until one is heard of: the stream of notifications is opened beside the first calls."""
        for number in range(int(PATIENCE)):
            self.changed = anyio.Event()
            await call(servers, "add_tool", {"name": f"{name}_{number}"})
            with anyio.move_on_after(1):
                await self.changed.wait()
                return
        pytest.fail("no change was heard of")


async def test_changes_are_followed(server: HttpServer) -> None:
    heard = Heard()
    async with McpServers({"one": server.config}, on_tools=heard) as servers:
        await servers.tools("one")
        await heard.follows(servers, "late")
        assert "late_0" in heard.names
        await call(servers, "remove_tool", {"name": "late_0"})
        await until(lambda: "late_0" not in heard.names, "the tool that was removed is unknown")


async def test_a_stateless_server_that_was_restarted_is_listened_to_again() -> None:
    heard = Heard()
    with HttpServer() as server:
        async with McpServers({"one": server.config}, on_tools=heard) as servers:
            await servers.tools("one")
            await heard.follows(servers, "late")
            await server.restart()
            await until(lambda: "late_0" not in heard.names, "the restarted server was listed")
            await heard.follows(servers, "later")


async def test_the_older_transport_works_as_well() -> None:
    with HttpServer("--handshake", transport="sse") as server:
        async with McpServers({"one": server.config}) as servers:
            assert await call_echo(servers) == {"text": "a"}
            assert servers.status()["one"].transport == "sse"
            server.kill()
            with pytest.raises(BackendUnavailableError):
                await call_echo(servers)
            await server.restart()
            assert await call_echo(servers) == {"text": "a"}


def answering(response: Response) -> Starlette:
    async def answer(_: Request) -> Response:
        return response

    return Starlette(routes=[Route("/mcp", answer, methods=["GET", "POST", "DELETE"])])


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (Response(status_code=401), "401 Unauthorized; set an Authorization header"),
        (Response(status_code=503), "503 Service Unavailable"),
        (HTMLResponse("<h1>hello</h1>"), "a web page, not with MCP"),
        (
            JSONResponse({"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "Busy"}}, 400),
            "Busy",
        ),
    ],
    ids=["unauthorised", "unavailable", "web page", "refusal"],
)
async def test_address_without_an_mcp_server_gives_the_reason(response: Response, reason: str) -> None:
    with serving(answering(response)) as address:
        async with McpServers({"one": {"url": f"{address}/mcp"}}) as servers:
            with pytest.raises(ServerUnavailableError, match=reason):
                await servers.tools("one")
            with pytest.raises(BackendUnavailableError, match=reason) as caught:
                await call_echo(servers)
            assert not caught.value.sent


class Turning:
    """A server of the stateless era that answers calls with a status."""

    def __init__(self, response: Response) -> None:
        self.response = response

    def app(self) -> Starlette:
        return Starlette(routes=[Route("/mcp", self.answer, methods=["POST"])])

    async def answer(self, request: Request) -> Response:
        asked = await request.json()
        if asked["method"] != "server/discover":
            return self.response
        found = {"supportedVersions": ["2026-07-28"], "capabilities": {}, "resultType": "complete"}
        result = found | {"ttlMs": 0, "cacheScope": "public"}
        return JSONResponse({"jsonrpc": "2.0", "id": asked["id"], "result": result})


@pytest.mark.parametrize(
    ("response", "sent"),
    [
        (Response(status_code=401), False),
        (Response(status_code=429), False),
        (Response(status_code=500), True),
        (Response(status_code=502), True),
        (HTMLResponse("<h1>hello</h1>"), True),
    ],
    ids=["401", "429", "500", "502", "web page"],
)
async def test_a_status_says_whether_a_call_may_have_run(response: Response, sent: bool) -> None:
    with serving(Turning(response).app()) as address:
        async with McpServers({"one": {"url": f"{address}/mcp"}}) as servers:
            with pytest.raises(BackendUnavailableError) as caught:
                await call_echo(servers)
            assert caught.value.sent is sent


class Forgetful:
    """A server of the handshake era that forgets every session immediately."""

    def __init__(self) -> None:
        self.sessions = 0

    def app(self) -> Starlette:
        return Starlette(routes=[Route("/mcp", self.answer, methods=["GET", "POST", "DELETE"])])

    async def answer(self, request: Request) -> Response:
        if request.method != "POST":
            return Response(status_code=405)
        asked = await request.json()
        if asked["method"] == "initialize":
            self.sessions += 1
            info = {"name": "forgetful", "version": "1"}
            result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": info}
            headers = {"mcp-session-id": f"session-{self.sessions}"}
            return JSONResponse({"jsonrpc": "2.0", "id": asked["id"], "result": result}, headers=headers)
        if asked["method"].startswith("notifications/"):
            return Response(status_code=202)
        error = {"code": -32000, "message": "Bad Request: No valid session ID provided"}
        return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, 400)


async def test_a_server_that_forgets_every_session_is_not_asked_for_ever() -> None:
    forgetful = Forgetful()
    with serving(forgetful.app()) as address:
        async with McpServers({"one": {"url": f"{address}/mcp"}}) as servers:
            with pytest.raises(BackendUnavailableError, match="does not know the session") as caught:
                await call_echo(servers)
            assert not caught.value.sent
            assert forgetful.sessions == 2


HEADED = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}


async def listed(_: Any, __: Any) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[types.Tool(name="where", input_schema=HEADED)])


async def called(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    return types.CallToolResult(content=[], structured_content=params.arguments)


async def test_arguments_go_into_headers_where_the_schema_says_so() -> None:
    app = Server("headed", on_list_tools=listed, on_call_tool=called).streamable_http_app()
    with serving(app) as address:
        async with McpServers({"one": {"url": f"{address}/mcp"}}) as servers:
            known = tool_of("where", input_schema=HEADED)
            for region in ("eu", "ü"):
                assert (await call(servers, known, {"region": region})).structured == {"region": region}
            outdated = tool_of("where")
            assert (await call(servers, outdated, {"region": "us"})).structured == {"region": "us"}
            assert servers.status()["one"].tools == 1


async def test_headers_that_never_fit_are_an_error_of_the_call() -> None:
    error = {"code": -32020, "message": "header mismatch"}
    response = JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, 400)
    with serving(Turning(response).app()) as address:
        async with McpServers({"one": {"url": f"{address}/mcp"}}) as servers:
            with pytest.raises(ToolExecutionError, match="header mismatch"):
                await call_echo(servers)
