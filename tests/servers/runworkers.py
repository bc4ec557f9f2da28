"""Workers of durable runs as processes of their own, which can be killed, and a storm of runs over them.

As a program it is one worker: `python -m servers.runworkers CONFIG.json LEDGER`.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from servers.temporal import TemporalServer
from waiting import PATIENCE

from toolcrib import Crib
from toolcrib.errors import CallUncertainError, RunStateError

_TESTS = Path(__file__).parents[1]
CODE = """
total = 0
for n in range(1, 4):
    total += await ledger.look(run={run!r}, n=n)
    total += await ledger.add(run={run!r}, n=n, delay={delay})
__out = total
"""
"""Its value is 66."""


def steps_of(run: str, delay: float) -> list[dict[str, Any]]:
    """Return a chain of six steps, three of which must not be repeated; its final value is 30."""
    looks = [{"toolId": "ledger:look", "args": {"run": run, "n": n}} for n in (1, 2, 3)]
    adds = [{"toolId": "ledger:add", "args": {"run": run, "n": n, "delay": delay}} for n in (1, 2, 3)]
    return [step for pair in zip(looks, adds, strict=True) for step in pair]


def make_crib(config: dict[str, Any], ledger: Path) -> Crib:
    """Return a crib whose tools write down each call that they make."""
    crib = Crib(config)

    def write(*words: Any) -> None:
        line = " ".join(map(str, (*words, time.time(), os.getpid())))
        with ledger.open("a", encoding="utf-8") as file:  # in one piece, as it is short
            file.write(line + "\n")

    @crib.add(namespace="ledger")
    async def add(run: str, n: int, delay: float = 0.0) -> int:
        """Do something once."""
        write("add", run, n)
        await anyio.sleep(delay)
        return n * 10

    @crib.add(namespace="ledger", annotations={"readOnlyHint": True})
    async def look(run: str, n: int, delay: float = 0.0) -> int:
        """Read something."""
        write("look", run, n)
        await anyio.sleep(delay)
        return n

    return crib


@dataclass(frozen=True)
class Entry:
    """A call that a tool has written down."""

    tool: str
    run: str
    n: int
    at: float
    pid: int


@dataclass
class Workers:
    """Worker processes with one configuration and one ledger."""

    config: dict[str, Any]
    folder: Path
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def ledger(self) -> Path:
        """The file that the tools write."""
        return self.folder / "ledger"

    def read_ledger(self) -> list[Entry]:
        """Return the calls of all tools, in order."""
        if not self.ledger.exists():
            return []
        lines = [line.split() for line in self.ledger.read_text(encoding="utf-8").splitlines()]
        return [Entry(tool, run, int(n), float(at), int(pid)) for tool, run, n, at, pid in lines]

    @contextmanager
    def start(self, count: int) -> Iterator[None]:
        """Run so many workers while the block runs."""
        (self.folder / "config.json").write_text(json.dumps(self.config), encoding="utf-8")
        try:
            started = [self._begin() for _ in range(count)]
            for process in started:
                self._wait_ready(process)
            yield
        finally:
            for process in self.processes:
                process.kill()
                process.wait(PATIENCE)
                if process.stdout is not None:
                    process.stdout.close()

    def start_one(self) -> None:
        """Start one more worker, and wait until it works."""
        self._wait_ready(self._begin())

    def kill(self, pid: int) -> None:
        """Kill a worker in the middle of everything."""
        [process] = [each for each in self.processes if each.pid == pid]
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE)

    def living(self) -> list[int]:
        """Return the processes that work."""
        return [each.pid for each in self.processes if each.poll() is None]

    def _begin(self) -> subprocess.Popen[str]:
        module = ["-m", "servers.runworkers"]
        command = [sys.executable, *module, str(self.folder / "config.json"), str(self.ledger)]
        with (self.folder / "workers.log").open("ab") as log:
            process = subprocess.Popen(command, cwd=_TESTS, stdout=subprocess.PIPE, stderr=log, text=True)
        self.processes.append(process)
        return process

    def _wait_ready(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise ChildProcessError((self.folder / "workers.log").read_text(errors="replace")[-3000:])


async def run_to_right_end(
    workers: Workers, crib: Crib, begin: Callable[[], Awaitable[Any]]
) -> tuple[Any, int]:
    """Begin a run, and answer as often as it asks, by what the ledger says; return its result, and how often."""
    asked, run_id = 0, None
    answers: dict[str, Any] = {}
    while True:
        try:
            if run_id is None:
                return await begin(), asked
            return await crib.resume(run_id, repeat=True, answers=answers), asked
        except (CallUncertainError, RunStateError) as error:
            run_id, asked = error.run_id, asked + 1
            details = await crib.describe_run(run_id)
            made = {(each.run, each.n) for each in workers.read_ledger() if each.tool == "add"}
            answers = {
                call.key: call.args["n"] * 10
                for call in details.calls
                if call.state == "open"
                and call.tool_id == "ledger:add"
                and (call.args["run"], call.args["n"]) in made
            }


@dataclass(frozen=True)
class Storm:
    """What came of a storm."""

    seconds: float
    kills: int
    asked: int
    """How often somebody had to say whether a call was made."""
    wrong: tuple[str, ...]
    """Runs with another result than the right one."""
    twice: tuple[str, ...]
    """Calls that must not be repeated, and were made twice."""
    missing: tuple[str, ...]
    """Calls that were never made."""


async def run_storm(  # noqa: PLR0913 - the sizes of a storm
    workers: Workers,
    crib: Crib,
    *,
    chains: int,
    codes: int,
    at_once: int,
    delay: float,
    disturb: Callable[[anyio.Event], Awaitable[int]],
) -> Storm:
    """Run chains and code while `disturb` kills workers until the event is set; it returns how often."""
    wrong: list[str] = []
    asked = kills = 0
    room, done = anyio.CapacityLimiter(at_once), anyio.Event()
    began = time.perf_counter()

    async def run_one(name: str, *, is_chain: bool) -> None:
        nonlocal asked
        async with room:
            if is_chain:
                begin = lambda: crib.run_chain(steps_of(name, delay), durable=True)  # noqa: E731
            else:
                code = CODE.format(run=name, delay=delay)
                begin = lambda: crib.execute(code, durable=True, timeout=600)  # noqa: E731
            result, times = await run_to_right_end(workers, crib, begin)
            asked += times
            value, right = (result.final, 30) if is_chain else (result.value, 66)
            if value != right:
                wrong.append(f"{name}: {value}")

    async def disturb_until_done() -> None:
        nonlocal kills
        kills = await disturb(done)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(disturb_until_done)
        async with anyio.create_task_group() as runs:
            names = [(f"chain{n}", True) for n in range(chains)] + [(f"code{n}", False) for n in range(codes)]
            names.sort(key=lambda name: name[0][::-1])  # chains and code mixed
            for name, is_chain in names:
                runs.start_soon(lambda name=name, is_chain=is_chain: run_one(name, is_chain=is_chain))
        done.set()
    made = Counter((each.run, each.n) for each in workers.read_ledger() if each.tool == "add")
    expected = [(name, n) for name, _ in names for n in (1, 2, 3)]
    return Storm(
        seconds=time.perf_counter() - began,
        kills=kills,
        asked=asked,
        wrong=tuple(wrong),
        twice=tuple(f"{run} {n}" for (run, n), count in made.items() if count > 1),
        missing=tuple(f"{run} {n}" for run, n in expected if not made[run, n]),
    )


def kill_every(
    seconds: float, workers: Workers, server: TemporalServer, *, restart_after: int = 5
) -> Callable[[anyio.Event], Awaitable[int]]:
    """Return what kills a random worker every so often, and restarts the server once."""

    async def disturb(done: anyio.Event) -> int:
        kills = 0
        while not done.is_set():
            with anyio.move_on_after(seconds):
                await done.wait()
                break
            workers.kill(random.choice(workers.living()))  # noqa: S311 - any of them
            kills += 1
            await anyio.to_thread.run_sync(workers.start_one)
            if kills == restart_after:
                await anyio.to_thread.run_sync(server.restart)
        return kills

    return disturb


async def _work(config: dict[str, Any], ledger: Path) -> None:
    async with make_crib(config, ledger) as crib:
        await crib.run_worker(on_started=lambda: sys.stdout.write("ready\n") and sys.stdout.flush())


if __name__ == "__main__":
    anyio.run(_work, json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), Path(sys.argv[2]))
