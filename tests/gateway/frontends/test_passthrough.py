"""The tools themselves, as clients of a gateway see and call them."""

from pathlib import Path
from typing import Any

import pytest
from gateway.passing import ERAS, asked, join, list_items, whole
from mcp import MCPError
from servers.launch import library
from servers.whole import CAPABILITIES, TOOLS

from toolcrib import tool

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("era", ERAS)]
LONG = "x" * 3000


async def test_the_only_server_is_listed_as_it_lists_itself(era: str) -> None:
    async with join(era, {"whole": whole()}) as client:
        found = await list_items(client, "tools/list", "tools")
        again = await list_items(client, "tools/list", "tools")
    assert found == again
    assert sorted(found, key=str) == sorted(TOOLS, key=str)


async def test_tools_of_several_servers_are_told_apart_by_their_names(era: str) -> None:
    async with join(era, {"one": whole("one"), "two": whole("two")}) as client:
        found = await list_items(client, "tools/list", "tools")
        ran = await asked(client, "tools/call", name="two__repeat", arguments={"word": "hello"})
        mended = next(each["name"] for each in found if each["name"].startswith("one__odd_name"))
    names = [each["name"] for each in found]
    assert len(set(names)) == len(names) == 2 * len(TOOLS)
    own = next(each for each in TOOLS if each["name"] == "repeat")
    assert next(each for each in found if each["name"] == "one__repeat") == own | {"name": "one__repeat"}
    assert ran["structuredContent"] == {"words": ["hello"]}
    assert "_meta" not in next(each for each in found if each["name"] == mended)


async def test_a_result_comes_as_the_server_gave_it(era: str) -> None:
    given = {
        "content": [
            {"type": "text", "text": "a", "annotations": {"audience": ["user"]}, "x-own": None},
            {"type": "image", "data": "AA==", "mimeType": "image/png", "_meta": {"a": 1}},
            {"type": "resource_link", "uri": "whole://shared", "name": "shared", "size": 5},
            {"type": "resource", "resource": {"uri": "whole://a", "text": "b", "x-own": 1}},
        ],
        "structuredContent": {"a": [1, None]},
        "_meta": {"example.com/a": 1},
        "isError": False,
        "x-unknown": {"a": 1},
    }
    async with join(era, {"whole": whole()}) as client:
        found = await asked(client, "tools/call", name="reply", arguments={"result": given})
    found["_meta"].pop("io.modelcontextprotocol/serverInfo", None)  # the envelope of the stateless era
    assert {key: found[key] for key in found if key != "resultType"} == given


async def test_a_failure_of_the_tool_and_one_of_the_protocol_come_as_they_are(era: str) -> None:
    async with join(era, {"whole": whole()}) as client:
        failed = await asked(client, "tools/call", name="fail", arguments={})
        with pytest.raises(MCPError) as refused:
            await client.call_tool("refuse", {})
        with pytest.raises(MCPError, match="no tool 'repeet'; did you mean 'repeat'"):
            await client.call_tool("repeet", {})
    assert (failed["isError"], failed["content"][0]["text"], failed["x-unknown"]) == (True, "it broke", 1)
    assert (refused.value.code, refused.value.message) == (-32042, "sign in first")
    assert refused.value.data == {"url": "https://a.example"}


async def test_arguments_that_do_not_fit_are_refused_before_the_server_sees_them(era: str) -> None:
    async with join(era, {"whole": whole()}) as client:
        refused = await asked(client, "tools/call", name="repeat", arguments={"size": 0})
    assert refused["isError"]
    assert "/size" in refused["content"][0]["text"]
    assert refused["_meta"]["toolcrib/error"]["code"] == "validation_input"


async def test_a_large_block_becomes_a_link_to_what_it_holds(era: str) -> None:
    result = {"content": [{"type": "text", "text": "short"}, {"type": "text", "text": LONG}]}
    config = {"gateway": {"result_bytes": 1024}}
    async with join(era, {"whole": whole()}, config=config) as client:
        found = await asked(client, "tools/call", name="reply", arguments={"result": result})
        short, beginning, link = found["content"]
        (read,) = (await client.read_resource(link["uri"])).contents
    assert short == result["content"][0]
    assert beginning["text"].startswith("xxxx")
    assert (link["type"], link["size"], getattr(read, "text", None)) == ("resource_link", 3000, LONG)


async def test_structured_content_of_an_output_schema_is_sent_however_large_its_text(era: str) -> None:
    config = {"gateway": {"result_bytes": 1024}}
    async with join(era, {"whole": whole()}, config=config) as client:
        found = await client.call_tool("repeat", {"word": LONG})
    assert found.structured_content == {"words": [LONG]}
    assert [block.type for block in found.content] == ["text", "resource_link"]


async def test_functions_of_the_program_are_listed_and_called_too(era: str) -> None:
    @tool(namespace="shop")
    def total(prices: list[float]) -> float:
        """Add up prices."""
        return sum(prices)

    @tool
    def order(number: int) -> dict[str, int]:
        """Return an order."""
        return {"number": number}

    @tool
    def reply() -> str:
        """Return a greeting."""
        return "here"

    async with join(era, {"whole": whole()}, gateway={"tools": [total, order, reply]}) as client:
        names = [each["name"] for each in await list_items(client, "tools/list", "tools")]
        sums = await client.call_tool("shop__total", {"prices": [1, 2]})
        ordered = await client.call_tool("order", {"number": 7})
        (taken,) = [name for name in names if name.startswith("reply-")]
        said = await client.call_tool(taken, {})
    assert sums.content[0].text == "3.0"  # type: ignore[union-attr]
    assert sums.structured_content == (3.0 if era == "stateless" else None)
    assert ordered.structured_content == {"number": 7}
    assert said.content[0].text == "here"  # type: ignore[union-attr]
    assert len(set(names)) == len(names)


async def test_highest_of_several_versions_is_listed(era: str) -> None:
    def version(number: str) -> Any:
        @tool(name="read", namespace="files", version=number)
        def read() -> str:
            """Read."""
            return number

        return read

    tools = [version("1.9.0"), version("1.10.0")]
    async with join(era, {}, gateway={"tools": tools}) as client:
        found = await list_items(client, "tools/list", "tools")
        ran = await client.call_tool("files__read", {})
    assert [each["name"] for each in found] == ["files__read"]
    assert "version" not in found[0]
    assert ran.content[0].text == "1.10.0"  # type: ignore[union-attr]


async def test_names_stay_when_servers_are_gone_and_when_the_gateway_starts_again(
    era: str, tmp_path: Path
) -> None:
    broken = {"command": "/nowhere/at/all"}
    store = {"store": str(tmp_path / "catalogue.db")}
    async with join(era, {"one": whole(), "two": whole()}, config=store) as client:
        before = {each["name"] for each in await list_items(client, "tools/list", "tools")}
    async with join(era, {"one": whole(), "two": broken}) as client:
        alone = {each["name"] for each in await list_items(client, "tools/list", "tools")}
        refused = await client.call_tool("two__repeat", {})
    assert alone == {name for name in before if name.startswith("one__")}
    assert refused.is_error
    assert (refused.meta or {})["toolcrib/error"]["code"] == "backend_unavailable"


async def test_only_what_servers_declare_is_declared(era: str) -> None:
    async with join(era, {"whole": whole()}) as client:
        having = client.server_capabilities
    async with join(era, {}) as client:
        bare = client.server_capabilities
    assert having.prompts is not None
    assert having.completions is not None
    assert having.resources is not None
    assert (having.resources.subscribe, having.resources.list_changed) == (True, True)
    assert having.logging is None
    assert "logging" not in CAPABILITIES
    assert (bare.prompts, bare.completions, bare.logging) == (None, None, None)
    assert bare.resources is not None
    assert (bare.resources.subscribe, bare.resources.list_changed) == (False, True)  # a reload may add some


async def test_a_long_list_comes_in_pages_and_a_cursor_of_another_list_is_refused(era: str) -> None:
    def numbered(number: int) -> Any:
        return tool(name=f"tool{number:04}", description="Do it.")(lambda: number)

    async with join(era, {}, gateway={"tools": [numbered(number) for number in range(1001)]}) as client:
        first = await asked(client, "tools/list")
        second = await asked(client, "tools/list", cursor=first["nextCursor"])
        for cursor in ("bm9uZQ==", "?", "x"):
            with pytest.raises(MCPError, match="no such page"):
                await asked(client, "tools/list", cursor=cursor)
    assert [each["name"] for each in second["tools"]] == ["tool1000"]
    assert len(first["tools"]) == 1000
    assert "nextCursor" not in second


async def test_instructions_include_those_of_the_servers(era: str) -> None:
    async with join(era, {"whole": whole()}) as client:
        assert client.instructions == "Use whole with care."
    async with join(era, {"one": whole("first"), "two": whole("second")}) as client:
        told = client.instructions or ""
    assert told.endswith("\n\none: Use first with care.\n\ntwo: Use second with care.")
    assert "their names begin with the server's: one, two" in told


async def test_a_server_of_the_stateless_era_is_passed_on_too(era: str) -> None:
    async with join(era, {"library": library("main")}) as client:
        (borrow,) = await list_items(client, "tools/list", "tools")
        ran = await client.call_tool("borrow", {"title": "emma"})
    assert borrow["name"] == "borrow"
    assert ran.content[0].text == "emma of main"  # type: ignore[union-attr]


async def test_a_toolset_has_its_own_tools_under_the_same_names(era: str) -> None:
    config = {"toolsets": {"safe": {"annotations": {"readOnlyHint": True}}}}
    async with join(era, {"one": whole(), "two": whole()}, toolset="safe", config=config) as client:
        names = [each["name"] for each in await list_items(client, "tools/list", "tools")]
        with pytest.raises(MCPError, match="no tool 'one__erase'"):
            await client.call_tool("one__erase", {})
    assert names == ["one__repeat", "two__repeat"]
