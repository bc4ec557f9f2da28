"""English stems agree with Snowball's own."""

import re
from itertools import product
from pathlib import Path
from string import ascii_lowercase

import pytest
import Stemmer
from hypothesis import example, given
from hypothesis import strategies as st
from laws import law

from toolcrib.discovery.search.text import stem

pytestmark = pytest.mark.untraced

SNOWBALL = Stemmer.Stemmer("english", 0)
BEGINNINGS = "gener commun arsen past univers later emerg organ inter y x"
MIDDLES = "a b ab ba bab tat hop hopp fail generat commun ys sky"
ENDINGS = """
ing ed ingly edly eed eedly s es ies ied us ss sses y e l paste ational tional ization ogist ogi li lessli
fulli ative icate iciti ement ment ent ion ism ous ive ize al er ic ness ful
"""
FOREIGN = "a is 天气 größe погода mp3 2024 make_it don't \0ing \ud800s"

beginnings, middles, endings = ([*words.split(), ""] for words in (BEGINNINGS, MIDDLES, ENDINGS))
letters = st.text(ascii_lowercase, min_size=1, max_size=12)
likely = st.builds(
    "".join,
    st.tuples(
        st.sampled_from(beginnings),
        st.text("aeiouybdglntsrxw", max_size=5),
        st.sampled_from(endings),
        st.sampled_from(endings),
    ),
)


def snowball(word: str) -> str:
    found: str = SNOWBALL.stemWord(word)
    return found


def disagreements(words: set[str]) -> dict[str, tuple[str, str]]:
    return {word: (stem(word), snowball(word)) for word in words if stem(word) != snowball(word)}


def test_every_word_of_the_labelled_sets_has_its_snowball_stem(data: Path) -> None:
    files = sorted((data / "retrieval").glob("*/*.jsonl"))
    seen = {word for file in files for word in re.findall("[a-z]{1,64}", file.read_text().lower())}
    assert len(seen) > {"tests": 700, "shared": 20_000}[data.parent.name]
    assert disagreements(seen) == {}


@law(100)
@given(st.one_of(letters, likely.filter(bool)))
@example("spaste")
@example("bpastes")
def test_any_word_has_its_snowball_stem(word: str) -> None:
    assert stem(word) == snowball(word)


def test_every_short_word_has_its_snowball_stem() -> None:
    alphabet = "aeyilsdngt"
    short = {"".join(word) for length in (1, 2, 3, 4) for word in product(alphabet, repeat=length)}
    assert disagreements(short) == {}


def test_every_ending_is_cut_as_snowball_cuts_it() -> None:
    assert disagreements({"".join(word) for word in product(middles, endings, endings)} - {""}) == {}


@pytest.mark.parametrize("word", [*FOREIGN.split(" "), "x" * 65, ""], ids=ascii)
def test_what_is_no_english_word_is_its_own_stem(word: str) -> None:
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
