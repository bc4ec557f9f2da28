"""A lock as clients see it: withheld tools are hidden in either era until they are approved."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
from gateway.little_face import serving
from gateway.support import ERAS
from mcp import Client
from mcp.shared.exceptions import MCPError
from servers.launch import shifting
from waiting import PATIENCE, until

from toolcrib.gateway import Gateway
from toolcrib.gateway.watch import mark_of, watch_any
from toolcrib.model import Tool
from toolcrib.trust import Lock

pytestmark = pytest.mark.anyio


def definition(name: str, kind: str = "string", description: str = "Does its work.") -> dict[str, Any]:
    schema = {"type": "object", "properties": {"text": {"type": kind}}}
    return {"name": name, "description": description, "inputSchema": schema}


ECHO, OTHER = definition("echo"), definition("other")
CHANGED = definition("echo", "integer")
PROMPT = {"name": "p", "arguments": [{"name": "a", "required": True}]}
TEMPLATE = {"uriTemplate": "x:{a}", "name": "x", "_meta": {"a": 1}}


@pytest.fixture
async def locked(tmp_path: Path, home: Path) -> Path:  # noqa: ARG001 - what is seen is kept there
    """Return a configuration whose server has changed since it was locked."""
    served, config = tmp_path / "now.json", tmp_path / "toolcrib.toml"
    server = shifting(served)
    config.write_text(
        f"[servers.s]\ncommand = {json.dumps(server['command'])}\nargs = {json.dumps(server['args'])}\n"
    )
    before = {"tools": [ECHO, OTHER], "prompts": [{"name": "p"}, {"name": "q"}], "instructions": "Be kind."}
    before["templates"] = [{"uriTemplate": "x:{a}", "name": "x"}]
    served.write_text(json.dumps(before))
    async with Gateway(config, expose="all") as gateway:
        await gateway.crib.ready()
        await gateway.crib.trust.lock(by="anna")
    after = {"tools": [CHANGED, OTHER], "prompts": [PROMPT, {"name": "q"}], "templates": [TEMPLATE]}
    served.write_text(json.dumps({**after, "instructions": "Be cruel."}))
    return config


@asynccontextmanager
async def connect_to(config: Path, era: str, expose: str) -> AsyncIterator[tuple[Gateway, Client]]:
    async with Gateway(config, expose=expose) as gateway, serving(gateway) as url:  # type: ignore[arg-type]
        await gateway.crib.ready()
        mode: Any = ERAS[era]
        async with Client(f"{url}/mcp", mode=mode, read_timeout_seconds=PATIENCE) as client:
            yield gateway, client


@pytest.mark.parametrize("era", ERAS)
async def test_clients_see_and_call_nothing_that_is_withheld(locked: Path, era: str) -> None:
    async with connect_to(locked, era, "all") as (gateway, client):
        assert [tool.name for tool in (await client.list_tools()).tools] == ["other"]
        result = await client.call_tool("echo", {"text": 1})
        assert result.is_error
        assert "s:echo is withheld: it has changed" in result.content[0].text  # type: ignore[union-attr]
        assert not (await client.call_tool("other", {})).is_error
        assert "cruel" not in json.dumps(client.instructions or "")
        await until(lambda: _names(client))
        with pytest.raises(MCPError, match="s:p is withheld"):
            await client.get_prompt("p", {"a": "1"})
        with pytest.raises(MCPError, match="withheld"):
            await client.read_resource("x:1")
        assert (await client.get_prompt("q")).messages
        await gateway.crib.trust.approve("s:echo", "prompt/s/p", "template/s/x:{a}", by="ben")
        assert not (await client.call_tool("echo", {"text": 1})).is_error
        assert (await client.get_prompt("p", {"a": "1"})).messages
        assert (await client.read_resource("x:1")).contents


async def _names(client: Client) -> bool:
    return [each.name for each in (await client.list_prompts()).prompts] == ["q"]


@pytest.mark.parametrize("era", ERAS)
async def test_meta_tools_say_that_a_tool_is_withheld(locked: Path, era: str) -> None:
    async with connect_to(locked, era, "meta") as (_, client):
        found = await client.call_tool("search_tools", {"query": "echo"})
        assert "s:echo" not in json.dumps(found.structured_content)
        calls: list[tuple[str, dict[str, Any]]] = [
            ("run_tool", {"tool_id": "s:echo", "args": {"text": 1}}),
            ("describe_tool", {"tool_id": "s:echo", "detail_level": "full"}),
        ]
        for name, arguments in calls:
            result = await client.call_tool(name, arguments)
            assert result.is_error
            error = (result.structured_content or {})["error"]
            assert (error["code"], "withheld" in error["message"]) == ("denied", True), name
        chain = {"steps": [{"tool_id": "s:other"}, {"tool_id": "s:echo", "args": {"text": 1}}]}
        assert "withheld" in json.dumps((await client.call_tool("run_chain", chain)).structured_content)
        code = await client.call_tool("execute_code", {"code": "__out = await s.echo(text=1)"})
        assert code.is_error


async def test_an_approval_in_the_file_brings_a_tool_back_and_clients_are_told(locked: Path) -> None:
    lists: list[set[str]] = []
    async with connect_to(locked, "stateless", "all") as (_, client), anyio.create_task_group() as tasks:
        ready = anyio.Event()

        async def follow() -> None:
            async with client.listen(tools_list_changed=True) as changes:
                ready.set()
                async for _ in changes:
                    listed = await client.list_tools()
                    lists.append({tool.name for tool in listed.tools})

        tasks.start_soon(follow)
        await ready.wait()
        path = locked.with_name("tools.lock")
        changed = Tool.from_json({**CHANGED, "namespace": "s"})
        Lock.update(path, lambda lock: lock.approve(changed, by="ben", at=datetime.now(UTC)))
        await until(lambda: lists and lists[-1] == {"echo", "other"})
        path.unlink()
        await until(lambda: lists[-1] == set())
        tasks.cancel_scope.cancel()


async def test_a_gateway_records_first_sight_and_writes_no_lock(tmp_path: Path, home: Path) -> None:
    served, config = tmp_path / "now.json", tmp_path / "toolcrib.toml"
    server = shifting(served)
    trust = '\n[trust]\nmode = "tofu"\n'
    config.write_text(
        f"[servers.s]\ncommand = {json.dumps(server['command'])}\nargs = {json.dumps(server['args'])}\n{trust}"
    )
    served.write_text(json.dumps({"tools": [ECHO]}))
    async with Gateway(config) as gateway:
        await gateway.crib.ready()
    assert not config.with_name("tools.lock").exists()
    (seen,) = (home / "seen").iterdir()
    assert "s:echo" in Lock.load(seen).tools


async def test_a_watched_file_is_read_when_it_is_made_changed_and_deleted(tmp_path: Path) -> None:
    path, seen = tmp_path / "file", list[bool]()

    async def changed() -> None:
        seen.append(path.exists())

    async with anyio.create_task_group() as tasks:
        async with anyio.create_task_group() as watching:
            watching.start_soon(lambda: watch_any(path, mark_of(path), changed, every=0.01, settled=0.001))
            path.write_text("one")
            await until(lambda: seen == [True])
            path.write_text("two and more")
            await until(lambda: seen == [True, True])
            path.unlink()
            await until(lambda: seen == [True, True, False])
            watching.cancel_scope.cancel()
        tasks.cancel_scope.cancel()
