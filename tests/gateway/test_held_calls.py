"""Calls of stateless clients that wait for input between two requests."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
import pytest
from gateway.little_face import LittleFace, serving
from gateway.test_principals import TOKENS, client_of, settings
from mcp import Client, MCPError
from waiting import PATIENCE, until

from toolcrib.errors import ToolExecutionError
from toolcrib.execution import Call
from toolcrib.gateway import Gateway
from toolcrib.gateway.endpoint import McpEndpoint
from toolcrib.gateway.request.client import relay_input
from toolcrib.model import McpBackend, Tool

pytestmark = pytest.mark.anyio
FORM: dict[str, Any] = {
    "method": "elicitation/create",
    "params": {"mode": "form", "message": "Which?", "requestedSchema": {"type": "object", "properties": {}}},
}
ANSWER = types.ElicitResult(action="accept", content={"which": "this"})


async def refuse(*_: Any) -> Any:
    raise AssertionError("the test answers by itself")


class Waiting(LittleFace):
    """A face whose `echo` elicits input, and records how that ends."""

    def __init__(self) -> None:
        super().__init__()
        self.ended: list[str] = []

    async def _echo(self, _: Any, client: Any) -> Any:
        tool = Tool(name="t", namespace="s", input_schema={"type": "object"})
        call = Call(tool=tool, args={}, context=client.context(), backend=McpBackend(server_name="s"))
        try:
            given = await relay_input(call, {"a": FORM})
        except ToolExecutionError as error:
            self.ended.append(str(error))
            raise
        except anyio.get_cancelled_exc_class():
            self.ended.append("cancelled")
            raise
        await client.progress(1, 2, "answered")
        self.ended.append("answered")
        return given


@asynccontextmanager
async def join(endpoint: McpEndpoint) -> AsyncIterator[Client]:
    with anyio.fail_after(PATIENCE):
        async with Client(endpoint.server, elicitation_callback=refuse) as client:
            yield client


async def ask(client: Client, **options: Any) -> Any:
    return await client.session.call_tool("echo", {}, allow_input_required=True, **options)


async def test_a_call_whose_client_does_not_come_back_is_cancelled_in_time() -> None:
    face = Waiting()
    async with join(McpEndpoint(face, patience=0.05)) as client:
        question = await ask(client)
        await until(lambda: face.ended)
        with pytest.raises(MCPError, match="make the request again, without requestState"):
            await ask(client, input_responses={"a": ANSWER}, request_state=question.request_state)
    assert "did not answer" in face.ended[0] or face.ended == ["cancelled"]


async def test_a_closed_endpoint_cancels_the_calls_that_wait() -> None:
    face = Waiting()
    endpoint = McpEndpoint(face)
    async with join(endpoint) as client:
        await ask(client)
        endpoint.close()
        await until(lambda: face.ended == ["cancelled"])


async def test_an_answer_of_another_kind_is_asked_for_again() -> None:
    face = Waiting()
    async with join(McpEndpoint(face)) as client:
        question = await ask(client)
        roots = types.ListRootsResult(roots=[])
        again = await ask(client, input_responses={"a": roots}, request_state=question.request_state)
        assert again.input_requests.keys() == {"a"}
        assert again.request_state != question.request_state
        done = await ask(client, input_responses={"a": ANSWER}, request_state=again.request_state)
    assert done.structured_content["value"]["a"] == {"action": "accept", "content": {"which": "this"}}


async def test_progress_goes_to_the_request_that_brings_the_answer() -> None:
    heard: list[Any] = []

    async def note(*progress: Any) -> None:
        heard.append(progress)

    async with join(McpEndpoint(Waiting())) as client:
        question = await ask(client)
        await ask(
            client,
            input_responses={"a": ANSWER},
            request_state=question.request_state,
            progress_callback=note,
        )
    assert heard == [(1.0, 2.0, "answered")]


async def test_a_request_that_is_cancelled_cancels_its_call() -> None:
    face = LittleFace()
    async with join(McpEndpoint(face)) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(client.call_tool, "wait", {})
        await face.started.wait()
        tasks.cancel_scope.cancel()
    with anyio.fail_after(PATIENCE):
        await face.cancelled.wait()


async def test_only_so_many_calls_wait_at_once() -> None:
    face = Waiting()
    endpoint = McpEndpoint(face, max_held=1)
    async with join(endpoint) as client:
        question = await ask(client)
        with pytest.raises(MCPError, match="1 of your calls wait for input already; answer or cancel"):
            await ask(client)
        assert "1 of your calls wait" in face.ended[0]
        await ask(client, input_responses={"a": ANSWER}, request_state=question.request_state)
        await ask(client)
    assert face.ended[1:] == ["answered"]


async def test_the_calls_of_one_principal_that_wait_leave_room_for_those_of_others() -> None:
    async with (
        served() as url,
        client_of(url, "stateless", TOKENS["ann"], elicitation_callback=refuse) as ann,
        client_of(url, "stateless", TOKENS["bob"], elicitation_callback=refuse) as bob,
    ):
        for _ in range(100):
            question = await ask(ann)
        with pytest.raises(MCPError, match="100 of your calls wait") as caught:
            await ask(ann)
        assert caught.value.data["code"] == "limit_exceeded"
        assert (await ask(bob)).input_requests
        await ask(ann, input_responses={"a": ANSWER}, request_state=question.request_state)
        assert (await ask(ann)).input_requests


async def test_the_answer_of_one_principal_does_not_reach_the_call_of_another() -> None:
    async with (
        served() as url,
        client_of(url, "stateless", TOKENS["ann"], elicitation_callback=refuse) as ann,
        client_of(url, "stateless", TOKENS["bob"], elicitation_callback=refuse) as bob,
        client_of(url, "stateless", TOKENS["ann"], elicitation_callback=refuse) as other,
    ):
        question = await ask(ann)
        given = {"input_responses": {"a": ANSWER}, "request_state": question.request_state}
        with pytest.raises(MCPError, match="Invalid or expired requestState"):
            await ask(bob, **given)
        for forged in (question.request_state[:-2] + "xx", question.request_state[::-1], "{}", "null"):
            with pytest.raises(MCPError):
                await ask(ann, **given | {"request_state": forged})
        assert (await ask(other, **given)).structured_content["value"]["a"]["action"] == "accept"
        with pytest.raises(MCPError, match="is over"):
            await ask(ann, **given)


@asynccontextmanager
async def served() -> AsyncIterator[str]:
    """Serve a face whose tool elicits input, to principals with tokens."""
    config = settings()
    del config["policy"]
    with anyio.fail_after(PATIENCE):
        async with Gateway(config, frontends=Waiting().take) as gateway, serving(gateway) as url:
            yield url
