"""Several resumers of one run: one of them goes on, and none repeats what another has done."""

import threading
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from waiting import PATIENCE, until

from toolcrib.errors import RunStateError, SnapshotError, StoreError
from toolcrib.runs import MemoryRunStore, SqliteRunStore
from toolcrib.runs.journal import RunJournal
from toolcrib.runs.keeper import RunKeeper
from toolcrib.runs.signing import Signer

pytestmark = pytest.mark.anyio
SIGNER = Signer(b"0123456789abcdef0123456789abcdef")


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Any) -> Any:
    return MemoryRunStore() if request.param == "memory" else SqliteRunStore(tmp_path / "runs.db")


@pytest.fixture
def keeper(store: Any) -> RunKeeper:
    return RunKeeper(store, SIGNER, max_age=3600.0, max_runs=10)


async def suspend_after_an_uncertain_call(keeper: RunKeeper) -> str:
    """Return a run whose only call was begun, and whose answer is not known."""
    journal = await keeper.begin("code", {}, None)

    async def lose_the_answer() -> Any:
        raise KeyboardInterrupt

    async with keeper.release_after(journal):
        with pytest.raises(KeyboardInterrupt):
            await journal.call("0", "desk:look", {}, lose_the_answer)
    return journal.run_id


async def accept_any_answer(*_: Any) -> None:
    return None


async def resume(keeper: RunKeeper, run_id: str, is_repeatable: Any) -> RunJournal:
    found = await keeper.resume(run_id, None, is_repeatable=is_repeatable, check_answer=accept_any_answer)
    assert found.journal is not None
    return found.journal


async def repeat(tool_id: str) -> bool:  # noqa: ARG001 - a hook of `resume`
    return True


async def test_resume_with_an_outdated_lease_is_refused(keeper: RunKeeper) -> None:
    run_id = await suspend_after_an_uncertain_call(keeper)
    made: list[str] = []

    async def make() -> int:
        made.append("first resumer")
        return 1

    async def go_on_meanwhile(tool_id: str) -> bool:  # noqa: ARG001 - a hook of `resume`
        journal = await resume(keeper, run_id, repeat)
        async with keeper.release_after(journal):  # releases the run, as a cancelled one does
            for key in ("0", "1"):
                await journal.call(key, "desk:look", {}, make)
        return True

    with pytest.raises(RunStateError, match="resumed it"):
        await resume(keeper, run_id, go_on_meanwhile)
    assert made == ["first resumer"] * 2


async def test_replaced_holder_makes_no_further_call(store: Any, keeper: RunKeeper) -> None:
    journal = await keeper.begin("code", {}, None)
    made: list[str] = []

    async def make() -> int:
        made.append("call")
        return 1

    await journal.call("0", "desk:send", {}, make)
    await journal.flush()
    assert store.hold(journal.lease, "another process") is not None
    with pytest.raises(SnapshotError, match="taken it over"):
        await journal.call("1", "desk:send", {}, make)
    assert made == ["call"]
    with pytest.raises(SnapshotError, match="taken it over"):
        await journal.end("done", 1)


class SlowStore(MemoryRunStore):
    """Writes a call once it is let, as a store does whose file another process holds."""

    intend_at_once = None

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.may = threading.Event(), threading.Event()

    def intend(self, *args: Any) -> None:
        self.begun.set()
        assert self.may.wait(PATIENCE)
        super().intend(*args)


async def test_call_cancelled_while_it_is_stored_leaves_a_resumable_run() -> None:
    store = SlowStore()
    keeper = RunKeeper(store, SIGNER, max_age=3600.0, max_runs=10)
    journal = await keeper.begin("code", {}, None)

    async def make() -> int:
        await anyio.lowlevel.checkpoint()
        return 1

    async with keeper.release_after(journal):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(journal.call, "0", "desk:look", {}, make)
            await until(store.begun.is_set)
            tasks.cancel_scope.cancel()
            store.may.set()
        await journal.call("1", "desk:look", {}, make)
    resumed = await resume(keeper, journal.run_id, repeat)
    assert list(resumed.uncertain) == ["0"]
    assert [each.key for each in resumed.answered_calls()] == ["1"]


async def test_run_whose_answer_cannot_be_stored_is_released() -> None:
    store = MemoryRunStore()
    keeper = RunKeeper(store, SIGNER, max_age=3600.0, max_runs=10)
    run_id = await suspend_after_an_uncertain_call(keeper)

    def refuse(*_: Any) -> None:
        raise StoreError("memory", "the disk is full")

    store.answer = refuse  # type: ignore[method-assign]
    with pytest.raises(SnapshotError, match="disk is full"):
        await keeper.resume(
            run_id, None, is_repeatable=repeat, check_answer=accept_any_answer, answers={"0": 1}
        )
    assert [run.state for run in await keeper.runs(None)] == ["suspended"]


async def test_run_of_an_earlier_version_is_refused_and_others_are_listed(tmp_path: Any) -> None:
    store = SqliteRunStore(tmp_path / "runs.db")
    keeper = RunKeeper(store, SIGNER, max_age=3600.0, max_runs=10)
    old = await suspend_after_an_uncertain_call(keeper)
    new = await suspend_after_an_uncertain_call(keeper)
    with store._transaction() as connection:
        connection.execute("DELETE FROM calls WHERE run = ? AND key = ''", (old,))
    assert [run.id for run in await keeper.runs(None)] == [new]
    with pytest.raises(SnapshotError, match="earlier version"):
        await resume(keeper, old, repeat)
