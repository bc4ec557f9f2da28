import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import CONNECTION_CLOSED, jsonrpc_message_adapter
from waiting import PATIENCE

from toolcrib.execution.mcp.transport.dispatcher import Dispatcher

pytestmark = pytest.mark.anyio


class Far:
    """The other side of a wire."""

    def __init__(
        self, say: MemoryObjectSendStream[Any], hear: MemoryObjectReceiveStream[SessionMessage]
    ) -> None:
        self._say, self._hear = say, hear

    async def heard(self) -> dict[str, Any]:
        """Return the next message that the dispatcher sends."""
        message = (await self._hear.receive()).message
        told: dict[str, Any] = json.loads(message.model_dump_json(by_alias=True, exclude_unset=True))
        return told

    async def says(self, **message: Any) -> None:
        """Send a message to the dispatcher."""
        text = json.dumps({"jsonrpc": "2.0", **message})
        await self._say.send(SessionMessage(jsonrpc_message_adapter.validate_json(text)))

    def leaves(self) -> None:
        """Close the stream to the dispatcher."""
        self._say.close()


async def ignore(*_: Any) -> Any:
    """Do nothing."""


@asynccontextmanager
async def open_wire() -> AsyncIterator[tuple[Dispatcher, Far]]:
    """Yield a wire, and the other side of it."""
    say, read = anyio.create_memory_object_stream[Any](10)
    write, hear = anyio.create_memory_object_stream[SessionMessage](10)
    with say, read, write, hear, anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            dispatcher = Dispatcher(read, write, lambda: None)
            await tasks.start(dispatcher.run, ignore, ignore)
            yield dispatcher, Far(say, hear)
            tasks.cancel_scope.cancel()


class Asked:
    """A pending request, and its outcome."""

    result: Any = None
    error: MCPError | None = None

    async def ask(self, dispatcher: Dispatcher) -> None:
        """Ask it."""
        try:
            self.result = await dispatcher.send_plain("tools/call", {"name": "add"}, {})
        except MCPError as error:
            self.error = error


async def test_each_who_asks_gets_the_answer_to_that() -> None:
    async with open_wire() as (dispatcher, far):
        first, second = Asked(), Asked()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(first.ask, dispatcher)
            one = await far.heard()
            tasks.start_soon(second.ask, dispatcher)
            two = await far.heard()
            await far.says(id=str(two["id"]), result={"sum": 2})  # some servers write numbers as texts
            await far.says(id=one["id"], result={"sum": 1})
        assert (first.result, second.result) == ({"sum": 1}, {"sum": 2})
        assert one["params"] == {"name": "add"}


async def test_the_first_of_two_answers_counts() -> None:
    async with open_wire() as (dispatcher, far):
        asked = Asked()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(asked.ask, dispatcher)
            number = (await far.heard())["id"]
            await far.says(id=number, result={"sum": 1})
            await far.says(id=number, error={"code": -1, "message": "no"})
        assert asked.result == {"sum": 1}


async def test_an_error_is_raised_as_it_came() -> None:
    async with open_wire() as (dispatcher, far):
        asked = Asked()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(asked.ask, dispatcher)
            error = {"code": -32050, "message": "no", "data": {"why": "asked to"}}
            await far.says(id=(await far.heard())["id"], error=error)
        assert asked.error is not None
        assert asked.error.error.model_dump() == error


async def test_pending_and_later_requests_fail_when_the_connection_is_lost() -> None:
    async with open_wire() as (dispatcher, far):
        asked, late = Asked(), Asked()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(asked.ask, dispatcher)
            await far.heard()
            far.leaves()
        await late.ask(dispatcher)
        for each in (asked, late):
            assert each.error is not None
            assert each.error.code == CONNECTION_CLOSED


async def test_the_other_side_is_told_of_an_answer_that_nobody_waits_for_any_more() -> None:
    async with open_wire() as (dispatcher, far):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(Asked().ask, dispatcher)
            number = (await far.heard())["id"]
            tasks.cancel_scope.cancel()
        told = await far.heard()
        assert (told["method"], told["params"]["requestId"]) == ("notifications/cancelled", number)
        await far.says(id=number, result={})  # too late, and no harm
        asked = Asked()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(asked.ask, dispatcher)
            await far.says(id=(await far.heard())["id"], result={"sum": 1})
        assert asked.result == {"sum": 1}


async def test_request_cancelled_before_it_is_sent_is_not_sent() -> None:
    async with open_wire() as (dispatcher, far):
        with anyio.CancelScope() as scope:
            scope.cancel()
            await Asked().ask(dispatcher)
        async with anyio.create_task_group() as tasks:
            asked = Asked()
            tasks.start_soon(asked.ask, dispatcher)
            heard = await far.heard()
            assert heard["method"] == "tools/call"
            await far.says(id=heard["id"], result={})
        assert asked.result == {}
