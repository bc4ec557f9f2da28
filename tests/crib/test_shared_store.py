"""Several cribs on one PostgreSQL database share their tools."""

import json
import threading
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest
from contracts.store import stored
from servers.launch import shifting
from servers.postgres import PostgresServer
from waiting import until

from toolcrib import Crib
from toolcrib.discovery import PostgresStore
from toolcrib.errors import StoreError

pytestmark = pytest.mark.anyio


def describe(file: Path, *names: str) -> None:
    """Have the server of a file list these tools from its next start on."""
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
    file.write_text(json.dumps({"tools": tools}), encoding="utf-8")


def settings(database: str, **servers: Any) -> dict[str, Any]:
    return {"store": database, "servers": servers, "runs": {"store": "memory"}}


async def test_tool_that_one_crib_saves_is_found_and_run_by_the_other_until_it_is_deleted(
    database: str,
) -> None:
    one, other = Crib(settings(database)), Crib(settings(database))
    for crib in (one, other):

        @crib.add
        def double(number: int) -> int:
            """Double a number."""
            return 2 * number

    async with one, other:
        result = await one.run_chain([{"toolId": "double", "args": {"number": 4}}])
        for turn in range(10):
            tool = one.save_as_tool(result, name=f"eight_{turn}", parameters={"number": "/0/args/number"})
            await until(lambda name=str(tool.id): name in other.index)
        assert (await other.run("eight_3", {"number": 5})).structured == 10
        one.delete_saved_tool("eight_3")
        await until(lambda: not any("eight_3" in tool.name for tool in other.saved_tools()))
        assert "eight_3:1.0.0" not in other.index
        assert len(one.saved_tools()) == len(other.saved_tools()) == 9


async def test_tools_that_a_server_lists_at_one_crib_are_found_at_the_other(
    database: str, tmp_path: Path
) -> None:
    file = tmp_path / "server.json"
    describe(file, "first", "second")
    servers = {"shop": shifting(file)}
    async with Crib(settings(database, **servers)) as one, Crib(settings(database, **servers)) as other:
        await one.ready()
        await other.ready()
        assert "shop:first" in other.index
        describe(file, "second", "third")
        await one.start_server("shop")
        await until(lambda: "shop:third" in other.index and "shop:first" not in other.index)
        assert "shop:second" in other.index


async def test_crib_with_another_configuration_neither_uses_nor_deletes_the_tools_of_others(
    database: str, tmp_path: Path
) -> None:
    for name in "ab":
        describe(tmp_path / name, "look")
    mine, theirs = {"a": shifting(tmp_path / "a")}, {"b": shifting(tmp_path / "b")}
    async with Crib(settings(database, **mine, **theirs)) as both:
        await both.ready()
        async with Crib(settings(database, **mine)) as one:
            await one.ready()
            assert [tool.id for tool in (await one.tools()).items] == ["a:look"]
            await one.reload(settings(database))
            assert [tool.id for tool in (await one.tools()).items] == []
        assert {"a:look", "b:look"} <= {tool.id for tool in (await both.tools()).items}
    async with Crib(settings(database, **mine, **theirs), on_demand=True) as later:
        assert {"a:look", "b:look"} <= {tool.id for tool in (await later.tools()).items}


async def test_catalogue_is_served_while_the_database_is_away_and_followed_again_afterwards(
    postgres: PostgresServer, database: str, tmp_path: Path
) -> None:
    file = tmp_path / "server.json"
    describe(file, "first")
    config = settings(database, shop=shifting(file)) | {"postgres": {"poll": 0.05}}
    async with Crib(config) as crib:
        await crib.ready()
        await until(lambda: crib.catalogue_status is not None and not crib.catalogue_status.waiting)
        await anyio.to_thread.run_sync(postgres.stop)
        try:
            assert (await crib.search("first"))[0].id == "shop:first"
            assert (await crib.run("shop:first", {})).structured == {"called": "first"}
            describe(file, "first", "second")
            await crib.start_server("shop")
            await until(lambda: "shop:second" in crib.index)
            await until(lambda: crib.catalogue_status is not None and crib.catalogue_status.fault is not None)
        finally:
            await anyio.to_thread.run_sync(postgres.start)
        await until(lambda: crib.catalogue_status is not None and not crib.catalogue_status.waiting)
        with PostgresStore(database) as store:
            assert {"shop:first", "shop:second"} == {tool.id for tool in store.tools()}
            row = next(tool for tool in store.tools() if tool.id == "shop:first")
            store.write([stored("other:tool")], delete=[row.id])
        await until(lambda: "shop:first" not in crib.index)
        assert "other:tool" not in crib.index


class Watched(PostgresStore):
    """A store that notes which of its methods are called in the thread of the event loop."""

    def __getattribute__(self, name: str) -> Any:
        if name in {
            "tools",
            "write",
            "texts",
            "write_texts",
            "derived",
            "save_derived",
            "usage",
            "count_usage",
        }:
            assert threading.current_thread() is not threading.main_thread(), name
        return super().__getattribute__(name)


async def test_event_loop_never_waits_for_the_database(database: str, tmp_path: Path) -> None:
    file = tmp_path / "server.json"
    describe(file, "first")
    store = await anyio.to_thread.run_sync(Watched, database)
    make = partial(Crib, {"servers": {"shop": shifting(file)}}, store=store)  # a given store is read at once
    async with await anyio.to_thread.run_sync(make) as crib:
        await crib.ready()

        @crib.add
        def double(number: int) -> int:
            """Double a number."""
            return 2 * number

        assert (await crib.search("double"))[0].id == "double"
        await crib.run("shop:first", {})
        result = await crib.run_chain([{"toolId": "double", "args": {"number": 4}}])
        crib.save_as_tool(result, name="eight")
        await crib.describe("shop:first", "full")
        crib.delete_saved_tool("eight")
        await crib.reload({})
    store.close()


async def test_crib_does_not_start_without_its_database(postgres: PostgresServer) -> None:
    with pytest.raises(StoreError, match="cannot be reached"):
        async with Crib({"store": postgres.url(port=1)}):
            pass
