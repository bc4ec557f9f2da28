"""The SDK's own client, in both eras, over real HTTP."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from threading import Thread
from typing import Any

import anyio
import pytest
from gateway.little_face import LittleFace, serving
from mcp import Client, MCPError
from mcp_types import ElicitRequestParams, ElicitResult, Implementation, ToolListChangedNotification
from waiting import PATIENCE

import toolcrib
from toolcrib.gateway import Gateway
from toolcrib.gateway.results import KeptResults

pytestmark = pytest.mark.anyio
ERAS = pytest.mark.parametrize("era", ["auto", "legacy"])
VERSIONS = {"auto": "2026-07-28", "legacy": "2025-11-25"}


@pytest.fixture
async def face() -> LittleFace:
    return LittleFace()


@asynccontextmanager
async def join(face: LittleFace, era: Any, **options: Any) -> AsyncIterator[Client]:
    async with Gateway(frontends=face.take) as gateway, serving(gateway) as url:
        with anyio.fail_after(PATIENCE):
            async with Client(f"{url}/mcp", mode=era, **options) as client:
                yield client


def answering(**said: Any) -> Any:
    """Return a callback that answers every elicitation with the same result, and records the messages."""

    async def answer(_: Any, params: ElicitRequestParams) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(**said)

    asked: list[str] = []
    answer.asked = asked  # type: ignore[attr-defined]
    return answer


@ERAS
async def test_a_client_lists_and_calls_tools(face: LittleFace, era: str) -> None:
    async with join(face, era) as client:
        listed = await client.list_tools()
        answer = await client.call_tool("echo", {"a": 1})
        assert client.protocol_version == VERSIONS[era]
        assert client.server_info.name == "toolcrib"
        assert client.server_info.version == toolcrib.__version__
        assert "6 tools" in (client.instructions or "")
        assert client.server_capabilities.tools is not None
        assert client.server_capabilities.tools.list_changed is True
        assert client.server_capabilities.prompts is None
    assert [tool.name for tool in listed.tools] == face.names
    assert answer.structured_content == {"value": {"a": 1}}
    assert era == "legacy" or (listed.ttl_ms == 60_000 and listed.cache_scope == "private")


@ERAS
async def test_a_tool_that_is_not_there_and_a_page_that_is_not_are_refused(
    face: LittleFace, era: str
) -> None:
    async with join(face, era) as client:
        with pytest.raises(MCPError, match="no tool nobody"):
            await client.call_tool("nobody", {})
        for listing in (client.list_tools, client.list_resources, client.list_resource_templates):
            with pytest.raises(MCPError, match="no such page"):
                await listing(cursor="x")


@ERAS
async def test_a_call_says_who_makes_it_and_what_that_client_can(face: LittleFace, era: str) -> None:
    async with join(face, era, client_info=Implementation(name="probe", version="1")) as client:
        plain = await client.call_tool("who", {})
        told = await client.call_tool("who", {}, progress_callback=ignored)
    async with join(face, era, elicitation_callback=answering(action="decline")) as client:
        able = await client.call_tool("who", {})
    assert plain.structured_content == {"value": ["mcp:probe", False, False]}
    assert told.structured_content == {"value": ["mcp:probe", True, False]}
    assert able.structured_content == {"value": ["mcp:mcp", False, True]}


async def ignored(*_: Any) -> None:
    pass


@ERAS
async def test_progress_is_told_to_whoever_asks_for_it(face: LittleFace, era: str) -> None:
    told: list[Any] = []

    async def note(*progress: Any) -> None:
        told.append(progress)

    async with join(face, era) as client:
        await client.call_tool("count", {}, progress_callback=note)
        await client.call_tool("count", {})
    assert told == [(0, 3, "at 0"), (1, 3, "at 1"), (2, 3, "at 2")]


@ERAS
@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        ({"action": "accept", "content": {"confirm": True}}, "accepted"),
        ({"action": "accept", "content": {"confirm": False}}, "declined"),
        ({"action": "accept"}, "unanswered"),
        ({"action": "accept", "content": {"confirm": "maybe"}}, "unanswered"),
        ({"action": "decline"}, "declined"),
        ({"action": "cancel"}, "dismissed"),
    ],
    ids=["yes", "unticked", "empty", "unclear", "no", "closed"],
)
async def test_a_person_is_asked_and_the_answer_counts(
    face: LittleFace, era: str, said: dict[str, Any], verdict: str
) -> None:
    asking = answering(**said)
    async with join(face, era, elicitation_callback=asking) as client:
        answer = await client.call_tool("wipe", {"host": "a"})
    assert answer.structured_content == {"value": [verdict]}
    assert asking.asked == ["Wipe disk 0 of a?"]
    assert face.done == ["wipe"]


@ERAS
async def test_several_questions_of_one_request_are_asked_one_after_another(
    face: LittleFace, era: str
) -> None:
    asking = answering(action="accept", content={"confirm": True})
    async with join(face, era, elicitation_callback=asking) as client:
        answer = await client.call_tool("wipe", {"host": "a", "disks": 3})
    assert answer.structured_content == {"value": ["accepted"] * 3}
    assert asking.asked == ["Wipe disk 0 of a?", "Wipe disk 1 of a?", "Wipe disk 2 of a?"]
    assert face.done == ["wipe"]


@ERAS
async def test_a_client_that_cannot_ask_is_not_asked(face: LittleFace, era: str) -> None:
    async with join(face, era) as client:
        answer = await client.call_tool("wipe", {})
    assert answer.structured_content == {"value": ["unasked"]}


async def test_an_answer_counts_once_and_for_its_own_call(face: LittleFace) -> None:
    yes = {"q0": ElicitResult(action="accept", content={"confirm": True})}
    async with join(face, "auto", elicitation_callback=answering(action="decline")) as client:
        call = client.session.call_tool
        asked = await call("wipe", {"host": "a"}, allow_input_required=True)
        assert asked.result_type == "input_required"
        early = await call("wipe", {"host": "a"}, allow_input_required=True, input_responses=yes)
        assert early.result_type == "input_required"
        given = {"allow_input_required": True, "input_responses": yes, "request_state": asked.request_state}
        with pytest.raises(MCPError, match="requestState"):
            await call("wipe", {"host": "b"}, **given)
        first = await call("wipe", {"host": "a"}, **given)
        again = await call("wipe", {"host": "a"}, **given)
        forged = {**given, "request_state": "v1.forged"}
        with pytest.raises(MCPError, match="requestState"):
            await call("wipe", {"host": "a"}, **forged)
    assert first.structured_content == {"value": ["accepted"]}
    assert again.result_type == "input_required"
    assert face.done == ["wipe"]


async def test_a_client_that_fails_at_asking_has_no_answer(face: LittleFace) -> None:
    async def fail(*_: Any) -> Any:
        raise MCPError(-32000, "no screen")

    async with join(face, "legacy", elicitation_callback=fail) as client:
        answer = await client.call_tool("wipe", {})
    assert answer.structured_content == {"value": ["unanswered"]}


@ERAS
async def test_a_client_that_gives_up_ends_the_call(face: LittleFace, era: str) -> None:
    async with join(face, era) as client:
        for seconds in (0.2, 2.0, 10.0):  # a busy machine may not come to the call so soon
            with pytest.raises(MCPError):
                await client.call_tool("wait", {}, read_timeout_seconds=seconds)
            if face.started.is_set():
                break
        await face.cancelled.wait()
        assert (await client.call_tool("echo", {})).structured_content == {"value": {}}


@ERAS
async def test_a_client_that_cancels_ends_the_call(face: LittleFace, era: str) -> None:
    async with join(face, era) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "wait", {})
            await face.started.wait()
            tasks.cancel_scope.cancel()
        await face.cancelled.wait()


@pytest.mark.parametrize("apart", [False, True], ids=["in the loop", "from a thread"])
async def test_a_session_is_told_that_the_tools_changed(face: LittleFace, apart: bool) -> None:
    told = anyio.Event()

    async def note(message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            told.set()

    async with join(face, "legacy", message_handler=note) as client:
        await client.list_tools()
        while not told.is_set():  # the stream for news opens a moment after the session
            if apart:
                thread = Thread(target=face.change)
                thread.start()
                thread.join()
            else:
                face.change()
            with anyio.move_on_after(0.3):
                await told.wait()
        listed = await client.list_tools()
    assert [tool.name for tool in listed.tools] == face.names


async def test_listener_is_notified_of_changed_tools(face: LittleFace) -> None:
    async with join(face, "auto") as client, client.listen(tools_list_changed=True) as news:
        face.change()
        face.change()
        first = await anext(aiter(news))
        listed = await client.list_tools()
    assert type(first).__name__ == "ToolsListChanged"
    assert [tool.name for tool in listed.tools] == face.names


@ERAS
async def test_a_result_that_is_kept_can_be_read_by_its_address(face: LittleFace, era: str) -> None:
    async with join(face, era) as client:
        assert isinstance(face.kept, KeptResults)
        text, picture = face.kept.keep("long", "text/plain"), face.kept.keep(b"\x00\x01", "image/png")
        assert text is not None
        assert picture is not None
        assert (await client.list_resources()).resources == []
        templates = (await client.list_resource_templates()).resource_templates
        assert [each.uri_template for each in templates] == ["toolcrib://results/{id}"]
        assert (await client.read_resource(text)).contents[0].model_dump()["text"] == "long"
        assert (await client.read_resource(picture)).contents[0].model_dump()["blob"] == "AAE="
        with pytest.raises(MCPError, match="nothing is kept"):
            await client.read_resource("toolcrib://results/none")
        assert client.server_capabilities.resources is not None
        assert not client.server_capabilities.resources.subscribe
