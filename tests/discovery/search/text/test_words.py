"""The words of a text."""

import re
import unicodedata
from itertools import islice
from string import ascii_lowercase

import pytest
from discovery.search.text.support import HOSTILE, seconds
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.discovery.search.text import split_identifier, words
from toolcrib.discovery.search.text.words import MAX_TEXT

any_text = st.text(st.characters(codec=None), max_size=60)
parts = st.lists(st.text(ascii_lowercase, min_size=2, max_size=8), min_size=2, max_size=5)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("create_issue", ["create", "issue", "createissue"]),
        ("createIssue", ["create", "issue", "createissue"]),
        ("CreateIssue", ["create", "issue", "createissue"]),
        ("create-issue", ["create", "issue", "createissue"]),
        ("create.issue", ["create", "issue", "createissue"]),
        ("CREATE_ISSUE", ["create", "issue", "createissue"]),
        ("__create__issue__", ["create", "issue", "createissue"]),
        ("HTTPServer", ["http", "server", "httpserver"]),
        ("getHTTPSUrl", ["get", "https", "url", "gethttpsurl"]),
        ("listUserIDs", ["list", "user", "ids", "listuserids"]),
        ("parsePDFs", ["parse", "pdfs", "parsepdfs"]),
        ("URLs", ["urls"]),
        ("mp3", ["mp", "3", "mp3"]),
        ("oauth2Token", ["oauth", "2", "token", "oauth2token"]),
        ("node.js", ["node", "js", "nodejs"]),
        ("a_b-c.dE2", ["a", "b", "c", "d", "e", "2", "abcde2"]),
        ("Weather", ["weather"]),
        ("SQL", ["sql"]),
    ],
)
def test_an_identifier_is_split_and_kept_whole(name: str, expected: list[str]) -> None:
    assert list(words(name)) == expected
    assert split_identifier(name) == expected[: max(1, len(expected) - 1)]


@given(parts)
def test_every_way_of_writing_an_identifier_gives_the_same_words(names: list[str]) -> None:
    expected = [*names, "".join(names)]
    humps = "".join(name.capitalize() for name in names)
    written = ["_".join(names), "-".join(names), ".".join(names), "_".join(names).upper(), humps]
    written.append(humps[0].lower() + humps[1:])
    assert [list(words(name)) for name in written] == [expected] * len(written)


@pytest.mark.parametrize("number", ["1.5", "2024-01-15", "192.168.0.1", "10_000"])
def test_numbers_are_not_run_together(number: str) -> None:
    assert list(words(number)) == re.findall(r"\d+", number)


def test_a_sentence_is_its_words_in_lower_case_and_in_order() -> None:
    assert list(words("Open an Issue, then (maybe) close it!")) == [
        *("open", "an", "issue", "then", "maybe", "close", "it")
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("John's users' files", "john users files"),
        ("what\u2019s up", "what up"),
        ("they're I'm we've you'll she'd", "they i we you she"),
        ("It doesn't, and I can't", "it and i"),
        ("WON\u2019T print", "print"),
        ("shouldn't couldn't mustn't", ""),
        ("you shouldn't've done it, and DON'T'S", "you done it and"),
        ("rock'n'roll", "rock n roll"),
    ],
)
def test_a_contraction_leaves_no_word_behind(text: str, expected: str) -> None:
    assert " ".join(words(text)) == expected


@given(any_text)
def test_a_text_and_its_decomposed_form_have_the_same_words(text: str) -> None:
    assert list(words(unicodedata.normalize("NFD", text))) == list(words(unicodedata.normalize("NFC", text)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("天气预报", ["天气", "气预", "预报"]),
        ("天", ["天"]),
        ("中文API调用", ["中文", "调用", "api"]),
        ("人々、様々な", ["人々", "様々", "々な"]),
        ("コーヒー", ["コー", "ーヒ", "ヒー"]),
        ("ｺｰﾋｰ", ["コー", "ーヒ", "ヒー"]),
        ("iPhone用", ["用", "i", "phone", "iphone"]),
        ("날씨를 알려", ["날씨", "씨를", "알려"]),
        ("ไทย", ["ไท", "ทย"]),
        ("𠀀𠀁𠀂", ["𠀀𠀁", "𠀁𠀂"]),
    ],
)
def test_scripts_without_spaces_are_read_in_pairs(text: str, expected: list[str]) -> None:
    assert list(words(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("आज का मौसम बताओ।", ["आज", "का", "मौसम", "बताओ"]),
        ("বাংলা।", ["বাংলা"]),
        ("தமிழ் மொழி", ["தமிழ்", "மொழி"]),
        ("погода в Москве", ["погода", "в", "москве"]),
        ("حالة الطقس؟", ["حالة", "الطقس"]),
        ("מזג האוויר", ["מזג", "האוויר"]),
        ("ދިވެހި ބަސް", ["ދިވެހި", "ބަސް"]),
        ("བོད་ཡིག", ["བོད", "ཡིག"]),
        ("Ο καιρός", ["ο", "καιρος"]),
    ],
)
def test_scripts_with_spaces_are_read_in_words(text: str, expected: list[str]) -> None:
    assert list(words(text)) == expected


@pytest.mark.parametrize("text", ["ภาษา", "မြန်မာ", "ភាសាខ្មែរ", "ລາວ"])
@pytest.mark.parametrize("mark", ["", "။", "។", "๚", "!"])
def test_a_full_stop_is_no_part_of_a_word(text: str, mark: str) -> None:
    assert list(words(text + mark)) == list(words(text))


@given(any_text)
def test_words_are_short_in_lower_case_and_hold_no_space(text: str) -> None:
    for word in words(text):
        assert 0 < len(word) <= 40
        assert word == word.lower()
        assert not re.search(r"\s|\0|[\ud800-\udfff]", word)


@given(any_text, any_text)
def test_the_words_of_two_lines_are_those_of_each(text: str, other: str) -> None:
    assert list(words(f"{text}\n{other}")) == [*words(text), *words(other)]


def test_a_word_without_end_is_cut() -> None:
    assert list(words("x" * 1_000)) == ["x" * 40]
    assert list(words("verylong" * 20 + "_name")) == [("verylong" * 20)[:40], "name", ("verylong" * 20)[:40]]


def test_text_beyond_the_limit_is_not_read() -> None:
    assert "end" not in set(words("x " * (MAX_TEXT // 2) + "end"))


@pytest.mark.parametrize("text", ["", " \t\n", "\0", "\ud800\udfff", "...", "___", "🌦️", "\u0301", "-.-"])
def test_a_text_without_letters_has_no_words(text: str) -> None:
    assert list(words(text)) == []


@pytest.mark.attack
@pytest.mark.parametrize("pattern", HOSTILE.values(), ids=HOSTILE.keys())
def test_any_megabyte_is_read_in_a_moment(pattern: str) -> None:
    text = (pattern * 1_000_000)[:1_000_000]
    assert seconds(lambda: sum(1 for _ in words(text))) < 2
    assert seconds(lambda: list(islice(words(f"{text} x"), 10))) < 2
