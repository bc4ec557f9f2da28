"""The meta-tools that run tools."""

import base64
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from gateway.frontends.meta.asking import (
    Asking,
    call_refused,
    call_tool,
    crib_of_tools,
    face_of,
    given,
    texts,
)
from waiting import PATIENCE, until

from toolcrib import Crib
from toolcrib.crib import GatewaySettings
from toolcrib.execution import Principal
from toolcrib.gateway.frontends.meta import MetaTools
from toolcrib.gateway.results import KeptResults
from toolcrib.model import Context

pytestmark = pytest.mark.anyio
SERVER = {"command": sys.executable, "args": ["-S", "-I", str(Path(__file__).parent / "replies.py")]}
IMAGE = {"type": "image", "data": base64.b64encode(b"pixels" * 10).decode(), "mimeType": "image/png"}


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


@pytest.fixture
async def crib() -> AsyncIterator[Crib]:
    async with Crib({"mcpServers": {"far": SERVER}, "store": "memory"}) as crib:
        yield crib


async def call_reply(face: MetaTools, result: dict[str, Any], tool: str = "far:reply") -> Any:
    return await call_tool(face, "run_tool", {"tool_id": tool, "args": {"result": result}})


async def test_a_tool_runs_and_says_what_it_is() -> None:
    face = face_of(crib_of_tools())
    ran = await given(face, "run_tool", {"tool_id": "shop:prices"})
    assert ran["structured"] == [1, 2, 3]
    assert ran["toolId"] == "shop:prices:1.2.0"
    assert ran["annotations"] == {"readOnlyHint": True, "destructiveHint": True}
    assert ran["durationMs"] >= 0
    nothing = await call_tool(face, "run_tool", {"tool_id": "nothing"})
    assert nothing.structured_content["structured"] is None
    assert "annotations" not in nothing.structured_content
    assert texts(nothing) == ["null"]


async def test_progress_is_relayed_and_the_caller_known() -> None:
    crib = crib_of_tools()
    callers = []

    @crib.add
    async def count(context: Context) -> None:
        """Count."""
        callers.append(context.caller)
        await context.progress(1, 2, "half")

    client = Asking(wants_progress=True)
    face = face_of(crib)
    await given(face, "run_tool", {"tool_id": "count"}, client)
    assert client.told == [(1, 2, "half")]
    assert callers == ["mcp:test"]
    await given(face, "run_chain", {"steps": [{"tool_id": "count"}, {"tool_id": "shop:prices"}]}, client)
    assert client.told[1:] == [(1, 2, "step_completed")]


async def test_content_of_servers_reaches_the_client_once(crib: Crib) -> None:
    face = face_of(crib, code=False)
    plain = await call_reply(face, {"content": [text_block("hello")]})
    assert plain.structured_content["structured"] == "hello"
    assert texts(plain) == ["hello"]
    spaced = await call_reply(face, {"content": [text_block('{\n  "a": 1\n}')]})
    assert texts(spaced) == ['{"a":1}']
    both = await call_reply(face, {"content": [text_block('{ "a": 1 }')], "structuredContent": {"a": 1}})
    assert texts(both) == ['{"a":1}']
    other = await call_reply(face, {"content": [text_block("one a")], "structuredContent": {"a": 1}})
    assert texts(other) == ["one a"]
    assert other.structured_content["structured"] == {"a": 1}
    none = await call_reply(face, {"content": [], "structuredContent": {"a": 1}})
    assert texts(none) == ['{"a":1}']


@pytest.mark.parametrize(
    ("value", "text"), [(3, "3"), ("two\nlines", "two\nlines"), ([1, 2], "[\n 1,\n 2\n]")]
)
async def test_the_text_of_a_wrapped_value_is_sent_as_it_is(crib: Crib, value: Any, text: str) -> None:
    face = face_of(crib, code=False, result_bytes=2048)
    wrapped = await call_reply(face, {"content": [text_block(text)], "structuredContent": {"result": value}})
    assert wrapped.structured_content["structured"] == {"result": value}
    assert texts(wrapped) == [text]
    noted = text_block(text) | {"annotations": {"priority": 1.0}}
    kept = await call_reply(face, {"content": [noted], "structuredContent": {"result": value}})
    assert kept.content[0].annotations is not None


async def test_a_wrapped_value_that_is_too_large_is_kept_whole(crib: Crib) -> None:
    face = face_of(crib, code=False, result_bytes=2048)
    wide = "[" + " " * 3000 + "1]"  # larger than its value
    for text, value in [("x" * 3000, "x" * 3000), (wide, [1])]:
        large = await call_reply(
            face, {"content": [text_block(text)], "structuredContent": {"result": value}}
        )
        assert large.structured_content["structured"] is None
        assert [block.type for block in large.content] == ["text", "resource_link"]
        kept = face.kept.read(large.content[1].uri)
        assert kept is not None
        assert json.loads(kept.data) == {"result": value}


async def test_images_and_links_are_sent_as_content_and_pointed_to(crib: Crib) -> None:
    face = face_of(crib, code=False)
    one = await call_reply(face, {"content": [IMAGE]})
    assert one.content[0].data == IMAGE["data"]
    assert one.structured_content["structured"] == {"type": "image", "mimeType": "image/png", "content": 0}
    link = {"type": "resource_link", "uri": "file:///a", "name": "a"}
    held = {
        "type": "resource",
        "resource": {"uri": "file:///b", "text": "long text", "mimeType": "text/plain"},
    }
    odd = {"type": "hologram", "depth": 3}
    many = await call_reply(face, {"content": [text_block("see"), IMAGE, link, held, odd, {"type": "image"}]})
    assert [block.type for block in many.content] == [
        "text",
        "image",
        "resource_link",
        "resource",
        "text",
        "text",
    ]
    value = many.structured_content["structured"]
    assert value[0] == "see"
    assert value[1] == {"type": "image", "mimeType": "image/png", "content": 1}
    assert value[3]["resource"] == {"uri": "file:///b", "mimeType": "text/plain"}
    own = await call_reply(face, {"content": [text_block("see"), IMAGE], "structuredContent": {"n": 1}})
    assert own.structured_content["structured"] == {"n": 1}


async def test_a_large_image_becomes_a_link_to_what_is_kept(crib: Crib) -> None:
    face = face_of(crib, code=False, result_bytes=2048)
    pixels = b"pixels" * 1000
    large = IMAGE | {"data": base64.b64encode(pixels).decode()}
    blob = {"type": "resource", "resource": {"uri": "a:b", "blob": large["data"], "mimeType": "x/y"}}
    odd = IMAGE | {"data": "*" * 5000}
    result = await call_reply(face, {"content": [text_block("see"), large, blob, odd, IMAGE]})
    assert [block.type for block in result.content] == ["text", *["resource_link"] * 3, "image"]
    kept = [face.kept.read(block.uri) for block in result.content[1:4]]
    assert [each and (each.data, each.mime_type) for each in kept] == [
        (pixels, "image/png"),
        (pixels, "x/y"),
        ("*" * 5000, "text/plain"),
    ]
    assert len(str(result.structured_content)) < 2048


async def test_texts_beside_a_value_count_too(crib: Crib) -> None:
    face = face_of(crib, code=False, result_bytes=2048)
    long = text_block("long " * 1000)
    small = await call_reply(face, {"content": [text_block("short"), long], "structuredContent": {"n": 1}})
    assert small.structured_content["structured"] == {"n": 1}
    assert [block.type for block in small.content] == ["text", "resource_link"]
    kept = face.kept.read(small.content[1].uri)
    assert kept is not None
    assert (kept.data, kept.mime_type) == (long["text"], "text/plain")
    both = await call_reply(face, {"content": [long], "structuredContent": {"n": "x" * 5000}})
    assert both.structured_content["structured"] is None
    assert [block.type for block in both.content] == ["text", "resource_link", "resource_link"]
    own = await call_reply(face, {"content": [text_block("a" * 1000), text_block("b" * 2000), IMAGE]})
    assert own.structured_content["structured"] is None
    assert [block.type for block in own.content] == ["text", "image", "resource_link"]
    many = await call_reply(face, {"content": [IMAGE] * 40})
    types = [block.type for block in many.content]
    assert types.count("image") < 20
    assert types.count("image") + types.count("resource_link") >= 40


async def test_an_image_that_cannot_be_kept_is_told_of(crib: Crib) -> None:
    kept = KeptResults(max_bytes=100)
    face = MetaTools(crib, GatewaySettings(result_bytes=1024, code=False), kept=kept)
    result = await call_reply(face, {"content": [IMAGE | {"data": "QUJD" * 1000}]})
    assert texts(result) == ["(image/png of 3,000 bytes, too large to be sent)"]


async def test_a_value_that_is_null_stays_so_beside_content(crib: Crib) -> None:
    null = {"resultType": "complete", "structuredContent": None, "content": [text_block("a"), IMAGE]}
    result = await call_reply(face_of(crib, code=False), null)
    assert result.structured_content["structured"] is None
    assert [block.type for block in result.content] == ["text", "image"]


async def test_refusal_of_a_server_is_reported_in_its_own_words(crib: Crib) -> None:
    face = face_of(crib, code=False)
    failed = await call_reply(face, {"content": [text_block("no such file: /data/x")], "isError": True})
    assert failed.structured_content["error"]["code"] == "execution_failed"
    assert "no such file: /data/x" in failed.structured_content["error"]["message"]
    wrong = await call_reply(face, {"content": [], "structuredContent": {"n": "x"}}, "far:typed")
    assert wrong.structured_content["error"]["code"] == "validation_output"
    gone = await call_refused(face, "run_tool", {"tool_id": "far:crash"})
    assert gone["code"] == "backend_unavailable"
    assert gone["retryable"] is True


async def test_a_tool_of_a_server_that_has_not_listed_yet_is_asked_about() -> None:
    client = Asking()
    async with Crib({"mcpServers": {"far": SERVER}, "store": "memory"}) as crib:
        with anyio.fail_after(PATIENCE):
            args = {"tool_id": "far:erase", "args": {"result": {"content": [text_block("gone")]}}}
            assert (await given(face_of(crib, code=False), "run_tool", args, client))["structured"] == "gone"
    assert len(client.questions) == 1


async def test_a_chain_gives_what_each_step_gave() -> None:
    face = face_of(crib_of_tools())
    steps = [
        {"id": "find", "tool_id": "shop:order", "args": {"number": 4}},
        {"tool_id": "shop:order", "args": {"number": {"$ref": "steps.find/number"}}},
        {
            "tool_id": "shop:order",
            "args": {"number": {"$ref": "previous/number"}},
            "when": {"$ref": "steps.find/number"},
        },
        {"parallel": [{"tool_id": "nothing"}, {"tool_id": "shop:prices"}]},
    ]
    ran = await given(face, "run_chain", {"steps": steps, "timeout_ms": 60_000})
    assert ran["final"] == [None, [1, 2, 3]]
    assert [step.get("toolId") for step in ran["results"]] == ["shop:order"] * 3 + [None]
    assert ran["results"][2]["structured"]["number"] == 4
    assert [part["toolId"] for part in ran["results"][3]["parts"]] == ["nothing", "shop:prices:1.2.0"]
    assert ran["results"][0]["durationMs"] >= 0


@pytest.mark.parametrize(
    ("name", "args", "where"),
    [
        ("run_tool", {"tool_id": "shop:prices"}, lambda ran: ran),
        ("run_chain", {"steps": [{"tool_id": "shop:prices"}]}, lambda ran: ran["results"][0]),
        ("execute_code", {"code": "await shop.prices()"}, lambda ran: ran["toolCalls"][0]),
    ],
    ids=["tool", "chain", "code"],
)
async def test_every_result_names_its_tool_alike(name: str, args: Any, where: Any) -> None:
    async with crib_of_tools() as crib:
        found = where(await given(face_of(crib), name, args))
    assert found["toolId"].startswith("shop:prices")
    assert "tool_id" not in found


async def test_a_chain_that_breaks_tells_where_and_what_there_was() -> None:
    face = face_of(crib_of_tools())
    steps = [{"tool_id": "shop:prices"}, {"tool_id": "breaks"}, {"tool_id": "nothing"}]
    result = await call_tool(face, "run_chain", {"steps": steps})
    error = result.structured_content["error"]
    assert error["code"] == "chain_step_failed"
    assert error["step_index"] == 1
    assert error["details"]["cause"]["code"] == "execution_failed"
    assert "the drill is broken" in error["message"]
    assert [step["structured"] for step in result.structured_content["results"]] == [[1, 2, 3], None]
    invalid = await call_refused(
        face, "run_chain", {"steps": [{"tool_id": "shop:order"}, {"tool_id": "nope"}]}
    )
    assert invalid["code"] == "tool_not_found"
    assert [problem["path"] for problem in invalid["details"]["problems"]] == ["/0/args", "/1/tool_id"]


async def test_code_runs_and_tells_what_it_called() -> None:
    async with crib_of_tools() as crib:
        face = face_of(crib)
        code = "print('hi')\n__out = (await shop.order(number=2))['total']"
        ran = await given(face, "execute_code", {"code": code, "language": "python", "max_tool_calls": 3})
        assert ran["value"] == 5.0
        assert ran["stdout"] == "hi\n"
        assert ran["toolCalls"][0]["toolId"] == "shop:order"
        assert ran["toolCalls"][0]["durationMs"] >= 0
        assert (await given(face, "execute_code", {"code": "1"}))["value"] is None
        wrong = await call_refused(face, "execute_code", {"code": "print('so far')\n1 / 0"})
        assert wrong["code"] == "execution_failed"
        assert wrong["details"]["line"] == 2
        assert wrong["details"]["stdout"] == "so far\n"
        assert "ZeroDivisionError" in wrong["details"]["traceback"]
        many = "for n in range(3):\n    await shop.order(number=n)"
        limited = await call_refused(face, "execute_code", {"code": many, "max_tool_calls": 2})
        assert limited["code"] == "limit_exceeded"
        assert limited["details"]["tool_calls"] == 2


async def test_code_that_is_switched_off_says_so() -> None:
    error = await call_refused(face_of(crib_of_tools(), code=False), "execute_code", {"code": "1"})
    assert error["code"] == "denied"
    assert "switched off" in error["message"]


async def test_the_code_of_one_client_does_not_keep_that_of_another_from_running() -> None:
    crib, hold = crib_of_tools(), anyio.Event()
    waiting = 0

    @crib.add
    async def wait() -> None:
        """Wait."""
        nonlocal waiting
        waiting += 1
        await hold.wait()

    greedy, other = Asking(can_ask=False), Asking(can_ask=False)
    greedy.principal, other.principal = Principal(client="mcp:greedy"), Principal(client="mcp:other")
    replies: list[Any] = []

    async def run() -> None:
        replies.append(
            (await call_tool(face, "execute_code", {"code": "await wait()"}, greedy)).structured_content
        )

    with anyio.fail_after(PATIENCE):
        async with crib, anyio.create_task_group() as group:
            face = face_of(crib)
            for _ in range(60):
                group.start_soon(run)
            await until(lambda: waiting and len(replies) == 60 - 5 - 32)
            assert (await given(face, "execute_code", {"code": "__out = 1"}, other))["value"] == 1
            for reply in replies:
                error = reply["error"]
                assert (error["code"], error["retryable"]) == ("backend_unavailable", True), error
                assert "busy: 32 runs of this client are already waiting; try again in" in error["message"]
            hold.set()
    assert sum("error" not in reply for reply in replies) == 37
