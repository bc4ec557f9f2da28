"""The face as the protocol's own client sees it."""

from typing import Any

import mcp_types
import pytest
from gateway.frontends.meta.asking import Asking, crib_of_tools, face_of
from mcp import Client
from mcp.server.lowlevel import Server

from toolcrib.gateway.frontends.meta import MetaTools

pytestmark = pytest.mark.anyio
CALLS: list[tuple[str, dict[str, Any], bool]] = [
    ("search_tools", {"query": "an order"}, False),
    ("search_tools", {"query": "zebra"}, False),
    ("list_tools", {}, False),
    ("list_namespaces", {}, False),
    ("describe_tool", {"tool_id": "shop:order"}, False),
    ("list_tool_examples", {"tool_id": "shop:order"}, False),
    ("run_tool", {"tool_id": "nothing"}, False),
    ("run_tool", {"tool_id": "shop:prices"}, False),
    ("run_tool", {"tool_id": "breaks"}, True),
    ("run_chain", {"steps": [{"tool_id": "nothing"}]}, False),
    ("execute_code", {"code": "__out = None"}, False),
    ("execute_code", {"code": "1 / 0"}, True),
]


def served(face: MetaTools) -> Server[Any]:
    async def listed(context: Any, params: Any) -> mcp_types.ListToolsResult:  # noqa: ARG001 - the SDK's signature
        return mcp_types.ListToolsResult(tools=list(face.tools()))

    async def called(context: Any, params: mcp_types.CallToolRequestParams) -> mcp_types.CallToolResult:  # noqa: ARG001 - the same
        return await face.call(params.name, params.arguments, Asking())

    return Server("meta", on_list_tools=listed, on_call_tool=called)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_every_result_passes_the_clients_own_checks(mode: Any) -> None:
    async with crib_of_tools() as crib, Client(served(face_of(crib)), mode=mode) as client:
        assert len((await client.list_tools()).tools) == 8
        for name, args, fails in CALLS:
            result = await client.call_tool(name, args)
            assert bool(result.is_error) is fails
            assert result.structured_content is not None
            if name == "run_tool" and not fails:
                assert "structured" in result.structured_content
            if name == "run_chain":
                assert result.structured_content["final"] is None
