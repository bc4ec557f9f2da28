"""A cursor belongs to one list in one state, and to no other."""

import base64
from collections.abc import Callable
from typing import Any

import pytest
from discovery.index.support import SHELF, filled, ids, make, walk
from hypothesis import given
from hypothesis import strategies as st
from laws import law

from toolcrib.discovery import Bm25Searcher, Index, Page
from toolcrib.errors import InvalidCursorError

INDEX = filled(make(f"paint_{number:02}", "xy"[number % 2], tags=["a", "b"]) for number in range(12))
ASKING: dict[str, Callable[..., Page[Any]]] = {
    "tools": INDEX.tools,
    "tools of x": lambda **page: INDEX.tools(namespace="x", **page),
    "tools with a": lambda **page: INDEX.tools(tags=["a"], **page),
    "tools with a or b": lambda **page: INDEX.tools(tags=["a", "b"], **page),
    "tools with a and b": lambda **page: INDEX.tools(all_tags=["a", "b"], **page),
    "blank": lambda **page: INDEX.search("", **page),
    "blanks": lambda **page: INDEX.search("  ", **page),
    "paint": lambda **page: INDEX.search("paint", **page),
    "paints": lambda **page: INDEX.search("paints", **page),
    "paint in x": lambda **page: INDEX.search("paint", namespace="x", **page),
    "paint for sure": lambda **page: INDEX.search("paint", min_confidence=0.001, **page),
    "filter in words": lambda **page: INDEX.search("[['namespace=x']] paint", **page),
}
CURSORS = {name: ask(limit=2).next_cursor for name, ask in ASKING.items()}
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


@pytest.mark.parametrize("name", ASKING)
def test_a_cursor_goes_on_where_its_page_ended(name: str) -> None:
    ask = ASKING[name]
    first, second = ask(limit=2), ask(limit=2, cursor=CURSORS[name])
    assert ids(first) + ids(second) == ids(ask(limit=4))


@pytest.mark.parametrize("name", ASKING)
def test_no_cursor_and_an_empty_one_mean_the_beginning(name: str) -> None:
    ask = ASKING[name]
    assert ask(limit=2, cursor="") == ask(limit=2, cursor=None) == ask(limit=2)


@pytest.mark.parametrize("name", ASKING)
def test_a_cursor_of_another_list_is_refused(name: str) -> None:
    for other, cursor in CURSORS.items():
        if other != name:
            with pytest.raises(InvalidCursorError, match="not issued for this query and these filters"):
                ASKING[name](cursor=cursor)


def test_a_cursor_is_opaque_text_of_one_length_that_fits_a_url() -> None:
    issued = [cursor for cursor in CURSORS.values() if cursor]
    assert len(issued) == len(ASKING)
    assert {len(cursor) for cursor in issued} == {32}
    assert all(set(cursor) <= set(ALPHABET) for cursor in issued)


def test_the_last_page_has_no_cursor() -> None:
    assert INDEX.tools(limit=12).next_cursor is None
    assert INDEX.search("paint", limit=100).next_cursor is None
    assert INDEX.search("nothing like it").next_cursor is None
    assert Index().tools().next_cursor is None


def test_the_size_of_pages_may_change_on_the_way() -> None:
    cursor = INDEX.tools(limit=5).next_cursor
    assert ids(INDEX.tools(limit=1_000, cursor=cursor)) == ids(INDEX.tools())[5:]


def test_a_cursor_may_be_used_twice() -> None:
    cursor = CURSORS["paint"]
    assert INDEX.search("paint", cursor=cursor) == INDEX.search("paint", cursor=cursor)


def test_the_same_confidence_is_the_same_question() -> None:
    one: Any = 1
    twins = [make("a", meta={"aliases": ["z"]}), make("b", meta={"aliases": ["z"]})]
    index = filled(twins, searcher=Bm25Searcher())
    cursor = index.search("z", limit=1, min_confidence=one).next_cursor
    assert cursor is not None
    assert ids(index.search("z", min_confidence=1.0, cursor=cursor)) == ["b"]


@pytest.mark.parametrize(
    "change",
    [
        lambda index: index.register(make("paint_99")),
        lambda index: index.register(make("paint_00", description="Other.")),
        lambda index: index.unregister("paint_11"),
        lambda index: index.set_examples("paint_11", ["how?"]),
    ],
    ids=["added", "replaced", "removed", "examples"],
)
def test_a_cursor_is_stale_once_the_catalogue_changed(change: Callable[[Index], None]) -> None:
    index = filled(make(f"paint_{number:02}") for number in range(12))
    listed, found = index.tools(limit=2).next_cursor, index.search("paint", limit=2).next_cursor
    change(index)
    with pytest.raises(InvalidCursorError, match="the catalogue has changed since it was issued"):
        index.tools(cursor=listed)
    with pytest.raises(InvalidCursorError, match="ask again without a cursor"):
        index.search("paint", cursor=found)


def test_cursor_survives_calls_that_change_nothing() -> None:
    index = filled()
    cursor = index.tools(limit=1).next_cursor
    index.register(SHELF[0])
    index.count_use(SHELF[0].id)
    index.on_change(print)()
    assert index.tools(limit=1, cursor=cursor).items


def test_a_cursor_of_another_index_is_refused() -> None:
    one, other = filled(), filled()
    with pytest.raises(InvalidCursorError):
        other.tools(cursor=one.tools(limit=1).next_cursor)
    with pytest.raises(InvalidCursorError):
        other.search("", cursor=one.search("", limit=1).next_cursor)


@pytest.mark.parametrize(
    "cursor",
    [
        5,
        b"AAAA",
        True,
        ["a"],
        " ",
        "\x00",
        "\ud800",
        "é" * 32,
        "🌦️",
        "A" * 31,
        "A" * 32,
        "A" * 33,
        "=",
        "=" * 32,
        "A" * 1_000_000,
        base64.b64encode(b'{"offset":0,"checksum":1}').decode(),
        "null",
        "0",
        "-1",
    ],
    ids=lambda cursor: repr(cursor)[:20],
)
def test_malformed_cursor_is_refused(cursor: Any) -> None:
    for ask in ASKING.values():
        with pytest.raises(InvalidCursorError):
            ask(cursor=cursor)


@pytest.mark.parametrize("junk", ["!", "=", "====", "\n", " ", "\x00", "é"])
def test_a_cursor_with_something_added_is_refused(junk: str) -> None:
    cursor = CURSORS["tools"]
    assert cursor is not None
    for altered in (cursor + junk, junk + cursor, cursor[:7] + junk + cursor[7:]):
        with pytest.raises(InvalidCursorError):
            INDEX.tools(cursor=altered)


@law(40)
@given(st.sampled_from(sorted(ASKING)), st.data())
def test_an_altered_cursor_is_refused(name: str, data: st.DataObject) -> None:
    cursor = CURSORS[name]
    assert cursor is not None
    at = data.draw(st.integers(0, len(cursor)))
    put = data.draw(st.text(alphabet=st.sampled_from(ALPHABET + "+/= \n!\u00e9"), max_size=3))
    cut = data.draw(st.integers(0, 3))
    altered = cursor[:at] + put + cursor[at + cut :]
    if altered not in {cursor, ""}:
        with pytest.raises(InvalidCursorError):
            ASKING[name](cursor=altered)


@law(40)
@given(st.text(min_size=1, max_size=70) | st.binary(min_size=24, max_size=24))
def test_a_random_cursor_is_refused(cursor: str | bytes) -> None:
    text = base64.urlsafe_b64encode(cursor).decode() if isinstance(cursor, bytes) else cursor
    with pytest.raises(InvalidCursorError):
        INDEX.tools(cursor=text)


def test_every_page_of_a_long_list_is_full_but_the_last() -> None:
    index = filled(make(f"t{number}") for number in range(205))
    pages = list(walk(index.tools, 20))
    assert [len(page) for page in pages] == [20] * 10 + [5]
    assert {page.total for page in pages} == {205}
    assert len(index.tools()) == 100
