"""A store in PostgreSQL with many writers: revisions, and the notifications each of them gets."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from contracts.store import stored
from servers.postgres import PostgresServer
from waiting import wait_until

from toolcrib.discovery import PostgresStore
from toolcrib.discovery.store.queued import QueuedStore


@pytest.fixture
def store(database: str) -> Iterator[PostgresStore]:
    with PostgresStore(database) as store:
        yield store


def test_changes_are_those_since_a_revision(store: PostgresStore) -> None:
    store.write(map(stored, "abc"))
    before = store.revision()
    assert store.changes(before) is None
    store.write([stored("b", "2"), stored("d")], delete=["a", "unknown"])
    store.write_texts("saved", {"x": "{}"})
    store.write(delete=["d"])
    changes = store.changes(before)
    assert changes is not None
    assert changes.put == (stored("b", "2"),)
    assert changes.gone == {"a", "d"}
    assert changes.collections == {"saved"}
    assert not changes.is_complete
    assert changes.revision == store.revision()


def test_writing_what_is_there_already_changes_nothing(store: PostgresStore) -> None:
    store.write(map(stored, "abc"))
    store.write_texts("docs", {"a": "{}"})
    before = store.revision()
    store.write(map(stored, "abc"), delete=["x"])
    store.write_texts("docs", {"a": "{}"}, delete=["x"])
    assert store.revision() == before


def test_tool_that_comes_back_is_not_gone(store: PostgresStore) -> None:
    store.write([stored("a")])
    before = store.revision()
    store.write(delete=["a"])
    store.write([stored("a")])
    changes = store.changes(before)
    assert changes is not None
    assert (changes.put, changes.gone) == ((stored("a"),), frozenset())


def test_revision_of_a_later_copy_leads_to_everything(store: PostgresStore) -> None:
    store.write(map(stored, "ab"))
    changes = store.changes(store.revision() + 100)
    assert changes is not None
    assert changes.is_complete
    assert changes.put == (stored("a"), stored("b"))


def test_waiting_ends_with_the_write_of_another_gateway(store: PostgresStore, database: str) -> None:
    revision = store.revision()
    store.wait_for_change(0.0)  # from here on it listens
    with PostgresStore(database) as other:
        other.write([stored("a")])
        store.wait_for_change(3600.0)
    assert store.changes(revision) is not None


def test_changes_are_found_again_after_the_server_was_restarted(
    store: PostgresStore, postgres: PostgresServer
) -> None:
    store.wait_for_change(0.0)
    revision = store.revision()
    postgres.restart()
    store.wait_for_change(0.0)  # the connection is broken, and is not needed
    store.write([stored("a")])
    store.wait_for_change(0.0)
    assert store.changes(revision) is not None


def test_values_are_pruned_that_no_tool_of_any_gateway_needs(store: PostgresStore) -> None:
    store.write([stored("a")])
    store.save_derived("words", {"hash of a": b"1", "hash of b": b"2", "snapshot": b"3"})
    assert store.prune_unused("snapshot") == 1
    assert store.derived("words", ["hash of a", "hash of b", "snapshot"]).keys() == {"hash of a", "snapshot"}


def test_nothing_that_was_acknowledged_is_lost_when_the_server_is_restarted_under_load(
    store: PostgresStore, postgres: PostgresServer
) -> None:
    with QueuedStore(store, owned=False) as queued:
        for turn in range(40):
            queued.write([stored(f"{turn}:{number}") for number in range(20)])
            if turn == 20:
                wait_until(lambda: queued.status.waiting < 100)
                postgres.restart()
        wait_until(lambda: not queued.status.waiting)
        assert queued.status.lost == 0
    assert len(list(store.tools())) == 800


def test_entry_is_stored_once_and_for_its_time_alone(store: PostgresStore, database: str) -> None:
    with PostgresStore(database) as other:
        assert store.put_entry("results", "a", b"\x00\xff", 3600.0)
        assert not other.put_entry("results", "a", b"2", 3600.0)
        assert other.entry("results", "a") == b"\x00\xff"
        assert other.entry("answers", "a") is None
        assert store.put_entry("results", "b", b"1", -1.0)
        assert other.entry("results", "b") is None
        assert other.put_entry("results", "b", b"2", 3600.0)
        assert store.entry("results", "b") == b"2"


def test_one_of_many_gateways_stores_an_entry_first(store: PostgresStore) -> None:
    with ThreadPoolExecutor(8) as threads:
        firsts = list(threads.map(lambda _: store.put_entry("answers", "a", b"", 60.0), range(32)))
    assert firsts.count(True) == 1


def test_queue_shows_only_what_this_gateway_uses(store: PostgresStore) -> None:
    store.write(map(stored, "ab"))
    with QueuedStore(store, owned=False) as queued:
        queued.admit = lambda row: None if row.id == "a" else replace(row, backends="[]")
        assert list(queued.tools()) == [replace(stored("b"), backends="[]")]
    assert len(list(store.tools())) == 2
