"""The text of a tool that an embedder receives."""

import pytest
from discovery.support import make
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.discovery.search.semantic import DocumentText
from toolcrib.discovery.search.semantic.text import clean, document_text, split_errands

SCHEMA = {"type": "object", "properties": {"repoName": {}, "issue-title": {}, "labels": {}}}


def test_a_tool_is_told_by_its_names_description_parameters_and_questions() -> None:
    entry = make(
        "createIssue",
        "Open an issue.\n\nIn a repository",
        namespace="git_hub",
        input_schema=SCHEMA,
        examples=["File a bug?", "  ", "Report it", "not told"],
    )
    assert document_text(entry) == (
        "git hub create issue: Open an issue. In a repository."
        " Parameters: repo name, issue title, labels. File a bug?. Report it"
    )


def test_questions_that_the_maker_of_a_tool_wrote_are_told_first() -> None:
    entry = make("pto", "Submit.", meta={"exampleQueries": ["I want a week off"]}, examples=["Book leave"])
    assert document_text(entry) == "pto: Submit.. I want a week off. Book leave"


def test_absent_fields_are_left_out_of_the_text() -> None:
    assert document_text(make("search")) == "search"
    assert document_text(make("search", namespace="web", title="Find pages")) == "web search: Find pages"
    assert document_text(make("_", input_schema={"type": "object", "properties": {}})) == "_"


def test_a_summary_that_says_more_is_part_of_the_text() -> None:
    entry = make("search", "Find pages.", meta={"summary": "Looks things up on the web."})
    assert document_text(entry) == "search: Find pages.. Looks things up on the web."
    assert (
        document_text(make("search", "Find pages.", meta={"summary": "Find pages."})) == "search: Find pages."
    )


def test_topics_are_the_words_of_tags_category_and_modes_that_the_text_lacks() -> None:
    meta = {"category": "Money/Accounting", "inputModes": ["image/png"], "outputModes": ["text"]}
    entry = make("send_invoice", "Charge somebody.", tags=["billing", "invoice-tools"], meta=meta)
    assert document_text.topics(entry)[0] == "billing tools money accounting image png text"
    assert document_text.topics(make("search", "Find pages."))[0] == ""


def test_topics_weigh_less_the_more_a_description_says() -> None:
    terse, plain, long = (
        document_text.topics(make("run", text, tags=["billing"]))[1]
        for text in (
            "Does the job.",
            "Creates a page in the notebook of a team.",
            "Reads one and two and three and four and five and six and seven and eight things",
        )
    )
    assert terse > 1 > plain > 0
    assert 0 < long < plain


def test_parameters_and_questions_can_be_left_out() -> None:
    entry = make("search", "Find.", input_schema=SCHEMA, examples=["Where is it?"])
    assert DocumentText(parameters=False, examples=0)(entry) == "search: Find."


def test_a_long_text_is_cut_and_what_stands_behind_it_is_kept() -> None:
    entry = make("search", "word " * 1000, input_schema=SCHEMA, examples=["Where is it?"])
    text = document_text(entry)
    assert len(text) <= 1500
    assert text.endswith("Parameters: repo name, issue title, labels. Where is it?")
    chatty = make("search", "word " * 1000, examples=["why " * 1000])
    text = DocumentText(limit=100)(chatty)
    assert len(text) == 100
    assert text.count("word") >= 8


def test_each_way_of_writing_has_a_key_of_its_own() -> None:
    ways = [DocumentText(), DocumentText(limit=9), DocumentText(parameters=False), DocumentText(examples=9)]
    assert len({way.key for way in ways}) == 4


@pytest.mark.parametrize("properties", [[], "title", None, {"": {}}], ids=repr)
def test_odd_schemas_are_told_as_far_as_they_go(properties: object) -> None:
    assert document_text(make("search", input_schema={"properties": properties})).startswith("search")


@given(st.text(alphabet=st.characters(), max_size=200), st.integers(0, 50))
def test_any_text_becomes_one_that_can_be_encoded(text: str, limit: int) -> None:
    cleaned = clean(text, limit)
    cleaned.encode()
    assert len(cleaned) <= limit
    assert "\x00" not in cleaned
    assert cleaned == cleaned.strip()


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("", []),
        ("Book a flight to Oslo", []),
        ("Book a flight to Oslo and find a hotel there", []),
        ("apples, pears, plums and cherries", []),
        (
            "Book a flight to Oslo. Find a hotel there; tell Ann about it",
            ["Book a flight to Oslo", "Find a hotel there", "tell Ann about it"],
        ),
        (
            "Book a flight to Oslo, please, find a hotel there, and then tell Ann about it.",
            ["Book a flight to Oslo", "find a hotel there", "tell Ann about it"],
        ),
    ],
)
def test_a_question_of_three_errands_has_as_many_parts(question: str, expected: list[str]) -> None:
    assert split_errands(question) == expected


def test_only_the_first_of_very_many_errands_are_embedded() -> None:
    question = ", ".join(f"send mail number {number}" for number in range(100))
    assert split_errands(question) == [f"send mail number {number}" for number in range(12)]


@given(st.text(max_size=200))
def test_the_errands_of_any_text_are_parts_of_it(text: str) -> None:
    parts = split_errands(text)
    assert len(parts) != 1
    assert all(part in text and part.strip() == part != "" for part in parts)
