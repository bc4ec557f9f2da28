"""Tools listed beside those of a surface: pinned ones, those for resources and prompts; and plain schemas."""

import json
import sys
from typing import Any

import pytest
from gateway.frontends.meta.asking import Asking
from gateway.little_face import serving
from gateway.passing import ERAS
from gateway.test_surfaces import client_at

from toolcrib import Crib, tool
from toolcrib.crib import GatewaySettings
from toolcrib.gateway import Gateway
from toolcrib.gateway.frontends.beside import ToolsBeside
from toolcrib.gateway.frontends.meta import MetaTools
from toolcrib.gateway.passing import wire
from toolcrib.model.schema.plain_form import to_plain_schema

pytestmark = pytest.mark.anyio
in_both_eras = pytest.mark.parametrize("era", ERAS)


@tool(namespace="shop")
def order(number: int, key: str, note: str | None = None) -> dict[str, Any]:
    """Return an order."""
    return {"number": number, "key": key, "note": note}


@tool(namespace="shop")
def stock() -> int:
    """Count the items in stock."""
    return 3


PINNED = {
    "toolsets": {
        "desk": {"tools": {"shop:order": {"name": "find_order", "fix": {"key": "k"}, "pin": True}}},
        "plain": {"plain_schemas": True, "expose": "all"},
    }
}


@in_both_eras
async def test_a_pinned_tool_is_listed_beside_the_meta_tools_in_its_shape(era: str) -> None:
    async with Gateway(PINNED, tools=[order, stock]) as gateway, serving(gateway) as url:
        async with client_at(f"{url}/mcp/desk", era) as client:
            listed = {each.name: each for each in (await client.list_tools()).tools}
            assert {"search_tools", "run_tool", "shop__find_order"} < listed.keys()
            assert "shop__stock" not in listed
            assert list(listed["shop__find_order"].input_schema["properties"]) == ["number", "note"]
            direct = await client.call_tool("shop__find_order", {"number": 7})
            assert direct.structured_content == {"number": 7, "key": "k", "note": None}
            ran = await client.call_tool("run_tool", {"tool_id": "shop:find_order", "args": {"number": 8}})
            assert (ran.structured_content or {})["structured"]["key"] == "k"
            refused = await client.call_tool("shop__find_order", {"number": 7, "key": "mine"})
            assert refused.is_error
        async with client_at(f"{url}/mcp", era) as client:
            assert "shop__find_order" not in {each.name for each in (await client.list_tools()).tools}


async def test_task_ends_at_the_frontend_that_its_call_went_to() -> None:
    crib = Crib()

    @crib.add
    def run_tool() -> int:
        """Run a tool, as one of the meta-tools is called."""
        return 5

    @crib.add(namespace="shop")
    def count() -> int:
        """Count the items in stock."""
        return 3

    settings, pinned = GatewaySettings(), ["run_tool", "shop:count"]
    beside = ToolsBeside(MetaTools(crib, settings), crib, settings, pinned=pinned)
    ran = {name: await crib.run(name) for name in pinned}
    called = await beside.call("run_tool", {"tool_id": "run_tool", "args": {}}, Asking())  # type: ignore[arg-type]
    ended = beside.finished("run_tool", lambda: ran["run_tool"], Asking.principal)
    for result in map(wire, (called, ended)):
        assert result["structuredContent"]["toolId"] == "run_tool"
    direct = wire(await beside.call("shop__count", {}, Asking()))  # type: ignore[arg-type]
    finished = wire(beside.finished("shop__count", lambda: ran["shop:count"], Asking.principal))
    assert direct["content"] == finished["content"] == [{"type": "text", "text": "3"}]


@in_both_eras
async def test_a_shaped_tool_passes_through_under_its_new_name(era: str) -> None:
    async with (
        Gateway(PINNED, tools=[order, stock]) as gateway,
        serving(gateway) as url,
        client_at(f"{url}/mcp/desk/all", era) as client,
    ):
        names = [each.name for each in (await client.list_tools()).tools]
        assert names == ["shop__find_order", "shop__stock"]
        found = await client.call_tool("shop__find_order", {"number": 1})
        assert (found.structured_content or {})["key"] == "k"


async def test_plain_schemas_are_for_clients_that_know_few_keywords() -> None:
    async with (
        Gateway(PINNED, tools=[order]) as gateway,
        serving(gateway) as url,
        client_at(f"{url}/mcp/plain", "handshake") as client,
    ):
        (listed,) = (await client.list_tools()).tools
        assert listed.output_schema is None
        assert listed.input_schema == {
            "type": "object",
            "properties": {
                "number": {"type": "integer"},
                "key": {"type": "string"},
                "note": {"type": "string", "default": None},
            },
            "required": ["number", "key"],
        }
        found = await client.call_tool(listed.name, {"number": 1, "key": "k", "note": None})
        assert not found.is_error


SERVER = """
from mcp.server.mcpserver import MCPServer
server = MCPServer("notes")

@server.resource("note://one")
def one() -> str:
    return "first note"

@server.prompt()
def greet(name: str) -> str:
    "Greet somebody."
    return f"Say hello to {name}."

server.run()
"""


@in_both_eras
async def test_resources_and_prompts_are_tools_for_clients_that_know_only_tools(era: str) -> None:
    config = {
        "servers": {"notes": {"command": sys.executable, "args": ["-c", SERVER]}},
        "gateway": {"content_tools": True},
    }
    async with Gateway(config) as gateway, serving(gateway) as url:
        await gateway.crib.ready()
        async with client_at(f"{url}/mcp", era) as client:
            names = {each.name for each in (await client.list_tools()).tools}
            assert {"search_tools", "list_resources", "read_resource", "list_prompts", "get_prompt"} <= names
            resources = (await client.call_tool("list_resources", {})).structured_content or {}
            (uri,) = [each["uri"] for each in resources["resources"]]
            read = (await client.call_tool("read_resource", {"uri": uri})).structured_content or {}
            assert read["contents"][0]["text"] == "first note"
            prompts = (await client.call_tool("list_prompts", {})).structured_content or {}
            (name,) = [each["name"] for each in prompts["prompts"]]
            arguments = {"name": name, "arguments": {"name": "Ann"}}
            prompt = (await client.call_tool("get_prompt", arguments)).structured_content or {}
            assert "Say hello to Ann." in json.dumps(prompt)
            missing = await client.call_tool("read_resource", {})
            assert missing.is_error
            unknown = await client.call_tool("read_resource", {"uri": "note://none"})
            assert unknown.is_error


@pytest.mark.parametrize(
    ("schema", "plain"),
    [
        ({}, {"type": "object", "properties": {}}),
        (
            {"allOf": [{"properties": {"a": {"type": "string"}}}, {"required": ["a"]}]},
            {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
        ),
        (
            {"properties": {"a": {"oneOf": [{"const": "x"}, {"const": "y"}]}}},
            {"type": "object", "properties": {"a": {"enum": ["x", "y"]}}},
        ),
        (
            {"properties": {"a": {"$ref": "#/$defs/t"}}, "$defs": {"t": {"type": ["array", "null"]}}},
            {"type": "object", "properties": {"a": {"type": "array", "items": {}}}},
        ),
        (
            {"oneOf": [{"properties": {"a": {}}, "required": ["a"]}, {"properties": {"b": {}}}]},
            {"type": "object", "properties": {"a": {}, "b": {}}},
        ),
    ],
)
def test_a_plain_schema_says_the_same_with_few_keywords(schema: Any, plain: dict[str, Any]) -> None:
    assert to_plain_schema(schema) == plain


def test_a_schema_that_contains_itself_has_an_end() -> None:
    tree = {"properties": {"child": {"$ref": "#"}}}
    assert len(json.dumps(to_plain_schema(tree))) < 5_000
