"""Searches return fitting tools, those named in the question first, and no question makes them fail."""

from functools import partial
from typing import Any

import pytest
from contracts.searcher import HOSTILE
from discovery.index.support import ISSUE, MAIL, MERGE, SHELF, filled, ids, make, walk
from discovery.support import WordEmbedder
from hypothesis import given
from hypothesis import strategies as st
from laws import law

from toolcrib.discovery import (
    Bm25Searcher,
    EmbeddingSearcher,
    Hit,
    HybridSearcher,
    Index,
    Ranking,
    Searcher,
    load_embedder,
)
from toolcrib.errors import ValidationError
from toolcrib.model import Tool

CROWD = [
    make("create_issue", "github", description="Open an issue.", meta={"aliases": ["ticket", "New Bug"]}),
    make("create_issue", "gitlab", description="Open an issue, create issue, create an issue for issues."),
    make("create_issue_comment", "github", description="Create issue, create issue, create issue comments."),
    make("merge", "github", version="1.2.0", description="Join branches."),
    make("merge", "github", version="2.0.0", description="Join branches well."),
    make("getWeather", "weather", description="Forecasts."),
    make("time", description="Tell what time it is."),
    make("run", description="Execute a program."),
    make("search", "web", description="Look something up."),
    make("search_mail", "mail", description="Look through mail."),
    make("mail", description="Time to run and search, merge and create issue tickets."),
    make("_", description="A name without a word."),
    make("-x-", description="A name with marks."),
    make("v2.upload-file", "drive", description="Store bytes."),
]
INDEX = filled(CROWD)


@pytest.mark.parametrize(
    ("question", "named"),
    [
        ("github:create_issue", ["github:create_issue"]),
        ("GitHub:Create_Issue", ["github:create_issue"]),
        ("create_issue", ["github:create_issue", "gitlab:create_issue"]),
        ("create issue", ["github:create_issue", "gitlab:create_issue"]),
        ("createIssue", ["github:create_issue", "gitlab:create_issue"]),
        ("CREATE-ISSUE", ["github:create_issue", "gitlab:create_issue"]),
        (" create_issue?\n", ["github:create_issue", "gitlab:create_issue"]),
        ("ticket", ["github:create_issue"]),
        ("new bug", ["github:create_issue"]),
        ("new_bug", ["github:create_issue"]),
        ("github:merge", ["github:merge:1.2.0", "github:merge:2.0.0"]),
        ("github:merge:1.2.0", ["github:merge:1.2.0"]),
        ("github:merge:v1.2.0", ["github:merge:1.2.0"]),
        ("github:merge:1.2.0+build", ["github:merge:1.2.0"]),
        ("merge", ["github:merge:1.2.0", "github:merge:2.0.0"]),
        ("get_weather", ["weather:getWeather"]),
        ("time", ["time"]),
        ("the time tool", ["time"]),
        ("run", ["run"]),
        ("search", ["web:search"]),
        ("search mail", ["mail:search_mail"]),
        ("_", ["_"]),
        ("-x-", ["-x-"]),
        ("drive:v2.upload-file", ["drive:v2.upload-file"]),
        ("v2 upload file", ["drive:v2.upload-file"]),
        ("github:create_issue gitlab:create_issue", ["github:create_issue", "gitlab:create_issue"]),
        ("getWeather, time and search", ["weather:getWeather", "time", "web:search"]),
        ("use getWeather and then -x-", ["weather:getWeather", "-x-"]),
        ("run, time", ["run", "time"]),
        ("please call search_mail for the invoice", ["mail:search_mail"]),
        ("what does `time` do in github:create_issue?", ["time", "github:create_issue"]),
        ("is \u201cnew bug\u201d better than getWeather", ["github:create_issue", "weather:getWeather"]),
    ],
)
def test_tools_that_a_question_names_come_first(question: str, named: list[str]) -> None:
    page = INDEX.search(question)
    assert sorted(ids(page)[: len(named)]) == sorted(named)
    assert [result.confidence == 1.0 for result in page.items] == [
        place < len(named) for place in range(len(page))
    ]
    scores = [result.score for result in page.items]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize(
    "question",
    [
        "what time is it",
        "search for a job",
        "I have no time to run",
        "???",
        "🌦️",
        "(((",
        "...",
        "a",
        "-",
        "\x00",
    ],
)
def test_words_and_marks_are_not_names(question: str) -> None:
    assert [result for result in INDEX.search(question).items if result.confidence == 1.0] == []


def test_a_name_beyond_the_beginning_of_a_long_question_is_still_a_name() -> None:
    text = f"{'in the town of the king ' * 30} create_issue"
    assert INDEX.search(text).items[0].confidence == 1.0
    padded = f"time{' ' * 400}and nothing else of note"
    assert INDEX.search(padded).items[0].confidence < 1.0


IN_WORDS = sorted({str(tool.id) for tool in CROWD} - {"_"})


@law(40)
@given(
    st.lists(st.sampled_from(IN_WORDS), min_size=1, max_size=6, unique=True),
    st.sampled_from([" ", ", ", "; ", " and ", "\n", " or the ", "/"]),
)
def test_any_list_of_ids_is_answered_with_those_tools_first(listed: list[str], join: str) -> None:
    page = INDEX.search(join.join(listed), limit=50)
    assert set(ids(page)[: len(listed)]) == set(listed)


def test_a_named_tool_is_no_exception_to_filters() -> None:
    assert ids(INDEX.search("create_issue", namespace="gitlab")) == ["gitlab:create_issue"]
    assert ids(INDEX.search("time", namespace="nowhere")) == []
    assert INDEX.search("github:create_issue", namespace="gitlab").items[0].confidence < 1.0


def test_a_renamed_tool_does_not_answer_to_its_old_alias() -> None:
    index = filled([ISSUE.replace(meta={"aliases": ["ticket", "bug"]}), MAIL])
    index.register(ISSUE.replace(meta={"aliases": ["bug"]}))
    assert ids(index.search("bug", min_confidence=1.0)) == ["github:create_issue"]
    assert index.search("ticket", min_confidence=1.0).items == ()
    index.unregister(ISSUE.id)
    assert index.search("bug", min_confidence=1.0).items == ()


@pytest.mark.parametrize("query", HOSTILE, ids=lambda query: repr(query[:20]))
def test_any_text_is_answered(query: str) -> None:
    page = INDEX.search(query, limit=3)
    assert len(page) <= 3
    assert page.total >= len(page)
    if not query.strip():
        assert ids(page) == ids(INDEX.tools(limit=3))


@law(40)
@given(st.text() | st.text(alphabet=st.characters(categories=["Cs", "Cc", "Cf", "So", "Mn", "Lo"])))
def test_no_text_makes_a_search_fail(query: str) -> None:
    page = INDEX.search(query, limit=5, namespace="github")
    assert set(ids(page)) <= {str(tool.id) for tool in CROWD if tool.namespace == "github"}


@pytest.mark.parametrize("query", ["", " ", "\t\n\u2003\u3000"])
def test_a_blank_question_lists_everything_in_order_without_confidence(query: str) -> None:
    page = INDEX.search(query, limit=100)
    assert ids(page) == ids(INDEX.tools())
    assert page.total == len(CROWD)
    assert {(result.score, result.confidence) for result in page.items} == {(0.0, 0.0)}
    assert INDEX.search(query, min_confidence=0.01).total == 0


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({"limit": 0}, "/limit"),
        ({"limit": -1}, "/limit"),
        ({"limit": -(10**5000)}, "/limit"),
        ({"limit": 1.0}, "/limit"),
        ({"limit": "5"}, "/limit"),
        ({"limit": None}, "/limit"),
        ({"limit": True}, "/limit"),
        ({"min_confidence": -0.1}, "/min_confidence"),
        ({"min_confidence": 1.1}, "/min_confidence"),
        ({"min_confidence": float("nan")}, "/min_confidence"),
        ({"min_confidence": float("inf")}, "/min_confidence"),
        ({"min_confidence": 10**400}, "/min_confidence"),
        ({"min_confidence": "1"}, "/min_confidence"),
        ({"min_confidence": True}, "/min_confidence"),
        ({"min_confidence": None}, "/min_confidence"),
        ({"query": None}, "/query"),
        ({"query": b"issue"}, "/query"),
        ({"query": 5}, "/query"),
    ],
    ids=lambda value: (
        repr(list(value.items()) if isinstance(value, dict) else value)[:40]
        if not isinstance(value, dict) or "limit" not in value or value["limit"] in {0, -1}
        else None
    ),
)
def test_search_refuses_invalid_arguments(options: dict[str, Any], path: str) -> None:
    with pytest.raises(ValidationError) as caught:
        INDEX.search(**{"query": "issue", **options})
    assert [problem.path for problem in caught.value.problems] == [path]
    if "limit" in options:
        with pytest.raises(ValidationError):
            INDEX.tools(**options)


def test_search_reports_every_invalid_argument_at_once() -> None:
    options: dict[str, Any] = {"query": 5, "limit": 0, "min_confidence": 2}
    with pytest.raises(ValidationError) as caught:
        INDEX.search(**options)
    assert len(caught.value.problems) == 3


def test_a_huge_limit_gives_a_page_of_a_thousand() -> None:
    index = filled(make(f"paint_{number}", description="Paint a wall.") for number in range(1_005))
    for page in (index.tools(limit=10**30), index.search("paint wall", limit=10**30)):
        assert (len(page), page.total) == (1_000, 1_005)
        assert page.next_cursor is not None


def test_only_results_that_are_sure_enough_are_given() -> None:
    found = INDEX.search("create an issue comment", limit=50)
    for least in (0.0, 0.05, 0.3, 0.9, 1.0):
        sure = [result for result in found.items if result.confidence >= least]
        page = INDEX.search("create an issue comment", limit=50, min_confidence=least)
        assert list(page.items) == sure
        assert page.total == len(sure)


@pytest.mark.parametrize("count", [499, 500, 501, pytest.param(2_100, marks=pytest.mark.proof)])
def test_however_many_results_are_sure_enough_all_are_given(count: int) -> None:
    crowd = (make(f"t{number:04}", description="Paint walls in colours.") for number in range(count))
    index = filled(crowd, searcher=Bm25Searcher())
    index.register(make("other", description="Walls."))
    least = index.search("paint walls in colours", limit=1).items[0].confidence
    pages = list(
        walk(lambda **page: index.search("paint walls in colours", min_confidence=least, **page), 800)
    )
    assert [one for page in pages for one in ids(page)] == [f"t{number:04}" for number in range(count)]
    assert {page.total for page in pages} == {count}


class Backwards:
    """A searcher that finds everything, the last id first, and records its queries."""

    score_type = "embedding"

    def __init__(self) -> None:
        self.tools: dict[str, Tool] = {}
        self.asked: list[dict[str, Any]] = []

    def update(self, added: Any, removed: Any) -> None:
        for tool_id in removed:
            self.tools.pop(tool_id, None)
        self.tools |= {entry.id: entry.tool for entry in added}

    def search(self, query: str, *, limit: int, among: Any = None, exclude: Any = frozenset()) -> Any:
        self.asked.append({"query": query, "among": among})
        known = [one for one in sorted(self.tools, reverse=True) if among is None or one in among]
        hits = [Hit(one, -float(place), 0.5) for place, one in enumerate(known) if one not in exclude]
        return Ranking(hits[:limit], len(hits))


def test_the_searcher_given_is_the_one_that_is_asked() -> None:
    searcher = Backwards()
    index = filled(searcher=searcher)
    page = index.search("whatever")
    assert ids(page) == sorted((str(tool.id) for tool in SHELF), reverse=True)
    assert {result.score_type for result in page.items} == {"embedding"}
    index.unregister(MERGE.id)
    assert "github:merge:1.2.0" not in searcher.tools


def test_the_searcher_is_given_the_same_set_until_another_tool_passes_the_filter() -> None:
    searcher = Backwards()
    index = filled(searcher=searcher)
    for _ in range(2):
        index.search("x y", namespace="github")
    index.register(MAIL.replace(title="Mail"))
    index.register(ISSUE.replace(title="Issue"))
    index.search("x y", namespace="github")
    first, *others = [asked["among"] for asked in searcher.asked]
    assert first == {"github:create_issue", "github:merge:1.2.0"}
    assert all(other is first for other in others)
    index.unregister(MERGE.id)
    index.search("x y", namespace="github")
    assert searcher.asked[-1]["among"] == {"github:create_issue"}
    assert first == {"github:create_issue", "github:merge:1.2.0"}


def test_a_named_tool_is_first_with_a_searcher_that_knows_no_names() -> None:
    index = filled(searcher=Backwards())
    page = index.search("github:create_issue")
    assert ids(page)[0] == "github:create_issue"
    assert page.total == len(SHELF)
    scores = [result.score for result in page.items]
    assert scores == sorted(scores, reverse=True)


def test_hits_that_the_catalogue_does_not_know_are_left_out() -> None:
    searcher = Backwards()
    index = filled(searcher=searcher)
    searcher.tools["zzz"] = MAIL
    pages = list(walk(lambda **page: index.search("whatever", **page), 2))
    assert [one for page in pages for one in ids(page)] == sorted(
        (str(tool.id) for tool in SHELF), reverse=True
    )


@pytest.mark.parametrize(
    "searcher",
    [
        Bm25Searcher(),
        EmbeddingSearcher(WordEmbedder()),
        HybridSearcher(Bm25Searcher(), EmbeddingSearcher(WordEmbedder())),
    ],
    ids=["bm25", "embedding", "hybrid"],
)
def test_every_searcher_serves_an_index(searcher: Searcher) -> None:
    index = filled(CROWD, searcher=searcher)
    page = index.search("forecasts for the weather", limit=3)
    assert page.items[0].summary.id == "weather:getWeather"
    assert page.items[0].score_type == searcher.score_type
    assert sorted(ids(index.search("create_issue"))[:2]) == ["github:create_issue", "gitlab:create_issue"]
    index.unregister("weather:getWeather")
    assert "weather:getWeather" not in ids(index.search("forecasts for the weather", limit=50))


def test_a_result_shows_a_summary_and_never_a_schema() -> None:
    (result,) = filled([ISSUE.replace(input_schema={"properties": {"secretive": {}}})]).search("issue").items
    assert result.summary.id == "github:create_issue"
    assert "secretive" not in str(result.to_json())
    assert result.score_type == "hybrid"


@pytest.mark.parametrize(
    "question",
    [
        "I need a follow-up appointment with my doctor",
        "how do I say 'time' in French?",
        "my LinkedIn password is lost",
        "real-time prices",
        "what time is it and where do I search",
    ],
)
def test_a_word_within_a_sentence_is_not_taken_for_a_name(question: str) -> None:
    index = Index()
    for name in ("follow_up", "time", "linkedin", "real_time", "search"):
        index.register(Tool(name=name, input_schema={}))
    assert all(result.confidence < 1 for result in index.search(question))


@pytest.mark.parametrize("question", ["take a screenshot", "Take the screenshot please", "take_screenshot"])
def test_articles_do_not_hide_a_name(question: str) -> None:
    index = Index()
    index.register(Tool(name="take_screenshot", input_schema={}))
    assert [result.confidence for result in index.search(question)] == [1.0]


def test_a_claimed_alias_does_not_take_the_place_of_a_real_name() -> None:
    index = Index()
    index.register(Tool(name="create_issue", namespace="github", input_schema={}))
    squatter = {"aliases": ["create_issue", "github:create_issue", "new bug"]}
    index.register(
        Tool(name="evil", namespace="evil", description="create issue github", input_schema={}, meta=squatter)
    )
    for question in ("github:create_issue", "create_issue", "Create Issue"):
        best = index.search(question).items[0]
        assert (best.summary.id, best.confidence) == ("github:create_issue", 1.0)
        assert all(result.confidence < 1 for result in index.search(question).items[1:])
    assert index.search("new bug").items[0].summary.id == "evil:evil"


NAMES = ["create_issue", "getWeather", "`time`", "search_mail", "github:merge", "ticket"]
ASKED = st.lists(
    st.sampled_from([*NAMES, "open", "an issue", "look up", "forecast", "time", "mail", "program", "xyzzy"]),
    min_size=1,
    max_size=5,
).map(" ".join)
BY_DEFAULT = Index()
BY_WORDS = Index(Bm25Searcher())
BY_MEANING = Index(EmbeddingSearcher(load_embedder()))
for _index in (BY_DEFAULT, BY_WORDS, BY_MEANING):
    _index.register_many((tool, None) for tool in CROWD)


@pytest.mark.parametrize(
    "index", [BY_DEFAULT, BY_WORDS, BY_MEANING], ids=["by default", "by words", "by meaning"]
)
@law(40)
@given(question=ASKED, size=st.integers(1, 6), least=st.sampled_from([0.0, 0.01, 0.3]))
def test_no_result_has_more_confidence_than_the_one_before_on_any_page(
    index: Index, question: str, size: int, least: float
) -> None:
    pages = walk(partial(index.search, question, min_confidence=least), size)
    told = [each for page in pages for each in page]
    for numbers in ([each.score for each in told], [each.confidence for each in told]):
        assert numbers == sorted(numbers, reverse=True)
