"""Normalisation of different spellings of one text."""

import re

import pytest
from discovery.search.text.support import HOSTILE, seconds
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.discovery.search.text import fold, split_identifier

any_text = st.text(st.characters(codec=None), max_size=60)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Café", "Cafe"),
        ("cafe\u0301", "cafe"),
        ("Crème Brûlée", "Creme Brulee"),
        ("İstanbul ılık", "Istanbul ilik"),
        ("Straße GROẞ", "Strasse GROSs"),
        ("Łódź Ærø smørrebrød Þór œuvre đã", "Lodz Aero smorrebrod Thor oeuvre da"),
        ("Tiếng Việt", "Tieng Viet"),
        ("ёлка Ελληνικά", "елка Ελληνικα"),
        ("ﬁle ＡＰＩ №", "file API No"),
        ("𝐜𝐫𝐞𝐚𝐭𝐞 x² ①", "create x2 1"),
        ("ｶﾞ ㎏", "ガ kg"),
        ("soft\u00adware in\u200dvisible \ufeffmark", "software invisible mark"),
        ("مُحَمَّد", "محمد"),
        ("أحوال", "احوال"),
        ("ســلام", "سلام"),
        ("שָׁלוֹם", "שלום"),
        ("plain text", "plain text"),
    ],
)
def test_equivalent_spellings_fold_to_one(text: str, expected: str) -> None:
    assert fold(text) == expected


@given(any_text)
def test_folding_twice_is_folding_once(text: str) -> None:
    assert fold(fold(text)) == fold(text)


@pytest.mark.parametrize("length", [400, 499, 500, 501, 1_700])
def test_a_long_text_is_folded_like_a_short_one(length: int) -> None:
    sentence = "Größe der Straße, ｶﾞ und cafe\u0301. "
    text = (sentence * 60)[:length].rpartition(" ")[0]
    assert fold(text) == "".join(fold(word) for word in re.findall(r"\S+|\s+", text))


@pytest.mark.attack
@pytest.mark.parametrize("pattern", HOSTILE.values(), ids=HOSTILE.keys())
def test_folding_takes_as_long_as_the_text_is(pattern: str) -> None:
    text = (pattern * 100_000)[:100_000]
    assert seconds(lambda: fold(text)) < 2
    assert seconds(lambda: split_identifier(text)) < 2
