"""Durable runs on a real Temporal server: any worker does the next piece, and none is done twice."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import pytest
from servers.temporal import TemporalServer
from waiting import until

from toolcrib import Crib
from toolcrib.errors import ChainError

pytestmark = pytest.mark.anyio
CALM = 60.0
"""Seconds without a heartbeat, where no worker dies, however busy the machine is."""


class Shop:
    """A crib with tools that count their calls, on a Temporal server, with a queue of its own."""

    def __init__(self, server: TemporalServer, folder: Path, *, heartbeat: float = CALM) -> None:
        engine = {"temporal": server.address, "queue": f"q{uuid4().hex}", "heartbeat": heartbeat}
        self.config = {"mcpServers": {}, "runs": {"store": str(folder / "runs.db")}, "engine": engine}
        self.calls: list[Any] = []
        self.go = anyio.Event()

    def crib(self, **more: Any) -> Crib:
        """Return a crib with the tools; several of them are as many processes would be."""
        crib = Crib({**self.config, **more})
        crib.add(self.look, namespace="shop", annotations={"readOnlyHint": True})
        crib.add(self.order, namespace="shop")
        crib.add(self.wait, namespace="shop")
        crib.add(self.fail, namespace="shop")
        return crib

    async def look(self, n: int) -> int:
        """Return a number."""
        self.calls.append(("look", n))
        return n

    async def order(self, n: int) -> int:
        """Order something, once."""
        self.calls.append(("order", n))
        return n * 10

    async def wait(self, n: int) -> int:
        """Wait until the test lets it go."""
        self.calls.append(("wait", n))
        await self.go.wait()
        return n

    async def fail(self, n: int) -> int:
        """Fail."""
        raise ValueError(f"no {n}")


@asynccontextmanager
async def working(*cribs: Crib) -> AsyncIterator[None]:
    """Have cribs do pieces of runs while the block runs."""
    async with anyio.create_task_group() as tasks:
        for crib in cribs:
            started = anyio.Event()
            tasks.start_soon(_work, crib, started.set)
            await started.wait()
        yield
        tasks.cancel_scope.cancel()


async def _work(crib: Crib, started: Callable[[], None]) -> None:
    async with crib:
        await crib.run_worker(on_started=started)


@pytest.fixture
def shop(temporal: TemporalServer, tmp_path: Path, home: Path) -> Shop:
    return Shop(temporal, tmp_path)


STEPS: list[dict[str, Any]] = [
    {"toolId": "shop:look", "args": {"n": 1}},
    {"toolId": "shop:order", "args": {"n": {"$ref": "previous"}}},
    {"toolId": "shop:look", "args": {"n": {"$ref": "previous"}}},
]


async def test_a_chain_is_done_by_a_worker_each_step_once(shop: Shop) -> None:
    async with working(shop.crib()), shop.crib() as crib:
        result = await crib.run_chain(STEPS, durable=True)
        assert result.final == 10
        assert shop.calls == [("look", 1), ("order", 1), ("look", 10)]
        assert result.run_id is not None
        [run] = await crib.runs()
        assert (run.id, run.state, run.step, run.workflow) == (result.run_id, "done", 3, None)
        again = await crib.resume(result.run_id)
        assert again.to_json() == result.to_json()
    assert len(shop.calls) == 3


async def test_the_error_of_a_step_reaches_the_caller_as_it_does_in_process(shop: Shop) -> None:
    steps = [STEPS[0], {"toolId": "shop:fail", "args": {"n": 2}}]
    async with working(shop.crib()), shop.crib() as crib:
        with pytest.raises(ChainError, match="no 2") as caught:
            await crib.run_chain(steps, durable=True)
        with pytest.raises(ChainError) as plain:
            await crib.run_chain(steps)
    assert str(caught.value) == str(plain.value)
    assert type(caught.value.__cause__) is type(plain.value.__cause__)
    assert [step.structured for step in caught.value.results] == [1, None]


async def test_code_is_left_at_each_call_and_goes_on_in_the_next_piece(shop: Shop) -> None:
    code = (
        "first = await shop.look(n=1)\nprint('seen', first)\nsecond = await shop.order(n=first)\n"
        "__out = [first, second]"
    )
    async with working(shop.crib()), shop.crib() as crib:
        result = await crib.execute(code, durable=True)
    assert (result.value, result.stdout) == ([1, 10], "seen 1\n")
    assert [call.tool_id for call in result.tool_calls] == ["shop:look", "shop:order"]
    assert shop.calls == [("look", 1), ("order", 1)]


async def test_parts_of_a_chain_and_calls_of_code_run_at_the_same_time(shop: Shop) -> None:
    steps = [{"toolId": "shop:wait", "forEach": [1, 2, 3], "args": {"n": {"$ref": "item"}}}]
    code = "import asyncio\n__out = await asyncio.gather(shop.wait(n=4), shop.wait(n=5))"
    got: list[Any] = []

    async def run(what: Any) -> None:
        got.append(await what)

    async with working(shop.crib(), shop.crib()), shop.crib() as crib, anyio.create_task_group() as tasks:
        tasks.start_soon(run, crib.run_chain(steps, durable=True))
        tasks.start_soon(run, crib.execute(code, durable=True))
        await until(lambda: len(shop.calls) == 5)
        shop.go.set()
    assert sorted(each for result in got for each in getattr(result, "final", None) or result.value) == [
        1,
        2,
        3,
        4,
        5,
    ]
    assert len(shop.calls) == 5
