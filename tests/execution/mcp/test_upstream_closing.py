"""Servers and their calls at shutdown and after removal."""

import anyio
import pytest
from execution.mcp.calling import call, child_processes
from servers.launch import tiny
from waiting import PATIENCE, until

from toolcrib.errors import (
    BackendUnavailableError,
    ToolCancelledError,
)
from toolcrib.execution.mcp import McpServers

pytestmark = pytest.mark.anyio

PID = {"result": {"structuredContent": {"pid": "$pid"}}}
ECHO = {"result": {"structuredContent": "$params"}}


async def test_calls_under_way_are_cancelled_when_it_closes() -> None:
    failures: list[BaseException] = []

    async def hang() -> None:
        try:
            await call(servers, "hang")
        except ToolCancelledError as error:
            failures.append(error)

    before = child_processes()
    async with anyio.create_task_group() as tasks, McpServers({"one": tiny(), "two": tiny()}) as servers:
        await call(servers, "echo")
        tasks.start_soon(hang)
        tasks.start_soon(hang)
        await until(lambda: servers.status()["one"].in_flight == 2, "both are under way")
    assert [str(failure) for failure in failures] == ["one:hang was cancelled: toolcrib is closing"] * 2
    assert servers.status()["one"].state == "closed"
    await until(lambda: child_processes() <= before)


async def test_a_start_under_way_is_broken_off_when_it_closes() -> None:
    failures: list[BaseException] = []

    async def ask() -> None:
        try:
            await call(servers, "echo")
        except ToolCancelledError as error:
            failures.append(error)

    before = child_processes()
    config = {"command": "sleep", "args": ["600"]}
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks, McpServers({"one": config}) as servers:
            tasks.start_soon(ask)
            await until(lambda: servers.status()["one"].state == "starting", "it is starting")
    assert len(failures) == 1
    await until(lambda: child_processes() <= before, "the process has ended")


async def fail_inside() -> None:
    async with McpServers({"one": tiny()}) as servers:
        await call(servers, "echo")
        raise LookupError("mine")


async def test_error_of_the_block_is_raised_unchanged() -> None:
    before = child_processes()
    with pytest.raises(LookupError, match="mine"):
        await fail_inside()
    await until(lambda: child_processes() <= before)


async def test_pool_can_be_left_by_cancellation() -> None:
    before = child_processes()
    with anyio.move_on_after(PATIENCE) as scope:
        async with McpServers({"one": tiny(), "two": tiny("--stubborn")}) as servers:
            await call(servers, "echo")
            await call(servers, "echo", server="two")
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    await until(lambda: child_processes() <= before)


async def test_a_server_that_is_removed_fails_its_calls_and_no_others() -> None:
    reasons: list[str] = []

    async def hang(server: str) -> None:
        try:
            await call(servers, "hang", server=server)
        except BackendUnavailableError as error:
            reasons.append(str(error))

    async with McpServers({"one": tiny(), "two": tiny()}) as servers, anyio.create_task_group() as tasks:
        tasks.start_soon(hang, "one")
        tasks.start_soon(hang, "two")
        await until(
            lambda: [each.in_flight for each in servers.status().values()] == [1, 1], "both are under way"
        )
        servers.retire("one", within=0)
        await until(lambda: bool(reasons), "the call was told")
        assert "it was removed" in reasons[0]
        assert servers.names == ("two",)
        assert servers.status()["two"].in_flight == 1
        tasks.cancel_scope.cancel()
