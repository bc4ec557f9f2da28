"""Explained searches: the reasons of each result add up to its score, and name the matches."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from laws import law

from toolcrib.discovery import Bm25Searcher, EmbeddingSearcher, Index, Reason, Result, Scope, load_embedder
from toolcrib.discovery.learned import LearnedQuestion, LearnedQuestions
from toolcrib.model import Tool

TOOLS: tuple[dict[str, Any], ...] = (
    {"name": "create_issue", "namespace": "github", "description": "Open a new issue in a repository."},
    {
        "name": "list_issues",
        "namespace": "github",
        "description": "Show the open issues.",
        "tags": ["tickets"],
    },
    {
        "name": "file_bug",
        "namespace": "jira",
        "description": "DEPRECATED: use create. Files a bug.",
        "tags": ["tickets"],
    },
    {
        "name": "send_message",
        "namespace": "mail",
        "description": "Send an e-mail to somebody.",
        "tags": ["email"],
    },
    {
        "name": "old_mail",
        "namespace": "mail",
        "description": "Deprecated: use send_message. Sends an e-mail.",
    },
    {"name": "delete_message", "namespace": "mail", "description": "Remove an e-mail for good."},
    {
        "name": "get_forecast",
        "namespace": "weather",
        "description": "Tell the weather of a city for some days.",
    },
    {
        "name": "book_flight",
        "namespace": "travel",
        "description": "Book a seat in a plane.",
        "_meta": {"category": "Travel"},
    },
    {"name": "find_hotel", "namespace": "travel", "description": "Look for a room in a town."},
    {"name": "noop", "namespace": "x", "description": ""},
)
EXAMPLES = {"weather:get_forecast": ("do I need an umbrella tomorrow", "will it snow at the weekend")}
LEARNED = (
    ("mail:delete_message", "clean up my inbox"),
    ("mail:send_message", "tell the family that I am fine"),
)
QUESTIONS = (
    "open an issue about the broken login",
    "do I need an umbrella in the evening",
    "tickets",
    "write an e-mail to the family, book a flight and look for a hotel",
    "create_issue",
    "github:list_issues and send_message",
    "forecst for the weekend",
    "tell the family that we are fine",
    "clean up my inbox please",
    "travel",
    "what is the meaning of life",
    "メールを送る",
)


def filled(searcher: Any = None) -> Index:
    index = Index(searcher)
    index.register_many((Tool.from_json({"inputSchema": {"type": "object"}, **tool}), None) for tool in TOOLS)
    for tool_id, questions in EXAMPLES.items():
        index.set_examples(tool_id, questions)
    return index


SEARCHERS = {
    "hybrid": filled(),
    "words": filled(Bm25Searcher()),
    "meaning": filled(EmbeddingSearcher(load_embedder())),
}


def learned() -> LearnedQuestions:
    questions = LearnedQuestions(encode=load_embedder().encode)
    questions.learn(LearnedQuestion(tool_id=tool, question=text, uses=1) for tool, text in LEARNED)
    return questions


QUESTIONS_LEARNED = learned()


def search_explained(question: str, index: Index | None = None, **options: Any) -> tuple[Result, ...]:
    index = index or SEARCHERS["hybrid"]
    lifts = QUESTIONS_LEARNED.lifts(question, None)
    return index.search(question, explain=True, lifts=lifts, limit=100, **options).items


def reasons(results: tuple[Result, ...], tool_id: str, kind: str) -> list[Reason]:
    return [each for result in results if result.id == tool_id for each in result.why if each.kind == kind]


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("searcher", SEARCHERS)
def test_reasons_add_up_to_the_score(searcher: str, question: str) -> None:
    index = SEARCHERS[searcher]
    lifts = QUESTIONS_LEARNED.lifts(question, None)
    for options in ({"limit": 2}, {"limit": 100}, {"limit": 100, "namespace": "mail"}):
        plain = index.search(question, lifts=lifts, **options)
        found = index.search(question, lifts=lifts, explain=True, **options)
        assert [result.model_copy(update={"why": ()}) for result in found] == list(plain)
        for result in found:
            assert result.why
            assert sum(reason.score for reason in result.why) == pytest.approx(result.score, abs=1e-4)
            assert [one.score for one in result.why] == sorted(
                (one.score for one in result.why), reverse=True
            )


WORDS = some.sampled_from(
    [
        *[
            "open",
            "an",
            "issue",
            "the",
            "mail",
            "e-mail",
            "tickets",
            "weather",
            "city",
            "forecst",
            "flight,",
            "hotel,",
            "room",
            "and",
            "then",
        ],
        "list_issues",
    ]
)


@given(some.lists(WORDS, min_size=1, max_size=12).map(" ".join), some.sampled_from([None, "mail", "travel"]))
@law(60)
def test_reasons_add_up_in_a_view_of_any_question(question: str, namespace: str | None) -> None:
    scope = Scope() if namespace is None else Scope(namespaces=[namespace])
    for index in SEARCHERS.values():
        for result in index.view(scope).search(question, explain=True, limit=50):
            assert sum(reason.score for reason in result.why) == pytest.approx(result.score, abs=1e-4)


def test_reasons_add_up_beyond_the_candidates() -> None:
    index = filled()
    index.register_many(
        (
            Tool(name=f"tool_{number}", namespace="many", description=f"Count to {number}.", input_schema={}),
            None,
        )
        for number in range(150)
    )
    found = index.search("count the days of the weather", explain=True, limit=200).items
    assert len(found) > 100
    for result in found:
        assert sum(reason.score for reason in result.why) == pytest.approx(result.score, abs=1e-4)


def test_without_explain_there_are_no_reasons() -> None:
    found = SEARCHERS["hybrid"].search("open an issue")
    assert all(result.why == () for result in found)
    assert "why" not in found[0].to_json()


def test_word_names_its_weight_the_words_that_match_and_their_fields() -> None:
    found = search_explained("show an issue about the broken login")
    (issue,) = [one for one in reasons(found, "github:list_issues", "word") if one.text == "issue"]
    assert "issues" in issue.matched
    assert set(issue.fields) == {"name", "description", "tag"}
    (weaker,) = [one for one in reasons(found, "github:list_issues", "word") if one.text == "show"]
    assert issue.value is not None
    assert weaker.value is not None
    assert issue.value > weaker.value > 0


def test_words_of_example_questions_are_told_from_those_of_the_tool() -> None:
    found = search_explained("do I need an umbrella in the evening")
    (example,) = reasons(found, "weather:get_forecast", "example")
    assert example.text == "do I need an umbrella tomorrow"
    assert example.score > 0
    assert "umbrella" not in {one.text for one in reasons(found, "weather:get_forecast", "word")}


def test_misspelt_word_is_told() -> None:
    (read,) = reasons(search_explained("forecst for the weekend"), "weather:get_forecast", "spelling")
    assert (read.text, read.matched) == ("forecst", ("forecast",))


def test_learned_question_is_told_with_its_part() -> None:
    found = search_explained("tell the family that we are fine")
    (learned,) = reasons(found, "mail:send_message", "learned")
    assert (learned.text, found[0].id) == ("tell the family that I am fine", "mail:send_message")
    assert learned.value == pytest.approx(
        QUESTIONS_LEARNED.lifts("tell the family that we are fine", None)["mail:send_message"].strength
    )


def test_topic_deprecation_name_and_meaning_are_told() -> None:
    found = search_explained("tickets")
    (topic,) = reasons(found, "github:list_issues", "topic")
    (lowered,) = reasons(found, "jira:file_bug", "deprecated")
    assert (topic.text, topic.score > 0, lowered.score < 0) == ("tickets", True, True)
    named = search_explained("create_issue")[0]
    assert named.why[0].kind == "name"
    (meaning,) = reasons((named,), "github:create_issue", "meaning")
    assert meaning.value is not None
    assert 0 < meaning.value <= 1


def test_searcher_that_cannot_explain_is_one_reason() -> None:
    result = SEARCHERS["meaning"].search("open an issue", explain=True)[0]
    assert [(reason.kind, reason.score) for reason in result.why] == [("searcher", result.score)]
