"""The parts of a question that asks for several things."""

import pytest
from discovery.search.text.support import seconds
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.discovery.search.text import clauses, words

JOINTS = {"and", "then", "also", "but", "while", "plus", "afterwards", "finally"}
HOSTILE = [*".!?;,\n \0a天、", ".!", "?!;", ", ", "and ", "and", ".a", "\ud800.", "a.\u2003"]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Send a mail", ["Send a mail"]),
        ("Send a mail and book a flight", ["Send a mail", "book a flight"]),
        ("Find it. Read it! Why? Because.", ["Find it", "Read it", "Why", "Because"]),
        ("Find it, read it; close it", ["Find it", "read it", "close it"]),
        ("first this\nthen that", ["first this", "that"]),
        ("Translate THEN summarise, Finally send", ["Translate", "summarise", "send"]),
        ("查天气，然后订机票。", ["查天气", "然后订机票"]),
        ("天気を調べて、予約する", ["天気を調べて", "予約する"]),
        ("मौसम बताओ। टिकट बुक करो", ["मौसम बताओ", "टिकट बुक करो"]),
        ("أرسل رسالة، ثم ابحث؟", ["أرسل رسالة", "ثم ابحث"]),
        ("wait... what?!", ["wait", "what"]),
    ],
)
def test_a_question_is_split_where_it_asks_for_something_else(question: str, expected: list[str]) -> None:
    assert clauses(question) == expected


@pytest.mark.parametrize(
    "question",
    [
        "node.js 1,000 times at 10.5",
        "https://example.com/a?b;c",
        "an android sandbox for butter",
        "email me@example.com",
        "...x",
    ],
)
def test_punctuation_inside_a_token_is_not_a_clause_break(question: str) -> None:
    assert clauses(question) == [question]


@pytest.mark.parametrize("question", ["", " ", "\n\n", ",, , .", "and", "and then, also."])
def test_a_question_that_asks_nothing_has_no_parts(question: str) -> None:
    assert [part for part in clauses(question) if list(words(part))] == []


@given(st.text(st.characters(codec=None), max_size=80))
def test_no_part_is_empty_or_has_space_around_it(question: str) -> None:
    parts = clauses(question)
    assert all(part and part == part.strip() for part in parts)


@given(
    st.lists(st.sampled_from(["send", "mail", "and", "then", "it", "weather", ",", ".", "\n"]), max_size=20)
)
def test_no_word_is_lost_but_those_that_join(tokens: list[str]) -> None:
    question = " ".join(tokens)
    kept = [word for part in clauses(question) for word in words(part)]
    assert kept == [word for word in words(question) if word not in JOINTS]


@pytest.mark.attack
@pytest.mark.parametrize("pattern", HOSTILE, ids=ascii)
@pytest.mark.parametrize("end", ["", "x", " "])
def test_any_megabyte_is_split_in_a_moment(pattern: str, end: str) -> None:
    for length in (9_999, 1_000_000):
        question = (pattern * length)[:length] + end
        assert seconds(lambda text=question: clauses(text)) < 0.5
