"""Durable runs on a real Temporal server: any worker does the next piece, and none is done twice."""

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import pytest
from servers.runworkers import Workers, kill_every, make_crib, run_storm, steps_of
from servers.temporal import TemporalServer
from waiting import until

from toolcrib import Crib
from toolcrib.crib import ToolsetSettings
from toolcrib.errors import (
    CallUncertainError,
    ChainError,
    CodeError,
    ConfigError,
    EngineUnavailableError,
    LimitExceededError,
    RunNotFoundError,
    RunStateError,
    SnapshotError,
    StoreError,
)
from toolcrib.execution import Principal
from toolcrib.runs import Lease, MemoryRunStore, RunStore
from toolcrib.setup.doctor import diagnose

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

    def crib(self, *, run_store: RunStore | None = None, **more: Any) -> Crib:
        """Return a crib with the tools; several of them are as many processes would be."""
        crib = Crib(
            {**self.config, "toolsets": {"reading": {"ids": ["shop:look"]}}, **more}, run_store=run_store
        )
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
def shop(temporal: TemporalServer, tmp_path: Path, home: Path) -> Shop:  # noqa: ARG001 - the key of the runs is there
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


async def test_wrong_code_fails_as_it_does_in_process(shop: Shop) -> None:
    code = "first = await shop.look(n=1)\nraise ValueError(f'no {first}')"
    async with working(shop.crib()), shop.crib() as crib:
        with pytest.raises(CodeError, match="no 1") as caught:
            await crib.execute(code, durable=True)
        with pytest.raises(CodeError) as plain:
            await crib.execute(code)
        [run] = await crib.runs()
    assert (caught.value.line, str(caught.value)) == (plain.value.line, str(plain.value))
    assert [call.tool_id for call in caught.value.result.tool_calls] == ["shop:look"]
    assert run.state == "failed"


async def test_a_chain_within_code_is_done_step_by_step(shop: Shop) -> None:
    code = (
        "steps = [{'tool_id': 'shop:look', 'args': {'n': n}} for n in (1, 2)]\n"
        "done = await run_chain(steps)\n__out = done['final'] + await shop.order(n=1)"
    )
    async with working(shop.crib()), shop.crib() as crib:
        result = await crib.execute(code, durable=True)
    assert result.value == 12
    assert shop.calls == [("look", 1), ("look", 2), ("order", 1)]


async def test_a_run_whose_time_is_over_is_suspended_and_can_be_resumed(shop: Shop) -> None:
    steps = [{"toolId": "shop:look", "args": {"n": 1}}, {"toolId": "shop:wait", "args": {"n": 2}}]
    async with working(shop.crib()), shop.crib() as crib:
        with pytest.raises(ChainError, match=r"did not finish within 8 s, and shop:wait was running") as late:
            await crib.run_chain(steps, durable=True, timeout=8)
        assert late.value.results[0].structured == 1
        with pytest.raises(LimitExceededError, match="did not end within 8 s"):
            await crib.execute("__out = await shop.wait(n=3)", durable=True, timeout=8)
        code, chain = await crib.runs()
        assert (code.state, chain.state) == ("suspended", "suspended")
        assert list(chain.uncertain.values()) == ["shop:wait"]
        shop.go.set()
        with pytest.raises(CallUncertainError):
            await crib.resume(chain.id)
        assert (await crib.resume(chain.id, repeat=True)).final == 2  # type: ignore[union-attr]
        [key] = code.uncertain
        assert (await crib.resume(code.id, answers={key: 7})).value == 7  # type: ignore[union-attr]
    assert shop.calls == [("look", 1), ("wait", 2), ("wait", 3), ("wait", 2)]


async def test_a_run_can_be_cancelled_by_any_process_and_by_its_caller(shop: Shop) -> None:
    steps = [{"toolId": "shop:wait", "args": {"n": 1}}]
    caught: list[Exception] = []

    async def run(crib: Crib) -> None:
        try:
            await crib.run_chain(steps, durable=True)
        except RunStateError as error:
            caught.append(error)

    async with working(shop.crib()), shop.crib() as crib, shop.crib() as other:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, crib)
            await until(lambda: len(shop.calls) == 1)
            [running] = await other.runs()
            assert running.state == "running"
            assert running.workflow is not None
            await other.cancel_run(running.id)
        [cancelled] = await crib.runs()
        assert cancelled.state == "suspended"
        assert "was cancelled, and can be resumed" in str(caught[0])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, crib)
            await until(lambda: len(shop.calls) == 2)
            tasks.cancel_scope.cancel()
        assert [run.state for run in await crib.runs()] == ["suspended", "suspended"]


async def test_a_run_belongs_to_its_principal_whose_calls_the_workers_make(shop: Shop) -> None:
    ann, bob = Principal(subject="ann", groups=frozenset({"buyers"})), Principal(subject="bob")
    rules = {"policy": [{"name": "buyers", "tools": ["shop"], "who": ["group:buyers"], "effect": "allow"}]}
    async with working(shop.crib(**rules)), shop.crib(**rules) as crib:
        result = await crib.run_chain(STEPS, durable=True, principal=ann)
        assert result.final == 10
        assert result.run_id is not None
        assert await crib.runs(principal=bob) == ()
        with pytest.raises(RunNotFoundError):
            await crib.resume(result.run_id, principal=bob)


async def test_the_progress_of_a_chain_is_reported_while_workers_run_it(shop: Shop) -> None:
    steps = [*STEPS, {"toolId": "shop:wait", "args": {"n": 1}}]
    seen: list[tuple[int, int, str]] = []

    def note(done: int, total: int, event: str) -> None:
        seen.append((done, total, event))
        if done == 3:
            shop.go.set()

    async with working(shop.crib()), shop.crib() as crib:
        await crib.run_chain(steps, durable=True, progress=note)
    assert seen == [(0, 4, "started"), *((n, 4, "step_completed") for n in (1, 2, 3, 4))]


async def test_a_run_waits_for_a_worker_and_its_caller_may_leave(shop: Shop) -> None:
    async with shop.crib() as crib:
        with anyio.move_on_after(0.5):
            await crib.run_chain(STEPS, durable=True)
        assert shop.calls == []
        async with working(shop.crib()):
            await until(lambda: _is_suspended(crib))  # by the worker, which takes note of the cancellation
            [run] = await crib.runs()
            assert (await crib.resume(run.id)).final == 10  # type: ignore[union-attr]


async def _is_suspended(crib: Crib) -> bool:
    return {run.state for run in await crib.runs()} == {"suspended"}


async def test_a_workflow_that_was_terminated_leaves_a_run_that_can_be_resumed(
    shop: Shop, temporal: TemporalServer
) -> None:
    from temporalio.client import Client  # noqa: PLC0415 - an extra

    steps = [{"toolId": "shop:wait", "args": {"n": 1}}]
    caught: list[Exception] = []

    async def run(crib: Crib) -> None:
        try:
            await crib.run_chain(steps, durable=True)
        except RunStateError as error:
            caught.append(error)

    async with working(shop.crib()), shop.crib() as crib:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, crib)
            await until(lambda: len(shop.calls) == 1)
            [running] = await crib.runs()
            client = await Client.connect(temporal.address)
            await client.get_workflow_handle(running.workflow or "").terminate()
        assert "terminated in Temporal, and can be resumed" in str(caught[0])
        shop.go.set()
        assert (await crib.resume(running.id, repeat=True)).final == 1  # type: ignore[union-attr]


async def test_nothing_is_begun_where_no_server_answers(shop: Shop) -> None:
    shop.config["engine"] = {"temporal": "127.0.0.1:1"}
    async with shop.crib() as crib:
        with pytest.raises(EngineUnavailableError, match=r"Temporal at 127\.0\.0\.1:1, is unavailable"):
            await crib.run_chain(STEPS, durable=True)
        assert await crib.runs() == ()
        with pytest.raises(EngineUnavailableError):
            await crib.run_worker()


async def test_runs_that_a_worker_cannot_read_stop_and_say_so(shop: Shop) -> None:
    mine, others = ({"runs": {**shop.config["runs"], "key": letter * 40}} for letter in "ab")
    async with working(shop.crib(**others)), shop.crib(**mine) as crib:
        with pytest.raises(SnapshotError, match="signed with another key"):
            await crib.run_chain(STEPS, durable=True)
        [run] = await crib.runs()
        assert (run.state, shop.calls) == ("suspended", [])


async def test_a_run_of_a_toolset_without_a_name_stops_since_no_worker_knows_it(shop: Shop) -> None:
    async with working(shop.crib()), shop.crib() as crib:
        named, unnamed = crib.view("reading"), crib.view(ToolsetSettings(ids=("shop:look",)))
        with pytest.raises(RunStateError, match="a toolset without a name"):
            await unnamed.run_chain(STEPS[:1], durable=True)
        assert (await named.run_chain(STEPS[:1], durable=True)).final == 1
        with pytest.raises(ChainError, match="shop:order"):
            await named.run_chain(STEPS, durable=True)


async def test_code_that_computes_for_too_long_is_suspended(shop: Shop) -> None:
    code = "n = await shop.look(n=1)\nwhile n:\n    n = n + 1"
    async with working(shop.crib()), shop.crib() as crib:
        with pytest.raises(LimitExceededError, match="did not end within 2 s"):
            await crib.execute(code, durable=True, timeout=2)
        [run] = await crib.runs()
    assert (run.state, run.uncertain) == ("suspended", {})


class LosingStore(MemoryRunStore):
    """A store whose answer is lost when the first run has ended."""

    lost = 0

    def end(self, lease: Lease, status: str, result: bytes, step: int, now: float) -> None:
        """Store the end, and say nothing of it the first time."""
        super().end(lease, status, result, step, now)
        self.lost += 1
        if self.lost == 1:
            raise StoreError("memory", "its answer was lost")


@pytest.mark.parametrize(
    "steps", [STEPS, [*STEPS, {"toolId": "shop:fail", "args": {"n": 1}}]], ids=["done", "failed"]
)
async def test_a_run_whose_end_was_stored_by_a_worker_that_died_has_ended(
    shop: Shop, steps: list[Any]
) -> None:
    store = LosingStore()
    async with working(shop.crib(run_store=store)), shop.crib(run_store=store) as crib:
        if len(steps) == 3:
            assert (await crib.run_chain(steps, durable=True)).final == 10
        else:
            with pytest.raises(ChainError, match="no 1"):
                await crib.run_chain(steps, durable=True)
    assert store.lost == 1
    assert shop.calls == [("look", 1), ("order", 1), ("look", 10)]


async def test_runs_are_listed_while_the_server_is_away(tmp_path: Path, home: Path) -> None:
    del home  # the key of the runs is there
    with TemporalServer(tmp_path) as server:
        shop = Shop(server, tmp_path)
        async with working(shop.crib()), shop.crib() as crib, anyio.create_task_group() as tasks:
            tasks.start_soon(
                lambda: crib.run_chain([{"toolId": "shop:wait", "args": {"n": 1}}], durable=True)
            )
            await until(lambda: shop.calls)
            await anyio.to_thread.run_sync(server.kill)
            [run] = await crib.runs()
            assert run.state == "running"
            with pytest.raises(EngineUnavailableError):
                await crib.cancel_run(run.id)
            await anyio.to_thread.run_sync(server.start)
            shop.go.set()
        [run] = await Crib({key: value for key, value in shop.config.items() if key != "engine"}).runs()
    assert run.state == "done"


@pytest.mark.usefixtures("home")
async def test_a_worker_needs_an_engine_and_an_engine_a_shared_store() -> None:
    async with Crib() as crib:
        with pytest.raises(ConfigError, match="names no Temporal server"):
            await crib.run_worker()
    with pytest.raises(ConfigError, match=r"workers share the store of the runs"):
        Crib({"mcpServers": {}, "runs": {"store": "memory"}, "engine": {"temporal": "h:7233"}})
    with pytest.raises(ConfigError, match=r"need tls = true"):
        Crib({"mcpServers": {}, "engine": {"temporal": "h:7233", "api_key": "${KEY}"}})
    with pytest.raises(ConfigError, match=r"belong together"):
        Crib({"mcpServers": {}, "engine": {"temporal": "h:7233", "tls": True, "certificate": "c.pem"}})


def make_workers(server: TemporalServer, folder: Path, *, heartbeat: float = 2.0) -> Workers:
    """Return workers as processes, with a queue of their own."""
    engine = {"temporal": server.address, "queue": f"q{uuid4().hex}", "heartbeat": heartbeat}
    config = {"mcpServers": {}, "runs": {"store": str(folder / "runs.db")}, "engine": engine}
    return Workers(config, folder)


async def wait_for_call(workers: Workers, tool: str, n: int, *, times: int = 1) -> int:
    """Wait until a tool was called, and return the process that did it last."""

    def find() -> int | None:
        found = [each.pid for each in workers.read_ledger() if (each.tool, each.n) == (tool, n)]
        return found[-1] if len(found) >= times else None

    return int(await until(find))


@pytest.mark.usefixtures("home")
async def test_a_call_whose_worker_died_is_asked_about_and_not_repeated(
    temporal: TemporalServer, tmp_path: Path
) -> None:
    workers = make_workers(temporal, tmp_path)
    steps = steps_of("one", 0.0)
    steps[3]["args"]["delay"] = 3600
    with workers.start(2):
        async with make_crib(workers.config, workers.ledger) as crib:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_kill_at, workers, "add", 2)
                with pytest.raises(CallUncertainError, match="may have run") as asked:
                    await crib.run_chain(steps, durable=True)
            [run] = await crib.runs()
            assert run.state == "suspended"
            assert asked.value.calls == run.uncertain == {"3.3": "ledger:add"}
            result = await crib.resume(run.id, answers={"3.3": 20})
            assert result.final == 30  # type: ignore[union-attr]
    assert [each.n for each in workers.read_ledger() if each.tool == "add"] == [1, 2, 3]


async def _kill_at(workers: Workers, tool: str, n: int) -> None:
    workers.kill(await wait_for_call(workers, tool, n))


@pytest.mark.usefixtures("home")
async def test_a_read_only_call_whose_worker_died_is_made_by_another(
    temporal: TemporalServer, tmp_path: Path
) -> None:
    workers = make_workers(temporal, tmp_path)
    steps = steps_of("one", 0.0)
    steps[2]["args"]["delay"] = 2.0
    with workers.start(2):
        async with make_crib(workers.config, workers.ledger) as crib, anyio.create_task_group() as tasks:
            tasks.start_soon(_kill_at, workers, "look", 2)
            result = await crib.run_chain(steps, durable=True)
    assert result.final == 30
    made = workers.read_ledger()
    assert [each.n for each in made if each.tool == "add"] == [1, 2, 3]
    assert len({each.pid for each in made if (each.tool, each.n) == ("look", 2)}) == 2


@pytest.mark.usefixtures("home")
async def test_a_small_storm_loses_and_repeats_nothing(tmp_path: Path) -> None:
    with TemporalServer(tmp_path) as server:
        workers = make_workers(server, tmp_path)

        async def disturb(done: anyio.Event) -> int:
            pid = await wait_for_call(workers, "add", 2)
            workers.kill(pid)
            await anyio.to_thread.run_sync(workers.start_one)
            await anyio.to_thread.run_sync(server.restart)
            await done.wait()
            return 1

        with workers.start(2):
            async with make_crib(workers.config, workers.ledger) as crib:
                storm = await run_storm(
                    workers, crib, chains=4, codes=2, at_once=6, delay=0.1, disturb=disturb
                )
                states = {run.state for run in await crib.runs()}
    assert (storm.wrong, storm.twice, storm.missing) == ((), (), ())
    assert states == {"done"}


@pytest.mark.proof
@pytest.mark.timeout(1500)
@pytest.mark.usefixtures("home")
async def test_a_storm_of_400_runs_loses_and_repeats_nothing(tmp_path: Path) -> None:
    with TemporalServer(tmp_path) as server:
        workers = make_workers(server, tmp_path)

        with workers.start(3):
            async with make_crib(workers.config, workers.ledger) as crib:
                storm = await run_storm(
                    workers,
                    crib,
                    chains=300,
                    codes=100,
                    at_once=24,
                    delay=0.02,
                    disturb=kill_every(2, workers, server),
                )
                states = {run.state for run in await crib.runs()}
    assert (storm.wrong, storm.twice, storm.missing) == ((), (), ())
    assert storm.kills >= 6
    assert states == {"done"}


async def test_doctor_reaches_the_server(temporal: TemporalServer) -> None:
    async def say(address: str) -> list[tuple[str, str, str]]:
        found = await diagnose({"mcpServers": {}, "engine": {"temporal": address}})
        return [(each.severity, each.what, each.why) for each in found.findings if each.subject == "runs"]

    assert await say(temporal.address) == [("ok", f"they are executed by Temporal at {temporal.address}", "")]
    [(severity, what, why)] = await say("127.0.0.1:1")
    assert (severity, what) == ("error", "Temporal at 127.0.0.1:1 cannot be used")
    assert why


async def test_the_program_of_the_page_runs(temporal: TemporalServer, tmp_path: Path, home: Path) -> None:
    del home  # the key of the runs is there
    page = (Path(__file__).parents[2] / "docs" / "temporal.md").read_text(encoding="utf-8")
    program = page.partition("```python\n")[2].partition("```")[0]
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    config = tmp_path / "toolcrib.toml"
    config.write_text(
        f'[engine]\ntemporal = "{temporal.address}"\nqueue = "page"\nheartbeat = 60\n[runs]\nstore = "runs.db"\n',
        encoding="utf-8",
    )
    command = [sys.executable, str(tmp_path / "program.py"), str(config)]
    ended = await anyio.run_process(command, check=False)
    assert ended.stdout.decode() == "2.5 ['done']\n", ended.stderr.decode()


HISTORIES = sorted((Path(__file__).parents[1] / "data" / "temporal").glob("*/*.json"))


@pytest.mark.parametrize("history", HISTORIES, ids=lambda path: f"{path.parent.name}-{path.stem}")
async def test_the_workflow_replays_the_histories_of_releases(history: Path) -> None:
    from temporalio.client import WorkflowHistory  # noqa: PLC0415 - an extra
    from temporalio.worker import Replayer, UnsandboxedWorkflowRunner  # noqa: PLC0415

    from toolcrib.runs.workflow import RunWorkflow  # noqa: PLC0415

    replayer = Replayer(workflows=[RunWorkflow], workflow_runner=UnsandboxedWorkflowRunner())
    text = await anyio.Path(history).read_text(encoding="utf-8")
    await replayer.replay_workflow(WorkflowHistory.from_json(history.stem, text))


async def test_a_history_of_other_commands_is_refused_by_the_replay() -> None:
    from temporalio.client import WorkflowHistory  # noqa: PLC0415 - an extra
    from temporalio.worker import Replayer, UnsandboxedWorkflowRunner  # noqa: PLC0415
    from temporalio.workflow import NondeterminismError  # noqa: PLC0415

    from toolcrib.runs.workflow import RunWorkflow  # noqa: PLC0415

    text = next(path for path in HISTORIES if path.stem == "chain").read_text(encoding="utf-8")
    replayer = Replayer(workflows=[RunWorkflow], workflow_runner=UnsandboxedWorkflowRunner())
    with pytest.raises(NondeterminismError):
        await replayer.replay_workflow(
            WorkflowHistory.from_json("other", text.replace("toolcrib.piece", "another.activity"))
        )
