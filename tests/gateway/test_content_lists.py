"""Lists of resources, templates and prompts: served from the cache, and announced when they grow."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from gateway.passing import ERAS, asked, list_items, whole
from mcp import Client
from mcp.client.subscriptions import listen
from waiting import PATIENCE, until

from toolcrib import Crib
from toolcrib.discovery import Scope
from toolcrib.gateway import Gateway

pytestmark = pytest.mark.anyio
GATED = Path(__file__).parent.parent / "servers" / "gated.py"
LISTS = {
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
CHANGES = {"ResourceListChangedNotification": "resources", "PromptListChangedNotification": "prompts"}
CHANGES |= {"ResourcesListChanged": "resources", "PromptsListChanged": "prompts"}


def gated_server(gate: Path) -> dict[str, Any]:
    """Return the settings of a server that hangs until a file exists, whose text becomes its name."""
    args = ["-S", "-I", str(GATED), str(gate)]
    return {"command": sys.executable, "args": args, "start_timeout": PATIENCE}


async def know(crib: Crib, *servers: str) -> None:
    """Wait until the lists of some servers are known, and of no others."""
    view = crib.view(Scope(namespaces=servers))
    with anyio.fail_after(PATIENCE):
        await view.tools()
        await view.resources()
        await view.resource_templates()
        await view.prompts()


async def everything(client: Client) -> dict[str, list[str]]:
    """Return the names of all that a gateway lists beside tools, without waiting long for any of it."""
    with anyio.fail_after(PATIENCE):
        found = {key: await list_items(client, method, key) for method, key in LISTS.items()}
    return {
        "resources": [each["uri"] for each in found["resources"]],
        "resourceTemplates": [each["uriTemplate"] for each in found["resourceTemplates"][1:]],
        "prompts": [each["name"] for each in found["prompts"]],
    }


@asynccontextmanager
async def listen_for_changes(gateway: Gateway, era: str) -> AsyncIterator[tuple[Client, list[str]]]:
    """Yield a client of a gateway, and the lists for which it receives change notifications."""
    told: list[str] = []

    async def hear(message: Any) -> None:
        told.extend([CHANGES[name]] if (name := type(message).__name__) in CHANGES else [])

    async def follow(client: Client, ready: anyio.Event) -> None:
        async with listen(client.session, resources_list_changed=True, prompts_list_changed=True) as events:
            ready.set()
            async for event in events:
                await hear(event)

    async with (
        Client(gateway.endpoint(), mode=ERAS[era], message_handler=hear) as client,  # type: ignore[arg-type]
        anyio.create_task_group() as tasks,
    ):
        if era == "stateless":
            ready = anyio.Event()
            tasks.start_soon(follow, client, ready)
            await ready.wait()
        yield client, told
        tasks.cancel_scope.cancel()


OF_WHOLE = {
    "resources": ["whole://shared", "whole://whole/own"],
    "resourceTemplates": ["whole://pages/{page}"],
    "prompts": ["whole__ask", "whole__dotted_name-3ed18ff85a6a"],
}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("expose", ["meta", "all"])
async def test_server_that_hangs_holds_up_no_list_and_is_announced_when_it_answers(
    era: str, expose: Any, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    servers = {"late": gated_server(gate), "whole": whole()}
    async with Gateway({"servers": servers}, expose=expose) as gateway:
        await know(gateway.crib, "whole")
        async with listen_for_changes(gateway, era) as (client, told):
            before = await everything(client)
            assert (before["resources"], len(before["prompts"])) == (OF_WHOLE["resources"], 2)
            assert before["resourceTemplates"] == OF_WHOLE["resourceTemplates"]
            read = await asked(client, "resources/read", uri="whole://whole/own")
            gate.write_text("late", encoding="utf-8")
            await until(lambda: {"resources", "prompts"} <= set(told), "the lists are announced")

            async def is_complete() -> bool:
                found = await everything(client)
                return [len(found[key]) for key in LISTS.values()] == [4, 2, 4]

            await until(is_complete, "all is listed")
            after = await everything(client)
    assert read["contents"][0]["text"] == "whole://whole/own of whole"
    assert after["resources"][:2] == ["whole://shared", "whole://late/own"]


async def test_lists_are_kept_and_served_before_their_servers_answer(tmp_path: Path) -> None:
    gate, config = tmp_path / "gate", {"store": str(tmp_path / "store.db")}
    gate.write_text("first", encoding="utf-8")
    servers = {"one": gated_server(gate), "two": whole("two")}
    async with Gateway({"servers": servers, **config}) as gateway:
        await know(gateway.crib, "one", "two")
        async with Client(gateway.endpoint()) as client:
            before = await everything(client)
    gate.unlink()
    async with (
        Gateway({"servers": servers, **config}) as gateway,
        listen_for_changes(gateway, "stateless") as (client, told),
    ):
        assert await everything(client) == before
        assert (await asked(client, "resources/list"))["ttlMs"] == 0
        gate.write_text("second", encoding="utf-8")
        await until(lambda: "resources" in told, "what differs is announced")
        after = await everything(client)
    assert "whole://first/own" in before["resources"]
    assert "whole://second/own" in after["resources"]
    assert "whole://first/own" not in after["resources"]


async def test_kept_lists_are_not_served_for_another_server_of_the_name(tmp_path: Path) -> None:
    gates, config = [tmp_path / "one", tmp_path / "two"], {"store": str(tmp_path / "store.db")}
    gates[0].write_text("first", encoding="utf-8")
    for gate, expected in zip(gates, (["whole://shared", "whole://first/own"], []), strict=True):
        async with Gateway({"servers": {"one": gated_server(gate)}, **config}) as gateway:
            if expected:
                await know(gateway.crib, "one")
            async with Client(gateway.endpoint()) as client:
                assert (await everything(client))["resources"] == expected
    gates[0].unlink()  # before the gateway starts, which may start the server at any moment
    async with (
        Gateway({"servers": {"one": gated_server(gates[0])}, **config}) as gateway,
        Client(gateway.endpoint()) as client,
    ):
        assert (await everything(client))["resources"] == []  # what was kept of it was forgotten


async def test_kept_list_is_what_a_crib_returns_without_starting_servers(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.write_text("one", encoding="utf-8")
    config = {"servers": {"one": gated_server(gate)}, "store": str(tmp_path / "store.db")}
    async with Crib(config) as crib:  # nothing is kept: the first list waits for its server
        first = await crib.resources(), await crib.resource_templates(), await crib.prompts()
    gate.unlink()
    async with Crib(config) as crib:
        with anyio.fail_after(PATIENCE):
            again = await crib.resources(), await crib.resource_templates(), await crib.prompts()
            assert (await crib.view(Scope(namespaces=["one"])).prompts()) == first[2]
    assert again == first
    assert [len(each) for each in first] == [2, 1, 2]


async def test_lists_of_a_server_that_a_reload_removes_are_gone_and_forgotten(tmp_path: Path) -> None:
    store = str(tmp_path / "store.db")
    gate = tmp_path / "gate"
    gate.write_text("one", encoding="utf-8")
    both = {"servers": {"one": gated_server(gate), "two": whole("two")}, "store": store}
    async with Crib(both) as crib:
        await know(crib, "one", "two")
        await crib.reload({"servers": {"two": whole("two")}, "store": store})
        assert {each.server for each in await crib.resources()} == {"two"}
        gate.unlink()
        await crib.reload(both)  # it is another start, and hangs
        with anyio.move_on_after(0.2) as waited:
            await crib.view(Scope(namespaces=["one"])).resources()
        assert waited.cancelled_caught  # nothing is known of it


async def test_restarted_server_keeps_its_lists_until_it_answers(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.write_text("one", encoding="utf-8")
    server = gated_server(gate)
    async with Crib({"servers": {"one": server}}) as crib:
        await know(crib, "one")
        gate.unlink()
        await crib.reload({"servers": {"one": {**server, "env": {"OTHER": "1"}}}})
        with anyio.fail_after(PATIENCE):
            assert [each.uri for each in await crib.resources()] == OF_WHOLE_ONE


OF_WHOLE_ONE = ["whole://shared", "whole://one/own"]


async def test_rules_hide_what_is_listed_from_the_catalogue(tmp_path: Path) -> None:
    rules = [
        {"name": "no", "tools": ["one:whole://one/*"], "effect": "deny"},
        {"name": "rest", "effect": "allow"},
    ]
    config = {"servers": {"one": whole("one")}, "store": str(tmp_path / "store.db")}
    async with Crib(config) as crib:
        await know(crib, "one")
    async with Gateway({**config, "policy": rules}) as gateway, Client(gateway.endpoint()) as client:
        assert (await everything(client))["resources"] == ["whole://shared"]
