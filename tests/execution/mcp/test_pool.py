"""Operations on many servers by name, of any kind."""

import os
import signal
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from execution.mcp.calling import call, child_processes, says, scripted_server, tool_of
from execution.toolbox import index_of
from servers.launch import alive, closed_port, tiny
from waiting import until

from toolcrib.errors import (
    BackendUnavailableError,
    ConfigError,
    InputValidationError,
    NoBackendError,
    ServerUnavailableError,
    ToolTimeoutError,
)
from toolcrib.execution import Call, Executor, Runner
from toolcrib.execution.mcp import McpServers, ServerConfig
from toolcrib.model import LocalBackend, McpBackend

pytestmark = pytest.mark.anyio


@pytest.fixture
def nobody() -> Iterator[int]:
    """Return a port without a listener."""
    with closed_port() as port:
        yield port


def test_mcp_servers_are_an_executor() -> None:
    assert isinstance(McpServers({}), Executor)


def test_a_server_that_is_not_there_is_missing_with_a_suggestion() -> None:
    servers = McpServers({"github": tiny()})
    assert servers.missing(McpBackend(server_name="github")) is None
    assert servers.missing(McpBackend(server_name="gihub")) == (
        "there is no server named 'gihub'; did you mean 'github'?"
    )
    assert McpServers({}).missing(McpBackend(server_name="a")) == (
        "there is no server named 'a'; none is configured"
    )
    assert servers.missing(LocalBackend(name="github")) == "a 'local' backend is not an mcp server"


async def test_request_that_gets_no_slot_in_time_is_refused_and_the_slot_is_free_afterwards() -> None:
    async with McpServers({"tiny": tiny(max_concurrency=1)}) as servers:
        upstream = await servers.upstream("tiny")
        async with upstream.slot(None):
            with pytest.raises(
                ServerUnavailableError, match=r"no slot became free within 0\.01 s \(1 in all\)"
            ):
                async with upstream.slot(None, within=0.01):
                    pytest.fail("there was no slot")
        async with upstream.slot(None, within=0.01):
            assert len(upstream.in_flight) == 1


def test_a_disabled_server_is_missing() -> None:
    servers = McpServers({"one": tiny(disabled=True), "two": tiny()})
    assert "disabled" in (servers.missing(McpBackend(server_name="one")) or "")
    assert servers.names == ("two",)
    assert {name: status.state for name, status in servers.status().items()} == {
        "one": "disabled",
        "two": "stopped",
    }


def test_settings_that_cannot_work_are_told_with_the_name_of_the_server() -> None:
    with pytest.raises(ConfigError, match="server 'one'"):
        McpServers({"one": {}})
    with pytest.raises(ConfigError, match="must not be empty"):
        McpServers({"": tiny()})


async def test_calls_to_nobody_and_to_other_backends_have_no_backend() -> None:
    async with McpServers({"one": tiny()}) as servers:
        with pytest.raises(NoBackendError, match="did you mean 'one'"):
            await call(servers, "echo", server="ones")
        with pytest.raises(NoBackendError, match="'local' backend is not an mcp server"):
            await servers.call(Call(tool=tool_of("echo"), args={}, backend=LocalBackend(name="echo")))
        with pytest.raises(ServerUnavailableError, match="no server named 'two'"):
            await servers.tools("two")


async def test_outside_of_its_block_it_says_so() -> None:
    servers = McpServers({"one": tiny()})
    with pytest.raises(BackendUnavailableError, match="inside 'async with'") as caught:
        await call(servers, "echo")
    assert not caught.value.sent
    with pytest.raises(ServerUnavailableError, match="inside 'async with'"):
        await servers.tools("one")
    async with servers:
        await call(servers, "echo")
    with pytest.raises(BackendUnavailableError, match="toolcrib is closed") as caught:
        await call(servers, "echo")
    assert not caught.value.sent
    with pytest.raises(ServerUnavailableError, match="toolcrib is closed"):
        await servers.tools("one")
    with pytest.raises(RuntimeError, match="entered once"):
        async with servers:
            pass


async def test_a_server_can_be_added_and_removed() -> None:
    async with McpServers({}) as servers:
        servers.replace("one", tiny())
        first = (await call(servers, "echo")).structured["pid"]
        servers.replace("one", ServerConfig(**tiny()))
        assert (await call(servers, "echo")).structured["pid"] == first
        servers.retire("one")
        servers.replace("two", tiny())
        servers.retire("two")
        assert servers.names == ()


async def test_one_bad_server_neither_delays_nor_breaks_another(nobody: int) -> None:
    bad = {
        "hangs": {"command": "sleep", "args": ["600"], "start_timeout": 600},
        "crashes": scripted_server(stderr="no", exit=1),
        "absent": {"command": "/nonexistent/program"},
        "unreachable": {"url": f"http://127.0.0.1:{nobody}/mcp"},
    }
    failed: list[str] = []

    async def ask(name: str) -> None:
        with pytest.raises(BackendUnavailableError):
            await call(servers, "echo", server=name)
        failed.append(name)

    async with McpServers({**bad, "good": tiny()}) as servers:
        async with anyio.create_task_group() as tasks:
            for name in ("crashes", "absent", "unreachable"):
                tasks.start_soon(ask, name)
            hanging = anyio.CancelScope()

            async def hang() -> None:
                with hanging:
                    await call(servers, "echo", server="hangs")

            tasks.start_soon(hang)
            for _ in range(10):
                assert (await call(servers, "echo", {"a": 1}, server="good")).structured["got"] == {"a": 1}
            assert servers.status()["hangs"].state == "starting"
            hanging.cancel()
        assert sorted(failed) == ["absent", "crashes", "unreachable"]


async def test_the_name_of_a_server_may_be_anything() -> None:
    name = "My Server / ü"
    async with McpServers({name: tiny()}) as servers:
        tools = await servers.tools(name)
        assert {tool.backend for tool in tools} == {McpBackend(server_name=name)}
        echo = next(tool for tool in tools if tool.name == "echo")
        assert (await call(servers, echo, server=name)).structured["got"] == {}


async def test_the_status_says_how_a_server_is_doing() -> None:
    pid_of = {"result": {"structuredContent": {"pid": "$pid"}}}
    async with McpServers({"one": scripted_server(calls={"pid": [pid_of]})}) as servers:
        await servers.tools("one")
        pid = (await call(servers, "pid")).structured["pid"]
        status = servers.status()["one"]
        assert status.listed_ago is not None
        assert status.replace(listed_ago=None).to_json() == {
            "name": "one",
            "state": "ready",
            "transport": "stdio",
            "pid": pid,
            "protocolVersion": "2025-06-18",
            "serverInfo": {"name": "scripted", "version": "1"},
            "tools": 1,
            "stderr": "",
            "inFlight": 0,
            "starts": 1,
        }
        os.kill(pid, signal.SIGKILL)
        await until(lambda: servers.status()["one"].state == "stopped", "its death was seen")
        assert servers.status()["one"].last_error == "it was ended by SIGKILL"


async def test_leaving_it_again_is_harmless() -> None:
    servers = McpServers({"one": tiny()})
    async with servers:
        await call(servers, "echo")
    await servers.__aexit__(None, None, None)
    assert servers.status()["one"].state == "closed"


async def test_leaving_what_was_never_entered_is_harmless_and_closes_it() -> None:
    servers = McpServers({"one": tiny()})
    await servers.__aexit__(None, None, None)
    assert servers.status()["one"].state == "closed"
    with pytest.raises(BackendUnavailableError, match="toolcrib is closed"):
        await call(servers, "echo")


@pytest.mark.parametrize(
    ("args", "path"),
    [
        ({"a": [float("nan")]}, "/a/0"),
        ({"a": float("inf")}, "/a"),
        ({"a": {1, 2}}, "/a"),
        ({"a": b"x"}, "/a"),
        ({"a": "\ud800"}, "/a"),
        ({1: 2}, ""),
    ],
)
async def test_arguments_that_are_no_json_are_not_sent(args: dict[Any, Any], path: str) -> None:
    async with McpServers({"one": tiny()}) as servers:
        with pytest.raises(InputValidationError) as caught:
            await call(servers, "echo", args)
        assert [problem.path for problem in caught.value.problems] == [path]
        assert servers.status()["one"].starts == 0


async def test_waiting_for_a_start_can_be_cancelled_immediately() -> None:
    config = {"command": "sleep", "args": ["600"], "start_timeout": 600, "max_concurrency": 1}
    async with McpServers({"one": config}) as servers:
        for _ in range(2):  # the slot of the first is free for the second
            with anyio.move_on_after(0.1) as scope:
                await call(servers, "echo")
            assert scope.cancelled_caught
        await until(lambda: servers.status()["one"].starts == 1)
        status = servers.status()["one"]
        assert (status.state, status.starts, status.in_flight) == ("starting", 1, 0)


async def test_a_call_whose_time_is_over_before_its_server_has_started_was_not_sent() -> None:
    index = index_of((tool_of("echo"), McpBackend(server_name="one")))
    config = {"command": "sleep", "args": ["600"], "start_timeout": 600}
    async with McpServers({"one": config}) as servers:
        for seconds in (0.5, *[3.0] * 20):  # on a busy machine the whole time may be over by then
            with pytest.raises((BackendUnavailableError, ToolTimeoutError)) as caught:
                await Runner(index, mcp=servers).run("one:echo", timeout=seconds)
            if isinstance(caught.value, BackendUnavailableError):
                break
        assert isinstance(caught.value, BackendUnavailableError)
        assert "still starting" in caught.value.reason
        assert (caught.value.op, caught.value.backend, caught.value.sent) == ("execute", "mcp:one", False)


async def test_calls_of_a_server_that_is_retired_go_on_for_a_while() -> None:
    ended: list[str] = []

    async def hang(name: str) -> None:
        with pytest.raises(BackendUnavailableError):
            await call(servers, "hang", server=name)
        ended.append(name)

    async with McpServers({"brief": tiny(), "long": tiny()}) as servers:
        pids = [(await call(servers, "echo", server=name)).structured["pid"] for name in ("brief", "long")]
        async with anyio.create_task_group() as tasks:
            for name in ("brief", "long"):
                tasks.start_soon(hang, name)
            await until(lambda: [each.in_flight for each in servers.status().values()] == [1, 1])
            servers.retire("brief", within=0.2)
            servers.retire("long", within=600)
            assert servers.names == ()
            with pytest.raises(NoBackendError):
                await call(servers, "echo", server="brief")
            await until(lambda: not alive(pids[0]), "the time of its calls is over")
            await until(lambda: ended == ["brief"])
            assert alive(pids[1])
            tasks.cancel_scope.cancel()
        await until(lambda: not alive(pids[1]), "nobody calls it any more")
        with pytest.raises(ServerUnavailableError, match="no server named 'brief'"):
            servers.retire("brief")


async def test_a_server_that_is_not_used_is_replaced_at_once() -> None:
    told: list[int] = []
    async with McpServers({"one": tiny()}, on_tools=lambda _, tools: told.append(len(tools))) as servers:
        before = (await call(servers, "echo")).structured["pid"]
        servers.replace("one", tiny(timeout=5, max_concurrency=3))
        assert (await call(servers, "echo")).structured["pid"] == before
        servers.replace("one", tiny("other"))
        after = (await call(servers, "echo")).structured["pid"]
        assert after != before
        await until(lambda: not alive(before), "the other has ended")
        servers.replace("one", tiny("other", disabled=True))
        await until(lambda: not alive(after), "it has ended")
        assert servers.status()["one"].state == "disabled"
        servers.replace("two", {"url": "http://me:pw@localhost:1/secret"})
        assert servers.status()["two"].address == "http://localhost:1/…"
        servers.retire("two")


async def test_a_server_outside_of_the_block_is_just_forgotten() -> None:
    servers = McpServers({"one": tiny()})
    servers.replace("one", tiny("other"))
    servers.retire("one")
    assert servers.names == ()


async def test_a_server_that_was_replaced_tells_nobody_of_its_tools() -> None:
    told: list[tuple[str, ...]] = []
    changes = {"notify": "notifications/tools/list_changed", "params": {}}
    old = scripted_server(
        pages=[[{"name": "old", "inputSchema": {}}]], calls={"change": [changes, says("done")], "wait": []}
    )
    async with McpServers(
        {"one": old}, on_tools=lambda _, tools: told.append(tuple(tool.name for tool in tools))
    ) as servers:
        await servers.tools("one")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, servers, "wait")
            await until(lambda: servers.status()["one"].in_flight == 1, "a call is under way")
            await call(servers, "change")
            servers.replace("one", tiny())
            told.clear()
            await servers.tools("one")
            tasks.cancel_scope.cancel()
    assert set(told) == {("echo", "hang", "crash", "spawn")}


async def test_a_server_that_was_only_listed_is_stopped_when_idle_and_listed_again_when_called() -> None:
    told: list[str] = []
    config, before = tiny(idle_timeout=0.2), child_processes()
    async with McpServers({"one": config}, on_tools=lambda name, _: told.append(name)) as servers:
        await servers.tools("one")
        await until(lambda: child_processes() <= before, "it was stopped")
        assert servers.status()["one"].tools == 4
        told.clear()
        await call(servers, "echo")
        await until(lambda: told == ["one"], "it was listed again")
