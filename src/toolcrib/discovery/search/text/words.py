"""Tokenisation: splits text into clauses and words.

Identifiers are split into words, accents are removed, and text in scripts without spaces is split into pairs
of characters (bigrams).
"""

import re
import unicodedata
from collections.abc import Iterator
from itertools import chain

from toolcrib.discovery.search.memo import Memo

MAX_TEXT = 100_000
"""The maximum number of characters of a text that are read."""

_MAX_CHUNKS = 1 << 15
"""The maximum number of chunks whose words are kept, with and without whole identifiers each."""
_MAX_KEPT_WORDS = 8
"""The words of a chunk with more are not kept, which bounds the memory of hostile texts."""
_MAX_WORD_LENGTH = 40
"""Longer words are cut, which bounds the memory of a term."""
_CONTRACTION = re.compile(r"'(?<=\w')(?:s|re|ve|ll|d|m)\b", re.IGNORECASE)
"""The end of `what's`, which is dropped; the apostrophe comes first since a literal prefix is found fast."""
_NEGATION = re.compile(rf"\b\w{{1,6}}n't\b(?:{_CONTRACTION.pattern})*", re.IGNORECASE)
"""The whole of `don't`, which is dropped too. It is tried at every word, so only in texts that have `'t`."""
_WORD = (
    r"[\w"
    "\u0900-\u0963\u0971-\u0df3"  # Indian scripts, but for their full stops
    "\u0e31-\u0e3a\u0e47-\u0e4e\u0eb1-\u0ecd"  # Thai, Lao
    "\u0f71-\u0f84\u0f86-\u0fbc"  # Tibetan
    "\u102b-\u103e\u1056-\u109d\u17b4-\u17d3"  # Burmese, Khmer
    "\u07a6-\u07b0"  # Thaana
    "]+"
)
"""Letters, digits, and the vowel signs that are written beside letters."""
_CHUNK = re.compile(rf"{_WORD}(?:[.\-]{_WORD})*")
_PLAIN = re.compile(r"[A-Z]?[a-z]+|[0-9]+")
"""A chunk without anything to split, as most are: the fast path."""
_PART = re.compile(
    r"[A-Z]{2,}s(?![a-z])"  # an acronym and its plural
    r"|[A-Z]+(?![^\W\d_A-Z])"
    r"|[A-Z]?[^\s\d_A-Z.\-]+"
    r"|\d+"
)
_ACRONYM = re.compile(r"([A-Z])(?=[A-Z](?!s(?![a-z]))[a-z])")
"""The last letter of an acronym in camel case, such as the `P` of `HTTPServer`."""
_UNSPACED = re.compile(
    "["
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17ff"  # Burmese, Khmer
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # kana and iteration marks
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\uac00-\ud7a3"  # Hangul, where spaces separate phrases rather than words
    "\U00020000-\U0003ffff"
    "]+"
)
_PIECE = re.compile(r".{1,500}(?:\s|$)|.{1,500}", re.DOTALL)
"""A piece of text that is normalised at once: NFKD sorts combining marks in quadratic time."""
_IGNORED_CHARACTERS = re.compile(
    "["
    "\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"  # accents
    "\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"  # Hebrew points
    "\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed"  # Arabic vowels
    "\u00ad\u200c\u200d\u2060\ufe00-\ufe0f\ufeff"  # invisible characters
    "]"
)
_SIMPLE_SPELLINGS = {
    **dict(zip("ØøŁłĐđÐðĦħı", "OoLlDdDdHhi", strict=True)),
    **dict(zip("ßẞÆæŒœÞþ", ("ss", "Ss", "Ae", "ae", "Oe", "oe", "Th", "th"), strict=True)),
    "\u2019": "'",
}
"""Letters that Unicode does not decompose, though people without the key write them with plain letters."""
_SPECIAL = re.compile(f"[{''.join(_SIMPLE_SPELLINGS)}]")
_LONGEST_QUESTION = 10_000
"""The maximum number of characters of a question that are split into clauses."""
_CLAUSE_BREAK = re.compile(
    r"(?<![.;!?])[.;!?]+(?=\s|$)|,(?=\s)"
    r"|[\n\u3001\u3002\uff01\uff0c\uff1b\uff1f]+"  # the same in Chinese and Japanese
    r"|[\u060c\u061b\u061f\u06d4\u0964\u104b\u17d4]+"  # in Arabic, Urdu, Hindi, Burmese and Khmer
    r"|\b(?:and|then|also|but|while|plus|afterwards|finally)\b",
    re.IGNORECASE,
)


def clauses(question: str) -> list[str]:
    """Split a question that asks for several things into its clauses.

    >>> clauses("Book a table for two, and then send the address to Ann.")
    ['Book a table for two', 'send the address to Ann']
    """
    parts = _CLAUSE_BREAK.split(question[:_LONGEST_QUESTION])
    return [part.strip() for part in parts if part and not part.isspace()]


def words(text: str, *, with_identifiers: bool = True) -> Iterator[str]:
    """Return the words of a text in lower case: the parts of each identifier, then the whole identifier.

    With `with_identifiers=False`, whole identifiers are left out, so that adjacent words are adjacent in the
    text.

    >>> list(words("createIssue in GitHub-v2"))
    ['create', 'issue', 'createissue', 'in', 'git', 'hub', 'v', '2', 'githubv2']
    >>> list(words("createIssue in GitHub-v2", with_identifiers=False))
    ['create', 'issue', 'in', 'git', 'hub', 'v', '2']
    >>> list(words("天气预报"))
    ['天气', '气预', '预报']
    """
    split = _WORDS_AND_WHOLE if with_identifiers else _WORDS
    return chain.from_iterable(map(split.__getitem__, _split_chunks(text)))


def _split_chunks(text: str) -> list[str]:
    """Split a text at its spaces and punctuation; identifiers are whole."""
    folded = fold(text[:MAX_TEXT])[:MAX_TEXT]
    if "'" in folded:
        if "'t" in folded or "'T" in folded:
            folded = _NEGATION.sub("", folded)
        folded = _CONTRACTION.sub("", folded)
    return _CHUNK.findall(folded)


def _split_chunk(chunk: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the words in a chunk, and the same with the whole chunk if it is an identifier of several."""
    if _PLAIN.fullmatch(chunk):
        word = (chunk[:_MAX_WORD_LENGTH].lower(),)
        return word, word
    pairs, parts = _split_scripts(chunk)
    whole, split = "".join(parts), (*pairs, *parts)
    is_identifier = len(parts) > 1 and not whole.isdigit()
    return split, (*split, whole[:_MAX_WORD_LENGTH]) if is_identifier else split


def _is_common(chunk: str, found: tuple[str, ...]) -> bool:
    """Return whether the words of a chunk are worth their memory: long chunks and phrases seldom recur."""
    return len(chunk) <= _MAX_WORD_LENGTH and len(found) <= _MAX_KEPT_WORDS


_WORDS = Memo(lambda chunk: _split_chunk(chunk)[0], limit=_MAX_CHUNKS, keeps=_is_common)
_WORDS_AND_WHOLE = Memo(lambda chunk: _split_chunk(chunk)[1], limit=_MAX_CHUNKS, keeps=_is_common)


def split_identifier(name: str) -> list[str]:
    """Split an identifier into its words, in lower case.

    >>> split_identifier("HTTPServer.list_userIDs2")
    ['http', 'server', 'list', 'user', 'ids', '2']
    """
    return [part.lower() for part in _split_camel_case(fold(name))]


def _split_camel_case(chunk: str) -> list[str]:
    return _PART.findall(_ACRONYM.sub(r"\1_", chunk))


def _split_scripts(chunk: str) -> tuple[list[str], list[str]]:
    """Return the character bigrams of the scripts without spaces in a chunk, and the words of the rest."""
    pairs: list[str] = []
    rest = chunk
    if not chunk.isascii():
        for run in _UNSPACED.findall(chunk):
            pairs += (run[at : at + 2] for at in range(max(1, len(run) - 1)))
        rest = _UNSPACED.sub("_", chunk)
    return pairs, [part[:_MAX_WORD_LENGTH].lower() for part in _split_camel_case(rest)]


def fold(text: str) -> str:
    """Normalise text to compatibility forms (NFKC) without accents and vowel points; case is kept.

    >>> fold("Café №"), fold("Łódź")
    ('Cafe No', 'Lodz')
    """
    if text.isascii():
        return text
    return "".join(map(_fold_piece, _PIECE.findall(text)))


def _fold_piece(piece: str) -> str:
    bare = _IGNORED_CHARACTERS.sub("", unicodedata.normalize("NFKD", piece))
    return unicodedata.normalize("NFC", _SPECIAL.sub(lambda found: _SIMPLE_SPELLINGS[found[0]], bare))
