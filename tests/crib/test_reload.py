"""Reloading the configuration of a crib: servers kept and removed, and the effect on calls in progress."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from execution.mcp.calling import child_processes
from servers.launch import alive, descriptors
from waiting import PATIENCE, until

from toolcrib import Crib
from toolcrib.crib import Reload, Settings
from toolcrib.crib.compose import Hooks
from toolcrib.crib.engine import Engine
from toolcrib.discovery import Scope
from toolcrib.errors import (
    ConfigError,
    CribStateError,
    StoreError,
    ToolcribError,
    ToolNotFoundError,
    ToolTimeoutError,
)
from toolcrib.execution import CallContext, Principal

pytestmark = pytest.mark.anyio
# ruff: noqa: ASYNC240 - a look at a file


async def pid(crib: Crib, server: str = "text") -> int:
    with anyio.fail_after(PATIENCE):
        return int((await crib.run(f"{server}:get_pid")).structured["result"])


async def ids(crib: Crib) -> set[str]:
    with anyio.fail_after(PATIENCE):
        return {summary.id for summary in await crib.tools()}


@asynccontextmanager
async def hold_call(crib: Crib, file: Path, tool: str = "text:hold") -> AsyncIterator[list[Any]]:
    """Keep a call in progress until the block ends; the list then holds its result."""
    gave: list[Any] = []

    async def hold() -> None:
        try:
            gave.append((await crib.run(tool, {"text": str(file)})).structured["result"])
        except ToolcribError as error:
            gave.append(error)

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hold)
            await until(lambda: crib.status()["text"].in_flight == 1, "the call is under way")
            yield gave
            file.write_text("go on")


async def test_unchanged_server_keeps_its_process_and_its_tools(little: Any) -> None:
    async with Crib({"mcpServers": {"text": little()}}) as crib:
        before = await pid(crib)
        told = await crib.reload({"mcpServers": {"text": little(), "more": little("odd")}})
        assert told == Reload(added=("more",))
        assert await pid(crib) == before
        assert (await crib.run("more:shout", {"text": "a"})).structured == {"result": "A"}
        assert crib.status()["text"].starts == 1


async def test_calls_of_a_server_that_goes_end_well_and_no_other_finds_it(
    little: Any, tmp_path: Path
) -> None:
    file = tmp_path / "go"
    async with Crib({"mcpServers": {"text": little("holding"), "more": little()}}) as crib:
        old = await pid(crib)
        async with hold_call(crib, file) as gave:
            assert await crib.reload({"mcpServers": {"more": little()}}) == Reload(removed=("text",))
            with pytest.raises(ToolNotFoundError):
                await crib.run("text:get_pid")
            assert {tool.partition(":")[0] for tool in await ids(crib)} == {"more"}
            assert "text" not in crib.status()
            assert alive(old)
        assert gave == [old]
        await until(lambda: not alive(old), "the server has ended")


async def test_calls_of_a_server_that_changes_end_on_the_old_one_and_others_go_to_the_new_one(
    little: Any, tmp_path: Path
) -> None:
    file = tmp_path / "go"
    async with Crib({"mcpServers": {"text": little("holding")}}) as crib:
        old = await pid(crib)
        async with hold_call(crib, file) as gave:
            told = await crib.reload({"mcpServers": {"text": little("odd")}})
            assert told == Reload(changed=("text",))
            new = await pid(crib)
            assert new != old
            assert "text:hold" not in await ids(crib)
        assert gave == [old]
        await until(lambda: not alive(old), "the server has ended")
        assert await pid(crib) == new


async def test_a_server_that_is_only_told_another_secret_keeps_its_tools_meanwhile(little: Any) -> None:
    async with Crib({"mcpServers": {"text": little()}}) as crib:
        old = await pid(crib)
        known = await ids(crib)
        await crib.reload({"mcpServers": {"text": little("hang", env={"KEY": "2"})}})
        await crib.reload({"mcpServers": {"text": little(env={"KEY": "2"})}})
        await pid(crib)
        await crib.reload({"mcpServers": {"text": little(env={"KEY": "3"})}})
        assert {summary.id for summary in crib.discovery.tools()} == known
        assert await pid(crib) != old


async def test_a_server_that_only_gets_other_limits_keeps_its_process(little: Any) -> None:
    async with Crib({"mcpServers": {"text": little()}}) as crib:
        before = await pid(crib)
        settings = little(timeout=0.3, max_concurrency=1, required=True)
        told = await crib.reload({"mcpServers": {"text": settings}})
        assert told.changed == ("text",)
        with pytest.raises(ToolTimeoutError):
            await crib.run("text:wait_long")
        await crib.reload({"mcpServers": {"text": little()}})
        assert await pid(crib) == before


async def test_a_server_can_be_switched_off_and_on(little: Any) -> None:
    async with Crib({"mcpServers": {"text": little()}}) as crib:
        old = await pid(crib)
        told = await crib.reload({"mcpServers": {"text": little(disabled=True)}})
        assert told.removed == ("text",)
        assert await ids(crib) == set()
        assert crib.status()["text"].state == "disabled"
        told = await crib.reload({"mcpServers": {"text": little()}})
        assert told.added == ("text",)
        assert await pid(crib) != old


async def test_a_crib_without_servers_can_get_some_and_lose_them(little: Any) -> None:
    async with Crib() as crib:
        await crib.reload({"mcpServers": {"text": little()}})
        process = await pid(crib)
        assert await crib.reload(None) == Reload(removed=("text",))
        await until(lambda: not alive(process), "the server has ended")
        assert await ids(crib) == set()


async def test_results_cached_before_a_server_changed_are_dropped(little: Any) -> None:
    cached = {"cache": {"ttl": 60}}
    async with Crib(cached | {"mcpServers": {"text": little()}}) as crib:
        old = await pid(crib)
        await crib.reload(cached | {"mcpServers": {"text": little("odd")}})
        assert await pid(crib) != old


async def test_limits_of_calls_hold_from_the_next_call_on(little: Any) -> None:
    servers = {"mcpServers": {"text": little()}}
    async with Crib(servers) as crib:
        await pid(crib)
        before = crib.settings
        assert await crib.reload(servers | {"timeout": 0.3}) == Reload()
        with pytest.raises(ToolTimeoutError):
            await crib.run("text:wait_long")
        await crib.reload(servers | {"limits": {"result_bytes": 10}})
        with pytest.raises(ToolcribError, match="bytes"):
            await crib.run("text:shout", {"text": "a" * 100})
        await crib.reload(before)
        assert crib.settings is before


async def test_settings_that_need_a_restart_are_reported_until_reverted(tmp_path: Path) -> None:
    async with Crib() as crib:
        other = {"store": str(tmp_path / "other.db"), "search": {"searcher": "bm25", "min_confidence": 0.5}}
        assert (await crib.reload(other)).later == ("store", "search.searcher")
        assert (await crib.reload(other)).later == ("store", "search.searcher")
        assert (await crib.reload(None)).later == ()
    assert not (tmp_path / "other.db").exists()


async def test_an_audit_begins_at_once(tmp_path: Path) -> None:
    async with Crib() as crib:

        @crib.add
        def add(a: int, b: int) -> int:
            return a + b

        await crib.reload({"audit": {"path": str(tmp_path / "audit.jsonl")}})
        await crib.run("add", {"a": 1, "b": 2})
    assert json.loads((tmp_path / "audit.jsonl").read_text())["gen_ai.tool.name"] == "add"


async def test_an_audit_is_whole_when_another_has_taken_its_place(tmp_path: Path) -> None:
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    async with Crib({"audit": {"path": str(first)}}) as crib:

        @crib.add
        def add(a: int) -> int:
            return a

        for number in range(200):
            await crib.run("add", {"a": number})
        await crib.reload({"audit": {"path": str(second)}})
        assert len(first.read_text().splitlines()) == 200


async def test_settings_that_cannot_work_change_nothing(little: Any, tmp_path: Path) -> None:
    async with Crib({"mcpServers": {"text": little()}}) as crib:
        before, settings = await pid(crib), crib.settings
        with pytest.raises(ConfigError):
            await crib.reload({"mcpServers": {"more": little(), "text": {"args": ["x"]}}})
        with pytest.raises(StoreError):
            await crib.reload({"audit": {"path": str(tmp_path / "none" / "audit.jsonl")}})
        assert crib.settings is settings
        assert await pid(crib) == before


async def test_before_it_is_entered_everything_is_taken_up(little: Any, tmp_path: Path) -> None:
    crib = Crib({"mcpServers": {"text": little("fail")}, "search": {"min_confidence": 0.1}})

    @crib.add
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    with pytest.raises(ToolcribError):
        await crib.reload({"search": {"model": str(tmp_path / "none")}})
    assert crib.settings.search.model == "static"
    told = await crib.reload({"mcpServers": {"more": little()}, "store": str(tmp_path / "catalogue.db")})
    assert told == Reload(added=("more",), removed=("text",))
    async with crib:
        await pid(crib, "more")
        assert (await crib.search("add two numbers")).items[0].summary.id == "add"
    assert (tmp_path / "catalogue.db").exists()


async def test_a_crib_that_is_closed_is_not_changed(little: Any) -> None:
    crib = Crib()
    async with crib:
        pass
    with pytest.raises(CribStateError):
        await crib.reload({"mcpServers": {"text": little()}})


async def test_closing_in_the_middle_of_a_reload_ends_everything(little: Any, tmp_path: Path) -> None:
    file = tmp_path / "go"
    outcome: list[Any] = []

    async def reload(crib: Crib) -> None:
        try:
            outcome.append(await crib.reload(None))
        except CribStateError as error:
            outcome.append(error)

    settings = {"mcpServers": {"text": little("holding")}}
    async with anyio.create_task_group() as tasks, Crib(settings) as crib:
        process = await pid(crib)
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as calls:
                calls.start_soon(crib.run, "text:hold", {"text": str(file)})
                await until(lambda: crib.status()["text"].in_flight == 1, "the call is under way")
                tasks.start_soon(reload, crib)
                await until(lambda: "text" not in crib.status(), "the server is gone")
                scope.cancel()
    assert outcome == [Reload(removed=("text",))]
    await until(lambda: not alive(process))


async def test_closing_ends_the_calls_of_servers_that_were_to_go(little: Any, tmp_path: Path) -> None:
    file = tmp_path / "go"
    gave: list[Any] = []

    async def hold(crib: Crib) -> None:
        try:
            await crib.run("text:hold", {"text": str(file)})
        except ToolcribError as error:
            gave.append(type(error).__name__)

    with anyio.fail_after(PATIENCE):
        async with (
            anyio.create_task_group() as tasks,
            Crib({"mcpServers": {"text": little("holding")}}) as crib,
        ):
            process = await pid(crib)
            tasks.start_soon(hold, crib)
            await until(lambda: crib.status()["text"].in_flight == 1, "the call is under way")
            await crib.reload(None)
    assert gave == ["ToolCancelledError"]
    await until(lambda: not alive(process))


async def test_reloads_at_the_same_time_follow_one_another(little: Any) -> None:
    async with Crib() as crib:
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                for number in range(10):
                    tasks.start_soon(crib.reload, {"mcpServers": {f"text{number}": little()}})
        left = list(crib.status())
        assert len(left) == 1
        await pid(crib, left[0])
        assert crib.discovery.index.namespaces() == (left[0],)


@pytest.mark.parametrize("reloads", [12, pytest.param(50, marks=pytest.mark.proof)])
async def test_many_reloads_leave_nothing_behind(little: Any, reloads: int) -> None:
    def settings(number: int) -> dict[str, Any]:
        return {"mcpServers": {"stays": little(), "text": little("well", str(number))}, "timeout": 5 + number}

    before = child_processes()
    async with Crib(settings(0)) as crib:
        stays = await pid(crib, "stays")
        await pid(crib)
        tasks_before, open_before = len(tasks_here()), len(list(descriptors()))
        for number in range(1, reloads + 1):
            await crib.reload(settings(number))
            if number % 4 == 0:
                await pid(crib)
        await pid(crib)
        assert await pid(crib, "stays") == stays
        await until(lambda: len(child_processes() - before) == 2, "the others have ended")
        await until(lambda: len(tasks_here()) <= tasks_before, "their tasks too")
        await until(lambda: len(list(descriptors())) <= open_before, "their pipes too")
    await until(lambda: child_processes() <= before, "all have ended")


def tasks_here() -> list[Any]:
    return anyio.get_running_tasks()


async def test_a_call_that_waits_for_a_server_which_changes_waits_for_the_new_one(little: Any) -> None:
    async with Crib({"mcpServers": {"text": little("hang")}}) as crib:
        gave: list[int] = []

        async def run() -> None:
            gave.append(await pid(crib))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await until(lambda: crib.status()["text"].state == "starting", "the server is waited for")
            await crib.reload({"mcpServers": {"text": little()}})
        assert gave == [await pid(crib)]


async def test_nothing_is_kept_of_a_server_that_went(little: Any, tmp_path: Path) -> None:
    store = {"store": str(tmp_path / "catalogue.db")}
    async with Crib(store | {"mcpServers": {"text": little()}}) as crib:
        await pid(crib)
        await crib.reload(store)
    async with Crib(store | {"mcpServers": {"text": little("hang", start_timeout=0.2)}}) as crib:
        assert await ids(crib) == set()
    async with Crib(store | {"mcpServers": {"text": little()}}) as crib:
        assert "text:shout" in await ids(crib)


async def test_status_counts_stored_tools_until_the_server_has_answered(little: Any, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    servers = {"text": little("gate", str(gate), start_timeout=PATIENCE)}
    settings = {"store": str(tmp_path / "catalogue.db"), "mcpServers": servers}
    async with Crib(settings) as crib:
        with anyio.fail_after(PATIENCE):
            status = (await crib.ready())["text"]
        assert (status.tools, status.kept) == (5, None)
        assert status.listed_ago is not None
    gate.unlink()
    async with Crib(settings) as crib:
        await crib.search("shout")
        status = crib.status()["text"]
        assert status.state in {"stopped", "starting"}
        assert (status.tools, status.kept, status.pid) == (5, True, None)
        assert status.listed_ago is not None
        gate.touch()
        with anyio.fail_after(PATIENCE):
            assert (await crib.ready())["text"].kept is None


def pets(name: str) -> dict[str, Any]:
    """Return the document of an API that has no server."""
    operation = {"operationId": name, "summary": "Look up a pet.", "responses": {"200": {"description": "A"}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Pets", "version": "1"},
        "servers": [{"url": "http://127.0.0.1:9"}],
        "paths": {"/pets": {"get": operation}},
    }


async def test_apis_come_change_and_go(tmp_path: Path) -> None:
    document = tmp_path / "pets.json"
    document.write_text(json.dumps(pets("get_pet")))
    settings = {"openapi": {"pets": {"document": str(document)}}}
    async with Crib() as crib:
        assert (await crib.reload(settings)).added == ("pets",)
        assert await ids(crib) == {"pets:get_pet"}
        assert await crib.reload(settings) == Reload()
        address = {"document": str(document), "base_url": "http://127.0.0.1:10/v1"}
        assert (await crib.reload({"openapi": {"pets": address}})).changed == ("pets",)
        assert await ids(crib) == {"pets:get_pet"}
        assert crib.status()["pets"].address == "http://127.0.0.1:10/…"
        assert crib.status()["pets"].listed_ago is not None
        document.write_text(json.dumps(pets("find_pet")))
        assert (await crib.reload({"openapi": {"pets": address}})).changed == ("pets",)
        assert await ids(crib) == {"pets:find_pet"}
        assert (await crib.reload(None)).removed == ("pets",)
        assert await ids(crib) == set()


async def test_a_server_may_become_an_api(little: Any, tmp_path: Path) -> None:
    document = tmp_path / "pets.json"
    document.write_text(json.dumps(pets("get_pet")))
    async with Crib({"mcpServers": {"text": little()}}) as crib:
        await pid(crib)
        told = await crib.reload({"openapi": {"text": {"document": str(document)}}})
        assert told == Reload(changed=("text",))
        assert await ids(crib) == {"text:get_pet"}


async def test_a_view_and_code_follow_what_is_configured(little: Any) -> None:
    async with Crib({"mcpServers": {"text": little()}}) as crib:
        view = crib.view(Scope(namespaces=("more",)))
        assert [summary.id for summary in await view.tools()] == []
        await crib.reload({"mcpServers": {"more": little()}})
        with anyio.fail_after(PATIENCE):
            assert (await view.run("more:shout", {"text": "a"})).structured == {"result": "A"}
            with pytest.raises(ToolNotFoundError):
                await view.run("text:shout", {"text": "a"})
            assert "more" in await crib.stubs()


async def test_an_engine_that_has_ended_takes_up_nothing() -> None:
    engine = Engine(Settings(), Hooks(), "async with crib:")
    await engine.open()
    await engine.close()
    with pytest.raises(CribStateError):
        await engine.reload(Settings(timeout=5))
    assert engine.settings == Settings()


async def test_no_call_fails_however_often_its_server_changes(
    little: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def settings(number: int) -> dict[str, Any]:
        return {"mcpServers": {"stays": little(), "text": little("well", str(number))}}

    gave: list[Any] = []
    async with Crib(settings(0)) as crib:
        is_over = anyio.Event()

        async def call(server: str) -> None:
            while not is_over.is_set():
                gave.append((await crib.run(f"{server}:shout", {"text": "a"})).structured)

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                for server in ("stays", "text"):
                    tasks.start_soon(call, server)
                for number in range(1, 11):
                    await crib.reload(settings(number))
                    seen = len(gave)
                    await until(lambda: len(gave) > seen + 5, "calls go on")  # noqa: B023 - it is over then
                is_over.set()
    assert all(value == {"result": "A"} for value in gave)
    assert caplog.messages == []


async def test_rules_of_the_moment_say_what_code_may_name() -> None:
    crib = Crib({"policy": [{"name": "all", "effect": "allow"}]})

    @crib.add(namespace="shop")
    async def order() -> str:
        """Return an order."""
        return "an order"

    view = crib.seen_by(Principal(issuer="local", subject="ann"))
    names = view.code_names
    assert names.names("shop") == ("order",)
    async with crib:
        await crib.reload({"policy": [{"name": "none", "effect": "deny"}]})
        assert names.names("shop") == ()
        assert not names.tools(["shop:order"])
        assert "shop" not in names.namespaces()


async def test_content_is_that_of_whoever_a_view_is_for() -> None:
    rules = [{"who": ["ann"], "effect": "deny"}, {"effect": "allow"}]
    async with Crib({"policy": [{"name": f"r{at}", **rule} for at, rule in enumerate(rules)]}) as crib:
        ann = crib.seen_by(Principal(issuer="local", subject="ann"))
        assert not ann.content.admits("files", "file:///a")
        assert not ann.content_for(CallContext()).admits("files", "file:///a")
        assert crib.content_for(CallContext()).admits("files", "file:///a")
