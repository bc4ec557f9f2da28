"""A queued store never waits for the file, loses nothing silently, and reports its state."""

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from contracts.store import stored
from waiting import wait_until

from toolcrib.discovery import MemoryStore, SqliteStore
from toolcrib.discovery.store import queued
from toolcrib.discovery.store.queued import QueuedStore
from toolcrib.errors import StoreError


class Failing(MemoryStore):
    """A store whose writes fail until they are enabled; it records them in order."""

    def __init__(self) -> None:
        super().__init__()
        self.is_well = False
        self.written: list[str] = []

    def _note(self, name: str) -> None:
        if not self.is_well:
            raise StoreError("memory", "it is out of order")
        self.written.append(name)

    def write(self, *args: Any) -> None:
        self._note("tools")
        super().write(*args)

    def write_texts(self, *args: Any) -> None:
        self._note("texts")
        super().write_texts(*args)

    def count_usage(self, *args: Any) -> None:
        self._note("usage")
        super().count_usage(*args)


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Hold the lock of writers."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


def test_changes_wait_while_another_process_holds_the_file(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with QueuedStore(SqliteStore(path, timeout=0.05)) as store:
        with hold_lock(path):
            store.write([stored("a"), stored("b")])
            store.write_texts("docs", {"a": "1"})
            store.write([stored("a", "2")], delete=["b"])
            store.write_texts("docs", {"a": "2"})
            store.save_derived("words", {"h": b"1"})
            store.count_usage({"a": 1})
            wait_until(lambda: store.status.fault)
            assert store.status.waiting == 5
            assert "another process" in str(store.status.fault)
            assert [tool.definition for tool in store.tools()] == ["2"]
            assert list(store.texts("docs")) == [("a", "2")]
            assert store.derived("words", ["h", "x"]) == {"h": b"1"}
            with pytest.raises(StoreError, match="another process"):
                store.usage()
            assert store.prune_derived(["h"]) == 0
        wait_until(lambda: not store.status.waiting)
        assert store.status.fault is None
    with SqliteStore(path) as store:
        assert list(store.tools()) == [stored("a", "2")]
        assert list(store.texts("docs")) == [("a", "2")]
        assert (store.derived("words", ["h"]), store.usage()) == ({"h": b"1"}, {"a": 1})


def test_tools_are_written_before_the_texts_that_name_their_server() -> None:
    inner = Failing()
    with QueuedStore(inner) as store:
        store.count_usage({"a": 1})
        store.write_texts("origins", {"mcp:a": "1"})
        store.write([stored("a")])
        wait_until(lambda: store.status.fault)
        inner.is_well = True
        wait_until(lambda: not store.status.waiting)
    assert inner.written == ["tools", "texts", "usage"]


def test_changes_beyond_the_bound_are_given_up_counted_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    inner = Failing()
    with QueuedStore(inner, max_bytes=5_000) as store:
        for number in range(100):
            store.write([stored(f"{number:03}", "x" * 100)])
            store.write_texts("docs", {f"{number:03}": "x"})
        wait_until(lambda: store.status.fault)
        status = store.status
        inner.is_well = True
        wait_until(lambda: not store.status.waiting)
        assert status.waiting + status.lost == 200
        assert 0 < status.waiting < 50
        kept = [tool.id for tool in store.tools()]
        assert kept == [f"{number:03}" for number in range(len(kept))]
        store.write([stored("later")])
        store.wait_for_room(1.0)
        assert store.status.lost == status.lost
    assert caplog.text.count("are discarded") == 1
    assert "were lost" in caplog.text


def test_a_change_that_no_store_can_keep_is_refused_at_once() -> None:
    with QueuedStore(MemoryStore()) as store:
        with pytest.raises(StoreError, match="NUL"):
            store.write([stored("a\0b")])
        assert store.status.waiting == 0


def test_closing_tells_what_was_not_written(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(queued, "_CLOSE_TIMEOUT", 0.05)
    inner = Failing()
    store = QueuedStore(inner)
    store.write([stored("a"), stored("b")])
    store.close()
    with caplog.at_level(logging.ERROR):
        assert "2 changes to the catalogue were not written to memory: it is out of order" in caplog.text
    wait_until(lambda: inner._closed)


def test_a_store_of_somebody_else_is_written_and_stays_open() -> None:
    with MemoryStore() as inner:
        store = QueuedStore(inner, owned=False)
        store.write([stored("a")])
        store.close()
        assert [tool.id for tool in inner.tools()] == ["a"]
        with pytest.raises(StoreError, match="closed"):
            store.write([stored("b")])


def test_a_store_that_cannot_be_read_has_nothing_derived() -> None:
    class Unreadable(MemoryStore):
        asked = 0

        def derived(self, *_: Any) -> Any:
            self.asked += 1
            raise StoreError("memory", "it is out of order")

    inner = Unreadable()
    with QueuedStore(inner) as store:
        assert store.derived("words", ["a"]) == {}
        assert store.derived("words", ["b"]) == {}
    assert inner.asked == 1
