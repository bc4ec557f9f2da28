"""Calls posted without the SDK's client and its HTTP client have the same outcome."""

import ssl
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from execution.mcp.calling import call, says, tool_of
from execution.mcp.web import serving
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from waiting import PATIENCE

from toolcrib.errors import BackendUnavailableError, ToolExecutionError
from toolcrib.execution import Call
from toolcrib.execution.mcp import McpServers
from toolcrib.model import McpBackend

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("era", ["stateless", "handshake"])]
ERROR = {"error": {"code": -32050, "message": "not today"}}
Answer = Callable[[dict[str, Any]], Response]


class Scripted:
    """A server with a plain response to the first call, and scripted ones to the calls after it."""

    tidy = True

    def __init__(self, era: str, answer: Answer) -> None:
        self.era, self.answer = era, answer
        self.called: list[Request] = []
        self.paths: list[str] = []
        self.cancelled = 0
        self.left = 0

    def app(self) -> Starlette:
        methods = ["GET", "POST", "DELETE"]
        routes = [Route(path, self.meet, methods=methods) for path in ("/mcp", "/elsewhere")]
        return Starlette(routes=routes)

    async def meet(self, request: Request) -> Response:
        if request.method != "POST":
            return Response(status_code=405)
        asked = await request.json()
        self.cancelled += asked.get("method") == "notifications/cancelled"
        if "id" not in asked:
            return Response(status_code=202)
        number = {"jsonrpc": "2.0", "id": asked["id"]}
        if asked["method"] == "server/discover" and self.era == "stateless":
            found = {"supportedVersions": ["2026-07-28"], "capabilities": {}, "resultType": "complete"}
            return JSONResponse(number | {"result": found | {"ttlMs": 0, "cacheScope": "public"}})
        if asked["method"] == "initialize":
            info = {"name": "scripted", "version": "1"}
            found = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": info}
            return JSONResponse(number | {"result": found}, headers={"mcp-session-id": "seven"})
        if asked["method"] != "tools/call":
            return JSONResponse(number | {"error": {"code": -32601, "message": "unknown"}})
        self.called.append(request)
        self.paths.append(request.url.path)
        if asked["params"]["name"] == "wait":
            while not await request.is_disconnected():  # noqa: ASYNC110 - nothing else tells of it
                await anyio.sleep(0.01)
            self.left += 1
        is_first = len(self.called) == 1 or request.url.path == "/elsewhere"
        return JSONResponse(number | says("here")) if is_first else self.answer(number)


@asynccontextmanager
async def warm(era: str, answer: Answer, **options: Any) -> AsyncIterator[tuple[McpServers, Scripted]]:
    """Yield a server that was called once, so that the next call is posted directly."""
    server = Scripted(era, answer)
    with anyio.fail_after(PATIENCE), serving(server.app(), **options) as address:
        async with McpServers({"one": {"url": f"{address}/mcp", "headers": {"x-key": "k"}}}) as servers:
            assert (await call(servers, "echo")).structured == "here"
            yield servers, server


@contextmanager
def record_packages() -> Any:
    """Collect the packages whose functions this thread calls."""
    found: set[str] = set()
    sys.setprofile(lambda frame, *_: found.add(str(frame.f_globals.get("__name__"))))
    try:
        yield found
    finally:
        sys.setprofile(None)


async def test_neither_the_sdks_client_nor_httpx2_nor_pydantic_sees_a_plain_call(era: str) -> None:
    async with warm(era, lambda number: JSONResponse(number | says("again"))) as (servers, server):
        wanted = Call(tool=tool_of("echo"), args={}, backend=McpBackend(server_name="one"))
        await servers.call(wanted)
        with record_packages() as found:
            assert (await servers.call(wanted)).structured == "again"
    packages = {name.split(".")[0] for name in found}
    assert packages.isdisjoint({"httpx2", "httpcore2", "pydantic", "mcp_types"})
    assert "mcp.client.streamable_http" not in found
    assert "toolcrib.execution.mcp.transport.post_client" in found
    first, *_, last = server.called
    told = ("x-key", "mcp-session-id", "mcp-protocol-version", "mcp-method", "user-agent", "accept")
    assert {name: last.headers.get(name) for name in told} == {name: first.headers.get(name) for name in told}


async def test_call_over_tls_is_posted_directly_too(
    era: str, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusting = ssl.create_default_context(cafile=certificate / "cert.pem")
    monkeypatch.setattr("toolcrib.execution.mcp.transport.http_client.tls_context", lambda: trusting)
    files = {"ssl_keyfile": certificate / "key.pem", "ssl_certfile": certificate / "cert.pem"}
    async with warm(era, lambda number: JSONResponse(number | says("again")), **files) as (servers, _):
        wanted = Call(tool=tool_of("echo"), args={}, backend=McpBackend(server_name="one"))
        with record_packages() as found:
            assert (await servers.call(wanted)).structured == "again"
    assert {name.split(".")[0] for name in found}.isdisjoint({"httpx2", "httpcore2", "pydantic", "mcp_types"})


@pytest.mark.parametrize(
    ("answer", "sent"),
    [
        (lambda _: Response(status_code=429), False),
        (lambda _: Response(status_code=500), True),
        (lambda _: Response(status_code=503), True),
        (lambda _: HTMLResponse("<h1>hello</h1>"), True),
        (lambda _: Response("{", media_type="application/json"), None),
        (lambda _: JSONResponse([]), None),
        (lambda _: JSONResponse({"jsonrpc": "2.0", "id": 999, **says("another's")}), True),
        (lambda number: JSONResponse(number | ERROR), None),
        (lambda number: JSONResponse({**number, "id": None, **ERROR}, 400), None),
    ],
    ids=["429", "500", "503", "a web page", "half", "a list", "another's", "an error", "an error and 400"],
)
async def test_invalid_result_fails_the_call_without_a_retry(
    era: str, answer: Answer, sent: bool | None
) -> None:
    async with warm(era, answer) as (servers, server):
        with pytest.raises((BackendUnavailableError, ToolExecutionError)) as caught:
            await call(servers, "echo")
        assert getattr(caught.value, "sent", None) is sent
        assert len(server.called) == 2


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refusal_that_a_login_may_mend_is_left_to_httpx2(era: str, status: int) -> None:
    async with warm(era, lambda _: Response(status_code=status)) as (servers, server):
        with pytest.raises(BackendUnavailableError, match=str(status)) as caught:
            await call(servers, "echo")
        assert not caught.value.sent
        assert len(server.called) == 3


async def test_a_redirect_is_followed_by_the_rules_of_the_sdk(era: str) -> None:
    async with warm(era, lambda _: RedirectResponse("/elsewhere", 307)) as (servers, server):
        assert (await call(servers, "echo")).structured == "here"
    assert server.paths == ["/mcp", "/mcp", "/mcp", "/elsewhere"]


async def test_events_are_read_by_the_sdk_as_they_come(era: str) -> None:
    async def events(number: dict[str, Any]) -> AsyncIterator[str]:
        yield ": ping\n\n"
        yield f"data: {JSONResponse(number | says('told')).body.decode()}\n\n"

    async with warm(
        era, lambda number: StreamingResponse(events(number), media_type="text/event-stream")
    ) as (servers, server):
        assert (await call(servers, "echo")).structured == "told"
        assert len(server.called) == 2


async def test_cookie_of_a_server_is_sent_with_the_next_call(era: str) -> None:
    def answer(number: dict[str, Any]) -> Response:
        response = JSONResponse(number | says("here"))
        response.set_cookie("server", "b")
        return response

    async with warm(era, answer) as (servers, server):
        for _ in range(2):
            assert (await call(servers, "echo")).structured == "here"
    assert [each.headers.get("cookie") for each in server.called] == [None, None, "server=b"]


async def test_a_call_that_is_cancelled_hangs_up_and_the_server_is_told_in_the_handshake_era(
    era: str,
) -> None:
    async with warm(era, lambda number: JSONResponse(number | says("here"))) as (servers, server):
        for _ in range(3):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call, servers, "wait")
                before = len(server.called)
                while len(server.called) == before:  # noqa: ASYNC110 - nothing else tells of it
                    await anyio.sleep(0.01)
                tasks.cancel_scope.cancel()
        assert (await call(servers, "echo")).structured == "here"
        while server.left < 3 or server.cancelled < 3 * (era == "handshake"):  # noqa: ASYNC110 - the same
            await anyio.sleep(0.01)
        assert servers.status()["one"].starts == 1


async def test_calls_under_way_when_servers_are_closed_are_cancelled(era: str) -> None:
    failures: list[str] = []

    async def wait(servers: McpServers) -> None:
        try:
            await call(servers, "wait")
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told
            failures.append(type(error).__name__)

    async with anyio.create_task_group() as tasks, warm(era, lambda _: Response()) as (servers, server):
        tasks.start_soon(wait, servers)
        while len(server.called) == 1:  # noqa: ASYNC110 - nothing else tells of it
            await anyio.sleep(0.01)
    assert failures == ["ToolCancelledError"]
