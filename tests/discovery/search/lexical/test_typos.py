"""Edit distance between words, and spelling correction."""

from string import ascii_lowercase

import pytest
from discovery.search.text.support import seconds
from hypothesis import assume, example, given
from hypothesis import strategies as st
from laws import law

from toolcrib.discovery.search.lexical.typos import SpellingCorrector, edit_distance
from toolcrib.discovery.search.text import stem

VOCABULARY = ["weather", "forecast", "calendar", "repositori", "translat", "invoic", "password", "kubernet"]

short_words = st.text("abc", max_size=8)
any_words = st.text(ascii_lowercase, max_size=12)


def slips(word: str, other: str) -> int:
    """Return the optimal string alignment distance, by filling the whole table."""
    table = [[row + column for column in range(len(other) + 1)] for row in range(len(word) + 1)]
    for row, letter in enumerate(word, 1):
        for column, theirs in enumerate(other, 1):
            ways = [
                table[row - 1][column] + 1,
                table[row][column - 1] + 1,
                table[row - 1][column - 1] + (letter != theirs),
            ]
            if row > 1 and column > 1 and letter == other[column - 2] and word[row - 2] == theirs:
                ways.append(table[row - 2][column - 2] + 1)
            table[row][column] = min(ways)
    return table[-1][-1]


@st.composite
def misspell(draw: st.DrawFn, word: str) -> str:
    """Return a word with one letter too many, too few, wrong, or swapped with its neighbour."""
    at = draw(st.integers(0, len(word) - 2))
    letter = draw(st.sampled_from(ascii_lowercase))
    kind = draw(st.sampled_from(["more", "fewer", "wrong", "swapped"]))
    changed = {
        "more": word[:at] + letter + word[at:],
        "fewer": word[:at] + word[at + 1 :],
        "wrong": word[:at] + letter + word[at + 1 :],
        "swapped": word[:at] + word[at + 1] + word[at] + word[at + 2 :],
    }[kind]
    assume(changed != word)
    return changed


def learnt(*words: str) -> SpellingCorrector:
    typos = SpellingCorrector()
    typos.learn(words)
    return typos


def used(_: str) -> int:
    return 1


@law(60)
@given(st.one_of(st.tuples(short_words, short_words), st.tuples(any_words, any_words)), st.integers(1, 4))
@example(("", ""), 1)
@example(("", "abc"), 2)
@example(("ab", "ba"), 1)
@example(("abcd", "badc"), 2)
@example(("ca", "abc"), 2)
def test_the_distance_is_that_of_the_full_table(pair: tuple[str, str], limit: int) -> None:
    expected = slips(*pair)
    found = edit_distance(*pair, limit)
    assert found == expected if expected <= limit else found > limit


@given(st.data())
def test_one_slip_is_a_distance_of_one(data: st.DataObject) -> None:
    word = data.draw(st.sampled_from(VOCABULARY))
    assert edit_distance(data.draw(misspell(word)), word, 2) == 1


@given(st.data())
def test_a_word_with_one_slip_is_read_as_the_one_meant(data: st.DataObject) -> None:
    word = data.draw(st.sampled_from(VOCABULARY))
    assert learnt(*VOCABULARY).nearest(data.draw(misspell(word)), used) == word


@given(any_words)
def test_correction_is_a_known_and_near_word(word: str) -> None:
    found = learnt(*VOCABULARY).nearest(word, used)
    if found is not None:
        assert found in VOCABULARY
        assert min(slips(word, found), slips(stem(word), found)) <= (2 if len(word) >= 8 else 1)


@pytest.mark.parametrize(
    "word",
    [
        "",
        "a",
        "wea",
        "wethr",
        "wxxther",
        "天气预报",
        "wéather",
        "we4ther",
        "w" * 31,
        "x" * 10_000,
        "\0",
        "we ther",
    ],
    ids=lambda word: ascii(word[:20]),
)
def test_distant_word_has_no_correction(word: str) -> None:
    assert learnt(*VOCABULARY, "wea", "天气").nearest(word, used) is None


def test_two_slips_are_allowed_in_a_long_word_only() -> None:
    assert learnt("calendar").nearest("calandr", used) is None
    assert learnt("calendar").nearest("calandxr", used) == "calendar"
    assert learnt("repositori").nearest("repsitry", used) == "repositori"


def test_a_word_is_met_by_its_stem() -> None:
    assert learnt("translat").nearest("trnslating", used) == "translat"
    assert learnt("forecast").nearest("forcasts", used) == "forecast"


def test_the_nearest_is_taken_then_the_same_first_letter_then_the_commonest() -> None:
    usage = {"mailer": 5, "sailer": 9, "mailes": 7, "mailerx": 1}
    typos = learnt(*usage)
    assert typos.nearest("mailert", lambda word: usage[word]) == "mailer"
    assert typos.nearest("bailer", lambda word: usage[word]) == "sailer"
    assert typos.nearest("mailez", lambda word: usage[word]) == "mailes"


def test_words_learnt_later_are_found() -> None:
    typos = learnt("weather")
    assert typos.nearest("calender", used) is None
    typos.learn(["calendar"])
    assert typos.nearest("calender", used) == "calendar"
    assert typos.nearest("wether", used) == "weather"


def test_unused_word_is_not_suggested() -> None:
    typos = learnt("weather", "feather")
    assert typos.nearest("wether", {"feather": 3}.get) is None  # type: ignore[arg-type]
    assert typos.nearest("xeather", lambda word: int(word == "feather")) == "feather"


def test_terms_that_are_no_words_are_never_meant() -> None:
    assert learnt("~weath", "=123", "天气", "2024", "mp3x").nearest("weath", used) is None


@pytest.mark.parametrize("words", [[], [""], ["~"]], ids=str)
def test_an_empty_vocabulary_knows_nothing(words: list[str]) -> None:
    assert learnt(*words).nearest("weather", used) is None


@pytest.mark.attack
def test_a_large_vocabulary_of_alike_words_is_looked_through_in_a_moment() -> None:
    base = "abcdefghijklmnopqrstuvwxyzabcd"
    words = {base[:at] + letter + base[at + 1 :] for at in range(30) for letter in ascii_lowercase}
    words |= {word[:at] + word[at + 1 :] for word in list(words)[:300] for at in range(0, 29, 3)}
    typos = learnt(*words)
    typos.nearest(base, used)
    assert seconds(lambda: typos.nearest(base[::-1], used)) < 0.5
    assert seconds(lambda: typos.nearest("zz" + base[2:], used)) < 0.5
