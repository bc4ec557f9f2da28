"""Two gateways on one PostgreSQL database: a client can begin at one and finish at the other."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from gateway.passing import asked
from gateway.support import Place, Served, connected
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult
from servers.launch import faulty, shifting
from waiting import PATIENCE, until

pytestmark = pytest.mark.anyio
SIZE = 2_000_000


@pytest.fixture
def gateways(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Served]]:
    """Serve two gateways with folders of their own, and with one key."""
    monkeypatch.setenv("TOOLCRIB_VAULT_KEY", "a key of many characters")
    tools = [{"name": "wipe", "inputSchema": {"type": "object"}, "annotations": {"destructiveHint": True}}]
    (tmp_path / "shop.json").write_text(json.dumps({"tools": tools}), encoding="utf-8")
    servers = {"shop": shifting(tmp_path / "shop.json"), "far": faulty(start_timeout=PATIENCE)}
    with ExitStack() as stack:
        running = []
        for name in "ab":
            (tmp_path / name).mkdir()
            place = Place(
                tmp_path / name, servers, store=database, timeout=PATIENCE, gateway={"expose": "all"}
            )
            running.append(stack.enter_context(Served(place)))
        yield running


async def test_answer_counts_once_at_all_gateways_together(gateways: list[Served]) -> None:
    async def unused(*_: Any) -> ElicitResult:
        return ElicitResult(action="decline")

    options = {"elicitation_callback": unused}
    async with (
        connected(gateways[0], "stateless", **options) as one,
        connected(gateways[1], "stateless", **options) as other,
    ):
        question = await one.session.call_tool("shop__wipe", {}, allow_input_required=True)
        assert question.result_type == "input_required"
        yes = ElicitResult(action="accept", content={"confirm": True})
        given: dict[str, Any] = {
            "allow_input_required": True,
            "input_responses": dict.fromkeys(question.input_requests or {}, yes),
            "request_state": question.request_state,
        }
        done = await other.session.call_tool("shop__wipe", {}, **given)
        assert done.structured_content == {"called": "wipe"}
        for client in (one, other):
            again = await client.session.call_tool("shop__wipe", {}, **given)
            assert again.result_type == "input_required"


async def test_large_result_of_one_gateway_is_read_at_the_other(gateways: list[Served]) -> None:
    async with connected(gateways[0], "stateless") as one, connected(gateways[1], "stateless") as other:
        result = await asked(one, "tools/call", name="far__big", arguments={"size": SIZE})
        uri = result["content"][1]["uri"]

        async def read() -> str | None:
            try:
                (found,) = (await other.read_resource(uri)).contents
            except MCPError:  # it is written in the background
                return None
            return getattr(found, "text", "")

        assert (await until(read)).count("x") == SIZE
