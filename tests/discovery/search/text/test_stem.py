"""English stems: words that have one, forms that share it, and calls from several threads."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from toolcrib.discovery.search.text import stem

FOREIGN = "a is 天气 größe погода mp3 2024 make_it don't \0ing \ud800s"
STEMS = {
    "issues": "issu",
    "creating": "creat",
    "generously": "generous",
    "communication": "communic",
    "universities": "universiti",
    "organization": "organiz",
    "interesting": "interest",
    "emergency": "emergenc",
    "skies": "sky",
    "dying": "die",
    "adding": "add",
    "news": "news",
    "evening": "evening",
    "spaste": "spaste",
    "yields": "yield",
}
"""By Snowball 3.1, with which the weights of search were chosen."""


def test_stems_are_those_that_search_was_tuned_with() -> None:
    assert {word: stem(word) for word in STEMS} == STEMS


@pytest.mark.parametrize("word", [*FOREIGN.split(" "), "x" * 65, "ies" * 22, ""], ids=ascii)
def test_non_english_word_is_its_own_stem(word: str) -> None:
    assert stem(word) == word


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("issue", "issues"),
        ("query", "queries"),
        ("create", "creating"),
        ("create", "created"),
        ("search", "searches"),
        ("translation", "translations"),
        ("repository", "repositories"),
        ("run", "running"),
    ],
)
def test_a_word_and_its_forms_share_a_stem(one: str, other: str) -> None:
    assert stem(one) == stem(other)


def test_threads_may_ask_at_once() -> None:
    words = [f"{letter}{word}" for word in STEMS for letter in "abcdefghklmnop"]
    with ThreadPoolExecutor(8) as threads:
        together = list(threads.map(stem, words * 8))
    assert together == [stem(word) for word in words] * 8
