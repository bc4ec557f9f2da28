"""Responses to calls within sessions of the handshake era, however the sessions end."""

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from gateway.app.raw import HEADERS, HELLO, call, open_session, site, stream_messages
from gateway.little_face import LittleFace, serving
from mcp_types import JSONRPCRequest
from starlette.requests import Request
from starlette.types import Message, Send
from waiting import PATIENCE

from toolcrib.gateway import Gateway
from toolcrib.mcp_internals import SessionTransport

pytestmark = pytest.mark.anyio
ASKING = {**HELLO, "params": {**HELLO["params"], "capabilities": {"elicitation": {}}}}  # type: ignore[dict-item]


@asynccontextmanager
async def session(hello: Any, face: LittleFace, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    with anyio.fail_after(PATIENCE):
        async with site(face=face, **options) as client:
            await open_session(client, hello)
            yield client


@pytest.fixture(params=[HELLO, ASKING], ids=["asked nothing", "asked"])
def hello(request: pytest.FixtureRequest) -> Any:
    """The `initialize` request of a client without capabilities, and of one that supports elicitation."""
    return request.param


@contextmanager
def ran() -> Iterator[set[str]]:
    """Collect the functions that this thread runs."""
    found: set[str] = set()
    sys.setprofile(lambda frame, *_: found.add(f"{frame.f_globals.get('__name__')}.{frame.f_code.co_name}"))
    try:
        yield found
    finally:
        sys.setprofile(None)


async def test_a_call_runs_in_the_task_of_its_request_where_its_client_can_be_asked_nothing(
    hello: Any,
) -> None:
    async with session(hello, LittleFace()) as client:
        await client.post("/mcp", json=call("echo"))
        with ran() as found:
            await client.post("/mcp", json=call("echo"))
    by_sdk = {"mcp.shared.jsonrpc_dispatcher._dispatch_request", "mcp.server.runner._serialize"}
    assert bool(found & by_sdk) is (hello is ASKING)
    assert "toolcrib.gateway.little_face._echo" in found or "gateway.little_face._echo" in found


async def test_a_call_that_says_nothing_before_its_answer_gets_json(hello: Any) -> None:
    async with session(hello, LittleFace()) as client:
        answer = await client.post("/mcp", json=call("echo"))
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["mcp-session-id"] == client.headers["mcp-session-id"]
    assert answer.json()["id"] == 7
    assert answer.json()["result"]["structuredContent"] == {"value": {}}


async def test_progress_comes_in_a_stream_before_the_answer(hello: Any) -> None:
    async with (
        session(hello, LittleFace()) as client,
        stream_messages(client, call("count", progressToken="p")) as told,
    ):
        heard = [each async for each in told]
    assert [each.get("method") for each in heard] == ["notifications/progress"] * 3 + [None]
    assert heard[-1]["result"]["structuredContent"] == {"value": 3}


@pytest.mark.parametrize(
    ("meta", "before"),
    [({"progressToken": "p"}, ["notifications/progress"]), ({}, [])],
    ids=["in a stream", "before anything"],
)
async def test_a_session_that_is_deleted_answers_its_call_with_an_error(
    hello: Any, meta: dict[str, Any], before: list[str]
) -> None:
    face = LittleFace()
    heard: list[Any] = []

    async def wait() -> None:
        async with stream_messages(client, call("wait", **meta)) as told:
            heard.extend([each async for each in told if each is not None])

    async with session(hello, face) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await face.started.wait()
            assert (await client.delete("/mcp")).status_code == 200
        await face.cancelled.wait()
        assert (await client.post("/mcp", json=call("echo"))).status_code == 404
    *news, last = heard
    assert [each["method"] for each in news] == before
    assert last["id"] == 7
    assert last["error"] == {"code": -32000, "message": "the session ended before the call did"}


async def test_a_call_without_a_session_is_refused() -> None:
    async with site(face=LittleFace()) as client:
        answer = await client.post("/mcp", json=call("echo"))
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == "Bad Request: Missing session ID"


async def test_an_id_that_is_in_use_is_refused_and_one_that_was_is_not(hello: Any) -> None:
    face = LittleFace()
    answers: list[httpx.Response] = []

    async def wait() -> None:
        answers.append(await client.post("/mcp", json=call("wait")))

    async with session(hello, face) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await face.started.wait()
            twice = await client.post("/mcp", json=call("echo"))
            other = await client.post("/mcp", json=call("echo", "8"))
            face.go_on.set()
        again = await client.post("/mcp", json=call("echo"))
    assert twice.status_code == 400
    assert twice.json()["error"]["message"] == "Request id is in use"
    assert (other.json()["id"], again.json()["id"]) == ("8", 7)
    assert answers[0].json()["result"]["structuredContent"] == {"value": "waited"}


async def test_a_call_that_is_cancelled_is_told_so(hello: Any) -> None:
    face = LittleFace()
    heard: list[Any] = []

    async def wait() -> None:
        async with stream_messages(client, call("wait")) as told:
            heard.extend([each async for each in told])

    async with session(hello, face) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await face.started.wait()
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
        assert (await client.post("/mcp", json=note)).status_code == 202
        await face.cancelled.wait()
    assert [(each["id"], "error" in each) for each in heard] == [(7, True)]


async def test_calls_that_are_not_as_they_should_be_are_refused(hello: Any) -> None:
    async with session(hello, LittleFace()) as client:
        for content in (
            b'{"method": "tools/call"',
            b'["tools/call"]',
            b'{"jsonrpc": "2.0", "x": "tools/call"}',
        ):
            assert (await client.post("/mcp", content=content)).status_code == 400
        only = {"accept": "application/json"}
        assert (await client.post("/mcp", json=call("echo"), headers=only)).status_code == 406
        about = {"jsonrpc": "2.0", "id": 9, "method": "tools/list", "params": {"_meta": {"x": "tools/call"}}}
        assert '"echo"' in (await client.post("/mcp", json=about)).text
        unknown = {"mcp-session-id": "nobody"}
        assert (await client.post("/mcp", json=call("echo"), headers=unknown)).status_code == 404


@pytest.mark.parametrize("within", [PATIENCE, 0.2], ids=["answered", "broken off"])
async def test_a_toolset_that_goes_away_waits_for_an_answer_to_its_question(
    tmp_path: Path, within: float
) -> None:
    config = tmp_path / "toolcrib.toml"
    text = f'store = "memory"\n[gateway]\nwatch = false\nshutdown_timeout = {within}\n'
    config.write_text(text + "[toolsets.some]\n")
    face = LittleFace()
    with anyio.fail_after(PATIENCE):
        async with (
            Gateway(config, frontends=lambda *_: face) as gateway,
            serving(gateway) as url,
            httpx.AsyncClient(base_url=url, headers=HEADERS, timeout=PATIENCE) as client,
        ):
            await open_session(client, ASKING, "/mcp/some")
            async with stream_messages(client, call("wipe"), "/mcp/some") as told:
                asked = await anext(told)
                config.write_text(text)
                await gateway.reload()
                if within > 1:
                    said = {"action": "accept", "content": {"confirm": True}}
                    answer = {"jsonrpc": "2.0", "id": asked["id"], "result": said}
                    assert (await client.post("/mcp/some", json=answer)).status_code == 202
                heard = [each async for each in told if each is not None]
            others = {"mcp-session-id": ""}
            assert (await client.post("/mcp/some", json=HELLO, headers=others)).status_code == 404
    assert asked["method"] == "elicitation/create"
    if within > 1:
        assert heard[-1]["result"]["structuredContent"] == {"value": ["accepted"]}
    else:
        assert (heard[-1]["id"], heard[-1]["error"]["code"]) == (7, -32000)


class Plain(SessionTransport):
    """A session that leaves every answer to the SDK."""

    async def answer(self, request: Request, send: Send) -> bool:  # noqa: ARG002 - of all sessions
        return False


def post(body: bytes) -> dict[str, Any]:
    headers = [
        (name.encode(), value.encode()) for name, value in (HEADERS | {"mcp-session-id": "one"}).items()
    ]
    path = {"path": "/mcp", "query_string": b""}
    return {"type": "http", "method": "POST", "headers": headers, "toolcrib.body": body, **path}


async def test_a_session_that_ends_while_a_message_comes_drops_it_without_a_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    body = b'{"jsonrpc": "2.0", "method": "notifications/initialized"}'
    transport, sent = Plain("one"), []

    async def receive() -> Message:
        return {"type": "http.request", "body": body}

    async def send(message: Message) -> None:
        sent.append(message.get("status"))
        await transport.terminate()  # as a DELETE does that comes at the same time

    with anyio.fail_after(PATIENCE):
        async with transport.connect():
            await transport.handle_request(post(body), receive, send)
    assert sent == [202, None]
    assert not [record for record in caplog.records if record.exc_info]


async def test_a_call_in_a_session_that_has_just_ended_gets_no_answer_rather_than_none_for_ever() -> None:
    transport = Plain("one")
    asked = JSONRPCRequest(jsonrpc="2.0", id=7, method="tools/call")
    with anyio.fail_after(PATIENCE):
        async with transport.connect():
            await transport.terminate()
            async with transport.exchange(asked, Request(post(b""))) as events:
                assert events is not None
                with pytest.raises(anyio.ClosedResourceError):
                    await events.receive()
