"""Our wordpieces beside those of the library that the models were trained with."""

import json
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from effort import at_most
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordPiece as TheirPieces
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from toolcrib.discovery.search.semantic.wordpiece import UNKNOWN, WordPiece

SMALL = [
    UNKNOWN,
    *"abcdefghij",
    *(f"##{letter}" for letter in "abcdefghij"),
    "ab",
    "##cde",
    "bad",
    "##",
    "!",
    "天",
]
MEGABYTE = 1_000_000


def theirs(vocabulary: list[str]) -> Callable[[str], list[int]]:
    """Return the oracle: BERT's tokenizer, without the marks that it would find in a text."""
    numbered = {piece: number for number, piece in enumerate(vocabulary)}
    tokenizer = Tokenizer(TheirPieces(numbered, unk_token=UNKNOWN, max_input_chars_per_word=100))
    tokenizer.normalizer = BertNormalizer()
    tokenizer.pre_tokenizer = BertPreTokenizer()
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids


ORACLE = theirs(SMALL)


@dataclass(frozen=True)
class Pair:
    ours: WordPiece
    oracle: Callable[[str], list[int]]

    def disagree(self, texts: list[str]) -> list[str]:
        return [text for text in texts if self.ours.ids(text) != self.oracle(text)]


@pytest.fixture(scope="module")
def real(minilm: Path) -> Pair:
    numbered = Tokenizer.from_file(str(minilm / "tokenizer.json")).get_vocab()
    vocabulary = sorted(numbered, key=numbered.__getitem__)
    return Pair(WordPiece(vocabulary), theirs(vocabulary))


def is_settled(character: str) -> bool:
    """Return whether all editions of Unicode agree on a character; the reference uses an old one."""
    return unicodedata.ucd_3_2_0.category(character) == unicodedata.category(character) != "Cn"


SETTLED = st.characters(exclude_categories=["Cs", "Cn"]).filter(is_settled)
EMOJI = st.sampled_from("😀👩🏳🇨🇭🏽❤\ufe0f\u200d")
HARD = st.sampled_from(
    "ΣσςİıßﬁǅÅÅ가각〇々ー・。，！＄±×€₿§¶\t\n\r\x0b\x1c\x85\xa0\xad\u2028\u200b\u202e\ufeff\ufffd\x00"
)
TEXTS = st.text(SETTLED | EMOJI | HARD | st.sampled_from("abcAB '-_.#"), max_size=60)


def test_real_descriptions_of_tools_are_read_alike(real: Pair, data: Path) -> None:
    texts = [
        f"{tool['name']}: {tool.get('description')}"
        for file in sorted((data / "retrieval").glob("*/tools.jsonl"))
        for tool in map(json.loads, file.read_text(encoding="utf-8").splitlines())
    ]
    assert len(texts) == {"tests": 112, "shared": 14_064}[data.parent.name]
    assert real.disagree(texts) == []


def test_every_character_in_common_use_is_read_alike(real: Pair) -> None:
    codes = [*range(0x3100), *range(0xF900, 0x10000), *range(0x1F000, 0x1FB00), *range(0x20000, 0x2FA20, 64)]
    texts = [f"a{chr(code)}b {chr(code)}" for code in codes if is_settled(chr(code))]
    texts += [f"a{chr(code)}b {chr(code)}" for code in range(0x1F300, 0x1FA00)]
    assert real.disagree(texts) == []


@given(text=TEXTS)
def test_any_text_is_read_alike(real: Pair, text: str) -> None:
    assert real.disagree([text]) == []


@given(text=st.text("abcdefghijAB!#天 é", max_size=120))
def test_any_word_is_split_alike(text: str) -> None:
    assert WordPiece(SMALL).ids(text) == ORACLE(text)


@given(text=st.text(), limit=st.integers(0, 20))
def test_a_limit_cuts_the_end_off(text: str, limit: int) -> None:
    pieces = WordPiece(SMALL)
    assert pieces.ids(text, limit=limit) == pieces.ids(text)[:limit]


def test_halves_of_characters_are_left_out() -> None:
    assert WordPiece(SMALL).ids("a\ud800b \udfff") == WordPiece(SMALL).ids("ab")


def test_words_without_pieces_are_left_out_where_nothing_stands_for_them() -> None:
    assert WordPiece(["a", "b"]).ids("a xyz b " + "a" * 101) == [0, 1]
    assert WordPiece([]).ids("a b") == []


def test_the_names_of_special_tokens_are_words_like_any_other() -> None:
    pieces = WordPiece(["[CLS]", "[UNK]", "[", "]", "cls"])
    assert pieces.ids("[CLS]") == [2, 4, 3]


@pytest.mark.parametrize(
    "text",
    [
        "x" * MEGABYTE,
        "ab " * (MEGABYTE // 3),
        "abcdefghij" * 9 + " ",
        ("abcde" * 20 + " ") * (MEGABYTE // 101),
        ("abcd" * 24 + "x ") * (MEGABYTE // 98),
        "!" * MEGABYTE,
        "天" * MEGABYTE,
        "a" + "\u0315\u0300" * (MEGABYTE // 2),
        "\U0001d165\U0001d16d" * (MEGABYTE // 2),
        "\x00" * MEGABYTE,
        "".join(map(chr, range(0x10000, 0x40000))),
    ],
    ids=[
        "one word",
        "words",
        "one known word",
        "known words",
        "unknown words",
        "marks",
        "ideographs",
        "accents",
        "accents that stay",
        "NULs",
        "many characters",
    ],
)
@pytest.mark.proof
def test_a_megabyte_is_read_in_a_moment(text: str) -> None:
    pieces = WordPiece(SMALL)
    with at_most(5):
        pieces.ids(text)
