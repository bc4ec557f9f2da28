"""The catalogue that outlives a crib: served immediately, and only for the servers it was made of."""

import json
import logging
import os
import shlex
import sqlite3
import sys
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from waiting import PATIENCE

from toolcrib import Crib
from toolcrib.crib.sources import Absence
from toolcrib.discovery import Scope, SqliteStore
from toolcrib.errors import BackendUnavailableError, StoreError, ToolNotFoundError
from toolcrib.paths import catalogue_file

pytestmark = pytest.mark.anyio
# ruff: noqa: ASYNC240 - a look at a file


def shop(name: str) -> dict[str, str]:
    """Find a part in the shop."""
    return {"name": name}


@pytest.fixture
def config(tmp_path: Path, little: Any) -> Path:
    """Return a configuration whose server starts only while the file `switch` is there."""
    (tmp_path / "switch").write_text("on")
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"text": little("unless", str(tmp_path / "switch"))}}))
    return path


@pytest.fixture
async def kept(config: Path) -> Path:
    """Return a configuration whose catalogue was stored by an earlier run."""
    async with Crib(config) as crib:
        with anyio.fail_after(PATIENCE):
            await crib.run("text:shout", {"text": "a"})
            crib.add(shop)
            await crib.run("shop", {"name": "bolt"})
    return config


def stop_server(config: Path) -> None:
    (config.parent / "switch").unlink()


def change(config: Path, **fields: Any) -> None:
    document = json.loads(config.read_text())
    document["mcpServers"]["text"] |= fields
    config.write_text(json.dumps(document))


async def test_stored_tools_are_listed_although_the_server_cannot_start(kept: Path) -> None:
    stop_server(kept)
    async with Crib(kept) as crib:
        with anyio.fail_after(PATIENCE):
            assert (await crib.search("capital letters")).items[0].summary.id == "text:shout"
            assert (await crib.describe("text:shout")).tool is not None
            assert crib.discovery.index.usage()["text:shout"] == 1
            with pytest.raises(BackendUnavailableError, match="it exited with status 1") as error:
                await crib.run("text:shout", {"text": "a"})
            assert error.value.op == "execute"
            assert getattr(error.value.__cause__, "stderr", "") == "the switch is off"
            await crib.ready()
            assert (await crib.search("capital letters")).items[0].summary.id == "text:shout"


async def test_stored_tools_are_listed_before_any_server_has_answered(tmp_path: Path, little: Any) -> None:
    path, gate = tmp_path / "mcp.json", tmp_path / "gate"
    gate.touch()
    path.write_text(json.dumps({"mcpServers": {"text": little("gate", str(gate))}}))
    async with Crib(path) as crib:
        with anyio.fail_after(PATIENCE):
            await crib.ready()
    gate.unlink()
    change(path, env={"PYTHONSTARTUP": "x"})
    async with Crib(path) as crib:
        found = await crib.search("capital letters")
        assert found.items[0].summary.id == "text:shout"


async def test_a_tool_that_was_not_kept_is_waited_for(kept: Path) -> None:
    store = catalogue_file(kept)
    with sqlite3.connect(store) as connection:
        connection.execute("DELETE FROM tools WHERE id = 'text:shout'")
    connection.close()
    async with Crib(kept) as crib:
        with anyio.fail_after(PATIENCE):
            assert (await crib.run("text:shout", {"text": "a"})).structured == {"result": "A"}


async def test_tool_removed_by_the_server_leaves_the_catalogue(kept: Path) -> None:
    with SqliteStore(catalogue_file(kept)) as store:
        (row, *_) = [row for row in store.tools() if row.id == "text:shout"]
        definition = json.loads(row.definition) | {"name": "whistle"}
        renamed = type(row)("text:whistle", json.dumps(definition), row.backends, "[]", "[]", "x")
        store.write([renamed])
    async with Crib(kept) as crib:
        assert "text:whistle" in crib.discovery.index
        with anyio.fail_after(PATIENCE):
            await crib.ready()
        assert "text:whistle" not in crib.discovery.index
        assert "text:shout" in crib.discovery.index


@pytest.mark.parametrize("fields", [{"args": ["other.py"]}, {"disabled": True}], ids=["other", "disabled"])
async def test_nothing_is_served_of_a_server_that_is_configured_otherwise(kept: Path, fields: Any) -> None:
    change(kept, **fields)
    async with Crib(kept) as crib:
        assert len(crib.discovery.index) == 0
    with SqliteStore(catalogue_file(kept)) as store:
        assert list(store.tools()) == []


async def test_nothing_is_served_of_a_server_that_is_not_configured(kept: Path) -> None:
    kept.write_text('{"mcpServers": {}}')
    async with Crib(kept) as crib:
        assert (await crib.tools()).total == 0


async def test_a_function_is_served_only_where_it_is(kept: Path) -> None:
    async with Crib(kept) as crib:
        assert "shop" not in crib.discovery.index
        with pytest.raises(ToolNotFoundError):
            await crib.run("shop", {"name": "bolt"})
    crib = Crib(kept)
    crib.add(shop)
    async with crib:
        assert (await crib.run("shop", {"name": "bolt"})).structured == {"name": "bolt"}
        assert crib.discovery.index.usage()["shop"] == 1


async def test_a_function_beside_a_tool_of_a_server_goes_alone(config: Path) -> None:
    def shout(text: str) -> str:
        """Write a text in capital letters."""
        return text.upper()

    async with Crib(config) as crib:
        with anyio.fail_after(PATIENCE):
            await crib.ready()
            crib.add(shout, namespace="text")
            assert (await crib.run("text:shout", {"text": "a"})).structured == "A"
    async with Crib(config) as crib:
        (backend,) = crib.discovery.index.backends("text:shout")
        assert backend.kind == "mcp"


async def test_runs_are_counted_across_cribs(kept: Path) -> None:
    async with Crib(kept) as crib:
        with anyio.fail_after(PATIENCE):
            await crib.run("text:shout", {"text": "a"})
    with SqliteStore(catalogue_file(kept)) as store:
        assert store.usage() == {"text:shout": 2, "shop": 1}


async def test_a_mapping_is_kept_only_where_it_is_told_to(tmp_path: Path, home: Path, little: Any) -> None:
    async with Crib({"mcpServers": {"text": little()}}) as crib:
        assert crib.discovery.index.store is None
    assert not home.exists()
    path = tmp_path / "mine" / "catalogue.db"
    settings = {"mcpServers": {"text": little()}, "store": str(path)}
    async with Crib(settings) as crib:
        with anyio.fail_after(PATIENCE):
            await crib.ready()
    async with Crib(settings) as crib:
        assert "text:shout" in crib.discovery.index


async def test_a_file_is_not_kept_where_it_says_so(tmp_path: Path, home: Path) -> None:
    path = tmp_path / "toolcrib.toml"
    path.write_text('store = "memory"')
    async with Crib(path) as crib:
        assert crib.discovery.index.store is None
    assert not home.exists()


async def test_a_home_that_cannot_be_written_to_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("TOOLCRIB_HOME", str(tmp_path / "file"))
    path = tmp_path / "toolcrib.toml"
    path.write_text("")
    with caplog.at_level(logging.WARNING):
        async with Crib(path) as crib:
            assert crib.discovery.index.store is None
    assert "the catalogue is not stored" in caplog.text


def drop(table: str, path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(f"DROP TABLE {table}")
    connection.close()


def flip(path: Path) -> None:
    """Damage the names of tables, which SQLite repeats in its error messages."""
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE texts", b"CREATE \x8c\x8c\x8c\x8c\x8c texts"))


def overwrite(path: Path) -> None:
    path.write_text("this is no database, but some text that is long enough to look at" * 20)


DAMAGES = {
    "tools": partial(drop, "tools"),
    "texts": partial(drop, "texts"),
    "derived": partial(drop, "derived"),
    "usage": partial(drop, "usage"),
    "flipped": flip,
    "overwritten": overwrite,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
async def test_a_catalogue_of_our_own_that_is_damaged_is_moved_aside_and_built_anew(
    tmp_path: Path, little: Any, caplog: pytest.LogCaptureFixture, damage: Any
) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"text": little()}}))
    async with Crib(path):
        pass
    file = catalogue_file(path)
    damage(file)
    damaged = file.read_bytes()
    with caplog.at_level(logging.WARNING), anyio.fail_after(PATIENCE):
        async with Crib(path) as crib:
            await crib.ready()
            assert crib.discovery.index.store is not None
    aside = file.with_name(f"{file.name}.damaged")
    assert f"damaged, and was moved to {str(aside)!r}" in caplog.text
    assert aside.read_bytes() == damaged
    caplog.clear()
    async with Crib(path) as crib:
        assert "text:shout" in crib.discovery.index
    assert "damaged" not in caplog.text


async def test_a_catalogue_of_a_later_release_stays_where_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "toolcrib.toml"
    path.write_text("")
    async with Crib(path):
        pass
    file = catalogue_file(path)
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA user_version = 1000")
    connection.close()
    with caplog.at_level(logging.WARNING):
        async with Crib(path) as crib:
            assert crib.discovery.index.store is None
    assert "the catalogue is not stored" in caplog.text
    assert [each.name for each in file.parent.glob("*.damaged*")] == []


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
async def test_a_damaged_store_that_was_asked_for_is_left_as_it_is(tmp_path: Path, damage: Any) -> None:
    path = tmp_path / "catalogue.db"
    async with Crib({"store": str(path)}):
        pass
    damage(path)
    damaged = path.read_bytes()
    with pytest.raises(StoreError):
        await Crib({"store": str(path)}).__aenter__()
    assert path.read_bytes() == damaged


async def test_a_store_that_was_asked_for_must_work(tmp_path: Path) -> None:
    path = tmp_path / "catalogue.db"
    path.write_text("this is no database, but some text that is long enough to look at" * 20)
    crib = Crib({"store": str(path)})
    with pytest.raises(StoreError):
        await crib.__aenter__()
    assert "closed" in repr(crib)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such permissions")
async def test_the_folder_of_catalogues_is_private(kept: Path) -> None:
    assert os.stat(catalogue_file(kept).parent).st_mode & 0o777 == 0o700  # noqa: PTH116 - the mode alone


async def test_one_bad_definition_does_not_keep_the_others_out(
    little: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with Crib({"mcpServers": {"text": little("odd")}}) as crib:
        with anyio.fail_after(PATIENCE):
            await crib.ready()
        assert "text:shout" in crib.discovery.index
        assert "text:odd" not in crib.discovery.index
    assert "text:odd is left out" in caplog.text


@pytest.fixture
async def halting(tmp_path: Path, little: Any) -> Path:
    """Return a configuration of which an earlier run kept one server, and could not list the other."""
    path = tmp_path / "mcp.json"
    servers = {"text": little(), "slow": little("hang", startTimeout=0.3)}
    path.write_text(json.dumps({"mcpServers": servers}))
    async with Crib(path) as crib:
        with anyio.fail_after(PATIENCE):
            assert (await crib.ready())["slow"].state == "failed"
    servers["slow"]["startTimeout"] = 10 * PATIENCE
    path.write_text(json.dumps({"mcpServers": servers}))
    return path


async def test_a_server_that_could_not_be_listed_the_last_time_keeps_no_search_waiting_for_long(
    halting: Path,
) -> None:
    for _ in range(2):
        async with Crib(halting) as crib:
            with anyio.fail_after(PATIENCE):
                assert (await crib.search("capital letters")).items[0].summary.id == "text:shout"
                assert (await crib.tools()).total == 5
                assert crib.status()["slow"].state in {"stopped", "starting"}
                with pytest.raises(BackendUnavailableError):
                    await crib.run("slow:shout", timeout=0.2)
                with anyio.move_on_after(0.2) as waiting:
                    await crib.search("capital letters", namespace="slow")
                assert waiting.cancelled_caught


async def test_who_is_missing_is_told_with_the_reason(halting: Path) -> None:
    async with Crib(halting) as crib:
        await crib.search("capital letters")
        assert crib.absent() == (Absence(name="slow", state="missed"),)
        assert crib.view(Scope(namespaces=["text"])).absent() == ()
        assert crib.view(Scope(namespaces=["slow"])).absent() == crib.absent()
    document = json.loads(halting.read_text())
    document["mcpServers"]["slow"]["startTimeout"] = 0.2
    halting.write_text(json.dumps(document))
    async with Crib(halting) as crib:
        with anyio.fail_after(PATIENCE):
            await crib.ready()
        (absence,) = crib.absent()
        assert (absence.name, absence.state, absence.kept) == ("slow", "failed", False)
        assert "did not start within 0.2 s" in (absence.reason or "")


async def test_server_that_may_be_downloading_is_said_to(tmp_path: Path, little: Any) -> None:
    slow, program = little("hang"), tmp_path / "npx"
    program.write_text(f"#!/bin/sh\nexec {shlex.join([slow['command'], *slow['args']])}\n")
    program.chmod(0o755)
    async with Crib({"mcpServers": {"slow": {"command": str(program)}}}) as crib:
        (absence,) = crib.absent()
        assert (absence.state, absence.reason) == ("starting", "npx may still be downloading it")


async def test_absence_of_a_failed_server_tells_of_its_stored_tools(kept: Path) -> None:
    stop_server(kept)
    crib = Crib(kept)
    assert crib.absent() == ()
    async with crib:
        assert crib.absent() == ()
        with pytest.raises(ToolNotFoundError):
            crib.known("text:nothing")
        with anyio.fail_after(PATIENCE):
            await crib.ready()
        (absence,) = crib.absent()
        assert (absence.name, absence.state, absence.kept) == ("text", "failed", True)


async def test_stored_tools_outside_a_view_are_hidden_whatever_their_server_does(kept: Path) -> None:
    scopes = [
        Scope(namespaces=["text"], exclude=["text:shout"]),
        Scope(namespaces=["text"], ids=["text:learn"]),
        Scope(namespaces=["text"], annotations={"readOnlyHint": True}),
    ]
    for is_stopped in (False, True):
        if is_stopped:
            stop_server(kept)
        async with Crib(kept) as crib:
            for scope in scopes:
                view = crib.view(scope)
                for verb in (view.run, view.describe):
                    with anyio.fail_after(PATIENCE), pytest.raises(ToolNotFoundError) as error:
                        await verb("text:shout")
                    assert "shout" not in str(error.value).partition(";")[2]


async def test_a_server_that_is_listed_again_is_waited_for_again(tmp_path: Path, little: Any) -> None:
    path, switch = tmp_path / "mcp.json", tmp_path / "switch"
    path.write_text(json.dumps({"mcpServers": {"text": little(), "late": little("unless", str(switch))}}))
    noted = []
    for _ in range(2):
        async with Crib(path) as crib:
            with anyio.fail_after(PATIENCE):
                await crib.ready()
        with SqliteStore(catalogue_file(path)) as store:
            noted.append([name for name, _ in store.texts("unlisted")])
        switch.write_text("on")
    assert noted == [["mcp:late"], []]


async def test_a_server_that_could_not_be_listed_is_waited_for_where_nothing_is_kept(
    tmp_path: Path, little: Any
) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"broken": little("fail")}}))
    for _ in range(2):
        async with Crib(path) as crib:
            with anyio.fail_after(PATIENCE):
                assert (await crib.search("capital letters")).total == 0
                assert crib.status()["broken"].state == "failed"


async def test_a_server_that_could_not_be_listed_is_waited_for_once_it_is_another(
    halting: Path, little: Any
) -> None:
    servers = {"text": little(), "slow": little("well", "other")}
    halting.write_text(json.dumps({"mcpServers": servers}))
    async with Crib(halting) as crib:
        with anyio.fail_after(PATIENCE):
            assert (await crib.tools()).total == 10
