"""The tools themselves while they are few, and the meta-tools in place of many."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from gateway.passing import ERAS, join, list_items, whole
from mcp import Client
from waiting import PATIENCE, until

from toolcrib import tool
from toolcrib.gateway import Gateway

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("era", ERAS)]


def adding(number: int) -> Any:
    @tool(name=f"add{number}")
    def add(first: int, second: int) -> int:
        """Add two numbers."""
        return first + second

    return add


async def names(client: Client) -> list[str]:
    return [each["name"] for each in await list_items(client, "tools/list", "tools")]


@pytest.mark.parametrize(
    ("limit", "first", "told"),
    [(5000, "change", "listed while they are few"), (100, "search_tools", "too many tools to list them")],
    ids=["few", "many"],
)
async def test_few_tools_are_listed_themselves_and_of_many_the_meta_tools(
    era: str, limit: int, first: str, told: str
) -> None:
    config = {"servers": {"whole": whole()}, "gateway": {"expose": "auto", "expose_limit": limit}}
    async with Gateway(config) as gateway:
        await gateway.crib.namespaces()
        async with Client(gateway.endpoint(), mode=ERAS[era]) as client:  # type: ignore[arg-type]
            assert (await names(client))[0] == first
            assert told in (client.instructions or "")


async def test_clients_are_told_when_tools_become_many_and_both_kinds_can_be_called_then(era: str) -> None:
    async with Gateway({"gateway": {"expose": "auto", "expose_limit": 200}}, tools=[adding(0)]) as gateway:
        heard = anyio.Event()

        async def hear(message: Any) -> None:
            if "ToolListChanged" in type(message).__name__:
                heard.set()

        options: Any = {"message_handler": hear} if era == "handshake" else {}
        async with Client(gateway.endpoint(), mode=ERAS[era], **options) as client:  # type: ignore[arg-type]
            assert await names(client) == ["add0"]
            for number in range(1, 9):
                gateway.crib.add(adding(number))
            if era == "handshake":
                with anyio.fail_after(PATIENCE):
                    await heard.wait()
            await until(lambda: _is_meta(client), "the meta-tools are listed")
            direct = await client.call_tool("add0", {"first": 1, "second": 2})
            meta = await client.call_tool("run_tool", {"tool_id": "add8", "args": {"first": 1, "second": 2}})
    assert direct.content[0].text == "3"  # type: ignore[union-attr]
    assert (meta.structured_content or {})["structured"] == 3


async def _is_meta(client: Client) -> bool:
    return "search_tools" in await names(client)


async def test_a_tool_of_the_only_server_that_is_called_like_a_meta_tool_is_that_tool(era: str) -> None:
    @tool(name="search_tools")
    def search() -> str:
        """Search the shed."""
        return "a hammer"

    async with join(era, {}, expose="auto", gateway={"tools": [search]}) as client:
        found = await client.call_tool("search_tools", {})
    assert found.content[0].text == "a hammer"  # type: ignore[union-attr]


async def test_another_choice_in_the_configuration_is_taken_up_while_it_runs(
    era: str, tmp_path: Path
) -> None:
    path = tmp_path / "toolcrib.toml"
    path.write_text('[gateway]\nexpose = "meta"\n')
    gateway = Gateway(path, tools=[adding(0)], watch=False)
    async with gateway, Client(gateway.endpoint(), mode=ERAS[era]) as client:  # type: ignore[arg-type]
        assert await _is_meta(client)
        path.write_text('[gateway]\nexpose = "all"\n')
        await gateway.reload()
        assert await names(client) == ["add0"]
