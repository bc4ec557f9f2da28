"""Servers that hang, flood and lie: a typed error soon, no effect on others, and the next call works."""

import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from contracts.executor import DEADLINES
from effort import at_most
from execution.mcp.calling import child_processes
from execution.ward import Begun, made, neighbour, wait_for_recovery, ward
from servers.launch import (
    ROOT,
    Config,
    HttpServer,
    alive,
    children,
    closed_port,
    descriptors,
    end,
    faulty,
    tiny,
)
from servers.shop import Shop, opened
from waiting import PATIENCE, until

from toolcrib.errors import (
    BackendUnavailableError,
    OutputValidationError,
    ServerUnavailableError,
    ToolExecutionError,
    ToolNotFoundError,
    ToolTimeoutError,
)
from toolcrib.execution import Call
from toolcrib.execution.mcp import McpServers
from toolcrib.model import McpBackend, Tool

pytestmark = pytest.mark.anyio

MEGABYTES = 10_000_000
CYCLES = [24, pytest.param(200, marks=pytest.mark.proof)]
OURS = {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT / 'tests'}"}
"""The path on which our own processes find the package and the servers."""


ERAS = [
    pytest.param("", id="stateless"),
    pytest.param("--handshake", id="handshake", marks=pytest.mark.proof),
]
EVERYWHERE = [
    "stdio",
    pytest.param("stdio-handshake", marks=pytest.mark.proof),
    pytest.param("http", marks=pytest.mark.proof),
    "http-handshake",
]


@pytest.fixture(scope="module", params=EVERYWHERE)
async def shop(request: pytest.FixtureRequest, anyio_backend: str) -> AsyncIterator[Shop]:  # noqa: ARG001 - of the same scope
    """A server that lives on from fault to fault, as it would with users, and a sound one."""
    with made(request.param) as patient:
        async with ward(patient.config) as shop:
            yield shop
            assert shop.servers.status()["faulty"].starts == 1


async def test_a_tool_that_hangs_meets_its_deadline_and_is_told(shop: Shop) -> None:
    async with neighbour(shop):
        for seconds in DEADLINES:
            begun = Begun()
            args = {"key": f"deadline of {seconds:g} s"}
            with pytest.raises(ToolTimeoutError) as caught:
                await shop.runner.run("faulty:hang", args, timeout=seconds, progress=begun)
            assert caught.value.backend == "mcp:faulty"
            if begun.event.is_set():
                break
        assert (await shop.run("faulty:add", a=1, b=2)).structured == {"sum": 3}
        await told(shop, args["key"])


async def told(shop: Shop, key: str) -> None:
    """Wait until a hanging tool has heard that it was cancelled."""

    async def cancelled() -> bool:
        return key in (await shop.run("faulty:seen")).structured["cancelled"]

    await until(cancelled)


async def test_a_server_that_stands_still_keeps_to_the_deadline_and_goes_on_later(shop: Shop) -> None:
    async with neighbour(shop):
        pid = (await shop.run("faulty:seen")).structured["pid"]
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(ToolTimeoutError):
                await shop.runner.run("faulty:add", {"a": 1, "b": 2}, timeout=0.5)
            await shop.run("sound:echo")
        finally:
            os.kill(pid, signal.SIGCONT)
        await wait_for_recovery(shop)


async def test_a_call_that_is_given_up_reaches_the_server(shop: Shop) -> None:
    begun = Begun()
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            args = {"key": "given up"}
            tasks.start_soon(lambda: shop.runner.run("faulty:hang", args, progress=begun))
            await begun.event.wait()
            tasks.cancel_scope.cancel()
    await told(shop, "given up")


async def test_a_slow_start_delays_nobody_else(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    async with opened(faulty=faulty("--gate", str(gate)), sound=tiny()) as shop:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(shop.list, "faulty")
            await until(lambda: shop.servers.status()["faulty"].state == "starting")
            await shop.list("sound")
            for _ in range(3):
                await shop.run("sound:echo")
            assert shop.servers.status()["faulty"].state == "starting"
            gate.touch()
        assert (await shop.run("faulty:add", a=1, b=2)).structured == {"sum": 3}


async def test_a_start_that_takes_too_long_is_no_unknown_tool_and_leaves_no_process() -> None:
    before = child_processes()
    async with opened(faulty=faulty("--slow", "600", start_timeout=0.5), sound=tiny()) as shop:
        await shop.list("sound")
        async with neighbour(shop):
            with pytest.raises(ServerUnavailableError) as caught:
                await shop.list("faulty")
            assert caught.value.server == "faulty"
            call = Call(tool=tool("add"), args={"a": 1, "b": 2}, backend=McpBackend(server_name="faulty"))
            with pytest.raises(BackendUnavailableError) as refused:
                await shop.servers.call(call)
            assert not refused.value.sent
        await until(lambda: len(child_processes() - before) == 1, "the slow process is gone")


def tool(name: str) -> Tool:
    """Return a definition that takes anything."""
    return Tool(name=name, namespace="faulty", input_schema={"type": "object"})


@pytest.mark.parametrize("spoilt", ["refuses", "no such program", "no server", "not listening"])
async def test_a_server_that_cannot_start_says_why(spoilt: str) -> None:
    with closed_port() as port:
        configs: dict[str, Config] = {
            "refuses": faulty("--refuse"),
            "no such program": {"command": "/nonexistent/program"},
            "no server": {"command": sys.executable, "args": ["-c", "print('hello')"]},
            "not listening": {"url": f"http://127.0.0.1:{port}/mcp"},
        }
        async with opened(faulty=configs[spoilt], sound=tiny()) as shop:
            await shop.list("sound")
            async with neighbour(shop):
                with pytest.raises(ServerUnavailableError) as caught:
                    await shop.list("faulty")
            assert "did not start within" not in caught.value.reason
            if spoilt == "refuses":
                assert "does not want to start" in caught.value.stderr


async def test_invalid_message_is_skipped(patient_that_babbles: Config) -> None:
    async with ward(patient_that_babbles) as shop:
        steps: list[str | None] = []
        await shop.run("faulty:babble", lines=1000)
        result = await shop.runner.run(
            "faulty:progress", {"steps": 3}, timeout=PATIENCE, progress=lambda *told: steps.append(told[2])
        )
        assert result.structured == {"steps": 3}
        assert steps == ["started", "step 1", "step 2", "step 3", "completed"]
        assert (await shop.run("faulty:add", a=1, b=2)).structured == {"sum": 3}
        assert shop.servers.status()["faulty"].starts == 1


@pytest.fixture(params=ERAS)
def patient_that_babbles(request: pytest.FixtureRequest) -> Config:
    return faulty("--banner", "--noise", "--stderr", "2000", *request.param.split())


async def test_ten_megabytes_come_through_and_hold_up_nobody(shop: Shop) -> None:
    async with neighbour(shop):
        for kind in ("big", "big_value"):
            with at_most(5):
                result = await shop.run(f"faulty:{kind}", size=MEGABYTES)
            value = result.structured if kind == "big" else "".join(result.structured["items"])
            assert len(value) == MEGABYTES
        assert (await shop.run("faulty:add", a=1, b=2)).structured == {"sum": 3}


async def test_a_result_beyond_the_limit_is_an_error_of_that_call_alone(shop: Shop) -> None:
    with pytest.raises(ToolExecutionError, match="16"):
        await shop.run("faulty:big", size=17 * 2**20)
    assert (await shop.run("faulty:add", a=1, b=2)).structured == {"sum": 3}
    assert shop.servers.status()["faulty"].starts == 1


async def test_a_result_that_is_not_what_the_schema_says(shop: Shop) -> None:
    with pytest.raises(OutputValidationError) as caught:
        await shop.run("faulty:lie")
    assert caught.value.backend == "mcp:faulty"
    assert (await shop.run("faulty:add", a=1, b=2)).structured == {"sum": 3}


async def test_an_error_of_the_protocol_is_an_error_of_that_call_alone(shop: Shop) -> None:
    with pytest.raises(ToolExecutionError, match="refused by the protocol"):
        await shop.run("faulty:refuse")
    assert (await shop.run("faulty:add", a=1, b=2)).structured == {"sum": 3}


@pytest.mark.parametrize("flag", ERAS)
async def test_stderr_of_a_server_is_kept(flag: str) -> None:
    async with opened(faulty=faulty("--stderr", "5", *flag.split())) as shop:
        await shop.list("faulty")
        await shop.run("faulty:complain", text="the belt slips")
        await until(
            lambda: "the belt slips" in shop.servers.status()["faulty"].stderr, "the complaint is kept"
        )
        assert "complaint 4" in shop.servers.status()["faulty"].stderr


async def test_tools_that_come_and_go_are_followed(shop: Shop) -> None:
    def known(name: str) -> bool:
        try:
            shop.index.resolve(name)
        except ToolNotFoundError:
            return False
        return True

    await shop.run("faulty:add_tool", name="late")
    await until(lambda: known("faulty:late"), "the tool that was added is known")
    assert (await shop.run("faulty:late", text="here")).structured == {"text": "here"}
    await shop.run("faulty:remove_tool", name="late")
    await until(lambda: not known("faulty:late"), "the tool that was removed is unknown")


async def test_tools_that_changed_while_the_server_was_down_are_known_after_it_came_back() -> None:
    with HttpServer("--handshake") as server:
        async with ward(server.config) as shop:
            await shop.run("faulty:add_tool", name="late")
            await until(lambda: shop.listed["faulty"] >= 2, "the change was seen")
            await server.restart()
            await wait_for_recovery(shop)
            seen = shop.listed["faulty"]
            await until(lambda: shop.listed["faulty"] > seen or "late" not in names(shop), "listed again")
            assert "late" not in names(shop)


def names(shop: Shop) -> set[str]:
    """Return the names of the tools of the faulty server."""
    return {item.name for item in shop.index.tools(namespace="faulty", limit=1000).items}


@pytest.mark.parametrize("transport", EVERYWHERE)
async def test_all_pages_of_a_long_list_are_read(transport: str) -> None:
    with made(transport, "--pages", "95") as patient:
        async with opened(faulty=patient.config) as shop:
            await shop.list("faulty")
            assert {f"page_{number:03}" for number in range(95)} <= names(shop)


async def test_leaving_ends_every_process_and_its_children() -> None:
    before = child_processes()
    async with opened(sound=tiny(), stubborn=tiny("--stubborn")) as shop:
        await shop.list("sound", "stubborn")
        tools = ("sound:spawn", "stubborn:spawn", "sound:echo", "stubborn:echo")
        pids = [(await shop.run(tool)).structured["pid"] for tool in tools]
        assert all(map(alive, pids))
    await until(lambda: not any(map(alive, pids)), "all have ended")
    await until(lambda: child_processes() <= before, "no process is left to be waited for")


async def line_of(process: subprocess.Popen[bytes]) -> bytes:
    """Return the next line that a process prints."""
    assert process.stdout is not None
    with anyio.fail_after(PATIENCE):
        line = await anyio.to_thread.run_sync(process.stdout.readline, abandon_on_cancel=True)
    assert line, "it ended"
    return line


VANISHING = """
import signal
import anyio
signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background inherit that it is ignored
from servers.launch import tiny
from servers.shop import opened

async def main():
    async with opened(sound=tiny(), stubborn=tiny("--stubborn")) as shop:
        await shop.list("sound", "stubborn")
        tools = ("sound:spawn", "stubborn:spawn", "sound:echo", "stubborn:echo")
        print(*[(await shop.run(tool)).structured["pid"] for tool in tools], flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


@pytest.mark.proof
@pytest.mark.parametrize(
    "sign",
    [
        pytest.param(signal.SIGKILL, id="SIGKILL"),
        pytest.param(signal.SIGTERM, id="SIGTERM", marks=pytest.mark.proof),
        pytest.param(signal.SIGINT, id="SIGINT", marks=pytest.mark.proof),
    ],
)
async def test_when_we_vanish_no_process_is_left(sign: signal.Signals) -> None:
    process = subprocess.Popen(  # noqa: ASYNC220 - it is started before anything else runs in this loop
        [sys.executable, "-c", VANISHING],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | OURS,
    )
    pids: list[int] = []
    try:
        pids = list(map(int, (await line_of(process)).split()))
        assert len(pids) == 4
        assert all(map(alive, pids))
        process.send_signal(sign)
        await until(lambda: not any(map(alive, pids)), "all its processes have ended")
    finally:
        for pid in (process.pid, *pids):
            end(pid)
        process.communicate()


HOLDING = """
import anyio, sys
from servers.shop import opened

async def main():
    async with opened(faulty={"url": sys.argv[1]}) as shop:
        await shop.list("faulty")
        await shop.runner.run("faulty:hang", {"key": "vanished"}, progress=lambda *told: print(told[2], flush=True))

anyio.run(main)
"""


@pytest.mark.proof
async def test_when_we_vanish_a_stateless_server_over_http_is_told() -> None:
    with HttpServer() as server:
        process = subprocess.Popen(  # noqa: ASYNC220 - as above
            [sys.executable, "-c", HOLDING, server.config["url"]],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | OURS,
        )
        try:
            while await line_of(process) != b"begun\n":
                pass
        finally:
            process.kill()
            process.communicate()
        async with ward(server.config) as shop:
            await told(shop, "vanished")


@dataclass(frozen=True)
class Census:
    """Resources that this process holds."""

    descriptors: int
    children: int
    threads: int
    tasks: int

    @classmethod
    def take(cls) -> "Census":
        """Count."""
        gc.collect()
        return cls(
            len(list(descriptors())),
            len(children()),
            threading.active_count(),
            len(anyio.get_running_tasks()),
        )

    def exceeds(self, other: "Census", slack: int) -> bool:
        """Return whether anything is more, threads and descriptors by more than the slack."""
        return (
            self.descriptors > other.descriptors + slack
            or self.children > other.children
            or self.threads > other.threads + slack
            or self.tasks > other.tasks
        )


async def cycle(config: Config, number: int) -> None:
    """Connect, call and leave, in one of the ways in which that can go."""
    backend = McpBackend(server_name="one")

    def call(name: str) -> Awaitable[Any]:
        return servers.call(Call(tool=tool(name), args={"text": "a"}, backend=backend))

    async with McpServers({"one": config}) as servers:
        await call("echo")
        match number % 4:
            case 1:
                with pytest.raises(BackendUnavailableError):
                    await call("crash")
            case 2:
                with anyio.move_on_after(0.001):
                    await call("hang")
            case 3:
                os.kill((await call("echo")).structured["pid"], signal.SIGKILL)
            case _:
                await call("echo")


async def http_cycle(config: Config, number: int) -> None:
    """Connect over HTTP, call and leave, now and then in the middle of a call."""
    backend = McpBackend(server_name="one")
    async with McpServers({"one": config}) as servers:
        args = {"text": "a", "key": "leak"}
        await servers.call(Call(tool=tool("echo"), args=args, backend=backend))
        if number % 2:
            with anyio.move_on_after(0.005):
                await servers.call(Call(tool=tool("hang"), args=args, backend=backend))


async def leaks(once: Callable[[int], Awaitable[None]], cycles: int) -> None:
    """Fail if running something many times leaves anything behind."""
    for number in range(8):  # whatever is made once and kept is made here
        await once(number)
    before = Census.take()
    for number in range(cycles):
        await once(number)
    slack = 2
    await until(lambda: not Census.take().exceeds(before, slack), f"all is as it was before: {before}")


@pytest.mark.parametrize("cycles", CYCLES)
async def test_cycles_of_a_child_process_leak_nothing(cycles: int) -> None:
    await leaks(lambda number: cycle(tiny(), number), cycles)


@pytest.mark.proof
@pytest.mark.parametrize("cycles", CYCLES)
async def test_cycles_over_http_leak_nothing(cycles: int) -> None:
    with HttpServer() as stateless, HttpServer("--handshake") as handshake:
        await leaks(lambda number: http_cycle((stateless, handshake)[number % 2].config, number // 2), cycles)


@pytest.mark.parametrize("cycles", CYCLES)
async def test_calls_that_are_given_up_leak_nothing(shop: Shop, cycles: int) -> None:
    call = Call(tool=tool("hang"), args={"key": "leak"}, backend=McpBackend(server_name="faulty"))

    async def give_up(_: int) -> None:
        with anyio.move_on_after(0.01):
            await shop.servers.call(call)

    await leaks(give_up, cycles)
    assert (await shop.run("faulty:add", a=1, b=2)).structured == {"sum": 3}
    assert shop.servers.status()["faulty"].in_flight == 0
