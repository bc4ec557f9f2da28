"""Parsing of a question into weighted terms."""

from collections.abc import Callable

import pytest
from discovery.search.text.support import seconds
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.discovery.search.lexical.question import ParsedQuery, parse_query
from toolcrib.discovery.search.text import question_terms, words

KNOWN = ["send", "mail", "weather", "forecast", "citi", "~weath", "~forec", "renew", "photo", "book", "天气"]
MEANT = {"wether": "weather", "forcast": "forecast", "mial": "mail", "renewx": "renew", "zurich": "citi"}

sentences = st.lists(
    st.sampled_from(
        ["send", "mails", "weather", "the", "available", "nonsense", "and", ",", "天气", "forecasts"]
    ),
    max_size=12,
).map(" ".join)


class Speller:
    """Corrects some words, and records the lookups."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, word: str) -> str | None:
        self.asked.append(word)
        return MEANT.get(word)


def read(text: str, nearest: Callable[[str], str | None] | None = None) -> ParsedQuery:
    return parse_query(text, set(KNOWN).__contains__, nearest or Speller())


def test_known_terms_are_asked_for_with_their_weight() -> None:
    assert read("the weather in cities").terms == {"weather": 1.0, "~weath": 0.2, "citi": 1.0}


@given(sentences)
def test_just_the_known_terms_are_asked_for(text: str) -> None:
    found = read(text)
    expected: dict[str, float] = {}
    for word in words(text):
        for term, weight in question_terms(word):
            if term in KNOWN:
                expected[term] = max(weight, expected.get(term, 0))
    assert found.terms == expected


@given(sentences)
def test_unknown_words_are_counted_once(text: str) -> None:
    unknown = {
        word for word in words(text) if question_terms(word) and question_terms(word)[0][0] not in KNOWN
    }
    assert read(text).unknown == len(unknown - {"and"})


@given(sentences)
def test_every_part_asks_for_some_of_the_whole(text: str) -> None:
    found = read(text)
    assert len(found.parts) != 1
    assert all(part.items() <= found.terms.items() for part in found.parts)


def test_a_question_of_several_errands_has_as_many_parts() -> None:
    found = read("Send a mail, and then tell the weather forecast.")
    assert found.parts == ({"send": 1.0, "mail": 1.0}, {k: found.terms[k] for k in found.parts[1]})
    assert set(found.parts[1]) == {"weather", "~weath", "forecast", "~forec"}


def test_a_part_that_says_next_to_nothing_is_no_part() -> None:
    assert read("Send a mail, thanks, bye").parts == ()
    assert read("weather, and mail").parts == ()


def test_a_question_has_only_so_many_parts() -> None:
    assert len(read("send mail, " * 50).parts) == 12


def test_an_unknown_word_is_read_as_the_one_meant_at_a_lower_weight() -> None:
    found = read("wether in city")
    assert found.terms == {"weather": 0.8, "citi": 1.0}
    assert found.unknown == 1


def test_a_word_that_is_said_right_as_well_keeps_its_weight() -> None:
    assert read("weather wether").terms["weather"] == 1.0


def test_a_corrected_word_makes_a_part() -> None:
    assert len(read("send mial, wether forcast").parts) == 2


def test_a_known_word_is_never_corrected() -> None:
    speller = Speller()
    read("send the mail, weather forecast, photos of a city 天气", speller)
    assert speller.asked == []


def test_stop_words_are_never_corrected() -> None:
    speller = Speller()
    read("could you please tell me what it doesn't or don't", speller)
    assert speller.asked == []


@pytest.mark.parametrize(
    "text",
    [
        "the weather in Wether",
        "mail, Wether",
        "send mail to Wether and Mial",
        "the photo of Renewx",
        "weather in Zurich",
    ],
)
def test_a_name_within_a_sentence_is_not_misspelt(text: str) -> None:
    speller = Speller()
    read(text, speller)
    assert speller.asked == []


def test_a_name_with_accents_is_not_misspelt_either() -> None:
    speller = Speller()
    read("the weather in Zürich", speller)
    assert speller.asked == []


@pytest.mark.parametrize("text", ["Wether", "Wether forecast", "what? Wether", "the wether"])
def test_a_capital_at_the_beginning_is_no_name(text: str) -> None:
    speller = Speller()
    read(text, speller)
    assert speller.asked == ["wether"]


def test_query_with_many_known_words_is_not_corrected() -> None:
    speller = Speller()
    known = ["zip", "pdf", "csv", "sql", "map", "bus", "pet", "tax", "visa", "poem", "exam"]
    parse_query(" ".join([*known, "wether"]), {*KNOWN, *known}.__contains__, speller)
    assert speller.asked == []
    parse_query(" ".join([*known[:10], "wether"]), {*KNOWN, *known}.__contains__, speller)
    assert speller.asked == ["wether"]


def test_only_so_many_words_are_corrected() -> None:
    speller = Speller()
    read(" ".join(f"nonsense{letter}" for letter in "abcdefgh"), speller)
    assert len(speller.asked) == 4


@given(st.text(st.characters(codec=None), max_size=60))
def test_any_text_is_a_question(text: str) -> None:
    found = read(text)
    assert all(0 < weight <= 1 for weight in found.terms.values())
    assert found.unknown >= 0


@pytest.mark.attack
@pytest.mark.parametrize(
    "pattern",
    [
        *"a.,?!'\n\0天ก็\ud800",
        "a ",
        "a, ",
        "and ",
        "A",
        ", A",
        "aB",
        "a.b ",
        "👩‍👩‍👧‍👦",
        "\u0951\u0952",
        "n't ",
        "word0 ",
    ],
    ids=ascii,
)
@pytest.mark.parametrize("end", ["", "x"])
def test_any_megabyte_is_read_in_a_moment(pattern: str, end: str) -> None:
    for length in (9_999, 1_000_000):
        text = (pattern * length)[:length] + end
        assert seconds(lambda text=text: read(text)) < 0.5


@pytest.mark.attack
def test_only_so_many_words_are_read() -> None:
    looked: list[str] = []

    def knows(term: str) -> bool:
        looked.append(term)
        return True

    parse_query(" ".join(f"word{number}x" for number in range(5_000)), knows, Speller())
    assert len(set(looked)) < 2_000
