"""The contract of every store of durable runs, wherever it keeps them; subclass it and provide `store`."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest

from toolcrib.errors import StoreError
from toolcrib.runs import Lease, NewCall, RunStore, StoredCall, StoredRun


def begun(name: str, owner: str = "ann", at: float = 1.0) -> StoredRun:
    """Return a run of this id that has just begun."""
    return StoredRun(
        name, owner, b"head of " + name.encode(), at, at, holder="p1", fence=1, sequence=b"no calls"
    )


def new_call(key: str, intent: bytes, state: bytes | None, at: float) -> NewCall:
    """Return a call as it is written down before it is made."""
    return NewCall(key, intent, b"calls up to " + key.encode(), at, state)


def first_lease(name: str) -> Lease:
    """Return the lease of the process that began a run."""
    return Lease(name, 1)


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
        store.intend(first_lease("a"), new_call("10", b"first", b"state 1", 2.0))
        store.intend(first_lease("a"), new_call("9", b"second", None, 3.0))
        store.answer(first_lease("a"), "10", b"\x00\xff")
        run = store.get("a")
        assert run is not None
        assert sorted(run.calls.items()) == [
            ("10", StoredCall(b"first", b"\x00\xff")),
            ("9", StoredCall(b"second")),
        ]
        assert (run.state, run.changed) == (b"state 1", 3.0)

    def test_outcomes_of_earlier_calls_are_kept_together_with_a_call(self, store: RunStore) -> None:
        store.begin(begun("a"))
        store.intend(first_lease("a"), new_call("0", b"one", None, 2.0))
        store.intend(first_lease("a"), new_call("1", b"two", None, 3.0), {"0": b"done"})
        run = store.get("a")
        assert run is not None
        assert dict(run.calls) == {"0": StoredCall(b"one", b"done"), "1": StoredCall(b"two")}

    def test_the_last_state_is_kept_and_a_call_that_begins_again_has_no_outcome(
        self, store: RunStore
    ) -> None:
        store.begin(begun("a"))
        store.intend(first_lease("a"), new_call("0", b"one", b"x" * 100_000, 2.0))
        store.answer(first_lease("a"), "0", b"done")
        store.intend(first_lease("a"), new_call("0", b"again", b"later", 3.0))
        run = store.get("a")
        assert run is not None
        assert (run.state, dict(run.calls)) == (b"later", {"0": StoredCall(b"again")})

    def test_a_run_that_has_ended_keeps_its_result_alone(self, store: RunStore) -> None:
        store.begin(begun("a"))
        store.intend(first_lease("a"), new_call("0", b"one", b"state", 2.0))
        store.end(first_lease("a"), "done", b"42", 1, 4.0)
        run = store.get("a")
        ended = {"status": "done", "holder": "", "result": b"42", "step": 1, "changed": 4.0, "sequence": None}
        assert run == replace(begun("a"), **ended)

    def test_nothing_is_written_of_a_run_that_has_ended_or_is_not_there(self, store: RunStore) -> None:
        store.begin(begun("a"))
        store.end(first_lease("a"), "failed", b"", 0, 2.0)
        for name in ("a", "b"):
            for write in (
                partial(store.intend, first_lease(name), new_call("0", b"", None, 3.0)),
                partial(store.intend, first_lease(name), new_call("0", b"", b"state", 3.0)),
                partial(store.answer, first_lease(name), "0", b""),
                partial(store.end, first_lease(name), "done", b"", 0, 3.0),
            ):
                with pytest.raises(StoreError, match="no open run"):
                    write()
            assert store.hold(first_lease(name), "p2") is None
        assert [run.status for run in store.runs()] == ["failed"]

    def test_an_answer_needs_a_call(self, store: RunStore) -> None:
        store.begin(begun("a"))
        with pytest.raises(StoreError, match="'7'"):
            store.answer(first_lease("a"), "7", b"")

    def test_only_one_takes_a_run_over(self, store: RunStore) -> None:
        store.begin(begun("a"))
        assert store.hold(first_lease("a"), "p2") == Lease("a", 2)
        assert store.hold(first_lease("a"), "p3") is None
        run = store.get("a")
        assert run is not None
        assert (run.holder, run.fence) == ("p2", 2)

    def test_a_run_that_was_let_go_cannot_be_taken_by_what_was_read_before(self, store: RunStore) -> None:
        store.begin(begun("a"))
        free = store.hold(first_lease("a"), "")
        assert free is not None
        taken = store.hold(free, "p2")
        assert taken is not None
        assert store.hold(taken, "") is not None
        assert store.hold(free, "p3") is None

    def test_a_lease_that_is_over_writes_nothing(self, store: RunStore) -> None:
        store.begin(begun("a"))
        store.intend(first_lease("a"), new_call("0", b"one", None, 2.0))
        taken = store.hold(first_lease("a"), "p2")
        assert taken is not None
        before = store.get("a")
        for write in (
            partial(store.intend, first_lease("a"), new_call("1", b"two", None, 3.0)),
            partial(store.intend, first_lease("a"), new_call("1", b"two", b"state", 3.0), {"0": b"done"}),
            partial(store.answer, first_lease("a"), "0", b"done"),
            partial(store.end, first_lease("a"), "done", b"", 0, 3.0),
        ):
            with pytest.raises(StoreError, match="another process has taken it over"):
                write()
        assert store.get("a") == before
        store.answer(taken, "0", b"done")

    def test_the_sequence_of_calls_is_that_of_the_last_one(self, store: RunStore) -> None:
        store.begin(begun("a"))
        for key in ("0", "1"):
            store.intend(first_lease("a"), new_call(key, b"call", None, 2.0))
        run = store.get("a")
        assert run is not None
        assert (run.sequence, list(run.calls)) == (b"calls up to 1", ["0", "1"])

    def test_runs_are_listed_by_owner_the_latest_first_and_without_what_is_large(
        self, store: RunStore
    ) -> None:
        for name, owner, at in (("a", "ann", 1.0), ("c", "bob", 3.0), ("b", "ann", 2.0)):
            store.begin(begun(name, owner, at))
        store.intend(first_lease("b"), new_call("0", b"one", b"state", 5.0))
        assert [run.id for run in store.runs()] == ["c", "b", "a"]
        listed = [replace(begun("b", at=2.0), changed=5.0), begun("a")]
        assert list(store.runs("ann")) == [replace(run, sequence=None) for run in listed]
        assert list(store.runs("cid")) == []

    def test_runs_are_forgotten_with_all_that_is_theirs(self, store: RunStore) -> None:
        store.begin(begun("a"))
        store.begin(begun("b"))
        store.intend(first_lease("a"), new_call("0", b"one", b"state", 2.0))
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
