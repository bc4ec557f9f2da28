"""What the tools cost in tokens."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from gateway.meta.asking import called, crib_of_tools, face_of

from toolcrib.discovery import Change, Index
from toolcrib.gateway.meta.catalog_summary import CatalogSummary
from toolcrib.gateway.meta.token_usage import Receipt, TokenUsage, tool_tokens
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
    receipts = TokenUsage(index)
    stop = index.on_change(receipts.note)
    projected, complete = receipts.direct()
    assert not complete
    assert projected > 0
    assert receipts.wait(20)
    total = sum(tool_tokens(index.get(f"t{number}")) for number in range(60))
    assert receipts.direct() == (total, True)
    index.unregister("t3")
    index.register(made(4, title="A title"))
    assert receipts.direct()[1] is False
    assert receipts.wait(20)
    more = tool_tokens(made(4, title="A title")) - tool_tokens(made(4)) - tool_tokens(made(3))
    assert receipts.direct() == (total + more, True)
    stop()
    index.register(made(99))
    assert receipts.direct() == (total + more, True)


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
    receipts = TokenUsage(counted)
    assert receipts.wait(30)
    assert receipts.direct() == (sum(tool_tokens(tool) for tool, _ in many), True)
    portrait = CatalogSummary(seen)
    assert len(portrait.destructive()) == 100
    assert portrait.destructive() is portrait.destructive()


def test_a_tool_that_goes_before_it_is_counted_is_not() -> None:
    index = Index()
    index.register(made(1))
    receipts = TokenUsage(index)
    receipts.note(Change("registered", "gone", 1))
    assert receipts.wait(30)
    receipts.note(Change("registered", "gone", 1))
    assert receipts.wait(30)
    assert receipts.direct() == (tool_tokens(made(1)), True)


class Broken(Index):
    """A catalogue that fails."""

    def get(self, tool_id: Any) -> Tool:
        raise RuntimeError(tool_id)


def test_nobody_waits_for_a_count_that_failed(caplog: pytest.LogCaptureFixture) -> None:
    index = Broken()
    index.register(made(1))
    with caplog.at_level(logging.ERROR, "toolcrib"):
        assert TokenUsage(index).wait(30)
    assert "could not be counted" in caplog.text


def test_an_empty_catalogue_costs_nothing() -> None:
    receipts = TokenUsage(Index())
    assert receipts.direct()[0] == 0
    assert receipts.wait(20)
    assert receipts.direct() == (0, True)
    assert Receipt(0, 10, 0, complete=True).saved == 0.0
    assert Receipt(100, 10, 5, complete=True).saved == 0.9


@pytest.mark.anyio
async def test_each_result_says_what_it_cost() -> None:
    crib = crib_of_tools()
    face = face_of(crib, code=False)
    receipt = face.receipt(within=20)
    assert receipt.complete
    assert receipt.tools == 6
    assert receipt.direct > 100
    assert receipt.surface > 500
    small = await called(face, "run_tool", {"tool_id": "nothing"})
    large = await called(face, "list_tools", {})
    tokens = [(each.meta or {})["toolcrib/tokens"] for each in (small, large)]
    assert tokens[0]["response"] == 1
    assert tokens[1]["response"] > 100
    assert tokens[0]["surface"] == receipt.surface


def test_real_definitions_take_about_a_token_for_every_four_characters(data: Path) -> None:
    lines = (data / "real-tools" / "mcp_tools.jsonl").read_text(encoding="utf-8").splitlines()[:200]
    tools = [Tool(name="t", input_schema=json.loads(line)["inputSchema"]) for line in lines]
    written = sum(
        len(json.dumps(tool.to_json(), ensure_ascii=False, separators=(",", ":"))) for tool in tools
    )
    assert written / 4 * 0.9 < sum(map(tool_tokens, tools)) < written / 4 * 1.1
