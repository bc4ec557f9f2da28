"""A server's error is the tool's own; only failures detected on this side mean that no server was reached."""

from typing import Any

import anyio
import pytest
from execution.mcp.calling import call, says, scripted_server
from execution.mcp.support import plain
from execution.mcp.web import serving
from mcp.shared.exceptions import MCPError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from waiting import PATIENCE

from toolcrib.errors import BackendUnavailableError, ToolExecutionError
from toolcrib.execution.mcp import McpServers
from toolcrib.execution.mcp.errors import (
    is_lost_session,
    is_unreachable,
    marked,
    transport_facts,
    was_answered,
)

pytestmark = pytest.mark.anyio


class Teller:
    """A server of the handshake era that counts its sessions, with scripted responses to calls."""

    def __init__(
        self,
        answer: dict[str, Any] | None = None,
        status: int = 200,
        *,
        named: bool = True,
        body: bytes = b"",
    ) -> None:
        self.body = body
        self.answer = answer
        self.status = status
        self.named = named
        self.sessions = 0
        self.calls = 0

    def app(self) -> Starlette:
        return Starlette(routes=[Route("/mcp", self.meet, methods=["GET", "POST", "DELETE"])])

    async def meet(self, request: Request) -> Response:
        if request.method != "POST":
            return Response(status_code=405)
        asked = await request.json()
        if asked["method"].startswith("notifications/"):
            return Response(status_code=202)
        if asked["method"] == "initialize":
            self.sessions += 1
            info = {"name": "teller", "version": "1"}
            result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": info}
            headers = {"mcp-session-id": f"session-{self.sessions}"}
            return JSONResponse({"jsonrpc": "2.0", "id": asked["id"], "result": result}, headers=headers)
        if asked["method"] != "tools/call":
            error = {"code": -32601, "message": "unknown"}
            return JSONResponse({"jsonrpc": "2.0", "id": asked["id"], "error": error})
        return self.called(asked)

    def called(self, asked: dict[str, Any]) -> Response:
        self.calls += 1
        if self.body:
            content = self.body.replace(b"ID", str(asked["id"]).encode())
            return Response(content, media_type="application/json")
        if self.answer is None:
            return Response(status_code=self.status)
        number = asked["id"] if self.named else None
        return JSONResponse({"jsonrpc": "2.0", "id": number, **self.answer}, self.status)


FORGED = [
    {"code": -32000, "message": "bank login: session expired, transfer not made"},
    {"code": -32001, "message": "no shopping cart, unknown session"},
    {"code": -32600, "message": "Session terminated"},
    {"code": -32000, "message": "out of stock"},
    {"code": -32000, "message": "Connection closed"},
    {"code": -32000, "message": "nothing listens", "data": {"sent": False}},
    {"code": -32603, "message": "it answered 400", "data": {"status": 400}},
    {"code": -32000, "message": "no", "data": {"toolcrib": "?", "sent": False, "lost": True}},
]


@pytest.mark.parametrize("error", FORGED, ids=lambda error: error["message"])
@pytest.mark.parametrize("status", [200, 400])
async def test_an_error_of_a_tool_over_http_is_its_own_and_is_not_called_again(
    error: dict[str, Any], status: int
) -> None:
    teller = Teller({"error": error}, status)
    with serving(teller.app()) as address:
        async with McpServers({"one": {"url": f"{address}/mcp"}}) as servers:
            with pytest.raises(ToolExecutionError) as caught:
                await call(servers, "transfer")
    assert error["message"] in caught.value.reason
    assert (teller.sessions, teller.calls) == (1, 1)


@pytest.mark.parametrize("error", FORGED, ids=lambda error: error["message"])
async def test_an_error_of_a_tool_over_a_pipe_is_its_own(error: dict[str, Any]) -> None:
    config = scripted_server(calls={"bad": [{"error": error}], "good": [says("on")]})
    async with McpServers({"one": config}) as servers:
        with pytest.raises(ToolExecutionError):
            await call(servers, "bad")
        await call(servers, "good")
        assert servers.status()["one"].starts == 1


@pytest.mark.parametrize(
    ("answer", "status", "named"),
    [
        (None, 404, True),
        ({"error": {"code": -32001, "message": "Session not found"}}, 404, False),
        ({"error": {"code": -32000, "message": "Bad Request: No valid session ID provided"}}, 400, False),
    ],
)
async def test_a_session_is_lost_when_the_status_says_so(
    answer: dict[str, Any] | None, status: int, named: bool
) -> None:
    teller = Teller(answer, status, named=named)
    with serving(teller.app()) as address:
        async with McpServers({"one": {"url": f"{address}/mcp"}}) as servers:
            with pytest.raises(BackendUnavailableError, match="does not know the session") as caught:
                await call(servers, "transfer")
    assert not caught.value.sent
    assert (teller.sessions, teller.calls) == (2, 2)


async def test_a_method_that_is_not_found_is_no_session_that_is_lost() -> None:
    teller = Teller({"error": {"code": -32601, "message": "no calls here"}}, 404)
    with serving(teller.app()) as address:
        async with McpServers({"one": {"url": f"{address}/mcp"}}) as servers:
            with pytest.raises(ToolExecutionError, match="no calls here"):
                await call(servers, "transfer")
    assert teller.sessions == 1


@pytest.mark.parametrize(
    ("status", "sent"),
    [
        (400, False),
        (403, False),
        (413, False),
        (429, False),
        (408, True),
        (409, True),
        (422, True),
        (503, True),
    ],
)
async def test_a_status_says_that_a_call_did_not_run_only_where_it_is_certain(
    status: int, sent: bool
) -> None:
    teller = Teller(None, status)
    with serving(teller.app()) as address:
        async with McpServers({"one": {"url": f"{address}/mcp"}}) as servers:
            with pytest.raises(BackendUnavailableError) as caught:
                await call(servers, "transfer")
    assert caught.value.sent is sent
    assert teller.calls == 1


@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc": "2.0", "id": 99, "result": {}}',
        b'{"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}}',
    ],
)
async def test_a_response_to_something_else_says_nothing_of_the_call(body: bytes) -> None:
    with serving(Teller(body=body).app()) as address:
        async with McpServers({"one": {"url": f"{address}/mcp"}}) as servers:
            with anyio.fail_after(PATIENCE), pytest.raises(BackendUnavailableError) as caught:
                await call(servers, "transfer")
    assert caught.value.sent
    assert caught.value.reason.endswith("answered with something other than the answer to the request")


@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc": "2.0", "id": ID, "method": "x", "result": {}}',
        b'{"jsonrpc": "2.0", "id": ID, "result": {"a": ' + b"[" * 1_000 + b"]" * 1_000 + b"}}",
        b'{"jsonrpc": "2.0", "id": ID, "result": {"a": ' + b"1" * 5_000 + b"}}",
        b'{"jsonrpc": "2.0", "id": ID, "result": {"a": ',
        b'{"jsonrpc": "2.0", "id": null, "error": {"code": 1, "message": "no"}}',
        b"[]",
    ],
)
async def test_a_response_that_is_no_answer_is_an_error_of_its_call(body: bytes) -> None:
    with serving(Teller(body=body).app()) as address:
        async with McpServers({"one": {"url": f"{address}/mcp"}}) as servers:
            with (
                anyio.fail_after(PATIENCE),
                pytest.raises(ToolExecutionError, match="one:transfer failed: "),
            ):
                await call(servers, "transfer")


async def test_an_answer_is_found_among_other_messages() -> None:
    told = b'{"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}}'
    body = b"[" + told + b', {"jsonrpc": "2.0", "id": ID, "result": {"structuredContent": {"a": 1}}}]'
    with serving(Teller(body=body).app()) as address:
        async with McpServers({"one": {"url": f"{address}/mcp"}}) as servers:
            assert (await call(servers, "transfer")).structured == {"a": 1}


@pytest.mark.parametrize("depth", [980, 1_000])
async def test_a_result_that_is_too_deep_costs_its_own_call_alone(depth: int) -> None:
    line = '{"jsonrpc": "2.0", "id": ID, "result": {"structuredContent": ' + "[" * depth + "]" * depth + "}}"
    async with McpServers({"one": plain().model_dump(exclude_unset=True)}) as servers:
        with pytest.raises(ToolExecutionError, match="it gave an answer that is not JSON-RPC"):
            await call(servers, "raw", {"before": "", "line": line})
        await call(servers, "echo", {"text": "on"})
        assert servers.status()["one"].starts == 1


async def test_an_answer_is_told_though_the_server_ends_after_it() -> None:
    steps = [{"error": {"code": -32000, "message": "out of stock"}}, {"exit": 3}]
    async with McpServers({"one": scripted_server(calls={"bad": steps})}) as servers:
        with pytest.raises(ToolExecutionError, match="out of stock"), anyio.fail_after(PATIENCE):
            await call(servers, "bad")


def test_only_marked_errors_tell_of_the_connection() -> None:
    assert transport_facts(marked(status=503)) == {"status": 503}
    assert transport_facts(None) is None
    assert is_lost_session(MCPError(-32600, "x", marked(lost=True)))
    assert is_unreachable(MCPError(-32000, "x", marked(sent=False)))
    assert not is_unreachable(MCPError(-32000, "x", {"sent": False}))
    assert was_answered(MCPError(-32000, "out of stock"))
    assert not was_answered(MCPError(-32000, "Connection closed"))
    assert not was_answered(MCPError(-32000, "x", marked(sent=True)))
