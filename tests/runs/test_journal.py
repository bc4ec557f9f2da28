"""What a run did comes back as it was."""

from dataclasses import replace
from typing import Any

import pytest

from toolcrib.errors import SnapshotError
from toolcrib.runs import MemoryRunStore, StoredCall, StoredRun
from toolcrib.runs.journal import RunJournal
from toolcrib.runs.signing import Signer

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "value", ["lone surrogate: \ud800", {"\udfff": 1}, 10**40, -0.0, 1e22, [None, True, "é\u2028"]]
)
async def test_an_answer_is_the_same_for_whoever_goes_on(value: Any) -> None:
    store, signer = MemoryRunStore(), Signer(b"a key of many characters")
    journal = RunJournal.begin(store, signer, StoredRun("a", "", b"", 1.0, 1.0, holder="p1"))

    async def make() -> Any:
        return value

    await journal.call("1", "desk:look", {"given": value}, make)
    journal.flush()
    [before] = RunJournal(store, signer, stored(store)).answered()
    assert repr((before.args, before.give().structured)) == repr(({"given": value}, value))


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
    journal.flush()
    return stored(store)


@pytest.mark.parametrize("gone", [{"x"}, {"y"}, {"z"}, {"y", "z"}, {"x", "y", "z"}], ids="".join)
async def test_a_call_that_was_taken_out_of_the_store_is_noticed(gone: set[str]) -> None:
    signer = Signer(b"a key of many characters")
    run = await three_calls(MemoryRunStore(), signer)
    left = {key: call for key, call in run.calls.items() if key not in gone}
    with pytest.raises(SnapshotError, match="taken out"):
        RunJournal(MemoryRunStore(), signer, replace(run, calls=left))


async def test_a_run_without_its_sequence_is_refused() -> None:
    signer = Signer(b"a key of many characters")
    run = await three_calls(MemoryRunStore(), signer)
    for sequence in (None, run.calls["x"].intent):
        with pytest.raises(SnapshotError):
            RunJournal(MemoryRunStore(), signer, replace(run, calls={}, sequence=sequence))


async def test_a_call_that_is_begun_again_keeps_its_place_in_the_sequence() -> None:
    store, signer = MemoryRunStore(), Signer(b"a key of many characters")
    run = await three_calls(store, signer)
    without_answer = replace(run, calls={**run.calls, "y": StoredCall(run.calls["y"].intent)})
    store._runs["a"] = without_answer
    journal = RunJournal(store, signer, without_answer)
    assert journal.uncertain == {"y": "desk:send"}

    async def make() -> Any:
        return 2

    await journal.call("y", "desk:send", {}, make)
    journal.flush()
    assert [each.key for each in RunJournal(store, signer, stored(store)).answered()] == ["x", "y", "z"]


@pytest.mark.parametrize("field", ["state", "sequence"])
async def test_a_part_that_is_no_bytes_is_a_typed_error(field: str) -> None:
    signer = Signer(b"a key of many characters")
    run = await three_calls(MemoryRunStore(), signer)
    with pytest.raises(SnapshotError, match="not bytes"):
        RunJournal(MemoryRunStore(), signer, replace(run, **{field: "text"}))
