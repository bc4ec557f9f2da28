"""Responses to calls of the stateless era, each independent of the others."""

import asyncio  # noqa: TID251 - as a program would that does not know of anyio
from collections.abc import Sequence

import anyio
import mcp_types
import pytest
from gateway.app.raw import site, stateless, stream_messages
from gateway.little_face import LittleFace
from mcp_types.methods import serialize_server_result
from waiting import PATIENCE

pytestmark = pytest.mark.anyio


async def test_a_call_that_says_nothing_before_its_answer_gets_json() -> None:
    async with site(face=LittleFace()) as client:
        answer = await client.post("/mcp", json=stateless(client, "echo"))
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert "mcp-session-id" not in answer.headers
    assert answer.json()["result"]["structuredContent"] == {"value": {}}


async def test_an_answer_is_in_the_words_of_the_revision_and_says_who_gave_it() -> None:
    async with site(face=LittleFace()) as client:
        answer = await client.post("/mcp", json=stateless(client, "echo"))
    result = answer.json()["result"]
    assert serialize_server_result("tools/call", "2026-07-28", result) == result
    assert result["resultType"] == "complete"
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "toolcrib"


async def test_a_client_that_says_of_itself_what_is_not_so_is_refused() -> None:
    async with site(face=LittleFace()) as client:
        message = stateless(client, "echo")
        message["params"]["_meta"]["io.modelcontextprotocol/clientInfo"] = {"name": 7}
        answer = await client.post("/mcp", json=message)
    assert answer.json()["error"]["message"] == "Invalid request parameters"


async def test_progress_comes_in_a_stream_before_the_answer() -> None:
    face = LittleFace()
    async with (
        site(face=face) as client,
        stream_messages(client, stateless(client, "count", progressToken="p")) as told,
    ):
        heard = [each async for each in told]
    assert [each.get("method") for each in heard] == ["notifications/progress"] * 3 + [None]
    assert heard[-1]["result"]["structuredContent"] == {"value": 3}


async def leave() -> None:
    """Leave during a call, and wait until it has ended."""
    face = LittleFace()
    with anyio.fail_after(PATIENCE):
        async with site(face=face) as client:
            message = stateless(client, "wait")
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lambda: client.post("/mcp", json=message))
                await face.started.wait()
                tasks.cancel_scope.cancel()
            await face.cancelled.wait()


async def test_a_client_that_leaves_ends_its_call() -> None:
    await leave()


def test_a_client_that_leaves_ends_its_call_on_a_loop_that_anyio_did_not_start() -> None:
    asyncio.run(leave())


async def test_malformed_request_is_refused_with_the_error_of_the_protocol() -> None:
    async with site(face=LittleFace()) as client:
        message = stateless(client, "echo")
        cases: dict[int, list[dict[str, str]]] = {
            400: [
                {"mcp-name": "count"},
                {"mcp-method": "tools/list"},
                {"mcp-protocol-version": "2030-01-01"},
            ],
            406: [{"accept": "text/html"}],
        }
        for status, headers in [(status, each) for status, all_of in cases.items() for each in all_of]:
            answer = await client.post("/mcp", json=message, headers=headers)
            assert answer.status_code == status, (headers, answer.text)
        broken = await client.post("/mcp", content=b'{"method": "tools/call",')
        assert broken.status_code == 400
        unknown = await client.post("/mcp", json=stateless(client, "nobody"))
        assert unknown.json()["error"]["code"] == -32602


class MarkedFace(LittleFace):
    """A face whose tools also require an argument in a header, and whose listing may fail."""

    broken = False

    def tools(self) -> Sequence[mcp_types.Tool]:
        if self.broken:
            raise OSError("it is away")
        schema = {"type": "object", "properties": {"where": {"type": "string", "x-mcp-header": "Where"}}}
        return [each.model_copy(update={"input_schema": schema}) for each in super().tools()]


@pytest.mark.parametrize(("header", "status"), [("here", 200), ("there", 400), (None, 400)])
async def test_a_header_that_says_something_else_than_its_argument_is_refused(
    header: str | None, status: int
) -> None:
    async with site(face=MarkedFace()) as client:
        message = stateless(client, "echo")
        message["params"]["arguments"] = {"where": "here"}
        headers = {} if header is None else {"mcp-param-where": header}
        answer = await client.post("/mcp", json=message, headers=headers)
    assert answer.status_code == status
    assert ("result" in answer.json()) is (status == 200)


async def test_a_call_is_answered_where_nobody_knows_what_its_headers_should_say(
    caplog: pytest.LogCaptureFixture,
) -> None:
    face = MarkedFace()
    async with site(face=face) as client:
        message = stateless(client, "echo")
        message["params"]["arguments"] = {"where": "here"}
        face.broken = True
        answer = await client.post("/mcp", json=message)
        face.broken = False
    assert answer.json()["result"]["structuredContent"] == {"value": {"where": "here"}}
    assert "Mcp-Param header validation skipped" in caplog.text


async def test_arguments_that_are_no_object_are_refused() -> None:
    async with site(face=LittleFace()) as client:
        message = stateless(client, "echo")
        message["params"]["arguments"] = [1]
        answer = await client.post("/mcp", json=message)
    assert answer.json()["error"]["code"] == mcp_types.INVALID_PARAMS
