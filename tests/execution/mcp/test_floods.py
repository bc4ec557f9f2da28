"""Servers that send floods of anything: others have their turn of the event loop every few milliseconds."""

import gzip
from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from effort import turns_of_at_most
from execution.mcp.calling import call, says, scripted_server
from execution.mcp.test_dropped_messages import Noisy
from execution.mcp.web import serving
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from waiting import PATIENCE

from toolcrib.execution import Update
from toolcrib.execution.mcp import McpServers
from toolcrib.execution.mcp.transport.lines import DroppedMessages, read_line

pytestmark = pytest.mark.anyio
BEGUN = {"notify": "notifications/progress", "params": {"progressToken": "$token", "progress": 1}}
MESSAGE = '{"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}}'
LONGEST = 0.06
"""CPU seconds that a turn of the event loop may take; where a flood is read to its end, that is 0.1 to 4."""


@pytest.mark.parametrize(
    "step",
    [
        {"raw": "\n", "times": 65_536},
        {"raw": " \r\n", "times": 20_000},
        {"raw": "text\n", "times": 12_000},
        {"raw": "{}\n", "times": 20_000},
        {"first": "[", "raw": "{},", "times": 40_000, "last": "{}]\n"},
        {"first": "[", "raw": "{},", "times": 300_000, "last": "{}]\n"},
        {"first": "[", "raw": f"{MESSAGE},", "times": 900, "last": "{}]\n"},
        {"raw": f"{MESSAGE}\n", "times": 700},
        {"raw": '{"jsonrpc": "2.0", "method": "notifications/unknown"}\n', "times": 1_000},
        {"raw": '{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}\n', "times": 1_000},
        {"raw": '{"jsonrpc": "2.0", "id": 99999, "result": {}}\n', "times": 1_000},
        {"raw": '{"id": 99999, "result": 3}\n', "times": 1_000},
        {"raw": "oops\n", "times": 12_000, "to": "stderr"},
    ],
    ids=[
        *("blank", "space", "text", "object", "batch", "long batch", "batch of messages", "log", "unknown"),
        *("changes", "answers", "bad answers", "stderr"),
    ],
)
async def test_floods_on_a_pipe_leave_others_their_turns(step: dict[str, Any]) -> None:
    flood = scripted_server(calls={"hello": [says("hello")], "flood": [BEGUN, step]})
    async with McpServers(
        {"one": flood, "calm": scripted_server(calls={"other": [says("fine")]})}
    ) as servers:
        await call(servers, "hello")
        await call(servers, "other", server="calm")
        begun = anyio.Event()

        async def see(_: Update) -> None:
            begun.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: call(servers, "flood", emit=see))
            with anyio.fail_after(PATIENCE):
                await begun.wait()
            async with turns_of_at_most(LONGEST):
                for _ in range(20):
                    assert (await call(servers, "other", server="calm")).structured == "fine"
            tasks.cancel_scope.cancel()


class Flooding(Noisy):
    """A server whose event streams, including those of calls, never end."""

    def __init__(self, events: bytes, *, packed: bool = False) -> None:
        super().__init__(events)
        self.packed = packed

    async def meet(self, request: Request) -> Response:
        if request.method != "GET":
            return await super().meet(request)
        headers = {"content-encoding": "gzip"} if self.packed else {}
        return StreamingResponse(self.noise(), media_type="text/event-stream", headers=headers)

    async def noise(self) -> AsyncIterator[bytes]:
        while True:
            yield gzip.compress(self.event) if self.packed else self.event
            self.sent += 1
            await anyio.lowlevel.checkpoint()  # so that it is seen when nobody listens any more


@pytest.mark.parametrize(
    "events",
    [
        b"\n" * 65_536,
        b"\r" * 65_536,
        b": \n" * 20_000,
        b"data:\n\n" * 9_000,
        b"id: 1\n\n" * 8_000,
        b"retry: 1\n\n" * 6_000,
        b"event: oops\ndata: 1\n\n" * 3_000,
        b"data: oops\n\n" * 5_000,
        b"data: %s\n\n" % MESSAGE.encode() * 600,
    ],
    ids=["empty", "returns", "comments", "data", "ids", "retries", "types", "garbage", "log"],
)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
async def test_floods_of_events_leave_others_their_turns(events: bytes, packed: bool) -> None:
    flooding = Flooding(events, packed=packed)
    with serving(flooding.app()) as address:
        async with McpServers({"one": {"url": f"{address}/mcp"}}) as servers:
            await call(servers, "any")
            async with turns_of_at_most(LONGEST):
                for _ in range(30):
                    assert (await call(servers, "any")).structured == "here"


def test_a_batch_is_read_up_to_a_number_and_a_size() -> None:
    batch = f"[{','.join([MESSAGE] * 1_200)}]".encode()
    assert len(read_line(batch)) == 1_000
    assert len(read_line(batch[:-1] + b", " + b" " * 131_072 + b"1]")) == 0


async def test_useless_input_is_read_as_slowly_as_it_is_long() -> None:
    dropped = DroppedMessages("one")
    dropped.note("any", size=500 * 1024)
    began = anyio.current_time()
    await dropped.pace()
    dropped.note("any", size=200 * 1024)
    await dropped.pace()
    assert anyio.current_time() - began >= 0.2


def test_a_few_lines_between_messages_are_not_counted() -> None:
    dropped = DroppedMessages("one")
    for _ in range(100):
        dropped.note_lines(3, messages=1)
        dropped.note_lines(5, messages=0)
    assert dropped.counts == {}
    dropped.note_lines(20, messages=0)
    assert dropped.counts == {"a line without content": 17}
