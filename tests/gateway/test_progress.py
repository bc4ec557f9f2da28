"""Progress notifications of a gateway: those that a tool reports, before the answer, and no others."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from gateway.app.raw import HEADERS, HELLO, call, open_session, stateless
from gateway.little_face import serving
from gateway.support import ERAS, Place, Stdio, connected
from servers.launch import dual
from waiting import PATIENCE

from toolcrib.gateway import Gateway

pytestmark = pytest.mark.anyio
SILENT = "about_call"
COUNTING = "test_tool_with_progress"
COUNTED = [(0, 100, "0 of 100"), (50, 100, "50 of 100"), (100, 100, "100 of 100")]
CAPABLE = {**HELLO["params"], "capabilities": {"elicitation": {}}}  # type: ignore[dict-item]
HELLOS: dict[str, Any] = {"stateless": None, "handshake": HELLO, "asked": {**HELLO, "params": CAPABLE}}
"""The `initialize` request of each kind of client: none, plain, and with capabilities to be asked for input."""


@asynccontextmanager
async def client_of(hello: str, expose: Any) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client that sends messages of its own to a gateway before a server of both eras."""
    settings = {"servers": {"dual": dual()}, "timeout": PATIENCE}
    with anyio.fail_after(PATIENCE):
        async with (
            Gateway(settings, expose=expose) as gateway,
            serving(gateway) as url,
            httpx.AsyncClient(base_url=url, headers=HEADERS, timeout=PATIENCE) as client,
        ):
            await gateway.crib.namespaces()
            if HELLOS[hello] is not None:
                await open_session(client, HELLOS[hello])
            yield client


async def call_with_progress(
    client: httpx.AsyncClient, hello: str, tool: str, **args: Any
) -> list[tuple[Any, ...] | str]:
    """Return the progress notifications of a call and its response, in order."""
    meta = {"progressToken": "p"}
    message = call(tool, **meta) if HELLOS[hello] is not None else stateless(client, tool, **meta)
    message["params"]["arguments"] = args
    answer = await client.post("/mcp", json=message)
    if answer.headers["content-type"] == "application/json":
        messages = [answer.json()]
    else:
        lines = answer.text.splitlines()
        messages = [json.loads(line[5:]) for line in lines if line.startswith("data:") and line[5:].strip()]
    found: list[tuple[Any, ...] | str] = []
    for each in messages:
        if each.get("method") == "notifications/progress":
            params = each["params"]
            found.append((params["progress"], params.get("total"), params.get("message")))
        elif "result" in each:
            assert not each["result"].get("isError"), each
            found.append("answer")
    return found


@pytest.mark.parametrize("hello", HELLOS)
async def test_listed_tool_sends_the_progress_that_it_reports_before_the_answer(hello: str) -> None:
    async with client_of(hello, "all") as client:
        assert await call_with_progress(client, hello, SILENT) == ["answer"]
        assert await call_with_progress(client, hello, COUNTING) == [*COUNTED, "answer"]


@pytest.mark.parametrize("hello", HELLOS)
async def test_meta_tools_send_the_progress_that_there_is_before_the_answer(hello: str) -> None:
    silent, counting = ({"tool_id": f"dual:{name}"} for name in (SILENT, COUNTING))
    code = "__out = await dual.about_call()"
    async with client_of(hello, "meta") as client:
        assert await call_with_progress(client, hello, "run_tool", **silent) == ["answer"]
        assert await call_with_progress(client, hello, "run_tool", **counting) == [*COUNTED, "answer"]
        assert await call_with_progress(client, hello, "execute_code", code=code) == ["answer"]
        assert await call_with_progress(client, hello, "run_chain", steps=[counting]) == ["answer"]
        steps = await call_with_progress(client, hello, "run_chain", steps=[silent, silent, silent])
        assert steps == [(1, 3, "step_completed"), (2, 3, "step_completed"), "answer"]


@pytest.mark.parametrize("era", ERAS)
async def test_gateway_over_stdio_sends_the_progress_that_a_tool_reports(era: str, tmp_path: Path) -> None:
    told: list[Any] = []

    async def note(*progress: Any) -> None:
        told.append(progress)

    place = Place(tmp_path, {"dual": dual()}, gateway={"expose": "all"})
    with anyio.fail_after(PATIENCE):
        async with connected(Stdio(place), era) as client:
            for tool in (SILENT, COUNTING, SILENT):
                result = await client.call_tool(tool, {}, progress_callback=note)
                assert not result.is_error
    assert told == COUNTED
