"""What every store of durable runs does, wherever it keeps them; subclass it and give `store`."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest

from toolcrib.errors import StoreError
from toolcrib.runs import RunStore, StoredCall, StoredRun


def begun(name: str, owner: str = "ann", at: float = 1.0) -> StoredRun:
    """Return a run of this id that has just begun."""
    return StoredRun(name, owner, b"head of " + name.encode(), at, at, holder="p1")


class RunStoreContract:
    """The contract of `RunStore`."""

    @pytest.fixture
    def store(self) -> Iterator[RunStore]:
        raise NotImplementedError

    def test_it_satisfies_the_protocol(self, store: RunStore) -> None:
        assert isinstance(store, RunStore)

    def test_a_run_comes_back_as_it_went_in(self, store: RunStore) -> None:
        store.begin(begun("a"))
        assert store.get("a") == begun("a")
        assert store.get("b") is None

    def test_an_id_is_given_to_one_run_only(self, store: RunStore) -> None:
        store.begin(begun("a"))
        with pytest.raises(StoreError):
            store.begin(begun("a", "bob"))
        assert store.get("a") == begun("a")

    def test_calls_are_kept_in_the_order_in_which_they_were_begun_with_their_outcomes(
        self, store: RunStore
    ) -> None:
        store.begin(begun("a"))
        store.intend("a", "10", b"first", b"state 1", 2.0)
        store.intend("a", "9", b"second", None, 3.0)
        store.answer("a", "10", b"\x00\xff")
        run = store.get("a")
        assert run is not None
        assert list(run.calls.items()) == [
            ("10", StoredCall(b"first", b"\x00\xff")),
            ("9", StoredCall(b"second")),
        ]
        assert (run.state, run.changed) == (b"state 1", 3.0)

    def test_outcomes_of_earlier_calls_are_kept_together_with_a_call(self, store: RunStore) -> None:
        store.begin(begun("a"))
        store.intend("a", "0", b"one", None, 2.0)
        store.intend("a", "1", b"two", None, 3.0, {"0": b"done"})
        run = store.get("a")
        assert run is not None
        assert dict(run.calls) == {"0": StoredCall(b"one", b"done"), "1": StoredCall(b"two")}

    def test_the_last_state_is_kept_and_a_call_that_begins_again_has_no_outcome(
        self, store: RunStore
    ) -> None:
        store.begin(begun("a"))
        store.intend("a", "0", b"one", b"x" * 100_000, 2.0)
        store.answer("a", "0", b"done")
        store.intend("a", "0", b"again", b"later", 3.0)
        run = store.get("a")
        assert run is not None
        assert (run.state, dict(run.calls)) == (b"later", {"0": StoredCall(b"again")})

    def test_a_run_that_has_ended_keeps_its_result_alone(self, store: RunStore) -> None:
        store.begin(begun("a"))
        store.intend("a", "0", b"one", b"state", 2.0)
        store.end("a", "done", b"42", 1, 4.0)
        run = store.get("a")
        assert run == replace(begun("a"), status="done", holder="", result=b"42", step=1, changed=4.0)

    def test_nothing_is_written_of_a_run_that_has_ended_or_is_not_there(self, store: RunStore) -> None:
        store.begin(begun("a"))
        store.end("a", "failed", b"", 0, 2.0)
        for name in ("a", "b"):
            for write in (
                partial(store.intend, name, "0", b"", None, 3.0),
                partial(store.intend, name, "0", b"", b"state", 3.0),
                partial(store.answer, name, "0", b""),
                partial(store.end, name, "done", b"", 0, 3.0),
            ):
                with pytest.raises(StoreError, match="no open run"):
                    write()
            assert not store.hold(name, "", "p2")
        assert [run.status for run in store.runs()] == ["failed"]

    def test_an_answer_needs_a_call(self, store: RunStore) -> None:
        store.begin(begun("a"))
        with pytest.raises(StoreError, match="'7'"):
            store.answer("a", "7", b"")

    def test_only_one_takes_a_run_over(self, store: RunStore) -> None:
        store.begin(begun("a"))
        assert store.hold("a", "p1", "p2")
        assert not store.hold("a", "p1", "p3")
        run = store.get("a")
        assert run is not None
        assert run.holder == "p2"

    def test_runs_are_listed_by_owner_the_latest_first_and_without_what_is_large(
        self, store: RunStore
    ) -> None:
        for name, owner, at in (("a", "ann", 1.0), ("c", "bob", 3.0), ("b", "ann", 2.0)):
            store.begin(begun(name, owner, at))
        store.intend("b", "0", b"one", b"state", 5.0)
        assert [run.id for run in store.runs()] == ["c", "b", "a"]
        assert list(store.runs("ann")) == [replace(begun("b", at=2.0), changed=5.0), begun("a")]
        assert list(store.runs("cid")) == []

    def test_runs_are_forgotten_with_all_that_is_theirs(self, store: RunStore) -> None:
        store.begin(begun("a"))
        store.begin(begun("b"))
        store.intend("a", "0", b"one", b"state", 2.0)
        store.delete(["a", "nobody"])
        assert [run.id for run in store.runs()] == ["b"]
        store.begin(begun("a"))
        assert store.get("a") == begun("a")

    def test_a_closed_store_says_so(self, store: RunStore) -> None:
        store.close()
        store.close()
        with pytest.raises(StoreError, match="closed"):
            store.get("a")
        with pytest.raises(StoreError, match="closed"):
            store.begin(begun("a"))
