"""A catalogue outlives its process, and is opened without being read."""

import logging
import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from itertools import starmap
from pathlib import Path
from typing import Any

import pytest
from discovery.index.support import (
    ACME,
    GITHUB,
    HERE,
    ISSUE,
    MAIL,
    MERGE,
    MIRROR,
    SHELF,
    ids,
    make,
    record_changes,
)
from discovery.support import WordEmbedder

from toolcrib.discovery import (
    Bm25Searcher,
    EmbeddingSearcher,
    HybridSearcher,
    Index,
    MemoryStore,
    SqliteStore,
    Store,
    StoredTool,
)
from toolcrib.errors import InvalidCursorError, StoreError
from toolcrib.model import Icon, Tool, ToolAnnotations

RICH = Tool(
    name="rich",
    namespace="x",
    version="v1.0.0+b5",
    title="T\u0000\u2028🌦️",
    description="Does \x00 much, مرحبا 天气预报.",
    input_schema={"properties": {"n": {"enum": [1, True, 1.0, None, "é"], "const": 10**30}}},
    output_schema={"type": "object"},
    annotations=ToolAnnotations(read_only_hint=True, own=[1]),
    icons=(Icon(src="x"),),
    meta={"aliases": ["\x00odd", "weather man"], "category": "Dev Tools", "examples": ["how\u0000?"]},
    tags=["a", "b"],
    backend=HERE,
    execution={"taskSupport": "optional"},
)
QUESTIONS = ["open an issue", "merge", "天气", "weather man", "grandmother", "dev tools", "", "create_issue"]
Opener = Callable[[], Store]


class Kept(MemoryStore):
    """A store in memory that can be reopened, and can simulate failures."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: set[str] = set()

    def close(self) -> None:
        """Keep everything."""

    def write(self, put: Iterable[StoredTool] = (), delete: Iterable[str] = ()) -> None:
        self._refuse("write")
        super().write(put, delete)

    def save_derived(self, kind: str, values: Mapping[str, bytes]) -> None:
        self._refuse("save_derived")
        super().save_derived(kind, values)

    def derived(self, kind: str, hashes: Collection[str]) -> dict[str, bytes]:
        self._refuse("derived")
        return super().derived(kind, hashes)

    def count_usage(self, counts: Mapping[str, int]) -> None:
        self._refuse("count_usage")
        super().count_usage(counts)

    def _refuse(self, name: str) -> None:
        if name in self.refused:
            raise StoreError("memory", f"{name} is refused")


@pytest.fixture(params=["memory", "sqlite"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """Return a function that opens the same store again and again."""
    if request.param == "sqlite":
        return lambda: SqliteStore(tmp_path / "catalogue.db")
    kept = Kept()
    return lambda: kept


def state(index: Index) -> dict[str, Any]:
    """Return everything that an index answers."""
    listed = index.tools(limit=1_000)
    known = ids(listed)
    return {
        "tools": listed,
        "definitions": [index.get(one).to_json() for one in known],
        "backends": [index.backends(one) for one in known],
        "namespaces": index.namespaces(),
        "usage": index.usage(),
        "found": [index.search(question, limit=100) for question in QUESTIONS],
        "filtered": [
            index.tools(**filters)
            for filters in (
                {"namespace": "github"},
                {"tags": ["issues", "a"]},
                {"backend": "mcp"},
                {"backend": ACME},
                {"annotations": {"readOnlyHint": True}},
                {"category": "dev tools"},
            )
        ],
        "resolved": [index.resolve(ref).id for ref in ("github:merge", "x:rich:^1")],
    }


def build(index: Index) -> None:
    index.register_many((tool, GITHUB) for tool in SHELF)
    index.register(RICH)
    index.register(RICH, ACME)
    index.register(make("gone", "gone"))
    index.register(ISSUE.replace(title="Issue"), MIRROR)
    index.unregister("gone:gone")
    index.set_examples(MAIL.id, ["write to grandmother", "\x00\ud800"])
    index.count_use(ISSUE.id, 3)
    index.count_use(MERGE.id)


def test_an_index_that_is_opened_again_answers_the_same(open_store: Opener) -> None:
    with open_store() as store:
        index = Index(store=store)
        build(index)
        expected = state(index)
    with open_store() as store:
        again = Index(store=store)
        assert state(again) == expected
        assert again.get(RICH.id) == RICH
        assert len(again) == 5
    fresh = Index()
    build(fresh)
    assert state(fresh) == expected


def test_an_index_that_was_opened_again_changes_like_any_other(open_store: Opener) -> None:
    with open_store() as store:
        build(Index(store=store))
    with open_store() as store:
        index = Index(store=store)
        changes = record_changes(index)
        index.register(RICH, HERE)
        index.register(ISSUE.replace(title="Issue"), GITHUB)
        assert changes == []
        index.register(ISSUE.replace(title="Other"))
        index.unregister(RICH.id, HERE)
        index.unregister(RICH.id, ACME)
        assert [(change.kind, change.fields) for change in changes] == [
            ("updated", ("title",)),
            ("backend_removed", ()),
            ("removed", ()),
        ]
    with open_store() as store:
        index = Index(store=store)
        assert index.get(ISSUE.id).title == "Other"
        assert index.namespaces() == ("", "github", "weather")
        assert ids(index.search("grandmother")) == ["send_mail"]


def test_examples_outlive_the_process_and_updates_after_it(open_store: Opener) -> None:
    with open_store() as store:
        index = Index(store=store)
        index.register(MAIL)
        index.set_examples(MAIL.id, ["write to grandmother"])
    with open_store() as store:
        Index(store=store).register(MAIL.replace(title="Mail"))
    with open_store() as store:
        assert ids(Index(store=store).search("grandmother")) == ["send_mail"]


def test_a_cursor_does_not_outlive_the_process(open_store: Opener) -> None:
    with open_store() as store:
        index = Index(store=store)
        build(index)
        cursor = index.tools(limit=1).next_cursor
    with open_store() as store, pytest.raises(InvalidCursorError):
        Index(store=store).tools(limit=1, cursor=cursor)


def test_names_and_filters_are_known_without_reading_a_definition() -> None:
    store = Kept()
    build(Index(store=store))
    expected = state(Index(store=store))
    store.write([replace(row, definition="poison") for row in store.tools()])
    store.refused = {"save_derived", "write"}
    index = Index(store=store)
    assert len(index) == 5
    assert index.namespaces() == expected["namespaces"]
    assert index.usage() == expected["usage"]
    assert [index.backends(summary.id) for summary in expected["tools"].items] == expected["backends"]
    assert index.versions("github:merge") == ("github:merge:1.2.0",)
    assert index.tools(limit=1, category="dev tools", tags=["unknown"]).total == 0
    with pytest.raises(StoreError, match="the stored tool 'github:create_issue' cannot be read"):
        index.get(ISSUE.id)


@pytest.mark.parametrize("kind", ["bm25", "hybrid"])
def test_derived_values_are_reused_after_reopening(kind: str) -> None:
    store = Kept()
    embedder = WordEmbedder()

    def searcher() -> Bm25Searcher | HybridSearcher:
        words = Bm25Searcher(cache=store)
        return words if kind == "bm25" else HybridSearcher(words, EmbeddingSearcher(embedder, cache=store))

    first = Index(searcher(), store=store)
    build(first)
    expected = [first.search(question, limit=100) for question in QUESTIONS]
    store.refused = {"save_derived", "write"}
    embedder.calls.clear()
    again = Index(searcher(), store=store)
    assert [again.search(question, limit=100) for question in QUESTIONS] == expected
    assert set(embedder.texts) <= set(QUESTIONS)


def test_a_tool_whose_text_is_unknown_to_the_cache_is_read_again() -> None:
    store = Kept()
    build(Index(store=store))
    expected = state(Index(store=store))
    assert store.prune_derived([]) > 0
    assert state(Index(store=store)) == expected


@pytest.mark.parametrize(
    "change",
    [
        lambda index: index.register(make("new", "n", description="Paint walls."), GITHUB),
        lambda index: index.register(ISSUE.replace(description="Paint walls."), HERE),
        lambda index: index.register_many([(make("new", "n"), None), (MERGE.replace(title="M"), HERE)]),
        lambda index: index.set_examples(MAIL.id, ["paint the walls"]),
        lambda index: index.unregister(RICH.id, ACME),
    ],
    ids=["add", "replace", "batch", "examples", "backend"],
)
def test_a_change_that_cannot_be_kept_leaves_everything_as_it_was(change: Callable[[Index], None]) -> None:
    store = Kept()
    index = Index(store=store)
    build(index)
    changes = record_changes(index)
    before, version, rows = state(index), index.version, list(store.tools())
    store.refused = {"write"}
    with pytest.raises(StoreError, match="write is refused"):
        change(index)
    assert list(store.tools()) == rows
    store.refused = set()
    assert state(index) == before
    assert (index.version, changes) == (version, [])
    assert state(Index(store=store)) == before
    change(index)
    assert index.version == version + 1


def test_a_change_stands_though_no_snapshot_can_be_written(caplog: pytest.LogCaptureFixture) -> None:
    store = Kept()
    index = Index(store=store)
    store.refused = {"save_derived"}
    build(index)
    expected = state(index)
    assert "save_derived is refused" in caplog.text
    assert state(Index(store=store)) == expected


def test_a_removal_that_cannot_be_kept_leaves_the_tool() -> None:
    store = Kept()
    index = Index(store=store)
    build(index)
    before = state(index)
    store.refused = {"write"}
    with pytest.raises(StoreError):
        index.unregister(MAIL.id)
    assert state(index) == before


def test_a_use_that_cannot_be_kept_is_not_counted() -> None:
    store = Kept()
    index = Index(store=store)
    build(index)
    store.refused = {"count_usage"}
    with pytest.raises(StoreError):
        index.count_use(ISSUE.id)
    assert index.usage() == {"github:create_issue": 3, "github:merge:1.2.0": 1}


def test_an_index_whose_store_was_closed_still_answers_and_says_why_it_does_not_change() -> None:
    store = MemoryStore()
    index = Index(store=store)
    build(index)
    before = state(index)
    store.close()
    with pytest.raises(StoreError, match="it is closed"):
        index.register(make("new"))
    assert state(index) == before


@pytest.mark.parametrize(
    "damage",
    [
        {"backends": "not json"},
        {"backends": '[{"kind":"unknown"}]'},
        {"backends": "{}"},
        {"backends": "[null]"},
        {"facets": "not json"},
        {"facets": "5"},
        {"examples": "not json"},
        {"examples": "5"},
    ],
    ids=str,
)
def test_a_row_that_cannot_be_read_is_told_and_left_out_until_it_is_replaced(
    damage: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    store = Kept()
    build(Index(store=store))
    row, *others = store.tools()
    store.write([replace(row, **damage)])
    with caplog.at_level(logging.WARNING, logger="toolcrib.discovery"):
        index = Index(store=store)
    assert "the stored tool 'github:create_issue' cannot be read" in caplog.text
    assert ids(index.tools()) == [other.id for other in others]
    index.register(ISSUE, GITHUB)
    assert Index(store=store).get(ISSUE.id) == ISSUE


def test_stored_rows_can_be_read_with_sqlite3(tmp_path: Path) -> None:
    path = tmp_path / "catalogue.db"
    with SqliteStore(path) as store:
        build(Index(store=store))
    with closing(sqlite3.connect(path)) as connection:
        rows = list(starmap(StoredTool, connection.execute("SELECT * FROM tools ORDER BY id")))
    assert [row.id for row in rows] == [
        "github:create_issue",
        "github:merge:1.2.0",
        "send_mail",
        "weather:get_weather",
        "x:rich:1.0.0",
    ]
    assert Tool.from_json(rows[-1].definition) == RICH
    assert all(text.isascii() for row in rows for text in (row.definition, row.facets, row.examples))


def test_equal_content_has_an_equal_hash_whatever_became_of_it_in_between() -> None:
    hashes = []
    for tools in ([ISSUE], [ISSUE.replace(title="Other"), ISSUE], [MAIL, ISSUE]):
        store = Kept()
        index = Index(store=store)
        for tool in tools:
            index.register(tool, GITHUB)
        hashes += [row.content_hash for row in store.tools() if row.id == str(ISSUE.id)]
    assert len(set(hashes)) == 1
