"""Requests and notifications of servers while their tools run reach the client of the call, in all eras."""

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from execution.mcp.calling import says, scripted_server
from execution.mcp.web import serving as serving_app
from gateway.little_face import serving
from gateway.memory import MEGABYTE, forgetting
from gateway.passing import asked as answer_to
from gateway.passing import join
from gateway.relays import ERAS, RELAYS, Relay
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from servers import asking
from servers.asking import Asking, HandshakeOnly, StatelessOnly
from waiting import PATIENCE, until

from toolcrib.gateway import Gateway

pytestmark = pytest.mark.anyio
OLD, NEW = ERAS
ASKED = [relay for relay in RELAYS if relay.tool in {"sample", "form", "url", "roots"}]


class Person:
    """The client's side: the requests and notifications received, and its answers."""

    def __init__(self, name: str = "Ada") -> None:
        self.name = name
        self.asked: list[str] = []
        self.logs: list[Any] = []
        self.progress: list[Any] = []
        self.go_on = anyio.Event()
        self.go_on.set()

    def options(self) -> dict[str, Any]:
        return {
            "sampling_callback": self.think,
            "elicitation_callback": self.fill,
            "list_roots_callback": self.roots,
            "logging_callback": self.hear,
        }

    async def think(self, _: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        self.asked.append(f"think {params.system_prompt}")
        return types.CreateMessageResult(role="assistant", content=types.TextContent(text="Hi"), model="m")

    async def fill(self, _: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        self.asked.append(params.message)
        await self.go_on.wait()
        if isinstance(params, types.ElicitRequestURLParams):
            return types.ElicitResult(action="accept")
        return types.ElicitResult(action="accept", content={"name": self.name})

    async def roots(self, *_: Any) -> types.ListRootsResult:
        self.asked.append("roots")
        return types.ListRootsResult(roots=[types.Root(uri="file:///work")])  # type: ignore[arg-type]

    async def hear(self, params: types.LoggingMessageNotificationParams) -> None:
        self.logs.append(params.data)

    async def note(self, progress: float, total: float | None, message: str | None) -> None:
        self.progress.append((progress, total, message))


class Place:
    """A gateway over HTTP, before a server of each era."""

    def __init__(self, url: str, gateway: Gateway, old: Asking, new: Asking) -> None:
        self.url, self.gateway = url, gateway
        self.servers = {OLD: old, NEW: new}

    @asynccontextmanager
    async def client(self, era: str, person: Person | None = None, **options: Any) -> AsyncIterator[Client]:
        given = (person.options() if person is not None else {}) | options
        transport = streamable_http_client(f"{self.url}/mcp")
        mode: Any = ERAS[era]
        with anyio.fail_after(PATIENCE):
            async with Client(transport, mode=mode, read_timeout_seconds=PATIENCE, **given) as client:
                assert client.protocol_version == era
                yield client


async def ran(client: Client, server: str, tool: str, who: str = "", **options: Any) -> Any:
    arguments = {"tool_id": f"s{server}:{tool}", "args": {"who": who}}
    result = await client.call_tool("run_tool", arguments, **options)
    assert result.structured_content is not None
    if result.is_error:
        return result.structured_content["error"]
    return result.structured_content["structured"]


@pytest.fixture(scope="module")
def upstreams() -> Iterator[tuple[dict[str, Any], Asking, Asking]]:
    old, new = Asking(), Asking()
    with (
        serving_app(HandshakeOnly(old.server.streamable_http_app())) as first,
        serving_app(StatelessOnly(new.server.streamable_http_app())) as second,
    ):
        yield {f"s{OLD}": {"url": f"{first}/mcp"}, f"s{NEW}": {"url": f"{second}/mcp"}}, old, new


@pytest.fixture
async def place(upstreams: Any) -> AsyncIterator[Place]:
    servers, old, new = upstreams
    settings = {"servers": servers, "cache": {"ttl": 60}, "timeout": PATIENCE}
    async with Gateway(settings) as gateway, serving(gateway) as url:
        yield Place(url, gateway, old, new)


async def test_a_client_is_told_that_the_page_which_it_was_sent_to_is_done_with(place: Place) -> None:
    heard: list[Any] = []

    async def hear(message: Any) -> None:
        if isinstance(message, types.ElicitCompleteNotification):
            heard.append(message.params.elicitation_id)

    async with place.client(OLD, Person(), message_handler=hear) as client:
        assert await ran(client, OLD, "url") == "accept"
        await until(lambda: heard)
    assert heard == ["e1"]


@pytest.mark.parametrize("server", ERAS)
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("relay", RELAYS, ids=lambda relay: relay.tool)
async def test_message_crosses_the_gateway(place: Place, relay: Relay, era: str, server: str) -> None:
    person = Person()
    async with place.client(era, person, log_level="debug") as client:
        if relay.tool == "wait":
            await cancels(client, place.servers[server], server)
            return
        if relay.tool == "log" and era == OLD:
            level = types.SetLevelRequest(params=types.SetLevelRequestParams(level="debug"))
            await client.session.send_request(level, types.EmptyResult)
        assert await ran(client, server, relay.tool, "here", progress_callback=person.note) == relay.gives
    match relay.tool:
        case "count":
            assert person.progress == [(1.0, 2.0, "at 1"), (2.0, 2.0, "at 2")]
        case "log":
            assert person.logs == [{"text": "debug here"}, {"text": "warning here"}]
        case "roots":
            assert person.asked == ["roots"]
        case _:
            assert [text for text in person.asked if text.endswith("here")] == person.asked != []


async def cancels(client: Client, server: Asking, era: str) -> None:
    server.started.clear()
    server.cancelled.clear()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ran, client, era, "wait")
        await until(server.started.is_set)
        tasks.cancel_scope.cancel()
    await until(server.cancelled.is_set)


@pytest.mark.parametrize("server", ERAS)
@pytest.mark.parametrize("relay", ASKED, ids=lambda relay: relay.tool)
async def test_a_newer_client_without_the_capability_gets_the_error_of_the_protocol(
    place: Place, relay: Relay, server: str
) -> None:
    async with place.client(NEW) as client:
        with pytest.raises(MCPError) as caught:
            await ran(client, server, relay.tool)
    assert caught.value.code == types.MISSING_REQUIRED_CLIENT_CAPABILITY
    assert caught.value.data["requiredCapabilities"]


@pytest.mark.parametrize("server", ERAS)
async def test_an_older_client_without_the_capability_gets_a_failure_that_says_so(
    place: Place, server: str
) -> None:
    async with place.client(OLD) as client:
        error = await ran(client, server, "form")
    assert error["code"] == "ToolExecutionError" or "elicitation" in str(error)


@pytest.mark.parametrize("server", ERAS)
@pytest.mark.parametrize("eras", [(OLD, OLD), (NEW, NEW), (OLD, NEW)], ids="-".join)
async def test_each_client_answers_its_own_call_alone(
    place: Place, eras: tuple[str, str], server: str
) -> None:
    """Both make the same call at the same time, under the same name, of a tool whose results are cached."""
    people = Person("Ada"), Person("Bob")
    found: dict[str, Any] = {}

    async def call(person: Person, client: Client) -> None:
        found[person.name] = await ran(client, server, "form", "same")

    async with place.client(eras[0], people[0]) as first, place.client(eras[1], people[1]) as second:
        for person in people:
            person.go_on = anyio.Event()
        async with anyio.create_task_group() as tasks:
            for person, client in zip(people, (first, second), strict=True):
                tasks.start_soon(call, person, client)
                await until(lambda person=person: person.asked)
            for person in reversed(people):
                person.go_on.set()
        assert found == {"Ada": "accept Ada", "Bob": "accept Bob"}
        assert await ran(first, server, "form", "same") == "accept Ada"
    assert [len(person.asked) for person in people] == [2, 1]


async def test_a_question_on_a_pipe_that_may_be_for_either_of_two_clients_is_asked_of_neither() -> None:
    args = [str(Path(asking.__file__)), "--handshake"]
    servers = {f"s{OLD}": {"command": sys.executable, "args": args, "start_timeout": PATIENCE}}
    people = Person("Ada"), Person("Bob")
    async with Gateway({"servers": servers, "timeout": PATIENCE}) as gateway, serving(gateway) as url:
        place = Place(url, gateway, Asking(), Asking())
        async with place.client(OLD, people[0]) as first, place.client(OLD, people[1]) as second:
            assert await ran(first, OLD, "form") == "accept Ada"
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ran, first, OLD, "wait")
                await until(lambda: gateway.status()[f"s{OLD}"].in_flight == 1)
                assert await ran(first, OLD, "form", "again") == "accept Ada"
                refused = await ran(second, OLD, "form")
                tasks.cancel_scope.cancel()
    assert "requests of several clients are running" in str(refused)
    assert people[1].asked == []


async def test_a_call_on_a_pipe_whose_server_asked_for_roots_in_vain_fails_in_its_own_words() -> None:
    """On a pipe a request does not name the call that caused it: some servers list roots as they start."""
    args = [str(Path(asking.__file__)), "--handshake"]
    servers = {f"s{OLD}": {"command": sys.executable, "args": args, "start_timeout": PATIENCE}}
    async with (
        Gateway({"servers": servers, "timeout": PATIENCE}) as gateway,
        serving(gateway) as url,
        Place(url, gateway, Asking(), Asking()).client(NEW) as client,
    ):
        error = await ran(client, OLD, "roots")
    assert "refused: -32601" in error["message"]
    assert "the client does not declare roots" in error["message"]


@pytest.mark.proof
async def test_little_is_kept_of_calls_whose_pages_are_not_done_with_and_their_clients_are_still_told() -> (
    None
):
    heard: list[str] = []

    async def hear(message: Any) -> None:
        if isinstance(message, types.ElicitCompleteNotification):
            heard.append(message.params.elicitation_id)

    args = [str(Path(asking.__file__)), "--handshake"]
    servers = {f"s{OLD}": {"command": sys.executable, "args": args, "start_timeout": PATIENCE}}
    async with Gateway({"servers": servers, "timeout": PATIENCE}) as gateway, serving(gateway) as url:
        place, person = Place(url, gateway, Asking(), Asking()), Person()
        async with place.client(OLD, person, message_handler=hear) as client:
            assert await ran(client, OLD, "page") == "accept"
            async with forgetting(8 * MEGABYTE):
                for _ in range(16):
                    assert await ran(client, OLD, "page", "x" * (MEGABYTE // 2)) == "accept"
                person.asked.clear()
            assert await ran(client, OLD, "close") == "done"
            await until(lambda: len(heard) == 17)


async def asked(client: Client, server: str, tool: str, **options: Any) -> Any:
    arguments = {"tool_id": f"s{server}:{tool}", "args": {}}
    return await client.session.call_tool("run_tool", arguments, allow_input_required=True, **options)


def fill_forms(result: types.InputRequiredResult) -> dict[str, Any]:
    answer = types.ElicitResult(action="accept", content={"name": "Ada"})
    return {"input_responses": dict.fromkeys(result.input_requests or {}, answer)}


@pytest.mark.parametrize(("server", "waiting"), [(OLD, 1), (NEW, 0)])
async def test_a_call_waits_where_its_server_waits_and_is_passed_through_where_that_keeps_nothing(
    place: Place, server: str, waiting: int
) -> None:
    async with place.client(NEW, Person()) as client:
        question = await asked(client, server, "form")
        assert isinstance(question, types.InputRequiredResult)
        # The answer reaches the client before the gateway has given back the slot of its request.
        await until(lambda: place.gateway.status()[f"s{server}"].in_flight == waiting)
        done = await asked(
            client, server, "form", **fill_forms(question), request_state=question.request_state
        )
        assert done.structured_content["structured"] == "accept Ada"
        await until(lambda: place.gateway.status()[f"s{server}"].in_flight == 0)


async def test_an_answer_to_a_call_that_is_over_or_another_is_refused(place: Place) -> None:
    async with place.client(NEW, Person()) as client:
        question = await asked(client, OLD, "form")
        given = fill_forms(question) | {"request_state": question.request_state}
        with pytest.raises(MCPError, match="Invalid or expired requestState"):
            await asked(client, OLD, "both", **given)
        await asked(client, OLD, "form", **given)
        with pytest.raises(MCPError, match="is over"):
            await asked(client, OLD, "form", **given)


@pytest.mark.parametrize("server", ERAS)
async def test_unanswered_request_is_sent_again(place: Place, server: str) -> None:
    async with place.client(NEW, Person()) as client:
        question = await asked(client, server, "form")
        again = await asked(client, server, "form", input_responses={}, request_state=question.request_state)
        assert again.input_requests.keys() == question.input_requests.keys()
        done = await asked(client, server, "form", **fill_forms(again), request_state=again.request_state)
        assert done.structured_content["structured"] == "accept Ada"


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("server", ERAS)
async def test_a_tool_may_ask_for_several_things(place: Place, era: str, server: str) -> None:
    person = Person()
    async with place.client(era, person) as client:
        assert await ran(client, server, "both", "here") == "accept Ada Hi"
    assert sorted(person.asked) == ["Who? here", "think here"]


@pytest.mark.parametrize("server", ERAS)
async def test_a_chain_goes_on_where_it_asked_and_repeats_no_step(place: Place, server: str) -> None:
    person = Person()
    steps = [{"tool_id": f"s{server}:{tool}", "args": {"who": tool}} for tool in ("form", "sample", "url")]
    async with place.client(NEW, person) as client:
        result = await client.call_tool("run_chain", {"steps": steps})
    assert result.structured_content is not None
    values = [step["structured"] for step in result.structured_content["results"]]
    assert values == ["accept Ada", "Hi", "accept"]
    assert person.asked == ["Who? form", "think sample", "Log in url"]


@pytest.mark.parametrize("client_era", ["handshake", "stateless"])
@pytest.mark.parametrize("server_era", ["refuse", "modern"])
@pytest.mark.parametrize("outcome", ["result", "error"])
async def test_log_messages_that_come_in_one_piece_with_the_answer_reach_the_client(
    client_era: str, server_era: str, outcome: str
) -> None:
    person = Person()
    step = {"notify": "notifications/message", "held": True}
    logs = [step | {"params": {"level": "info", "data": number}} for number in range(3)]
    answer = says("done") if outcome == "result" else {"error": {"code": -32603, "message": "no"}}
    pages = [[{"name": "tell", "inputSchema": {"type": "object"}}]]
    server = scripted_server(discover=server_era, pages=pages, calls={"tell": [*logs, answer]})
    level = {"log_level": "debug"} if client_era == "stateless" else {}
    async with join(client_era, {"one": server}, logging_callback=person.hear, **level) as client:
        if client_era == "handshake":
            await answer_to(client, "logging/setLevel", level="debug")
        for calls in (1, 2):
            with nullcontext() if outcome == "result" else pytest.raises(MCPError, match="no"):
                await client.call_tool("tell", {})
            await until(lambda calls=calls: len(person.logs) == 3 * calls)  # type: ignore[misc]
    assert person.logs == [0, 1, 2] * 2


@pytest.mark.parametrize("server", ERAS)
async def test_log_messages_below_the_level_of_a_client_are_kept_from_it(place: Place, server: str) -> None:
    loud, quiet = Person(), Person()
    async with (
        place.client(NEW, loud, log_level="debug") as first,
        place.client(NEW, quiet, log_level="error") as second,
        place.client(NEW, Person()) as third,
    ):
        for client in (first, second, third):
            assert await ran(client, server, "log", "x") == "done"
        await until(lambda: len(loud.logs) == 2)
    assert quiet.logs == []


def test_the_table_of_the_docs_is_made_of_what_is_tested_here(root: Path) -> None:
    subprocess.run([sys.executable, root / "scripts" / "relay_table.py", "--check"], check=True)
