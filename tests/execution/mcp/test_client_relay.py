"""Requests from servers to the client, during a call and outside of one."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any

import anyio
import pytest
from execution.mcp.calling import call
from execution.mcp.web import serving
from mcp import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import METHOD_NOT_FOUND, ListRootsRequest, ListRootsResult
from servers.asking import Asking, HandshakeOnly
from waiting import until

from toolcrib.execution.call import Call, CallContext
from toolcrib.execution.mcp import McpServers
from toolcrib.execution.mcp.client_relay import RelayedCall, RunningCalls
from toolcrib.execution.mcp.content import ServerContent
from toolcrib.model import McpBackend, Tool

pytestmark = pytest.mark.anyio
ANSWERS: dict[str, dict[str, Any]] = {
    "elicitation/create": {"action": "accept", "content": {"name": "Ada"}},
    "roots/list": {"roots": [{"uri": "file:///work"}]},
}


async def answer(_: Any, requests: dict[str, Any]) -> dict[str, Any]:
    return {key: ANSWERS[request["method"]] for key, request in requests.items()}


async def test_between_requests_there_is_nobody_to_ask() -> None:
    with pytest.raises(MCPError, match="roots/list cannot be passed on: no request of a client is running"):
        await RunningCalls().answer("roots/list", None)


@pytest.mark.parametrize("handshake", [True, False], ids=["handshake", "stateless"])
async def test_a_program_answers_what_servers_ask_of_calls_and_prompts(*, handshake: bool) -> None:
    app: Any = Asking().server.streamable_http_app()
    with serving(HandshakeOnly(app) if handshake else app) as url:
        async with McpServers({"one": {"url": f"{url}/mcp"}}, on_input=answer) as servers:
            found = await call(servers, "roots")
            assert found.structured == "file:///work"
            assert found.is_personal
            assert not (await call(servers, "count")).is_personal
            prompt = await ServerContent(servers).prompt("one", "greet", {})
            assert prompt.messages[0]["content"]["text"] == "accept Ada"


@pytest.mark.parametrize("handshake", [True, False], ids=["handshake", "stateless"])
async def test_a_server_that_nobody_answers_is_not_told_that_it_can_ask(*, handshake: bool) -> None:
    asking = Asking()
    app: Any = asking.server.streamable_http_app()
    with serving(HandshakeOnly(app) if handshake else app) as url:
        async with McpServers({"one": {"url": f"{url}/mcp"}}) as servers:
            await call(servers, "count")
    declared = asking.sessions[0].client_capabilities
    assert (declared.roots, declared.sampling, declared.elicitation) == (None, None, None)


class Peer:
    """A client that expects no requests."""

    def __init__(self, peer: object, *capabilities: str) -> None:
        self.peer, self.capabilities = peer, {name: {} for name in capabilities}
        self.log_level = None


def relayed(on_input: Any, peer: str, *capabilities: str) -> RelayedCall:
    tool = Tool(name="t", namespace="s", input_schema={"type": "object"})
    context = CallContext(client=Peer(peer, *capabilities))  # type: ignore[arg-type]
    made = Call(tool=tool, args={}, context=context, backend=McpBackend(server_name="s"))
    return RelayedCall(made, on_input)


async def test_a_server_that_asks_without_end_is_refused_beyond_so_many_questions_at_once() -> None:
    asked, refused, go_on = list[str](), list[str](), anyio.Event()

    async def wait(_: Any, requests: dict[str, Any]) -> dict[str, Any]:
        asked.extend(requests)
        await go_on.wait()
        return {key: {} for key in requests}

    calls = RunningCalls()

    async def ask() -> None:
        try:
            await calls.answer("sampling/createMessage", {})
        except MCPError as error:
            refused.append(str(error))

    with calls.track(relayed(wait, "ann")):
        async with anyio.create_task_group() as tasks:
            for _ in range(1_000):
                tasks.start_soon(ask)
            await until(lambda: len(asked) + len(refused) == 1_000)
            assert (len(asked), len(set(refused))) == (16, 1)
            go_on.set()
        await ask()
        assert len(asked) == 17


async def test_roots_that_a_client_does_not_declare_are_refused_and_the_answer_is_its_own() -> None:
    calls, running = RunningCalls(), relayed(answer, "ann")
    with track_elsewhere(calls, running):
        with pytest.raises(MCPError, match="the client does not declare roots") as refused:
            await calls.answer("roots/list", None)
        assert refused.value.code == METHOD_NOT_FOUND
        assert running.was_asked


@contextmanager
def track_elsewhere(calls: RunningCalls, running: RelayedCall) -> Iterator[None]:
    """Track a request in another context, as on a pipe, where messages do not name their request."""
    context, tracking = copy_context(), calls.track(running)
    context.run(tracking.__enter__)
    try:
        yield
    finally:
        context.run(tracking.__exit__, None, None, None)


async def test_a_question_about_a_call_that_was_given_up_is_not_asked_of_another_client() -> None:
    """On a pipe a server's request does not name a call: a late one may belong to another client's call."""
    clock, asked = [0.0], list[str]()

    async def note(call: Call, requests: dict[str, Any]) -> dict[str, Any]:
        asked.append(str(call.context.client and call.context.client.peer))
        return {key: ANSWERS[request["method"]] for key, request in requests.items()}

    def running(peer: str) -> RelayedCall:
        return relayed(note, peer, "roots")

    calls = RunningCalls(clock=lambda: clock[0])

    ann = running("ann")
    with track_elsewhere(calls, ann):
        await calls.answer("roots/list", None)
        ann.is_abandoned = True
    with (
        track_elsewhere(calls, running("bob")),
        pytest.raises(MCPError, match="requests of several clients are running"),
    ):
        await calls.answer("roots/list", None)
    with track_elsewhere(calls, running("ann")):
        await calls.answer("roots/list", None)
    clock[0] = 61
    with track_elsewhere(calls, running("bob")):
        await calls.answer("roots/list", None)
    assert asked == ["ann", "ann", "bob"]


class AskingWhileItLists(Asking):
    """A server that asks for something before it lists its resources."""

    async def _resources(self, *params: Any) -> Any:
        context = params[0]
        related = ServerMessageMetadata(related_request_id=context.request_id)
        await context.session.send_request(ListRootsRequest(), ListRootsResult, metadata=related)
        return await super()._resources(*params)


async def test_client_of_a_request_is_not_asked_about_the_list_that_it_needs() -> None:
    asked: list[Any] = []

    async def note(call: Call, requests: dict[str, Any]) -> dict[str, Any]:
        asked.append(call.context.client)
        return await answer(call, requests)

    app: Any = AskingWhileItLists().server.streamable_http_app()
    with serving(HandshakeOnly(app)) as url:
        async with McpServers({"one": {"url": f"{url}/mcp"}}, on_input=note) as servers:
            context = CallContext(client=Peer("ann", "roots"))  # type: ignore[arg-type]
            assert await ServerContent(servers, context).resources("one")
    assert asked == [None]
