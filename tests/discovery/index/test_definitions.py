"""Definitions of an index with a store are on disk, and what happens to the store does not take them away."""

import sqlite3
from contextlib import closing
from pathlib import Path

from discovery.index.support import GITHUB, ISSUE, MAIL, SHELF, ids, make
from hypothesis import given
from hypothesis import strategies as st
from laws import law

from toolcrib.discovery import Index, SqliteStore
from toolcrib.discovery.index.definitions import Definitions

QUESTION = "open an issue"


def fill(path: Path) -> None:
    """Write the shelf to a store."""
    with SqliteStore(path) as store:
        Index(store=store).register_many((tool, GITHUB) for tool in SHELF)


def test_tool_that_another_process_deletes_or_replaces_is_shown_as_it_was_found(tmp_path: Path) -> None:
    path = tmp_path / "catalogue.db"
    fill(path)
    with SqliteStore(path) as store, SqliteStore(path) as other:
        index = Index(store=store)
        found = index.search(QUESTION)
        elsewhere = Index(store=other)
        elsewhere.unregister(ISSUE.id)
        elsewhere.register(MAIL.replace(description="Paint walls."))
        assert index.get(ISSUE.id) == ISSUE
        assert index.get(MAIL.id) == MAIL
        assert index.search(QUESTION) == found
        assert [row.id for row in store.tools()] == ids(elsewhere.tools())


def test_tools_are_shown_after_the_store_is_closed_and_its_file_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "catalogue.db"
    fill(path)
    with SqliteStore(path) as store:
        index = Index(store=store)
        index.register(make("late", "n", description="Comes late."))
    for file in tmp_path.iterdir():
        file.unlink()
    assert index.get(ISSUE.id) == ISSUE
    assert [result.summary.short_description for result in index.search("n:late")] == ["Comes late."]


def test_definitions_stay_in_memory_if_no_file_can_be_made(tmp_path: Path) -> None:
    definitions = Definitions(tmp_path / "absent")
    places = definitions.append(["one", "two"])
    assert [definitions.text(place) for place in places] == ["one", "two"]
    definitions.release(places[0])
    assert definitions.append(["three"]) == [~2]
    assert not definitions.is_wasteful


def test_file_with_mostly_replaced_definitions_is_made_anew(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "catalogue.db") as store:
        index = Index(store=store)
        index.register(ISSUE)
        before = index._definitions
        long = "x" * (1 << 20)
        for turn in range(40):
            index.register(make("long", "n", description=f"{turn} {long}"))
        assert index._definitions is not before
        assert not index._definitions.is_wasteful
        assert index.get(ISSUE.id) == ISSUE
        assert (index.get("n:long").description or "").startswith("39 ")


def test_long_names_of_a_damaged_store_do_not_hide_the_others(tmp_path: Path) -> None:
    path = tmp_path / "catalogue.db"
    fill(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE tools SET id = 'git\nhub:odd' WHERE id = ?", (str(MAIL.id),))
    with SqliteStore(path) as store:
        assert ids(Index(store=store).search("github:create_issue"))[0] == str(ISSUE.id)


@law(25)
@given(st.lists(st.lists(st.text(st.characters(codec=None)), max_size=4), max_size=5))
def test_each_text_is_read_back_from_its_place(batches: list[list[str]]) -> None:
    definitions = Definitions()
    filed = [pair for texts in batches for pair in zip(definitions.append(texts), texts, strict=True)]
    assert [definitions.text(place) for place, _ in filed] == [text for _, text in filed]
