"""Every listener is notified of every change, in order, whatever the others do."""

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from discovery.index.support import GITHUB, ISSUE, MAIL, MERGE, SHELF, filled, ids, make, record_changes
from waiting import PATIENCE

from toolcrib.discovery import Change, Index
from toolcrib.errors import StoreError, ToolNotFoundError, ValidationError


def test_listeners_hear_in_the_order_they_came() -> None:
    index = Index()
    order: list[str] = []
    for name in ("first", "second", "third"):
        index.on_change(lambda _, name=name: order.append(name))
    index.register(ISSUE)
    assert order == ["first", "second", "third"]


def test_one_function_may_listen_twice_and_stop_once() -> None:
    index = Index()
    changes: list[Change] = []
    stop = index.on_change(changes.append)
    index.on_change(changes.append)
    index.register(ISSUE)
    assert len(changes) == 2
    stop()
    stop()
    index.register(MAIL)
    assert len(changes) == 3


def test_a_change_is_told_when_it_is_made() -> None:
    index = filled([MAIL])
    seen: list[Any] = []
    index.on_change(lambda change: seen.append((change.version, index.version, change.tool_id in index)))
    index.register(ISSUE)
    index.unregister(ISSUE.id)
    assert seen == [(2, 2, True), (3, 3, False)]


def test_the_failure_of_one_listener_is_logged_and_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    index = Index()
    before = record_changes(index)

    def fail(change: Change) -> None:
        raise StoreError(change.tool_id, "the listener's own trouble")

    index.on_change(fail)
    index.on_change(lambda _: 1 / 0)
    after = record_changes(index)
    with caplog.at_level(logging.ERROR, logger="toolcrib.discovery"):
        index.register_many([(ISSUE, GITHUB), (MAIL, None)])
    assert before == after
    assert [change.tool_id for change in after] == ["github:create_issue", "send_mail"]
    assert len(index) == 2
    assert {record.name for record in caplog.records} == {"toolcrib.discovery"}
    assert len(caplog.records) == 4
    assert "github:create_issue" in caplog.records[0].message
    assert caplog.records[0].exc_info is not None


def test_base_exception_of_a_listener_is_raised() -> None:
    index = Index()

    def interrupt(_change: Change) -> None:
        raise KeyboardInterrupt

    stop = index.on_change(interrupt)
    with pytest.raises(KeyboardInterrupt):
        index.register(ISSUE)
    stop()
    later = record_changes(index)
    index.register(MAIL)
    assert [change.tool_id for change in later] == ["send_mail"]


def test_a_refused_change_is_not_told() -> None:
    index = filled()
    changes = record_changes(index)
    with pytest.raises(ToolNotFoundError):
        index.unregister("nothing")
    assert changes == []


def test_a_listener_may_stop_itself_in_the_middle_of_a_batch() -> None:
    index = Index()
    changes: list[Change] = []

    def once(change: Change) -> None:
        changes.append(change)
        stop()

    stop = index.on_change(once)
    index.register_many((tool, None) for tool in SHELF)
    assert [change.tool_id for change in changes] == ["github:create_issue"]


def test_a_listener_that_was_stopped_by_another_hears_no_more() -> None:
    index = Index()
    index.on_change(lambda _: stop())
    changes: list[Change] = []
    stop = index.on_change(changes.append)
    index.register(ISSUE)
    assert changes == []


def test_a_listener_that_comes_in_a_callback_hears_the_next_change() -> None:
    index = Index()
    changes: list[Change] = []
    stop = index.on_change(lambda _: (stop(), index.on_change(changes.append)))
    index.register_many([(ISSUE, None), (MAIL, None)])
    assert [change.tool_id for change in changes] == ["send_mail"]


def test_a_listener_may_change_the_index_and_all_hear_in_order() -> None:
    index = Index()

    def react(change: Change) -> None:
        if change.tool_id == str(ISSUE.id) and change.kind == "registered":
            index.register(MAIL)
            index.unregister(ISSUE.id)
            assert ids(index.search("send a message")) == ["send_mail"]

    first = record_changes(index)
    index.on_change(react)
    last = record_changes(index)
    index.register_many([(ISSUE, None), (MERGE, None)])
    expected = [
        ("registered", "github:create_issue", 1),
        ("registered", "github:merge:1.2.0", 1),
        ("registered", "send_mail", 2),
        ("removed", "github:create_issue", 3),
    ]
    for changes in (first, last):
        assert [(change.kind, change.tool_id, change.version) for change in changes] == expected
    assert ids(index.tools()) == ["github:merge:1.2.0", "send_mail"]


def test_a_listener_that_answers_every_change_with_another_comes_to_an_end() -> None:
    index = Index()
    changes = record_changes(index)

    def count_on(change: Change) -> None:
        number = int(change.tool_id.removeprefix("t"))
        if number < 1_500:  # deeper than Python would go
            index.register(make(f"t{number + 1}"))

    index.on_change(count_on)
    index.register(make("t0"))
    assert [change.version for change in changes] == list(range(1, 1_502))


def test_a_listener_may_wait_for_a_thread_that_uses_the_index() -> None:
    index = filled()
    with ThreadPoolExecutor(1) as pool:

        def ask_elsewhere(_change: Change) -> None:
            assert pool.submit(index.search, "mail").result(timeout=PATIENCE).items
            pool.submit(index.set_examples, MAIL.id, ["how?"]).result(timeout=PATIENCE)

        stop = index.on_change(ask_elsewhere)
        changes = record_changes(index)
        index.register(ISSUE, GITHUB)
        stop()
    assert [(change.kind, change.version) for change in changes] == [("backend_added", 2), ("updated", 3)]


def test_changes_by_many_threads_are_told_one_by_one_in_the_order_of_their_versions() -> None:
    index = Index()
    changes: list[Change] = []
    busy = threading.Lock()

    def listen(change: Change) -> None:
        assert busy.acquire(blocking=False)
        changes.append(change)
        busy.release()

    index.on_change(listen)
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda number: index.register(make(f"t{number % 40}", title=str(number))), range(240)))
    index.register(make("last"))
    versions = [change.version for change in changes]
    assert versions == list(range(1, len(versions) + 1))
    assert versions[-1] == index.version
    mirror: dict[str, str] = {}
    for change in changes:
        mirror[change.tool_id] = change.kind
    assert set(mirror) == set(ids(index.tools()))


@pytest.mark.parametrize("callback", [None, 5, "print"])
def test_listener_must_be_callable(callback: Any) -> None:
    with pytest.raises(ValidationError, match="must be a function"):
        Index().on_change(callback)
