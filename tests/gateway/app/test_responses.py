"""Responses are sent in one piece, complete, and with keep-alive messages while there is no data."""

from typing import Any

import anyio
import pytest
from gateway.app.raw import HELLO, call, connect, everything, open_session, site, stateless, stream_messages
from gateway.little_face import LittleFace
from waiting import PATIENCE

pytestmark = pytest.mark.anyio


async def test_the_head_of_a_response_and_its_body_come_in_one_piece() -> None:
    async with site() as client, await connect(client) as stream:
        for _ in range(3):
            await stream.send(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            with anyio.fail_after(PATIENCE):
                heard = await stream.receive()
            assert heard.startswith(b"HTTP/1.1 200 ")
            assert b'"status": "ok"' in heard


async def test_a_head_to_which_no_body_belongs_comes_by_itself() -> None:
    async with site() as client, await connect(client) as stream:
        await stream.send(b"HEAD /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        heard = await everything(stream)
        assert heard.startswith(b"HTTP/1.1 200 ")
        assert heard.endswith(b"\r\n\r\n")


async def test_a_body_that_is_large_comes_whole() -> None:
    async with site() as client:
        session = {"mcp-session-id": (await client.post("/mcp", json=HELLO)).headers["mcp-session-id"]}
        said = call("echo")
        said["params"]["arguments"] = {"text": "x" * 200_000}
        answer = await client.post("/mcp", json=said, headers=session)
        assert answer.json()["result"]["structuredContent"]["value"] == said["params"]["arguments"]


async def test_a_call_that_is_silent_for_long_shows_that_it_lives_in_both_eras() -> None:
    heard: dict[str, list[Any]] = {}

    async def listen(era: str) -> None:
        face = LittleFace()
        async with site(face=face) as client:
            if era == "handshake":
                await open_session(client)
            message = call("wait") if era == "handshake" else stateless(client, "wait")
            async with stream_messages(client, message) as told:
                heard[era] = [await anext(told), await anext(told)]
                face.go_on.set()
                heard[era] += [each["result"]["structuredContent"] async for each in told if each is not None]

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            for era in ("handshake", "stateless"):
                tasks.start_soon(listen, era)
    waited = [None, None, {"value": "waited"}]
    assert heard == {"handshake": waited, "stateless": waited}
