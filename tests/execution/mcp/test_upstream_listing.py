"""The tools of a server, as it lists them and as it changes them."""

from typing import Any

import anyio
import pytest
from execution.mcp.calling import call, says, scripted_server
from waiting import PATIENCE, until

from toolcrib.errors import (
    ServerUnavailableError,
)
from toolcrib.execution.mcp import McpServers

pytestmark = pytest.mark.anyio

PID = {"result": {"structuredContent": {"pid": "$pid"}}}
ECHO = {"result": {"structuredContent": "$params"}}


async def pid_of(servers: McpServers) -> int:
    return int((await call(servers, "pid")).structured["pid"])


async def test_all_pages_are_listed_and_what_is_no_tool_is_told() -> None:
    pages = [[{"name": "a", "inputSchema": {}}, {"name": "bad"}], [], [{"name": "b", "inputSchema": {}}]]
    heard: list[Any] = []
    config = scripted_server(pages=pages)
    async with McpServers({"one": config}, on_tools=lambda *told: heard.append(told)) as servers:
        tools = await servers.tools("one")
        assert [tool.name for tool in tools] == ["a", "b"]
        assert heard[0] == ("one", tools)
        status = servers.status()["one"]
        assert status.tools == 2
        assert list(status.refused) == ["bad"]


async def test_a_server_whose_list_leads_back_to_this_gateway_is_given_up() -> None:
    heard: list[str] = []
    async with McpServers({}, on_tools=lambda name, _: heard.append(name)) as servers:
        (own,) = servers.declared_gateways()["toolcrib/gateways"]["ids"]
        servers.replace("other", scripted_server(meta={"toolcrib/gateways": {"ids": ["other"]}}))
        await servers.tools("other")
        assert servers.declared_gateways()["toolcrib/gateways"]["ids"] == [own, "other"]
        servers.replace("back", scripted_server(meta={"toolcrib/gateways": {"ids": ["other", own]}}))
        with pytest.raises(ServerUnavailableError, match="leads back to this gateway through others"):
            await servers.tools("back")
        await until(lambda: servers.status()["back"].state == "failed", "its connection is ended")
        assert "take it out of the configuration" in (servers.status()["back"].last_error or "")
        assert heard == ["other"]


async def test_listings_at_once_are_shared() -> None:
    async with McpServers({"one": scripted_server(calls={"pid": [PID]})}) as servers:
        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(servers.tools, "one")
        assert servers.status()["one"].tools == 1


async def test_a_server_without_tools_has_none() -> None:
    async with McpServers({"one": scripted_server(list="unknown")}) as servers:
        assert await servers.tools("one") == ()


@pytest.mark.parametrize(("way", "reason"), [("bad", "without a list"), ("endless", "does not end")])
async def test_a_listing_that_is_none_is_told_and_calls_go_on(way: str, reason: str) -> None:
    async with McpServers({"one": scripted_server(list=way, calls={"pid": [PID]})}) as servers:
        with pytest.raises(ServerUnavailableError, match=reason):
            await servers.tools("one")
        assert await pid_of(servers)


async def test_waiting_for_a_listing_fails_when_the_server_dies() -> None:
    async with McpServers({"one": scripted_server(list="exit")}) as servers:
        with anyio.fail_after(PATIENCE), pytest.raises(ServerUnavailableError, match="cannot be listed"):
            await servers.tools("one")


async def test_on_tools_that_fails_costs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: str, __: Any) -> None:
        raise LookupError("mine")

    async with McpServers({"one": scripted_server(calls={"pid": [PID]})}, on_tools=fail) as servers:
        assert len(await servers.tools("one")) == 1
        assert await pid_of(servers)
    assert "on_tools failed for server 'one'" in caplog.text


async def test_a_storm_of_changes_is_followed_with_few_listings() -> None:
    change = {"notify": "notifications/tools/list_changed"}
    heard: list[str] = []
    config = scripted_server(calls={"storm": [change] * 500 + [says("over")]})
    async with McpServers({"one": config}, on_tools=lambda name, _: heard.append(name)) as servers:
        await servers.tools("one")
        before = len(heard)
        await call(servers, "storm")
        await until(lambda: len(heard) > before, "the change was followed")
        assert len(heard) - before < 100


async def test_a_storm_of_changes_whose_listings_fail_is_followed_ever_more_rarely(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = scripted_server(list="storm", calls={"pid": [PID]})
    async with McpServers({"one": config}, on_tools=lambda *_: None) as servers:
        await pid_of(servers)
        await until(lambda: servers.status()["one"].stderr.count("listed") >= 3, "it was listed again")
        with anyio.move_on_after(0.5):
            await anyio.sleep_forever()
        assert servers.status()["one"].stderr.count("listed") < 14
        for _ in range(3):  # whoever asks does not wait for that
            with anyio.fail_after(PATIENCE), pytest.raises(ServerUnavailableError, match="cannot be listed"):
                await servers.tools("one")
    assert sum("cannot be listed" in each.message for each in caplog.records) <= 5
