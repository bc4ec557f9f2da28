"""A tag, a category or a mode that a question names lifts its tools above their siblings."""

from collections.abc import Callable
from functools import cache
from itertools import cycle, islice
from pathlib import Path

import pytest
from effort import at_most
from hypothesis import given
from hypothesis import strategies as st
from laws import law

from toolcrib.discovery import (
    LOW_CONFIDENCE,
    Bm25Searcher,
    EmbeddingSearcher,
    HybridSearcher,
    Index,
    Searcher,
    SqliteStore,
    load_embedder,
)
from toolcrib.discovery.protocols import Embedder
from toolcrib.model import Tool

TEXT = (
    "read records of the service and return them as a list with their fields sorted by date for every page "
    "that is asked until no more are left so that other programs can use them without further work"
)
"""Text for descriptions; none of the topics is in it."""
TAGS = ("billing", "weather", "issue-tracking", "chemistry", "maps")
CATEGORIES = ("Finance", "Human resources", "Developer tools", "Cooking", "Travel")
MODES = ("image/png", "audio/mpeg", "application/pdf", "video/mp4", "model/gltf")
COMPOUND_MODES = (
    "image/svg+xml",
    "application/geo+json; charset=utf-8",
    "application/vnd.ms-excel",
    "application/x-yaml",
    "application/vnd.google-apps.spreadsheet",
)
LENGTHS = (0, 1, 2, 5, 18, 60, 300)


@cache
def embedder(name: str) -> Embedder:
    return load_embedder(name)


SEARCHERS: dict[str, Callable[[], Searcher | None]] = {
    "default": lambda: None,
    "words": Bm25Searcher,
    "table": lambda: EmbeddingSearcher(embedder("static")),
    "minilm": lambda: EmbeddingSearcher(embedder("minilm")),
    "words and minilm": lambda: HybridSearcher(Bm25Searcher(), EmbeddingSearcher(embedder("minilm"))),
}


FAST = [kind for kind in SEARCHERS if "minilm" not in kind]
"""Those that do not run a model."""


def catalogue(kind: str, fields: list[dict[str, object]], description: str) -> Index:
    """Return an index of tools that differ in these fields and in the number in their names alone."""
    searcher = SEARCHERS[kind]()
    index = Index() if searcher is None else Index(searcher=searcher)
    index.register_many(
        (
            Tool.from_json(
                {"name": f"tool_{number}", "description": description, "inputSchema": {"type": "object"}}
                | field
            ),
            None,
        )
        for number, field in enumerate(fields)
    )
    return index


def described(length: int) -> str:
    return " ".join(islice(cycle(TEXT.split()), length))


FIELDS: dict[str, tuple[list[dict[str, object]], tuple[str, ...]]] = {
    "tag": ([{"tags": [tag]} for tag in TAGS], TAGS),
    "category": ([{"_meta": {"category": one}} for one in CATEGORIES], CATEGORIES),
    "mode": ([{"_meta": {"inputModes": [one]}} for one in MODES], MODES),
    "kind of content": (
        [{"outputModes": [one]} for one in MODES],
        ("png", "mpeg", "pdf", "mp4", "gltf"),
    ),
    "part of a kind": (
        [{"inputModes": [one]} for one in COMPOUND_MODES],
        ("svg", "geo", "excel", "yaml", "spreadsheet"),
    ),
}


MAY_TIE = "words and minilm"
"""Its classifier may trust a sibling more than the first by score; the two then share their mean."""
PHRASES = ("{}", "something for {}", "which tool is for {}?", "show me {} tools")


@pytest.mark.parametrize("kind", SEARCHERS)
@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("length", LENGTHS)
def test_a_named_topic_lifts_its_tool_above_its_siblings(kind: str, field: str, length: int) -> None:
    fields, topics = FIELDS[field]
    index = catalogue(kind, fields, described(length))
    for number, topic in enumerate(topics):
        for phrase in PHRASES:
            page = index.search(phrase.format(topic))
            told = [(each.id, round(each.confidence, 3)) for each in page]
            assert page[0].id == f"tool_{number}", (phrase, topic, told)
            assert page[0].confidence >= LOW_CONFIDENCE, (phrase, topic, told)
            if len(page) > 1 and kind != MAY_TIE:
                assert page[0].confidence > page[1].confidence, (phrase, topic, told)


WORDS = ["billing", "weather", "how", "to", "the", "issue", "tracking", "v2", "c", "read", "png"]
OTHER_SCRIPTS = ["天气", "größe", "погода"]


def texts(words: list[str]) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(words), min_size=1, max_size=3).map("-".join)


def topics(words: list[str]) -> st.SearchStrategy[list[str]]:
    """Return topics none of which has the words of another."""
    sets = st.lists(texts(words), min_size=2, max_size=7)
    return sets.map(
        lambda found: [
            one
            for at, one in enumerate(found)
            if not any({*one.split("-")} & {*other.split("-")} for other in found[:at])
        ]
    )


LISTS = st.one_of(
    st.tuples(st.just("tags"), topics(WORDS)),
    st.tuples(st.just("category"), topics([*WORDS, *OTHER_SCRIPTS])),
    st.tuples(st.just("outputModes"), topics([*WORDS, *OTHER_SCRIPTS])),
)


@pytest.mark.parametrize("kind", FAST)
@law(40)
@given(filed=LISTS, length=st.integers(0, 300))
def test_any_topic_that_is_the_question_lifts_its_tool(
    kind: str, filed: tuple[str, list[str]], length: int
) -> None:
    field, named = filed
    index = catalogue(
        kind, [{field: one if field == "category" else [one]} for one in named], described(length)
    )
    for number, topic in enumerate(named):
        page = index.search(topic)
        assert page[0].id == f"tool_{number}", [(each.id, each.confidence) for each in page]
        assert page[0].confidence >= LOW_CONFIDENCE


@pytest.mark.parametrize("kind", SEARCHERS)
@pytest.mark.parametrize("question", ["issue tracking", "issue-tracking", "issueTracking", "Issue_Tracking"])
def test_a_topic_is_named_however_it_is_written(kind: str, question: str) -> None:
    tags = [["issue-board"], ["tracking-parcels"], ["issue-tracking"], ["issues"], ["tracking"]]
    index = catalogue(kind, [{"tags": each} for each in tags], described(40))
    assert index.search(question)[0].id == "tool_2"


@pytest.mark.parametrize("kind", SEARCHERS)
def test_a_tool_with_both_topics_stands_above_those_with_one(kind: str) -> None:
    tags = [["billing"], ["weather"], ["billing", "weather"], ["maps"]]
    index = catalogue(kind, [{"tags": each} for each in tags], described(18))
    found = [each.id for each in index.search("weather billing", limit=3)]
    assert (found[0], {*found[1:]}) == ("tool_2", {"tool_0", "tool_1"})


@pytest.mark.parametrize("kind", FAST)
def test_a_topic_is_found_among_more_siblings_than_are_compared(kind: str) -> None:
    fields: list[dict[str, object]] = [{"tags": [f"topic{number}"]} for number in range(300)]
    index = catalogue(kind, fields, described(18))
    assert index.search("topic217")[0].id == "tool_217"


@pytest.mark.parametrize("kind", SEARCHERS)
def test_a_word_in_passing_does_not_lift_a_tool_over_one_that_does_what_is_asked(kind: str) -> None:
    searcher = SEARCHERS[kind]()
    index = Index() if searcher is None else Index(searcher=searcher)
    for name, description, tags in (
        ("send_message", "Send an e-mail to somebody.", []),
        ("list_records", described(18), ["weather"]),
    ):
        index.register(Tool(name=name, description=description, tags=tags, input_schema={}))
    assert index.search("send an e-mail to Ann that the weather is fine")[0].id == "send_message"


@pytest.mark.parametrize("kind", ["words", "table"])
def test_topics_follow_every_change_and_are_read_back_from_a_store(kind: str, tmp_path: Path) -> None:
    def searcher(store: SqliteStore) -> Searcher:
        if kind == "words":
            return Bm25Searcher(cache=store)
        return EmbeddingSearcher(embedder("static"), cache=store)

    def told(index: Index) -> list[str]:
        return [each.id for each in index.search("billing") if each.confidence >= LOW_CONFIDENCE]

    with SqliteStore(tmp_path / "catalogue.db") as store:
        index = Index(searcher(store), store=store)
        for name, tags in (("one", ["billing"]), ("two", ["maps"])):
            index.register(Tool(name=name, description=described(18), tags=tags, input_schema={}))
        assert told(index) == ["one"]
        index.register(Tool(name="two", description=described(18), tags=["billing"], input_schema={}))
        index.unregister("one")
        assert told(index) == ["two"]
    with SqliteStore(tmp_path / "catalogue.db") as store:
        assert told(Index(searcher(store), store=store)) == ["two"]


def test_a_question_that_names_many_topics_is_answered_in_bounded_time() -> None:
    tags = [f"topic{number}" for number in range(20)]
    index = Index(searcher=EmbeddingSearcher(embedder("static")))
    index.register_many(
        (Tool(name=f"tool{number}", input_schema={}, tags=tags[number : number + 3]), None)
        for number in range(20)
    )
    index.search("warm up")
    with at_most(1.0):
        found = index.search(" ".join(tags), limit=20)
    assert len(found) == 20
