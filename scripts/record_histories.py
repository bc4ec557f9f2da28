"""Record histories of durable runs in Temporal, which the workflow code of later releases must replay.

    python scripts/record_histories.py 0.2

writes a folder of that name into tests/data/temporal. Do so for a release whose workflow code has changed;
what earlier ones recorded stays, for as long as their runs may be under way.
"""

import json
import os
import re
import socket
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
from temporalio.client import Client

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from servers.temporal import TemporalServer

from toolcrib import Crib
from toolcrib.errors import ToolcribError

HISTORIES = Path(__file__).parents[1] / "tests" / "data" / "temporal"
CODE = """
import asyncio
first = await shop.look(n=1)
__out = first + sum(await asyncio.gather(shop.look(n=2), shop.order(n=3)))
"""


def make_crib(address: str, folder: Path) -> Crib:
    """Return a crib with tools that behave in different ways."""
    engine = {"temporal": address, "heartbeat": 30}
    crib = Crib({"mcpServers": {}, "runs": {"store": str(folder / "runs.db")}, "engine": engine})

    @crib.add(namespace="shop", annotations={"readOnlyHint": True})
    async def look(n: int) -> int:
        return n

    @crib.add(namespace="shop")
    async def order(n: int) -> int:
        return n

    @crib.add(namespace="shop")
    async def wait(n: int) -> int:
        await anyio.sleep(3600)
        return n

    @crib.add(namespace="shop")
    async def fail(n: int) -> int:
        raise ValueError(n)

    return crib


def step(tool: str, n: Any = 1, **more: Any) -> dict[str, Any]:
    """Return a step of a chain."""
    return {"toolId": f"shop:{tool}", "args": {"n": n}, **more}


RUNS: dict[str, Callable[[Crib], Awaitable[Any]]] = {
    "chain": lambda crib: crib.run_chain([step("look"), step("order"), step("look")], durable=True),
    "parts": lambda crib: crib.run_chain(
        [
            {"parallel": [step("look"), step("order")]},
            step("order", {"$ref": "item"}, forEach=[1, 2, 3], maxConcurrency=2),
        ],
        durable=True,
    ),
    "failed": lambda crib: crib.run_chain([step("look"), step("fail")], durable=True),
    "timeout": lambda crib: crib.run_chain([step("look"), step("wait")], durable=True, timeout=1),
    "code": lambda crib: crib.execute(CODE, durable=True),
}


async def record(address: str, folder: Path) -> dict[str, str]:
    """Return the history of each run, as JSON without what is of this machine alone."""
    found = {}
    async with make_crib(address, folder) as crib, anyio.create_task_group() as tasks:
        started = anyio.Event()

        async def work() -> None:
            await crib.run_worker(on_started=started.set)

        tasks.start_soon(work)
        await started.wait()
        client = await Client.connect(address)
        seen: set[str] = set()
        for name, run in RUNS.items():
            try:
                await run(crib)
            except ToolcribError as error:
                sys.stdout.write(f"{name}: {error}\n")
            workflow = ""
            while not workflow:  # the list follows a moment later
                listed = [each.id async for each in client.list_workflows()]
                workflow = next((each for each in listed if each not in seen), "")
            seen.add(workflow)
            history = await client.get_workflow_handle(workflow).fetch_history()
            text = json.dumps(json.loads(history.to_json()), separators=(",", ":"))
            text = re.sub(r'"identity":"[^"]*"', '"identity":"worker"', text)
            found[name] = text.replace(socket.gethostname(), "machine")
        tasks.cancel_scope.cancel()
    return found


def main() -> None:
    """Record the histories of this release."""
    target = HISTORIES / sys.argv[1]
    with TemporaryDirectory() as folder, TemporalServer(Path(folder)) as server:
        os.environ["TOOLCRIB_HOME"] = folder
        recorded = anyio.run(record, server.address, Path(folder))
    target.mkdir(parents=True, exist_ok=True)
    for name, text in recorded.items():
        (target / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
