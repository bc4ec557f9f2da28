"""The words of a text: identifiers split, accents folded, scripts without spaces in pairs of characters."""

import re
import unicodedata
from collections.abc import Iterator

__all__ = ["MAX_TEXT", "fold", "split_identifier", "words"]

MAX_TEXT = 100_000
"""How many characters of a text are read; what follows could only drown what was said first."""

_MARKS = re.compile(r"[\u0300-\u036f]")
_CONTRACTION = re.compile(r"(?<=\w)['\u2019](?:s|t|re|ve|ll|d|m)\b", re.IGNORECASE)
_WORD = r"[\w\u0900-\u0eff\u1000-\u109f\u1780-\u17ff]+"
"""Letters, digits, and the vowel signs that South and South-East Asian words are written with."""
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
    "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\uac00-\ud7a3"  # Hangul, which spaces phrases rather than words
    "\U00020000-\U0003ffff"
    "]+"
)


def fold(text: str) -> str:
    """Return text with compatible characters made one and Latin accents taken off; the case stays.

    >>> fold("Café №")
    'Cafe No'
    """
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", _MARKS.sub("", unicodedata.normalize("NFKD", text)))


def words(text: str) -> Iterator[str]:
    """Yield the words of a text in lower case, the parts of each identifier and then the whole of it.

    >>> list(words("createIssue in GitHub-v2"))
    ['create', 'issue', 'createissue', 'in', 'git', 'hub', 'v', '2', 'githubv2']
    >>> list(words("天气预报"))
    ['天气', '气预', '预报']
    """
    folded = _CONTRACTION.sub("", fold(text[:MAX_TEXT]))
    for chunk in _CHUNK.findall(folded):
        if _PLAIN.fullmatch(chunk):
            yield chunk.lower()
        else:
            yield from _split(chunk)


def split_identifier(name: str) -> list[str]:
    """Return the words an identifier is made of, in lower case.

    >>> split_identifier("HTTPServer.list_userIDs2")
    ['http', 'server', 'list', 'user', 'ids', '2']
    """
    return [part.lower() for part in _parts(fold(name))]


def _parts(chunk: str) -> list[str]:
    return _PART.findall(_ACRONYM.sub(r"\1_", chunk))


def _split(chunk: str) -> Iterator[str]:
    rest = chunk
    if not chunk.isascii():
        for run in _UNSPACED.findall(chunk):
            yield from (run[at : at + 2] for at in range(max(1, len(run) - 1)))
        rest = _UNSPACED.sub("_", chunk)
    parts = [part.lower() for part in _parts(rest)]
    yield from parts
    if len(parts) > 1 and not rest.isdigit():
        yield "".join(parts)
