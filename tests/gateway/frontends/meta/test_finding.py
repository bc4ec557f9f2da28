"""The meta-tools that find and explain tools."""

import sys
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from gateway.frontends.meta.asking import call_refused, crib_of_tools, face_of, given
from waiting import PATIENCE, until

from toolcrib import Crib
from toolcrib.crib import GatewaySettings
from toolcrib.discovery import LOW_CONFIDENCE, Scope
from toolcrib.gateway.frontends.meta import MetaTools
from toolcrib.model import Tool, ToolExample

pytestmark = pytest.mark.anyio


async def test_a_search_gives_summaries_with_scores() -> None:
    found = await given(face_of(crib_of_tools()), "search_tools", {"query": "delete an order"})
    best = found["tools"][0]
    assert best["id"] == "shop:drop_order"
    assert best["shortDescription"] == "Delete an order for ever."
    assert best["scoreType"] == "hybrid"
    assert best["score"] > 0
    assert 0.05 < best["confidence"] <= 1
    assert "note" not in found
    assert "inputSchema" not in best


async def test_a_hit_has_each_text_once() -> None:
    face = face_of(crib_of_tools())
    found = await given(face, "search_tools", {"query": "delete an order"})
    listed = await given(face, "list_tools", {})
    for each in [*found["tools"], *listed["tools"]]:
        assert str(each).count(each["shortDescription"]) == 1


async def test_pages_follow_each_other_and_a_cursor_of_something_else_is_refused() -> None:
    face = face_of(crib_of_tools())
    seen: list[str] = []
    args: dict[str, object] = {"limit": 2}
    while True:
        page = await given(face, "list_tools", args)
        assert page["total"] == 6
        seen += [each["id"] for each in page["tools"]]
        if "nextCursor" not in page:
            break
        args["cursor"] = page["nextCursor"]
    assert seen == ["breaks", "nothing", "shop:drop_order", "shop:order", "shop:prices:1.2.0", "wipe-all"]
    error = await call_refused(face, "search_tools", {"query": "x", "cursor": args["cursor"]})
    assert error["code"] == "validation_input"
    assert "without a cursor" in error["message"]
    first = await given(face, "search_tools", {"query": "order", "limit": 1})
    second = await given(face, "search_tools", {"query": "order", "limit": 1, "cursor": first["nextCursor"]})
    assert first["tools"] != second["tools"]


async def test_lists_are_narrowed_by_namespace_tags_and_backend() -> None:
    crib = crib_of_tools()
    crib.add(
        Tool(
            name="far",
            tags=("remote",),
            input_schema={},
            backend={"kind": "provider", "providerId": "p", "toolId": "t"},
        )
    )
    face = face_of(crib)
    assert len((await given(face, "list_tools", {"namespace": "shop"}))["tools"]) == 3
    assert [each["id"] for each in (await given(face, "list_tools", {"backend": "provider"}))["tools"]] == [
        "far"
    ]
    tagged = await given(face, "search_tools", {"query": "far", "tags": ["remote"]})
    assert [each["id"] for each in tagged["tools"]] == ["far"]


@pytest.mark.parametrize(
    ("args", "note"),
    [
        ({"namespace": "shp"}, "There is no namespace 'shp'; did you mean 'shop'?."),
        ({"backend": "nope"}, "No tool runs at 'nope'; there are mcp, provider, local, shop."),
        ({"namespace": "shop", "backend": "mcpp"}, "No tool of 'shop' runs at 'mcpp'; did you mean 'mcp'?."),
    ],
    ids=["namespace", "backend", "both"],
)
async def test_a_list_without_tools_says_what_there_is(args: dict[str, str], note: str) -> None:
    said = await given(face_of(crib_of_tools()), "list_tools", args)
    assert (said["tools"], said["note"]) == ([], note)


@pytest.mark.parametrize("query", ["", " \n"], ids=["empty", "blank"])
async def test_a_question_without_words_is_refused(query: str) -> None:
    error = await call_refused(face_of(crib_of_tools()), "search_tools", {"query": query})
    assert error["code"] == "validation_input"
    assert "query" in error["message"]


async def test_nothing_that_fits_is_said_in_plain_words() -> None:
    face = face_of(crib_of_tools({"search": {"min_confidence": LOW_CONFIDENCE}}))
    nothing = await given(face, "search_tools", {"query": "zebra xylophone"})
    assert nothing["tools"] == []
    assert nothing["note"].startswith("No tool fits this question; look through shop")
    empty = await given(face_of(Crib()), "search_tools", {"query": "anything"})
    assert empty["note"] == "No tool fits this question; the catalogue is empty."
    bare = Crib({"search": {"min_confidence": LOW_CONFIDENCE}})
    bare.add(Tool(name="t", input_schema={}, backend={"kind": "local", "name": "x"}))
    alone = await given(face_of(bare), "search_tools", {"query": "zebra xylophone"})
    assert alone["note"] == "No tool fits this question; ask in other words."


async def test_guesses_are_called_guesses_with_the_nearest_namespaces() -> None:
    crib = Crib()
    for place in ("weather", "mail"):
        crib.add(
            Tool(
                name=f"{place}_get",
                namespace=place,
                description=f"Get the {place} of a city for a person.",
                input_schema={},
                backend={"kind": "local", "name": "x"},
            )
        )
    asked = {"query": "which city has the oldest underground railway"}
    weak = await given(face_of(crib), "search_tools", asked)
    assert {each["id"] for each in weak["tools"]} == {"weather:weather_get", "mail:mail_get"}
    assert all(each["confidence"] < LOW_CONFIDENCE for each in weak["tools"])
    said = "Nothing here clearly fits this question, these are guesses; the nearest namespaces are "
    near = weak["note"].removeprefix(said).split(". ")[0]
    assert set(near.split(", ")) == {"weather", "mail"}
    assert "tell the user that there is no such tool" in weak["note"]
    one = await given(face_of(crib), "search_tools", {**asked, "namespace": "mail"})
    assert "these are guesses; the nearest namespace is mail. Ask in other words" in one["note"]


async def test_namespaces_are_told_with_their_counts() -> None:
    told = await given(face_of(crib_of_tools()), "list_namespaces", {})
    assert told == {"namespaces": ["", "shop"], "counts": {"": 3, "shop": 3}}
    assert (await given(face_of(Crib()), "list_namespaces"))["note"] == "The catalogue is empty."
    closed = Crib({"mcpServers": {}, "policy": [{"name": "closed", "effect": "deny"}]})
    note = (await given(face_of(closed), "list_namespaces"))["note"]
    assert note == "There is no tool that the rules let you use; the operator can change the rules."


async def test_a_tool_is_described_at_three_depths_without_where_it_runs() -> None:
    crib = crib_of_tools()
    crib.discovery.register_doc("shop:order", notes="Numbers begin at 1.")
    crib.discovery.register_examples("shop:order", [ToolExample(title="The first", args={"number": 1})])
    face = face_of(crib)
    summary = await given(face, "describe_tool", {"tool_id": "shop:order", "detail_level": "summary"})
    assert "tool" not in summary
    schema = await given(face, "describe_tool", {"tool_id": "shop:order"})
    assert schema["tool"]["id"] == "shop:order"
    assert schema["tool"]["inputSchema"]["required"] == ["number"]
    assert "backend" not in schema["tool"]
    full = await given(face, "describe_tool", {"tool_id": "shop:order", "detail_level": "full"})
    assert full["notes"] == "Numbers begin at 1."
    assert full["examples"][0]["args"] == {"number": 1}
    examples = await given(face, "list_tool_examples", {"tool_id": "shop:order", "max": 1})
    assert examples["examples"] == [{"title": "The first", "args": {"number": 1}}]
    none = await given(face, "list_tool_examples", {"tool_id": "nothing"})
    assert none == {"examples": [], "note": "There are no examples; describe_tool tells what the tool takes."}


async def test_a_definition_that_is_too_large_is_told_in_short_and_kept() -> None:
    crib = crib_of_tools()
    properties = {f"p{number}": {"type": "string", "description": "x" * 100} for number in range(50)}
    crib.add(
        Tool(
            name="huge",
            description="Is huge.",
            input_schema={"type": "object", "properties": properties},
            backend={"kind": "local", "name": "x"},
        )
    )
    face = face_of(crib, result_bytes=2048)
    told = await given(face, "describe_tool", {"tool_id": "huge"})
    assert told["summary"] == "Is huge."
    assert "tool" not in told
    kept = face.kept.read(told["truncated"]["uri"])
    assert kept is not None
    assert "inputSchema" in str(kept.data)


async def test_a_view_shows_its_own_tools_alone() -> None:
    crib = crib_of_tools()
    async with crib:
        face = MetaTools(crib.view(Scope(namespaces=("shop",))), GatewaySettings(), sandbox=False)
        assert (await given(face, "list_namespaces"))["namespaces"] == ["shop"]
        assert "3 tools" in (face.tools()[0].description or "")
        error = await call_refused(face, "run_tool", {"tool_id": "nothing"})
        assert error["code"] == "tool_not_found"
        assert (await given(face, "run_tool", {"tool_id": "shop:order", "args": {"number": 1}}))["structured"]


async def test_servers_that_are_not_there_are_named(tmp_path: Path) -> None:
    servers = {"broken": {"command": sys.executable, "args": ["-c", "raise SystemExit(3)"]}}
    async with Crib({"mcpServers": servers, "store": str(tmp_path / "c.db")}) as crib:
        with anyio.fail_after(PATIENCE):
            await crib.ready(PATIENCE)
            found = await given(face_of(crib, code=False), "search_tools", {"query": "x"})
    assert "Unavailable at the moment: broken" in found["note"]
    assert "SystemExit" not in found["note"]


@pytest.mark.parametrize(
    ("scope", "told"),
    [
        (Scope(namespaces=("broken",)), "Unavailable at the moment: broken"),
        (Scope(tags=("mail",)), "Unavailable at the moment: 1 server that may have tools for here"),
    ],
    ids=["named", "unnamed"],
)
async def test_a_toolset_does_not_name_servers_that_it_does_not_name(scope: Scope, told: str) -> None:
    servers = {"broken": {"command": sys.executable, "args": ["-c", "raise SystemExit(3)"]}}
    async with Crib({"mcpServers": servers, "store": "memory"}) as crib:
        face = MetaTools(crib.view(scope), GatewaySettings(), sandbox=False)
        with anyio.fail_after(PATIENCE):
            await crib.ready(PATIENCE)
            found = await given(face, "search_tools", {"query": "x"})
    assert told in found["note"]


async def test_servers_that_are_starting_are_named() -> None:
    servers = {"slow": {"command": sys.executable, "args": ["-c", "import sys; sys.stdin.read()"]}}
    async with crib_of_tools({"mcpServers": servers, "store": "memory"}) as crib:
        face = face_of(crib, code=False)
        await until(lambda: crib.status()["slow"].state == "starting")
        with anyio.fail_after(PATIENCE):
            found = await given(face, "search_tools", {"query": "an order", "namespace": "shop"})
    assert found["tools"]
    assert "Still asking for their tools: slow" in found["note"]
