import json
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from execution.mcp.support import call, connect, plain, session, typed
from mcp.client._probe import negotiate_auto
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError
from mcp_types import RootsListChangedNotification
from servers.launch import alive
from waiting import PATIENCE, until

from toolcrib.errors import ServerUnavailableError
from toolcrib.execution.mcp import ServerConfig
from toolcrib.execution.mcp.errors import transport_facts
from toolcrib.execution.mcp.transport.process import StderrTail
from toolcrib.execution.mcp.transport.stdio import stdio_transport

pytestmark = pytest.mark.anyio

TEN_MEGABYTES = 10_000_000


@pytest.mark.parametrize(
    ("config", "negotiate", "version"),
    [
        (typed(), negotiate_auto, "2026-07-28"),
        pytest.param(typed(), ClientSession.initialize, "2025-11-25", marks=pytest.mark.proof),
        (plain(), negotiate_auto, "2025-11-25"),
        (plain(), ClientSession.initialize, "2025-11-25"),
    ],
    ids=["modern", "typed-handshake", "probed", "handshake"],
)
async def test_large_results_arrive_in_both_eras(
    config: ServerConfig, negotiate: Callable[[ClientSession], Awaitable[Any]], version: str
) -> None:
    tail = StderrTail()
    with anyio.fail_after(PATIENCE):
        async with stdio_transport(config, name="it", stderr=tail) as streams, session(streams) as found:
            await negotiate(found)
            assert found.protocol_version == version
            assert await call(found, "echo", text="héllo\u2028 \n") == "héllo\u2028 \n"
            assert await call(found, "big", size=TEN_MEGABYTES) == "x" * TEN_MEGABYTES


async def test_a_large_argument_arrives() -> None:
    async with connect(plain()) as found:
        assert len(await call(found, "echo", text="y" * TEN_MEGABYTES)) == TEN_MEGABYTES


async def test_many_calls_at_once_each_get_their_answer() -> None:
    async with connect(plain()) as found:
        answers: dict[int, str] = {}

        async def ask(number: int) -> None:
            answers[number] = await call(found, "echo", text=str(number))

        async with anyio.create_task_group() as tasks:
            for number in range(64):
                tasks.start_soon(ask, number)
        assert answers == {number: str(number) for number in range(64)}


async def test_stray_output_of_a_server_is_skipped_and_kept() -> None:
    tail = StderrTail()
    async with connect(plain("--banner"), tail) as found:
        assert await call(found, "echo", text="fine") == "fine"
        assert (
            await call(
                found,
                "raw",
                before="oops\nmore\n",
                line=json.dumps({"jsonrpc": "2.0", "id": 0, "result": {}})
                .replace("0,", "ID,")
                .replace("{}", '{"content": []}'),
            )
            == ""
        )
    assert tail.stray_lines == 7
    assert tail.text().startswith("[stdout] Welcome!\n")


async def test_a_server_may_log_its_start_and_whatever_it_likes_after_its_first_message() -> None:
    tail = StderrTail()
    answer = '{"jsonrpc": "2.0", "id": ID, "result": {"content": []}}'
    async with connect(plain("--log"), tail) as found:
        assert await call(found, "raw", before="same\n" * 200, line=answer) == ""
        assert await call(found, "echo", text="fine") == "fine"
    assert tail.stray_lines == 290


async def test_a_program_that_prints_and_never_speaks_is_given_up() -> None:
    counting = "n=0; while true; do n=$((n+1)); echo line $n; done"
    config = ServerConfig(command="sh", args=("-c", counting))
    async with stdio_transport(config, name="plain", stderr=StderrTail()) as (inbox, _):
        with anyio.fail_after(PATIENCE):
            told = [each async for each in inbox]
    assert [str(each).partition(";")[0] for each in told] == [
        "server 'plain' is unavailable: it writes text to standard output that is not MCP, such as 'line 100'"
    ]


async def test_an_answer_with_broken_characters_is_an_answer() -> None:
    line = '{"jsonrpc": "2.0", "id": ID, "result": {"content": [{"type": "text", "text": "a\xffb\\ud800"}]}}'
    async with connect(plain()) as found:
        assert await call(found, "raw", before="", line=line) == "a\ufffdb?"


async def test_an_answer_that_is_none_fails_its_call_alone() -> None:
    async with connect(plain()) as found:
        with pytest.raises(MCPError, match="it gave an answer that is not JSON-RPC"):
            await call(found, "raw", before="", line='{"jsonrpc": "2.0", "id": ID, "result": null}')
        assert await call(found, "echo", text="on") == "on"


async def test_arguments_that_are_no_json_fail_their_call_alone() -> None:
    async with connect(plain()) as found:
        with pytest.raises(MCPError, match="the arguments are not JSON"):
            await call(found, "echo", text="\ud800")
        assert await call(found, "echo", text="on") == "on"


async def test_a_message_that_is_no_request_and_no_json_is_dropped() -> None:
    async with connect(plain()) as found:
        await found.send_notification(RootsListChangedNotification.model_construct(method="\ud800"))
        assert await call(found, "echo", text="on") == "on"


@pytest.mark.parametrize("tool", ["die", "orphan"])
async def test_the_death_of_a_server_ends_its_calls_at_once(tool: str) -> None:
    tail, seen, outcomes = StderrTail(), [], []

    async def wait_for_ever() -> None:
        with pytest.raises(MCPError) as caught:
            await found.call_tool("silent", {})
        outcomes.append(caught.value.code)

    async with connect(plain(), tail, seen) as found:
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                for _ in range(3):
                    tasks.start_soon(wait_for_ever)
                await anyio.wait_all_tasks_blocked()
                with pytest.raises(MCPError, match="Connection closed"):
                    await call(found, tool)
            with pytest.raises(MCPError, match="Connection closed"):
                await call(found, "echo", text="nobody")
        assert outcomes == [-32000] * 3
        await until(lambda: bool(seen))
    (error,) = seen
    assert isinstance(error, ServerUnavailableError)
    assert (error.server, error.reason) == ("plain", f"it exited with status {3 if tool == 'die' else 0}")
    if tool == "die":
        assert tail.text() == "out of luck"
    else:
        await until(lambda: not alive(int(tail.text())))


async def test_a_server_that_closes_its_output_is_given_up() -> None:
    seen: list[Any] = []
    async with connect(plain(), seen=seen, grace=0.01) as found:
        with pytest.raises(MCPError, match="Connection closed"):
            await call(found, "close-output")
        await until(lambda: bool(seen))
    assert seen[0].reason == "it closed its output"


async def test_a_server_that_closes_its_input_is_given_up() -> None:
    seen: list[Any] = []
    async with connect(plain(), seen=seen, grace=0.01) as found:
        assert await call(found, "close-input") == "closed"
        with pytest.raises(MCPError, match="Connection closed"):
            await call(found, "echo", text="z" * 1_000_000)
        await until(lambda: bool(seen))
    assert seen[0].reason == "it closed its input"


async def test_a_message_that_is_too_long_ends_the_connection_and_says_why() -> None:
    seen: list[Any] = []
    async with connect(plain(), seen=seen, max_message_bytes=100_000) as found:
        assert len(await call(found, "big", size=90_000)) == 90_000
        with pytest.raises(MCPError, match="Connection closed"):
            await call(found, "big", size=TEN_MEGABYTES)
        await until(lambda: bool(seen))
    assert seen[0].reason == "it sent a message of more than 100000 bytes"


async def test_a_server_that_does_not_read_blocks_no_cancellation() -> None:
    async with connect(plain(), grace=0.01) as found:
        assert await call(found, "deaf") == "no more"
        for _ in range(3):
            with anyio.fail_after(PATIENCE), anyio.move_on_after(0.05) as scope:
                await found.call_tool("echo", {"text": "w" * 1_000_000})
            assert scope.cancelled_caught


async def test_a_server_whose_session_does_not_listen_is_stopped_all_the_same() -> None:
    with anyio.fail_after(PATIENCE):
        async with stdio_transport(plain("--banner"), name="it", stderr=StderrTail()) as (_, write):
            await write.aclose()
        program = 'print(\'{"jsonrpc": "2.0", "method": "x"}\\n\' * 100_000, flush=True)'
        noisy = ServerConfig(command=sys.executable, args=["-S", "-c", program])
        async with stdio_transport(noisy, name="it", stderr=StderrTail()):
            pass


async def test_the_end_is_told_though_nobody_listens() -> None:
    quick = ServerConfig(
        command=sys.executable, args=["-S", "-c", 'print(\'{"jsonrpc": "2.0", "method": "x"}\')']
    )
    with anyio.fail_after(PATIENCE):
        async with stdio_transport(quick, name="it", stderr=StderrTail()) as (read, write):
            received = [item async for item in read]
            with pytest.raises(anyio.BrokenResourceError):
                await write.send(received[0])
    assert [type(item).__name__ for item in received] == ["SessionMessage", "ServerUnavailableError"]


async def test_leaving_the_block_stops_the_server_and_what_it_started() -> None:
    async with connect(plain("--stubborn"), grace=0.01) as found:
        pids = json.loads(await call(found, "pids"))
        assert all(map(alive, pids))
    await until(lambda: not any(map(alive, pids)))


async def test_cancelling_the_block_stops_the_server_too() -> None:
    pids: list[int] = []
    with anyio.CancelScope() as scope:
        async with connect(plain(), grace=0.01) as found:
            pids = json.loads(await call(found, "pids"))
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    await until(lambda: not any(map(alive, pids)))


async def test_the_exceptions_of_the_block_come_out_as_they_are() -> None:
    with pytest.raises(KeyError, match="mine"):
        async with stdio_transport(plain(), name="it", stderr=StderrTail()):
            raise KeyError("mine")


async def test_a_server_that_cannot_be_started_is_unavailable() -> None:
    with pytest.raises(
        ServerUnavailableError, match="server 'it' is unavailable: there is no program 'nothing'"
    ):
        async with stdio_transport(ServerConfig(command="nothing"), name="it", stderr=StderrTail()):
            pass


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def programs_of_ours() -> str:
    found = ""
    for child in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        with suppress(OSError):  # it has ended meanwhile
            found += Path(f"/proc/{child}/cmdline").read_text()
    return found


@pytest.mark.proof
async def test_nothing_is_left_over_after_many_connections() -> None:
    async with connect(plain()):
        before = open_files()
    for number in range(20):
        with anyio.fail_after(PATIENCE):
            async with connect(plain()) as found:
                if number % 2:
                    with pytest.raises(MCPError):
                        await call(found, "die")
    await until(lambda: open_files() <= before)
    await until(lambda: "plain_server" not in programs_of_ours())


@pytest.mark.proof
async def test_a_server_that_does_not_read_costs_no_call_its_deadline_and_no_memory() -> None:
    async with connect(plain(), grace=0.01) as found:
        assert await call(found, "deaf") == "no more"
        text = "w" * 2_000_000
        for _ in range(300):  # more than what may wait, were it not given up
            with anyio.fail_after(PATIENCE), anyio.move_on_after(0.001) as scope:
                await found.call_tool("echo", {"text": text})
            assert scope.cancelled_caught


async def test_a_call_is_refused_when_too_much_waits_for_a_server_that_does_not_read() -> None:
    refusals: list[MCPError] = []

    async def ask() -> None:
        try:
            await found.call_tool("echo", {"text": "w" * 8_000_000})
        except MCPError as error:
            refusals.append(error)

    async with connect(plain(), grace=0.01) as found:
        assert await call(found, "deaf") == "no more"
        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(ask)
            await until(lambda: len(refusals) == 2)
            tasks.cancel_scope.cancel()
    assert all(transport_facts(error.data) == {"sent": False} for error in refusals)
    assert refusals[0].message.startswith("it does not read its input")


async def test_a_server_that_reads_nothing_and_has_nothing_to_do_is_given_up() -> None:
    seen: list[Any] = []
    async with connect(plain(), seen=seen, grace=0.01, patience=0.3) as found:
        assert await call(found, "deaf") == "no more"
        with pytest.raises(MCPError, match="Connection closed"):
            await call(found, "echo", text="w" * 1_000_000)
        await until(lambda: bool(seen))
    assert seen[0].reason == "it has not read its input for 0.3 s"


async def test_a_server_that_works_on_a_call_may_take_its_time_to_read() -> None:
    for patience in (
        0.1,
        1.0,
        10.0,
    ):  # one that is held up after its work, as on a busy machine, may be given up
        if await is_waited_for(patience):
            return
    pytest.fail("it was given up each time")


async def is_waited_for(patience: float) -> bool:
    """Return whether a server that works on a call for longer than it may leave its input is let be."""
    outcomes: list[str] = []

    async def work() -> None:
        with suppress(MCPError):
            outcomes.append(await call(found, "busy", seconds=3 * patience))

    async with connect(plain(), patience=patience) as found, anyio.create_task_group() as tasks:
        tasks.start_soon(work)
        await anyio.wait_all_tasks_blocked()
        with suppress(MCPError):
            outcomes.append(str(len(await call(found, "echo", text="w" * 1_000_000))))
    return outcomes == ["done", "1000000"]


async def test_a_cancellation_of_what_was_heard_is_told() -> None:
    async def heard(what: str) -> bool:
        return what in json.loads(await call(found, "heard"))

    async with connect(plain()) as found:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: found.call_tool("silent", {}))
            await until(lambda: heard("silent"))
            tasks.cancel_scope.cancel()
        await until(lambda: heard("notifications/cancelled"))
