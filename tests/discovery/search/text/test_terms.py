"""From words to terms."""

import tracemalloc
from collections.abc import Callable
from string import ascii_lowercase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.discovery.search.text import index_terms, question_terms, stem, words
from toolcrib.discovery.search.text.terms import (
    CONCEPT_WEIGHT,
    FAMILY_WEIGHT,
    SAME_WORDS,
    STOP_WORDS,
    VAGUE_WEIGHT,
    VAGUE_WORDS,
)

any_word = st.one_of(
    st.text(ascii_lowercase, min_size=1, max_size=12),
    st.sampled_from(sorted(VAGUE_WORDS)),
    st.text(min_size=1, max_size=30).flatmap(lambda text: st.sampled_from([*words(text), "word"])),
)


def test_a_stop_word_is_filed_nowhere_and_asks_for_nothing() -> None:
    assert {(index_terms(word), question_terms(word)) for word in STOP_WORDS} == {((), ())}


@given(any_word)
def test_a_word_is_filed_under_its_stem_first(word: str) -> None:
    filed = index_terms(word)
    assert filed[:1] == (() if word in STOP_WORDS else (stem(SAME_WORDS.get(word, word)),))
    assert len(set(filed)) == len(filed)
    assert all(term[0] in "~=" for term in filed[1:])


@given(any_word)
def test_a_question_asks_for_just_what_a_word_is_filed_under(word: str) -> None:
    assert tuple(term for term, _ in question_terms(word)) == index_terms(word)


@given(any_word)
def test_softer_forms_count_a_fraction(word: str) -> None:
    full = VAGUE_WEIGHT if word in VAGUE_WORDS else 1.0
    shares = {"~": FAMILY_WEIGHT, "=": CONCEPT_WEIGHT}
    for term, weight in question_terms(word):
        assert weight == pytest.approx(full * shares.get(term[0], 1.0), abs=1e-3)


def test_words_that_begin_alike_are_a_family() -> None:
    families = [
        [term for term in index_terms(word) if term[0] == "~"] for word in ("translate", "translator", "tran")
    ]
    assert families == [["~trans"], ["~trans"], []]


def test_words_of_one_meaning_share_a_concept() -> None:
    photo, picture = (
        {term for term in index_terms(word) if term[0] == "="} for word in ("photos", "picture")
    )
    assert photo & picture


@pytest.mark.parametrize(
    "question",
    [
        "I don't know, and it doesn't, didn't, can't or won't",
        "i dont know what it doesnt or didnt, and cant",
        "could you please help me with this?",
        "what's the way to do it",
    ],
)
def test_talk_says_nothing(question: str) -> None:
    assert [index_terms(word) for word in words(question) if index_terms(word)] == []


def test_vague_words_are_no_stop_words() -> None:
    assert set() == VAGUE_WORDS & STOP_WORDS
    assert all(word == word.lower() and list(words(word)) == [word] for word in VAGUE_WORDS | STOP_WORDS)


@pytest.mark.parametrize("look_up", [stem, index_terms, question_terms])
def test_long_words_of_questions_are_not_kept(look_up: Callable[[str], object]) -> None:
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(100):
            for word in words(f"{number:04d}" * 10_000):
                look_up(word)
        kept = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert kept < 400_000
