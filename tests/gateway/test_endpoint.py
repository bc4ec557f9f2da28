"""One endpoint, its clients in the same process."""

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from gateway.little_face import LittleFace
from mcp import Client, MCPError
from mcp_types import CreateMessageResult, ElicitResult, Implementation, TextContent
from servers.launch import python
from waiting import PATIENCE, until

from toolcrib.errors import LimitExceededError, ToolExecutionError
from toolcrib.execution import Call
from toolcrib.gateway.endpoint import McpEndpoint
from toolcrib.gateway.gateway import relay_input
from toolcrib.gateway.request import confirmation_tokens
from toolcrib.gateway.request.confirmation_tokens import ConfirmationTokens
from toolcrib.model import McpBackend, Tool

pytestmark = pytest.mark.anyio
FORM = {
    "method": "elicitation/create",
    "params": {"mode": "form", "message": "Which?", "requestedSchema": {"type": "object", "properties": {}}},
}
SAMPLE = {
    "method": "sampling/createMessage",
    "params": {"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}], "maxTokens": 5},
}


async def pick(*_: Any) -> ElicitResult:
    return ElicitResult(action="accept", content={"which": "this"})


async def think(*_: Any) -> CreateMessageResult:
    return CreateMessageResult(role="assistant", content=TextContent(text="well"), model="m")


class Asking(LittleFace):
    """A face whose `echo` sends the requests that a server would send in the middle of a call."""

    async def _echo(self, arguments: Any, client: Any) -> Any:
        tool = Tool(name="t", namespace="s", input_schema={"type": "object"})
        call = Call(tool=tool, args={}, context=client.context(), backend=McpBackend(server_name="s"))
        try:
            return await relay_input(call, arguments["asked"])
        except ToolExecutionError as error:
            return str(error)


async def relay(era: Any, asked: dict[str, Any], **options: Any) -> Any:
    with anyio.fail_after(PATIENCE):
        async with Client(McpEndpoint(Asking(), patience=0.2).server, mode=era, **options) as client:
            return (await client.call_tool("echo", {"asked": asked})).structured_content["value"]  # type: ignore[index]


async def test_a_person_who_does_not_answer_has_not_agreed() -> None:
    async def think_long(*_: Any) -> Any:
        await anyio.sleep_forever()

    with anyio.fail_after(PATIENCE):
        endpoint = McpEndpoint(LittleFace(), patience=0.1)
        async with Client(endpoint.server, mode="legacy", elicitation_callback=think_long) as client:
            answer = await client.call_tool("wipe", {})
    assert answer.structured_content == {"value": ["unanswered"]}


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_request_of_a_server_is_answered_by_the_client(era: str) -> None:
    said = await relay(era, {"a": FORM, "b": SAMPLE}, elicitation_callback=pick, sampling_callback=think)
    assert said["a"] == {"action": "accept", "content": {"which": "this"}}
    assert said["b"]["content"] == {"type": "text", "text": "well"}


@pytest.mark.parametrize(
    ("era", "asked", "options", "why"),
    [
        ("legacy", {"a": FORM}, {}, "the client cannot be asked that"),
        ("legacy", {"a": SAMPLE}, {"elicitation_callback": pick}, "the client cannot be asked that"),
        ("auto", {"a": FORM}, {}, "the client cannot be asked that"),
        ("legacy", {"a": {"method": "roots/list"}}, {}, "the client cannot be asked that"),
        ("legacy", {"a": {"method": "tasks/list"}}, {}, "'tasks/list', which cannot be passed on"),
        ("legacy", {"a": 1}, {}, "'nothing known', which cannot be passed on"),
    ],
    ids=["no forms", "no sampling", "stateless", "no roots", "unknown", "nothing"],
)
async def test_request_that_the_client_cannot_answer_fails_the_call_with_the_reason(
    era: str, asked: Any, options: Any, why: str
) -> None:
    said = await relay(era, asked, **options)
    assert why in said
    assert "needs input in the middle of the call" in said


async def test_a_client_that_refuses_or_is_silent_fails_the_call() -> None:
    async def refuse(*_: Any) -> Any:
        raise MCPError(-32000, "not today")

    async def think_long(*_: Any) -> Any:
        await anyio.sleep_forever()

    assert "refused: not today" in await relay("legacy", {"a": FORM}, elicitation_callback=refuse)
    assert "did not answer" in await relay("legacy", {"a": FORM}, elicitation_callback=think_long)


async def test_a_call_that_no_client_made_has_nobody_to_ask() -> None:
    tool = Tool(name="t", input_schema={"type": "object"})
    call = Call(tool=tool, args={}, backend=McpBackend(server_name="s"))
    with pytest.raises(ToolExecutionError, match="there is no client to ask"):
        await relay_input(call, {"a": FORM})


def test_a_used_ticket_is_none_for_as_long_as_its_seal_holds() -> None:
    clock = [0.0]
    tickets = ConfirmationTokens(600, clock=lambda: clock[0])
    first = tickets.issue({"a": "1"}, {"b": "2"})
    assert tickets.redeem(None) == ({}, {})
    assert tickets.redeem(first) == ({"a": "1"}, {"b": "2"})
    clock[0] = 600
    for _ in range(20_000):
        tickets.redeem(tickets.issue({}, {}))
    assert tickets.redeem(first) == ({}, {})
    clock[0] = 601
    tickets.redeem(tickets.issue({}, {}))
    assert tickets.redeem(first) == ({"a": "1"}, {"b": "2"})


@pytest.mark.parametrize(("account", "share"), [(("tokens", "ann"), 10), (None, 75)])
def test_used_tickets_are_remembered_up_to_a_number_beyond_which_no_answer_counts(
    monkeypatch: pytest.MonkeyPatch, account: Any, share: int
) -> None:
    monkeypatch.setattr(confirmation_tokens, "_MAX_USED", 100)  # of the 100,000 that it is
    clock = [0.0]
    tickets = ConfirmationTokens(600, clock=lambda: clock[0])
    for _ in range(share):
        assert tickets.redeem(tickets.issue({"a": "1"}, {}), account) == ({"a": "1"}, {})
    with pytest.raises(LimitExceededError, match="too many questions were answered"):
        tickets.redeem(tickets.issue({"a": "1"}, {}), account)
    assert tickets.redeem(tickets.issue({"a": "1"}, {}), ("tokens", "bob")) == ({"a": "1"}, {})
    clock[0] = 601
    assert tickets.redeem(tickets.issue({"a": "1"}, {}), account) == ({"a": "1"}, {})


class Hearing:
    """Counts the change notifications that a client of the handshake era receives."""

    def __init__(self, endpoint: McpEndpoint) -> None:
        self.endpoint = endpoint
        self.told = 0

    async def __call__(self, message: Any) -> None:
        self.told += type(message).__name__ == "ToolListChangedNotification"

    async def reaches(self, times: int) -> None:
        await until(lambda: self.told >= times)


@asynccontextmanager
async def run_listener(face: LittleFace) -> AsyncIterator[Hearing]:
    """Run an endpoint with one client that listens."""
    endpoint = McpEndpoint(face)
    hearing = Hearing(endpoint)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(endpoint.run)
        async with Client(endpoint.server, mode="legacy", message_handler=hearing) as client:
            await client.list_tools()
            yield hearing
        tasks.cancel_scope.cancel()


async def test_clients_hear_of_changes_that_they_can_see_alone() -> None:
    face = LittleFace()
    async with run_listener(face) as hearing:
        face.note()
        await until(lambda: face.looks == 2)  # it looks once more when the change has settled
        for _ in range(3):
            face.change()
        await hearing.reaches(1)
        assert hearing.endpoint.server.instructions == "It has 9 tools."
        await anyio.wait_all_tasks_blocked()
    assert hearing.told == 1


async def test_a_change_that_cannot_be_told_does_not_keep_the_next_from_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Shy(LittleFace):
        shy = False

        def tools(self) -> Any:
            if self.shy:
                self.shy = False
                raise LookupError("no words")
            return super().tools()

    face = Shy()
    async with run_listener(face) as hearing:
        face.shy = True
        face.change()
        await until(lambda: not face.shy)
        face.change()
        await hearing.reaches(1)
    assert "could not be notified of a change" in caplog.text
    assert "no words" in caplog.text


async def test_client_info_cannot_forge_log_lines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail(*_: Any) -> Any:
        raise MCPError(-32000, "no\n2026-01-01 CRITICAL forged \x1b[2J")

    face = LittleFace()
    name = Implementation(name="me\n2026-01-01 CRITICAL \x1b[2J", version="1")
    async with Client(
        McpEndpoint(face).server, mode="legacy", client_info=name, elicitation_callback=fail
    ) as client:
        await client.call_tool("wipe", {})
    assert face.callers == ["mcp:me 2026-01-01 CRITICAL [2J"]
    [said] = [record.getMessage() for record in caplog.records if record.name == "toolcrib.gateway"]
    assert "forged" in said
    assert not {"\n", "\x1b"} & set(said)


async def test_a_session_that_is_over_is_not_held() -> None:
    endpoint = McpEndpoint(LittleFace())
    async with Client(endpoint.server, mode="legacy") as client:
        await client.list_tools()
        assert endpoint.sessions == 1
    await until(lambda: not endpoint.sessions)


async def test_headers_that_belie_arguments_are_known_without_listing_tools() -> None:
    routed = {"type": "object", "properties": {"where": {"type": "string", "x-mcp-header": "Where"}}}

    class Face(LittleFace):
        def tools(self) -> list[Any]:
            return [*super().tools(), {"name": "routed", "inputSchema": routed}]

    schema = McpEndpoint(Face()).server.get_tool_input_schema
    assert schema is not None
    assert schema("routed") == routed
    assert schema("echo") is None  # there is nothing to compare
    assert schema("nobody") is None


@pytest.mark.proof
def test_spans_are_made_where_they_go_anywhere() -> None:
    code = """
import anyio
from gateway.little_face import LittleFace
from mcp import Client
from opentelemetry import trace
from toolcrib.gateway.endpoint import McpEndpoint

spans = []

class Tracer(trace.NoOpTracer):
    def start_as_current_span(self, name, *more, **options):
        spans.append(name)
        return super().start_as_current_span(name, *more, **options)

class Provider(trace.NoOpTracerProvider):
    def get_tracer(self, *_, **__):
        return Tracer()

async def main():
    async with Client(McpEndpoint(LittleFace()).server) as client:
        await client.call_tool("echo", {})
        assert spans == []
        trace.set_tracer_provider(Provider())
        await client.call_tool("echo", {})
    assert "tools/call echo" in spans

anyio.run(main)
"""
    subprocess.run(python("-c", code), check=True, cwd=Path(__file__).parent.parent)


@pytest.mark.proof
def test_the_package_is_light_and_says_what_is_missing() -> None:
    code = """
import sys
import toolcrib.gateway
heavy = {"mcp", "mcp_types", "starlette", "uvicorn", "prometheus_client", "numpy"} & set(sys.modules)
assert not heavy, heavy
assert dir(toolcrib.gateway) == toolcrib.gateway.__all__
try:
    toolcrib.gateway.Nothing
except AttributeError as error:
    assert "Nothing" in str(error)
sys.modules["prometheus_client"] = None
try:
    toolcrib.gateway.Gateway
except ImportError as error:
    print(error)
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == "the gateway needs the 'cli' extra: pip install 'toolcrib[cli]'\n"
