"""Servers that send floods of unusable messages: the log stays small, and calls to them go on."""

import logging
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from execution.mcp.calling import call, says, scripted_server
from execution.mcp.web import serving
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCMessage, JSONRPCRequest, JSONRPCResponse
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from waiting import until

from toolcrib.execution.mcp import McpServers
from toolcrib.execution.mcp.transport.lines import DroppedMessages
from toolcrib.execution.mcp.transport.outbox import MAX_ANSWERS, Outbox

pytestmark = pytest.mark.anyio

MANY = 250
MALFORMED = {"notify": "notifications/message", "params": {"level": 7}}


def expected_lines(kind: str, *, server: str = "one") -> list[str]:
    """Return the log lines of many messages of a kind: the first, the tenth and the hundredth."""
    start = f"server {server!r} sent an unusable message"
    return [f"{start}: {kind}", *(f"{start} ({count} times by now): {kind}" for count in (10, 100))]


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    return caplog


async def test_malformed_notifications_are_counted_and_not_logged_one_by_one(
    logged: pytest.LogCaptureFixture,
) -> None:
    flood = scripted_server(calls={"flood": [MALFORMED] * MANY + [says("done")]})
    async with McpServers({"one": flood}) as servers:
        assert (await call(servers, "flood")).structured == "done"
        await until(lambda: len(logged.records) >= 3)
    assert [record.getMessage() for record in logged.records] == expected_lines(
        "a malformed notifications/message"
    )
    assert [record for record in logged.records if record.exc_info] == []


async def test_names_that_a_server_makes_up_are_of_one_kind(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "toolcrib")
    unknown = [{"notify": f"notifications/{number}", "params": {}} for number in range(MANY)]
    async with McpServers({"one": scripted_server(calls={"flood": [*unknown, says("done")]})}) as servers:
        assert (await call(servers, "flood")).structured == "done"
        records = [each for each in caplog.records if "unknown notification" in each.getMessage()]
    assert len(records) <= 3
    assert {record.levelno for record in records} == {logging.DEBUG}


async def test_pings_whose_answers_a_server_does_not_read_are_dropped_and_told_once(
    logged: pytest.LogCaptureFixture,
) -> None:
    calls = {"flood": [{"pings": 2 * MAX_ANSWERS // 1_000}, says("done")], "other": [says("fine")]}
    async with McpServers({"one": scripted_server(calls=calls)}) as servers:
        assert (await call(servers, "flood")).structured == "done"
        assert (await call(servers, "other")).structured == "fine"
    kind = "a request while it does not read the answers to others"
    assert [record.getMessage() for record in logged.records] == expected_lines(kind)


async def ignore(_: bytes) -> None:
    """Write nothing."""


async def test_answers_that_a_server_does_not_read_are_bounded_and_its_requests_are_not() -> None:
    dropped: list[JSONRPCMessage] = []
    outbox = Outbox(ignore, dropped.append)
    answer = JSONRPCResponse(jsonrpc="2.0", id="i" * 100_000, result={})
    asked = JSONRPCRequest(jsonrpc="2.0", id=1, method="tools/call", params={"text": "w" * MAX_ANSWERS})
    for _ in range(20):
        await outbox.send(SessionMessage(answer))
    await outbox.send(SessionMessage(asked))
    assert len(dropped) == 10
    for _ in range(10):
        assert len(await outbox.take() or b"") < MAX_ANSWERS
    assert len(await outbox.take() or b"") > MAX_ANSWERS
    await outbox.send(SessionMessage(answer))
    assert len(dropped) == 10


class Noisy:
    """A server of the handshake era whose notification stream is full of invalid messages."""

    def __init__(self, event: bytes) -> None:
        self.event = event
        self.sent = 0

    def app(self) -> Starlette:
        return Starlette(routes=[Route("/mcp", self.meet, methods=["GET", "POST", "DELETE"])])

    async def meet(self, request: Request) -> Response:
        if request.method == "GET":
            return StreamingResponse(self.noise(), media_type="text/event-stream")
        if request.method == "DELETE":
            return Response(status_code=405)
        asked = await request.json()
        if "id" not in asked:
            return Response(status_code=202)
        answer: dict[str, Any] = {"error": {"code": -32601, "message": "unknown"}}
        if asked["method"] == "initialize":
            info = {"name": "noisy", "version": "1"}
            answer = {"result": {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": info}}
        elif asked["method"] == "tools/call":
            answer = says("here")
        return JSONResponse({"jsonrpc": "2.0", "id": asked["id"], **answer}, headers={"mcp-session-id": "s"})

    async def noise(self) -> AsyncIterator[bytes]:
        for _ in range(MANY):
            yield self.event
            self.sent += 1
        await anyio.sleep_forever()


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (b"data: oops\n\n", "an event that is not JSON-RPC"),
        (b"event: oops\ndata: 1\n\n", "an event of an unknown type"),
        (
            b'data: {"jsonrpc": "2.0", "method": "notifications/message", "params": {}}\n\n',
            "a malformed notifications/message",
        ),
    ],
    ids=["garbage", "type", "notification"],
)
async def test_bad_events_are_counted_and_not_logged_one_by_one(
    event: bytes, kind: str, logged: pytest.LogCaptureFixture
) -> None:
    noisy = Noisy(event)

    def warnings() -> list[str]:
        return [each.getMessage() for each in logged.records if each.levelno >= logging.WARNING]

    with serving(noisy.app()) as address:
        async with McpServers({"one": {"url": f"{address}/mcp"}}) as servers:
            assert (await call(servers, "any")).structured == "here"
            await until(lambda: noisy.sent == MANY and len(warnings()) >= 3)
            assert (await call(servers, "any")).structured == "here"
    assert warnings() == expected_lines(kind)
    assert [record for record in logged.records if record.exc_info] == []


async def test_a_server_that_sends_too_many_is_read_more_slowly_and_no_other_is() -> None:
    flooding, other = DroppedMessages("flooding"), DroppedMessages("other")
    began = anyio.current_time()
    for _ in range(1_000):
        flooding.note("any")
        await flooding.pace()
    assert anyio.current_time() - began >= 0.9  # 100 in a tenth of a second
    for _ in range(99):
        other.note("any")
    with anyio.CancelScope() as scope:  # what waits is cancelled
        scope.cancel()
        await other.pace()
    assert not scope.cancelled_caught
