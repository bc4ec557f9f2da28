"""Token costs of the tools."""

import json
from pathlib import Path
from typing import Any

import pytest
from gateway.frontends.meta.asking import call_tool, crib_of_tools, face_of

from toolcrib.discovery import Index
from toolcrib.gateway.frontends.meta.catalog_summary import CatalogSummary
from toolcrib.gateway.frontends.meta.token_usage import TokenUsage, measure_usage, tool_tokens
from toolcrib.model import Tool, ToolAnnotations


def made(number: int, **more: object) -> Tool:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    return Tool(name=f"t{number}", description="Do something.", input_schema=schema, **more)


def test_the_definition_of_a_tool_is_counted_as_its_server_lists_it() -> None:
    assert tool_tokens(made(1)) == tool_tokens(made(1, namespace="far", version="1.0.0", tags=("a", "b")))
    assert 10 < tool_tokens(made(1)) < 50


def test_all_definitions_are_counted_and_counted_again_where_they_change() -> None:
    index = Index()
    index.register_many([(made(number), None) for number in range(60)])
    total = sum(tool_tokens(index.get(f"t{number}")) for number in range(60))
    assert measure_usage(index, 10) == (total, 10, 60)
    index.unregister("t3")
    index.register(made(4, title="A title"))
    more = tool_tokens(made(4, title="A title")) - tool_tokens(made(4)) - tool_tokens(made(3))
    assert measure_usage(index, 10) == (total + more, 10, 59)


class Restless(Index):
    """A catalogue that changes while it is read."""

    def get(self, tool_id: Any) -> Tool:
        if "gone" in self:
            self.unregister("gone")
        return super().get(tool_id)


def test_a_catalogue_may_change_while_it_is_read() -> None:
    hints = ToolAnnotations(destructive_hint=True)
    many = [(made(number, annotations=hints), None) for number in range(100)]
    counted, seen = Restless(), Restless()
    for index in (counted, seen):
        index.register_many([*many, (Tool(name="gone", input_schema={}, annotations=hints), None)])
    assert measure_usage(counted, 0).direct == sum(tool_tokens(tool) for tool, _ in many)
    portrait = CatalogSummary(seen)
    assert len(portrait.destructive()) == 100
    assert portrait.destructive() is portrait.destructive()


def test_an_empty_catalogue_costs_nothing() -> None:
    assert measure_usage(Index(), 10) == (0, 10, 0)
    assert TokenUsage(0, 10, 0).saved == 0.0
    assert TokenUsage(100, 10, 5).saved == 0.9


@pytest.mark.anyio
async def test_frontend_measures_its_tools_and_results_carry_no_receipt() -> None:
    face = face_of(crib_of_tools(), code=False)
    usage = face.measure_tokens()
    assert usage.tools == 6
    assert usage.direct > 100
    assert usage.surface > 500
    assert (await call_tool(face, "list_tools", {})).meta is None


def test_real_definitions_take_about_a_token_for_every_four_characters(data: Path) -> None:
    lines = (data / "real-tools" / "mcp_tools.jsonl").read_text(encoding="utf-8").splitlines()[:200]
    tools = [Tool(name="t", input_schema=json.loads(line)["inputSchema"]) for line in lines]
    written = sum(
        len(json.dumps(tool.to_json(), ensure_ascii=False, separators=(",", ":"))) for tool in tools
    )
    assert written / 4 * 0.9 < sum(map(tool_tokens, tools)) < written / 4 * 1.1
