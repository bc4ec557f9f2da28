"""Servers on a pipe: how they are greeted, restarted, given up, followed and stopped."""

import os
import signal
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from contracts.executor import DEADLINES
from execution.mcp.calling import call, child_processes, scripted_server
from servers.launch import alive, faulty, tiny
from waiting import PATIENCE, until

from toolcrib.errors import (
    BackendUnavailableError,
    ServerUnavailableError,
    ToolExecutionError,
    ToolTimeoutError,
)
from toolcrib.execution import Update
from toolcrib.execution.mcp import McpServers
from toolcrib.execution.mcp.server_health import Breaker
from toolcrib.execution.mcp.transport.process import ServerProcess

pytestmark = pytest.mark.anyio

PID = {"result": {"structuredContent": {"pid": "$pid"}}}
ECHO = {"result": {"structuredContent": "$params"}}


class Clock:
    """A clock that stands still."""

    time = 0.0

    def __call__(self) -> float:
        return self.time


async def pid_of(servers: McpServers) -> int:
    return int((await call(servers, "pid")).structured["pid"])


@pytest.mark.parametrize(
    ("way", "version", "starts"),
    [
        ("refuse", "2025-06-18", 1),
        ("ignore", "2025-06-18", 1),
        ("hangup", "2025-06-18", 2),
        ("modern", "2026-07-28", 1),
        ("stranger", "2025-06-18", 1),
        ("vague", "2025-06-18", 1),
    ],
)
async def test_servers_of_either_era_are_greeted_as_they_expect(way: str, version: str, starts: int) -> None:
    async with McpServers({"one": scripted_server(discover=way, calls={"pid": [PID]})}) as servers:
        assert await pid_of(servers)
        status = servers.status()["one"]
        assert (status.state, status.protocol_version, status.starts) == ("ready", version, starts)


@pytest.mark.parametrize(("way", "version"), [("ignore", "2025-06-18"), ("locked", "2026-07-28")])
async def test_silence_is_waited_out_within_a_short_time_to_start_too(way: str, version: str) -> None:
    for seconds in (0.9, *[2.9] * 20):  # less than silence is given else; a busy machine may need some tries
        config = scripted_server(settings={"start_timeout": seconds}, discover=way, calls={"pid": [PID]})
        async with McpServers({"one": config}) as servers:
            with suppress(BackendUnavailableError):
                assert await pid_of(servers)
                status = servers.status()["one"]
                assert (status.protocol_version, status.starts) == (version, 1)
                return
    pytest.fail("it never started in time")


async def test_a_server_that_sticks_at_the_first_question_is_greeted_otherwise_at_the_next_start() -> None:
    config = scripted_server(discover="stick", calls={"pid": [PID]})
    async with McpServers({"one": config | {"start_timeout": 0.3}}) as servers:
        with pytest.raises(BackendUnavailableError, match=r"did not start within 0\.3 s"):
            await pid_of(servers)
        servers.replace("one", config | {"start_timeout": PATIENCE})
        assert await pid_of(servers)


async def test_a_server_that_hung_up_with_a_complaint_about_the_greeting_is_greeted_otherwise() -> None:
    config = scripted_server(
        discover="hangup", words="Error: expected initialize request", calls={"pid": [PID]}
    )
    async with McpServers({"one": config}) as servers:
        assert await pid_of(servers)
        assert servers.status()["one"].starts == 2


async def test_a_server_that_crashes_at_its_start_is_started_once_and_its_words_are_told() -> None:
    config = scripted_server(stderr="Traceback: no module named x", exit=3)
    async with McpServers({"one": config}) as servers:
        with pytest.raises(BackendUnavailableError, match=r"it exited with status 3$") as caught:
            await call(servers, "pid")
        assert caught.value.sent is False
        assert getattr(caught.value.__cause__, "stderr", "") == "Traceback: no module named x"
        status = servers.status()["one"]
        assert (status.state, status.starts) == ("failed", 1)
        assert "status 3" in (status.last_error or "")
        assert status.stderr == "Traceback: no module named x"


async def test_a_server_that_knows_later_revisions_alone_is_told() -> None:
    async with McpServers({"one": scripted_server(discover="ahead")}) as servers:
        with pytest.raises(ServerUnavailableError, match="Unsupported revision"):
            await servers.tools("one")


async def test_a_server_that_refuses_a_revision_and_names_one_that_we_know_is_asked_again_in_that() -> None:
    async with McpServers({"one": scripted_server(discover="fussy", calls={"pid": [PID]})}) as servers:
        assert await pid_of(servers)
        assert servers.status()["one"].protocol_version == "2026-07-28"


async def test_a_revision_that_nobody_knows_is_told() -> None:
    async with McpServers({"one": scripted_server(version="1999-01-01")}) as servers:
        with pytest.raises(ServerUnavailableError, match="1999-01-01"):
            await servers.tools("one")


async def test_variables_that_are_not_set_are_told() -> None:
    async with McpServers({"one": {"command": "${NOT_SET}"}}, environ={}) as servers:
        with pytest.raises(ServerUnavailableError, match="NOT_SET"):
            await servers.tools("one")


async def test_nothing_is_started_before_it_is_wanted() -> None:
    async with McpServers({"one": scripted_server(calls={"pid": [PID]}), "two": tiny()}) as servers:
        assert {name: status.state for name, status in servers.status().items()} == {
            "one": "stopped",
            "two": "stopped",
        }
        await pid_of(servers)
        assert servers.status()["two"].starts == 0


async def test_first_calls_at_once_share_one_start() -> None:
    pids: set[int] = set()

    async def ask() -> None:
        pids.add(await pid_of(servers))

    async with McpServers({"one": scripted_server(calls={"pid": [PID]})}) as servers:
        async with anyio.create_task_group() as tasks:
            for _ in range(64):
                tasks.start_soon(ask)
        assert len(pids) == 1
        assert servers.status()["one"].starts == 1


async def test_the_failure_of_a_start_is_told_to_all_who_wait_for_it() -> None:
    failures: list[str] = []

    async def ask() -> None:
        with pytest.raises(BackendUnavailableError) as caught:
            await call(servers, "pid")
        failures.append(caught.value.reason)

    async with McpServers({"one": scripted_server(stderr="no", exit=1)}) as servers:
        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(ask)
        assert len(set(failures)) == 1
        assert len(failures) == 8
        assert servers.status()["one"].starts == 1


async def test_a_server_that_does_not_start_in_time_is_given_up_and_ended() -> None:
    before = child_processes()
    config = {"command": "sleep", "args": ["600"], "start_timeout": 0.3}
    async with McpServers({"one": config}, breaker=partial(Breaker, clock=Clock())) as servers:
        for _ in range(4):  # it takes longer to end than that
            with pytest.raises(BackendUnavailableError, match=r"did not start within 0\.3 s") as caught:
                await call(servers, "pid")
            assert caught.value.sent is False
            status = servers.status()["one"]
            assert (status.state, status.last_error) == ("failed", "it did not start within 0.3 s")
            assert status.next_try_in
        await until(lambda: child_processes() <= before, "the process has ended")
        assert servers.status()["one"].state == "failed"


async def test_a_caller_with_less_time_than_a_start_takes_hears_that_nothing_was_sent() -> None:
    program = "echo 'waiting for the disk' >&2; exec sleep 600"
    config = {"command": "sh", "args": ["-c", program], "start_timeout": 600}
    async with McpServers({"one": config}) as servers:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, servers, "pid")
            await until(lambda: servers.status()["one"].stderr == "waiting for the disk")
            with pytest.raises(BackendUnavailableError) as caught:
                await call(servers, "pid", deadline=anyio.current_time() + 0.2)
            tasks.cancel_scope.cancel()
        assert caught.value.reason.startswith("it is still starting after ")
        assert caught.value.sent is False
        assert isinstance(caught.value.__cause__, ServerUnavailableError)
        assert caught.value.__cause__.stderr == "waiting for the disk"
        assert servers.status()["one"].state == "starting"


async def test_a_program_that_only_prints_text_is_no_server() -> None:
    program = "while true; do echo 'token=4f8a91c2 garbage'; done"
    async with McpServers({"one": {"command": "sh", "args": ["-c", program]}}) as servers:
        with pytest.raises(BackendUnavailableError, match=r"not MCP, such as 'token=\[secret\] garbage'"):
            await call(servers, "pid")
        status = servers.status()["one"]
        assert (status.state, status.starts) == ("failed", 1)
        assert status.last_error is not None
        assert status.last_error.startswith("it writes text to standard output")


async def test_a_server_that_is_late_every_time_is_left_alone_too() -> None:
    config = {"command": "sleep", "args": ["600"], "start_timeout": 0.2}
    async with McpServers({"one": config}, breaker=partial(Breaker, threshold=1, clock=Clock())) as servers:
        with pytest.raises(BackendUnavailableError, match="did not start"):
            await call(servers, "pid")
        with pytest.raises(BackendUnavailableError, match="failed 1 times in a row"):
            await call(servers, "pid")
        assert servers.status()["one"].starts == 1


async def test_a_caller_who_gives_up_does_not_stop_the_start(tmp_path: Path) -> None:
    config = scripted_server(gate=str(tmp_path / "gate"), calls={"pid": [PID]})
    async with McpServers({"one": config | {"start_timeout": PATIENCE}}) as servers:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pid_of, servers)
            await until(lambda: servers.status()["one"].starts == 1)
            tasks.cancel_scope.cancel()
        assert servers.status()["one"].state == "starting"
        (tmp_path / "gate").touch()
        assert await pid_of(servers)
        assert servers.status()["one"].starts == 1


async def test_how_a_server_ended_during_a_call_is_told_however_long_it_takes_to_find_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stop = ServerProcess.stop

    async def slowly(self: ServerProcess, **options: float) -> None:
        await anyio.sleep(1)
        await stop(self, **options)

    monkeypatch.setattr(ServerProcess, "stop", slowly)
    async with McpServers({"one": scripted_server(calls={"crash": [{"exit": 7}]})}) as servers:
        with pytest.raises(BackendUnavailableError, match="it exited with status 7 during the call"):
            await call(servers, "crash")


async def test_a_running_server_that_reports_a_closed_connection_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("toolcrib.execution.mcp.calls._EXIT_TIMEOUT", 10 * PATIENCE)
    said = {"error": {"code": -32000, "message": "Connection closed"}}
    async with McpServers({"one": scripted_server(calls={"pass_on": [said]})}) as servers:
        with anyio.fail_after(PATIENCE), pytest.raises(ToolExecutionError, match="Connection closed"):
            await call(servers, "pass_on")


@pytest.mark.parametrize("era", ["refuse", "modern"])
async def test_a_server_that_dies_during_a_call_is_told_at_once_and_started_by_the_next(era: str) -> None:
    steps = [{"stderr": "I am going down"}, {"exit": 7}]
    config = scripted_server(discover=era, calls={"crash": steps, "pid": [PID]})
    async with McpServers({"one": config}) as servers:
        first = await pid_of(servers)
        with pytest.raises(BackendUnavailableError) as caught:
            await call(servers, "crash")
        assert caught.value.sent is True
        assert "it exited with status 7 during the call" in caught.value.reason
        assert "I am going down" not in caught.value.reason
        assert getattr(caught.value.__cause__, "stderr", "") == "I am going down"
        assert await pid_of(servers) != first
        assert servers.status()["one"].last_error is None


async def test_a_server_that_dies_between_calls_is_started_by_the_next() -> None:
    async with McpServers({"one": scripted_server(calls={"pid": [PID]})}) as servers:
        first = await pid_of(servers)
        os.kill(first, signal.SIGKILL)
        await until(lambda: servers.status()["one"].state != "ready", "its death was seen")
        assert "SIGKILL" in (servers.status()["one"].last_error or "")
        assert await pid_of(servers) != first
        assert servers.status()["one"].state == "ready"


async def test_all_calls_on_a_server_that_dies_are_told() -> None:
    async def hang() -> None:
        with pytest.raises(BackendUnavailableError):
            await call(servers, "hang")

    async with McpServers({"one": tiny()}) as servers:
        await call(servers, "echo")
        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(hang)
            await until(lambda: servers.status()["one"].in_flight == 8, "all are under way")
            with pytest.raises(BackendUnavailableError):
                await call(servers, "crash")
        assert servers.status()["one"].in_flight == 0


async def test_a_server_that_keeps_failing_is_left_alone_for_a_while() -> None:
    clock = Clock()
    breaker = partial(Breaker, threshold=2, base=0.01, clock=clock, chance=lambda: 0.0)
    async with McpServers({"one": scripted_server(stderr="broken", exit=1)}, breaker=breaker) as servers:
        for starts in (1, 2):
            with pytest.raises(BackendUnavailableError, match="status 1"):
                await call(servers, "pid")
            assert servers.status()["one"].starts == starts
        for _ in range(3):
            with pytest.raises(
                BackendUnavailableError, match=r"failed 2 times in a row.*is not tried again for 0\.0 s"
            ) as caught:
                await call(servers, "pid")
            assert caught.value.sent is False
            assert "status 1" in caught.value.reason
        with pytest.raises(ServerUnavailableError, match="failed 2 times"):
            await servers.tools("one")
        status = servers.status()["one"]
        assert (status.state, status.starts, status.next_try_in) == ("failed", 2, 0.02)
        clock.time += 0.02
        assert servers.status()["one"].next_try_in is None
        with pytest.raises(BackendUnavailableError, match="status 1"):
            await call(servers, "pid")
        assert servers.status()["one"].starts == 3


@pytest.mark.parametrize("listed", [False, True])
async def test_a_tool_that_kills_its_server_does_not_lock_the_others_out(listed: bool) -> None:
    breaker = partial(Breaker, threshold=2, base=0.01, clock=Clock(), chance=lambda: 0.0)
    config = scripted_server(calls={"crash": [{"exit": 7}], "pid": [PID]})
    async with McpServers({"one": config}, breaker=breaker) as servers:
        for _ in range(4):
            died = time.monotonic()
            if listed:
                await servers.tools("one")
            with pytest.raises(BackendUnavailableError, match="status 7 during the call") as caught:
                await call(servers, "crash")
            assert caught.value.sent
        await until(lambda: servers.status()["one"].state == "failed", "its death was seen")
        assert (servers.status()["one"].next_try_in or 0) <= 2
        assert await pid_of(servers)
        assert servers.status()["one"].next_try_in is None
        assert time.monotonic() - died > 0.5, "it was left alone for a moment"


async def test_a_server_that_dies_at_every_listing_is_left_alone_too() -> None:
    breaker = partial(Breaker, threshold=2, base=0.01, clock=Clock(), chance=lambda: 0.0)
    async with McpServers({"one": scripted_server(list="exit")}, breaker=breaker) as servers:
        for _ in range(2):
            with pytest.raises(ServerUnavailableError, match="cannot be listed"):
                await servers.tools("one")
            await until(lambda: servers.status()["one"].state == "failed", "its death was seen")
        with pytest.raises(ServerUnavailableError, match="failed 2 times in a row"):
            await servers.tools("one")


async def test_an_idle_server_is_stopped_and_started_by_the_next_call() -> None:
    config = scripted_server(settings={"idle_timeout": 0.2}, calls={"pid": [PID]})
    async with McpServers({"one": config}) as servers:
        first = await pid_of(servers)
        await until(lambda: servers.status()["one"].state == "stopped", "it was stopped")
        await until(lambda: not alive(first), "its process has ended")
        assert servers.status()["one"].last_error is None
        assert await pid_of(servers) != first


@pytest.mark.parametrize("turns", range(6))
async def test_a_call_in_the_moment_an_idle_server_is_stopped_is_run(turns: int) -> None:
    config = scripted_server(settings={"idle_timeout": 0.1}, calls={"pid": [PID]})
    async with McpServers({"one": config}) as servers:
        first = await pid_of(servers)
        idle = anyio.current_time() + 0.1
        while anyio.current_time() < idle:
            await anyio.lowlevel.checkpoint()
        for _ in range(turns):
            await anyio.lowlevel.checkpoint()
        second = await pid_of(servers)
        assert (servers.status()["one"].starts == 1) == (second == first)


async def test_a_server_is_not_idle_while_a_call_runs() -> None:
    configs = {"one": tiny(idle_timeout=0.1), "idle": tiny(idle_timeout=0.1)}
    async with McpServers(configs) as servers, anyio.create_task_group() as tasks:
        tasks.start_soon(call, servers, "hang")
        await until(lambda: servers.status()["one"].in_flight == 1)
        starts = servers.status()["one"].starts
        await call(servers, "echo", server="idle")
        await until(lambda: servers.status()["idle"].state == "stopped", "the other was idle for as long")
        status = servers.status()["one"]
        assert (status.state, status.starts, status.in_flight) == ("ready", starts, 1)
        tasks.cancel_scope.cancel()


async def test_a_server_may_be_kept_for_ever() -> None:
    async with McpServers({"one": tiny(idle_timeout=None)}) as servers:
        await call(servers, "echo")
        assert servers.status()["one"].state == "ready"


async def test_no_more_calls_run_at_once_than_allowed_and_waiting_can_be_given_up() -> None:
    begun: list[Update] = []

    async def emit(update: Update) -> None:
        begun.append(update)

    async with McpServers({"one": faulty(max_concurrency=2)}) as servers:
        async with anyio.create_task_group() as tasks:
            for number in range(2):
                tasks.start_soon(partial(call, servers, "hang", {"key": str(number)}, emit=emit))
            await until(lambda: len(begun) == 2)
            with anyio.move_on_after(0.1) as scope:
                await call(servers, "echo", {"text": "waits"})
            assert scope.cancelled_caught
            tasks.cancel_scope.cancel()
        assert (await call(servers, "echo", {"text": "a"})).structured == {"text": "a"}
        assert (await call(servers, "seen")).structured["calls"] == 4


async def test_a_server_may_have_a_deadline_of_its_own() -> None:
    begun = anyio.Event()

    async def emit(_: Update) -> None:
        begun.set()

    async def cancelled() -> bool:
        return key in (await call(servers, "seen")).structured["cancelled"]

    async with McpServers({"one": faulty()}) as servers:
        await servers.tools("one")
        for seconds in DEADLINES:
            key = f"deadline of {seconds:g} s"
            servers.replace("one", faulty(timeout=seconds))
            with pytest.raises(ToolTimeoutError) as caught:
                await call(servers, "hang", {"key": key}, emit=emit)
            assert caught.value.timeout == seconds
            assert caught.value.backend == "mcp:one"
            if begun.is_set():
                break
        servers.replace("one", faulty())
        await until(cancelled)
