"""Words that mean nearly the same."""

from string import ascii_lowercase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.discovery.search.text import index_terms, stem
from toolcrib.discovery.search.text.terms import GROUPS, STOP_WORDS, concepts_of

LINES = [line.split() for line in GROUPS.strip().split("\n")]


def test_every_group_has_several_words_to_tell_apart() -> None:
    assert [line for line in LINES if len({stem(word) for word in line}) < 2] == []


def test_no_group_has_a_word_twice() -> None:
    assert [line for line in LINES if len(set(line)) < len(line)] == []


def test_no_word_of_a_group_is_a_stop_word() -> None:
    assert {word for line in LINES for word in line} & STOP_WORDS == set()


def test_no_two_groups_are_the_same() -> None:
    groups = [frozenset(map(stem, line)) for line in LINES]
    assert len(set(groups)) == len(groups)


@pytest.mark.parametrize("line", LINES, ids=lambda line: "-".join(line[:2]))
def test_the_words_of_a_group_share_a_concept(line: list[str]) -> None:
    shared = set.intersection(*(set(concepts_of(stem(word))) for word in line))
    assert len(shared) == 1
    assert all(shared <= set(index_terms(word)) for word in line)


def test_a_word_has_as_many_concepts_as_groups() -> None:
    for stemmed in {stem(word) for line in LINES for word in line}:
        groups = sum(stemmed in map(stem, line) for line in LINES)
        assert len(concepts_of(stemmed)) == len(set(concepts_of(stemmed))) == groups


@given(st.text(max_size=20))
def test_the_name_of_a_concept_is_no_word(text: str) -> None:
    assert all(name[0] == "=" and name[1:].isdigit() for name in concepts_of(text))
    assert concepts_of(text) == () or text.strip(ascii_lowercase + "3") == ""
