"""The toolbox shared by all integrations: listing, search and refusals."""

import importlib
import sys
from typing import Any

import anyio
import pytest
from anyio import to_thread
from servers import launch

from toolcrib import Crib, SyncCrib
from toolcrib.crib.config.gateway import ToolsetSettings
from toolcrib.errors import CribStateError, InvalidToolError, MissingPackageError, ToolNotFoundError
from toolcrib.execution import Principal
from toolcrib.integrations.toolbox import (
    MAX_FOUND,
    AgentTool,
    CallFailedError,
    ConsentNeededError,
    FoundTools,
    Toolbox,
)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("home")]


def named(toolbox: Toolbox) -> list[str]:
    return [each.name for each in toolbox.list_tools()]


def test_tools_are_listed_under_names_of_their_own(crib: Crib) -> None:
    assert named(Toolbox(crib, ["shop:order_total", "mail:send"])) == ["shop__order_total", "mail__send"]
    assert named(Toolbox(crib, search=True)) == ["search_tools", "run_tool"]
    assert named(Toolbox(crib, search=True, has_turns=True)) == ["search_tools"]
    assert named(Toolbox(crib, ["mail:send"], search=True, has_turns=True)) == ["mail__send", "search_tools"]


def test_a_view_has_its_own_tools_alone(crib: Crib) -> None:
    view = crib.view(ToolsetSettings(namespaces=("mail",)))
    assert named(Toolbox(view)) == ["mail__send"]


def test_highest_of_several_versions_is_listed() -> None:
    crib = Crib()
    for version in ("1.0.0", "2.0.0"):
        crib.add(lambda: 1, name="ask", namespace="a", version=version)
    (tool,) = Toolbox(crib).list_tools()
    assert tool.tool_id == "a:ask:2.0.0"
    with pytest.raises(InvalidToolError, match="is offered under the name 'a__ask'"):
        Toolbox(crib, ["a:ask:1.0.0", "a:ask:2.0.0"]).list_tools()


def test_a_tool_that_is_not_there_is_named(crib: Crib, sync_crib: SyncCrib) -> None:
    for each in (crib, sync_crib):
        with pytest.raises(ToolNotFoundError, match="shop:order_total"):
            Toolbox(each, ["shop:order_totl"]).list_tools()


def test_all_tools_of_a_crib_that_was_not_entered_are_not_known() -> None:
    crib = Crib({"mcpServers": {"text": launch.little()}})
    with pytest.raises(CribStateError, match="the servers are not running"):
        Toolbox(crib).list_tools()


async def test_servers_are_waited_for() -> None:
    async with Crib({"mcpServers": {"text": launch.little()}}) as crib:
        toolbox = Toolbox(crib)
        listed = {each.name: each for each in await toolbox.list_tools_later()}
        reply = await toolbox.call(listed["text__shout"], {"text": "a"})
        assert reply.value == {"result": "A"}


def test_rules_hide_tools_from_a_principal() -> None:
    rules = [{"name": "mine", "who": ["ann"], "tools": ["a"], "effect": "allow"}]
    crib = Crib({"policy": rules})
    for name in ("a", "b"):
        crib.add(lambda: 1, name=name)
    assert named(Toolbox(crib, principal=Principal(subject="ann"))) == ["a"]


async def test_a_search_tells_when_nothing_fits(crib: Crib) -> None:
    toolbox = Toolbox(crib, search=True)
    search = toolbox.list_tools()[0]
    reply = await toolbox.call(search, {"query": "fly to the moon in a rocket"})
    assert "tell the user that there is no such tool" in reply.value["note"]
    with pytest.raises(CallFailedError, match="say in words what you want to do") as failed:
        await toolbox.call(search, {})
    assert failed.value.is_correctable


def test_last_found_tools_stay_listed() -> None:
    crib = Crib()
    for number in range(MAX_FOUND + 2):
        crib.add(lambda: 1, name=f"tool_{number}")
    found: FoundTools[AgentTool] = FoundTools(
        Toolbox(crib, search=True, has_turns=True), lambda each, _: each
    )
    found.add([f"tool_{number}" for number in range(MAX_FOUND)])
    found.add(["tool_0", f"tool_{MAX_FOUND}", "gone"])
    names = [each.name for each in found]
    assert (len(names), names[0], "tool_0" in names, "tool_1" in names) == (
        MAX_FOUND + 1,
        "search_tools",
        True,
        False,
    )


async def test_a_closed_crib_is_a_mistake_of_the_program() -> None:
    crib = SyncCrib()
    crib.add(lambda: 1, name="one")
    toolbox = Toolbox(crib)
    (tool,) = toolbox.list_tools()
    assert (await toolbox.call(tool, {})).value == 1
    crib.close()
    with pytest.raises(CribStateError, match="closed"):
        await toolbox.call(tool, {})


async def test_a_sync_crib_is_awaited_in_another_loop(watch: Any, sync_crib: SyncCrib) -> None:
    assert await sync_crib.await_in_loop(lambda crib: crib.run("mail:send", {"to": "ada"}))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(sync_crib.await_in_loop, lambda crib: crib.run("shop:wait"))
        await to_thread.run_sync(watch.waiting.wait)
        tasks.cancel_scope.cancel()
    await to_thread.run_sync(watch.ended.wait)
    assert watch.cancelled == ["wait"]


@pytest.mark.parametrize(
    ("module", "package", "install"),
    [
        ("langchain", "langchain_core", "langchain-core"),
        ("pydantic_ai", "pydantic_ai", "pydantic-ai-slim"),
        ("crewai", "crewai", "crewai"),
        ("strands", "strands", "strands-agents"),
        ("agno", "agno", "agno"),
    ],
)
def test_a_framework_that_is_not_installed_is_named(
    module: str, package: str, install: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"toolcrib.integrations.{module}"
    monkeypatch.delitem(sys.modules, name, raising=False)
    for loaded in [each for each in sys.modules if each == package or each.startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingPackageError, match=f"pip install '{install}'"):
        importlib.import_module(name)


async def test_consent_to_a_shaped_tool_is_asked_for_and_given_under_its_new_name() -> None:
    rules = [{"name": "careful", "who": ["*"], "tools": ["shop:refund"], "effect": "ask"}]
    shapes = {"shop:refund": {"name": "pay_back", "rename": {"amount": "euros"}, "fix": {"key": "s3cret"}}}
    crib = Crib({"policy": rules, "toolsets": {"desk": {"tools": shapes}}})

    @crib.add(namespace="shop")
    def refund(amount: int, key: str) -> str:
        """Give money back."""
        return f"{amount} by {key}"

    toolbox = Toolbox(crib.view("desk"), ["shop:pay_back"])
    (tool,) = toolbox.list_tools()
    with pytest.raises(ConsentNeededError) as needed:
        await toolbox.call(tool, {"euros": 5}, consent="needed")
    asked = {"tool_id": "shop:pay_back", "args": {"euros": 5}, "reason": ""}
    assert needed.value.request == asked
    assert (await toolbox.call(tool, {"euros": 5}, consent="given")).value == "5 by s3cret"
