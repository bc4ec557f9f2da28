"""A tool whose schema is nested too deeply is left out of its server's listing, and reported."""

import json
import logging
from typing import Any

import pytest
from execution.mcp.calling import scripted_server
from execution.mcp.web import serving
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from toolcrib.execution.mcp import McpServers

pytestmark = pytest.mark.anyio


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels // 2):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def listed(levels: int) -> list[dict[str, Any]]:
    return [
        {"name": name, "inputSchema": nested(levels if name == "deep" else 2)} for name in ("a", "deep", "b")
    ]


async def answer(request: Request) -> Response:
    """Respond as a server of the stateless era, with an event stream if the path says so."""
    asked = await request.json()
    result: dict[str, Any] = {"tools": listed(200), "resultType": "complete"}
    if asked["method"] == "server/discover":
        result = {"supportedVersions": ["2026-07-28"], "capabilities": {}, "resultType": "complete"}
    result |= {"ttlMs": 0, "cacheScope": "public"}
    payload = {"jsonrpc": "2.0", "id": asked["id"], "result": result}
    if request.url.path == "/json":
        return JSONResponse(payload)
    return Response(f"event: message\ndata: {json.dumps(payload)}\n\n", media_type="text/event-stream")


async def check(config: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    async with McpServers({"one": config}) as servers:
        assert [tool.name for tool in await servers.tools("one")] == ["a", "b"]
        assert "levels deep" in servers.status()["one"].refused["deep"]
        await servers.tools("one")
    warnings = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert len(warnings) == 1
    assert warnings[0].startswith("1 tool of server 'one' is left out: 'deep': ")


@pytest.mark.parametrize("levels", [200, 600])
async def test_only_the_tool_is_left_out_of_a_server_on_a_pipe(
    levels: int, caplog: pytest.LogCaptureFixture
) -> None:
    await check(scripted_server(pages=[listed(levels)]), caplog)


@pytest.mark.parametrize("path", ["json", "events"])
async def test_only_the_tool_is_left_out_of_a_server_over_http(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    routes = [Route("/{path}", answer, methods=["POST"])]
    with serving(Starlette(routes=routes)) as address:
        await check({"url": f"{address}/{path}"}, caplog)
