"""Splits text into clauses and words: identifiers split, accents folded, unspaced scripts in pairs."""

import re
import unicodedata
from collections.abc import Iterator

MAX_TEXT = 100_000
"""How many characters of a text are read; what follows could only drown what comes first."""

_LONGEST = 40
"""How much of a word is kept: enough for every honest one, and a bound for the rest."""
_CONTRACTION = re.compile(r"\b\w{1,6}n't\b|(?<=\w)'(?:s|re|ve|ll|d|m)\b", re.IGNORECASE)
"""The whole of `don't`, and the end of `what's`."""
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
"""What most chunks are: nothing in them to split."""
_PART = re.compile(
    r"[A-Z]{2,}s(?![a-z])"  # an acronym and its plural
    r"|[A-Z]+(?![^\W\d_A-Z])"
    r"|[A-Z]?[^\s\d_A-Z.\-]+"
    r"|\d+"
)
_ACRONYM = re.compile(r"([A-Z])(?=[A-Z](?!s(?![a-z]))[a-z])")
"""Where the HTTP of HTTPServer ends."""
_UNSPACED = re.compile(
    "["
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17ff"  # Burmese, Khmer
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # kana, and what repeats a character
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\uac00-\ud7a3"  # Hangul, which spaces phrases rather than words
    "\U00020000-\U0003ffff"
    "]+"
)
_PIECE = re.compile(r".{1,500}(?:\s|$)|.{1,500}", re.DOTALL)
"""How much is normalised at once: to sort a pile of accents takes the square of its height."""
_LEFT_OUT = re.compile(
    "["
    "\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"  # accents
    "\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"  # Hebrew points
    "\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed"  # Arabic vowels
    "\u00ad\u200c\u200d\u2060\ufe00-\ufe0f\ufeff"  # what is not seen
    "]"
)
_SIMPLER = {
    **dict(zip("ØøŁłĐđÐðĦħı", "OoLlDdDdHhi", strict=True)),
    **dict(zip("ßẞÆæŒœÞþ", ("ss", "Ss", "Ae", "ae", "Oe", "oe", "Th", "th"), strict=True)),
    "\u2019": "'",
}
"""What has no simpler form in Unicode, though it has one in the spelling of those who cannot type it."""
_SPECIAL = re.compile(f"[{''.join(_SIMPLER)}]")
_LONGEST_QUESTION = 10_000
"""Questions are split into clauses up to this many characters."""
_BREAK = re.compile(
    r"(?<![.;!?])[.;!?]+(?=\s|$)|,(?=\s)"
    r"|[\n\u3001\u3002\uff01\uff0c\uff1b\uff1f]+"  # the same in Chinese and Japanese
    r"|[\u060c\u061b\u061f\u06d4\u0964\u104b\u17d4]+"  # in Arabic, Urdu, Hindi, Burmese and Khmer
    r"|\b(?:and|then|also|but|while|plus|afterwards|finally)\b",
    re.IGNORECASE,
)


def clauses(question: str) -> list[str]:
    """Return the clauses of a question that asks for several things, in order.

    >>> clauses("Book a table for two, and then send the address to Ann.")
    ['Book a table for two', 'send the address to Ann']
    """
    parts = _BREAK.split(question[:_LONGEST_QUESTION])
    return [part.strip() for part in parts if part and not part.isspace()]


def words(text: str, *, with_identifiers: bool = True) -> Iterator[str]:
    """Yield the words of a text in lower case, the parts of each identifier and then the whole of it.

    Without identifiers, the words are only those that follow each other in the text.

    >>> list(words("createIssue in GitHub-v2"))
    ['create', 'issue', 'createissue', 'in', 'git', 'hub', 'v', '2', 'githubv2']
    >>> list(words("createIssue in GitHub-v2", with_identifiers=False))
    ['create', 'issue', 'in', 'git', 'hub', 'v', '2']
    >>> list(words("天气预报"))
    ['天气', '气预', '预报']
    """
    folded = fold(text[:MAX_TEXT])[:MAX_TEXT]
    if "'" in folded:
        folded = _CONTRACTION.sub("", folded)
    for chunk in _CHUNK.findall(folded):
        if _PLAIN.fullmatch(chunk):
            yield chunk[:_LONGEST].lower()
            continue
        pairs, parts = _split(chunk)
        yield from pairs
        yield from parts
        whole = "".join(parts)
        if with_identifiers and len(parts) > 1 and not whole.isdigit():
            yield whole[:_LONGEST]


def split_identifier(name: str) -> list[str]:
    """Return the words an identifier is made of, in lower case.

    >>> split_identifier("HTTPServer.list_userIDs2")
    ['http', 'server', 'list', 'user', 'ids', '2']
    """
    return [part.lower() for part in _parts(fold(name))]


def _parts(chunk: str) -> list[str]:
    return _PART.findall(_ACRONYM.sub(r"\1_", chunk))


def _split(chunk: str) -> tuple[list[str], list[str]]:
    """Return the pairs of characters of a chunk's unspaced scripts, and the words of the others."""
    pairs: list[str] = []
    rest = chunk
    if not chunk.isascii():
        for run in _UNSPACED.findall(chunk):
            pairs += (run[at : at + 2] for at in range(max(1, len(run) - 1)))
        rest = _UNSPACED.sub("_", chunk)
    return pairs, [part[:_LONGEST].lower() for part in _parts(rest)]


def fold(text: str) -> str:
    """Return text with compatible characters made one, accents and vowel points taken off; the case stays.

    >>> fold("Café №"), fold("Łódź")
    ('Cafe No', 'Lodz')
    """
    if text.isascii():
        return text
    return "".join(map(_fold_piece, _PIECE.findall(text)))


def _fold_piece(piece: str) -> str:
    bare = _LEFT_OUT.sub("", unicodedata.normalize("NFKD", piece))
    return unicodedata.normalize("NFC", _SPECIAL.sub(lambda found: _SIMPLER[found[0]], bare))
