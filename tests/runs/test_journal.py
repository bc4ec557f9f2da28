"""What a run did comes back as it was."""

from typing import Any

import pytest

from toolcrib.runs import MemoryRunStore, StoredRun
from toolcrib.runs.journal import RunJournal
from toolcrib.runs.signing import Signer

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "value", ["lone surrogate: \ud800", {"\udfff": 1}, 10**40, -0.0, 1e22, [None, True, "é\u2028"]]
)
async def test_an_answer_is_the_same_for_whoever_goes_on(value: Any) -> None:
    store, signer = MemoryRunStore(), Signer(b"a key of many characters")
    store.begin(StoredRun("a", "", b"", 1.0, 1.0, holder="p1"))
    run = store.get("a")
    assert run is not None
    journal = RunJournal(store, signer, run)

    async def make() -> Any:
        return value

    await journal.call("1", "desk:look", {"given": value}, make)
    journal.flush()
    stored = store.get("a")
    assert stored is not None
    [before] = RunJournal(store, signer, stored).answered()
    assert repr((before.args, before.give().structured)) == repr(({"given": value}, value))
