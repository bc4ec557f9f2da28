"""What a run did comes back as it was."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from waiting import PATIENCE, until

from toolcrib.errors import SnapshotError
from toolcrib.runs import MemoryRunStore, SqliteRunStore, StoredCall, StoredRun
from toolcrib.runs.journal import RunJournal
from toolcrib.runs.keeper import RunKeeper
from toolcrib.runs.signing import Signer

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "value", ["lone surrogate: \ud800", {"\udfff": 1}, 10**40, -0.0, 1e22, [None, True, "é\u2028"]]
)
async def test_stored_answer_is_unchanged_after_resumption(value: Any) -> None:
    store, signer = MemoryRunStore(), Signer(b"a key of many characters")
    journal = RunJournal.begin(store, signer, StoredRun("a", "", b"", 1.0, 1.0, holder="p1"))

    async def make() -> Any:
        return value

    await journal.call("1", "desk:look", {"given": value}, make)
    await journal.flush()
    [before] = RunJournal(store, signer, stored(store)).answered_calls()
    assert repr((before.args, before.replay().structured)) == repr(({"given": value}, value))


def stored(store: MemoryRunStore) -> StoredRun:
    run = store.get("a")
    assert run is not None
    return run


async def three_calls(store: MemoryRunStore, signer: Signer) -> StoredRun:
    """Return a run of three calls that were answered."""
    journal = RunJournal.begin(store, signer, StoredRun("a", "", b"", 1.0, 1.0, holder="p1"))

    async def make() -> Any:
        return 1

    for key in ("x", "y", "z"):
        await journal.call(key, "desk:send", {}, make)
    await journal.flush()
    return stored(store)


@pytest.mark.parametrize("gone", ["x", "y", "z", "yz", "xyz"])
async def test_missing_call_in_the_store_is_detected(gone: str) -> None:
    signer = Signer(b"a key of many characters")
    run = await three_calls(MemoryRunStore(), signer)
    left = {key: call for key, call in run.calls.items() if key not in gone}
    with pytest.raises(SnapshotError, match="calls were removed"):
        RunJournal(MemoryRunStore(), signer, replace(run, calls=left))


async def test_run_without_a_sequence_is_refused() -> None:
    signer = Signer(b"a key of many characters")
    run = await three_calls(MemoryRunStore(), signer)
    for sequence in (None, run.calls["x"].intent):
        with pytest.raises(SnapshotError):
            RunJournal(MemoryRunStore(), signer, replace(run, calls={}, sequence=sequence))


async def test_repeated_call_keeps_its_place_in_the_sequence() -> None:
    store, signer = MemoryRunStore(), Signer(b"a key of many characters")
    run = await three_calls(store, signer)
    without_answer = replace(run, calls={**run.calls, "y": StoredCall(run.calls["y"].intent)})
    store._runs["a"] = without_answer
    journal = RunJournal(store, signer, without_answer)
    assert journal.uncertain == {"y": "desk:send"}

    async def make() -> Any:
        return 2

    await journal.call("y", "desk:send", {}, make)
    await journal.flush()
    assert [each.key for each in RunJournal(store, signer, stored(store)).answered_calls()] == ["x", "y", "z"]


@pytest.mark.parametrize("field", ["state", "sequence"])
async def test_part_that_is_not_bytes_is_a_typed_error(field: str) -> None:
    signer = Signer(b"a key of many characters")
    run = await three_calls(MemoryRunStore(), signer)
    with pytest.raises(SnapshotError, match="not bytes"):
        RunJournal(MemoryRunStore(), signer, replace(run, **{field: "text"}))


@pytest.fixture
def locked_file(tmp_path: Path) -> Iterator[Any]:
    """Return the path of a store of runs, and what locks and unlocks it as another process does."""
    path = tmp_path / "runs.db"
    SqliteRunStore(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        yield path, other.execute


async def test_locked_store_is_waited_for_without_blocking_the_loop(locked_file: Any) -> None:
    path, execute = locked_file
    store, signer = SqliteRunStore(path, timeout=PATIENCE), Signer(b"a key of many characters")
    journal = RunJournal.begin(store, signer, StoredRun("a", "", b"", 1.0, 1.0, holder="p1"))
    made: list[str] = []

    async def call(key: str) -> None:
        async def make() -> str:
            made.append(key)
            return key

        await journal.call(key, "desk:send", {}, make)

    await call("0")
    await journal.flush()
    execute("BEGIN IMMEDIATE")
    async with anyio.create_task_group() as tasks:
        for key in ("1", "2", "3"):
            tasks.start_soon(call, key)
        await until(store._lock.locked)  # a thread waits for the other process
        assert made == ["0"]
        execute("ROLLBACK")
    assert made == ["0", "1", "2", "3"]
    await journal.end("done", None)
    run = store.get("a")
    assert run is not None
    assert run.status == "done"
    store.close()


async def test_locked_store_prevents_calls(locked_file: Any) -> None:
    path, execute = locked_file
    store, signer = SqliteRunStore(path, timeout=0.05), Signer(b"a key of many characters")
    keeper = RunKeeper(store, signer, max_age=60.0, max_runs=9)
    journal = await keeper.begin("code", {}, None)
    execute("BEGIN IMMEDIATE")
    with pytest.raises(SnapshotError, match="another process"):
        await journal.call("0", "desk:send", {}, anyio.sleep_forever)
    execute("ROLLBACK")
    [run] = await keeper.runs(None)
    assert run.step == 0
    assert not run.uncertain
    store.close()


@pytest.mark.parametrize("size", [10, 200_000], ids=["small", "large"])
async def test_answers_and_states_of_any_size_are_stored_in_order(tmp_path: Path, size: int) -> None:
    store, signer = SqliteRunStore(tmp_path / "runs.db"), Signer(b"a key of many characters")
    journal = RunJournal.begin(store, signer, StoredRun("a", "", b"", 1.0, 1.0, holder="p1"))

    async def call(number: int) -> None:
        async def make() -> str:
            return str(number) * size

        journal.suspend(bytes(size))
        await journal.call(str(number), "desk:send", {}, make)

    async with anyio.create_task_group() as tasks:
        for number in range(9):
            tasks.start_soon(call, number)
    await journal.flush()
    run = store.get("a")
    assert run is not None
    again = RunJournal(store, signer, run)
    given = {each.key: each.replay().structured for each in again.answered_calls()}
    assert given == {str(number): str(number) * size for number in range(9)}
    assert again.state == bytes(size)
    store.close()


async def test_run_cancelled_while_it_begins_can_be_resumed(locked_file: Any) -> None:
    path, execute = locked_file
    store, signer = SqliteRunStore(path, timeout=PATIENCE), Signer(b"a key of many characters")
    keeper = RunKeeper(store, signer, max_age=60.0, max_runs=9)
    execute("BEGIN IMMEDIATE")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(keeper.begin, "code", {}, None)
        await until(store._lock.locked)
        tasks.cancel_scope.cancel()
    execute("ROLLBACK")

    async def is_suspended() -> bool:
        return [run.state for run in await keeper.runs(None)] == ["suspended"]

    await until(is_suspended)
    store.close()
