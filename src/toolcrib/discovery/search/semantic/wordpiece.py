"""WordPiece tokenizer of BERT's uncased models, in plain Python."""

import unicodedata
from collections.abc import Sequence
from itertools import chain, islice

from toolcrib.discovery.search.memo import Memo

UNKNOWN = "[UNK]"
_MAX_WORD = 100
"""Longer words are unknown."""
_MAX_WORDS = 1 << 14
"""The maximum number of words whose pieces are kept."""
_MAX_TABLE = 0x10000
"""The maximum number of cached characters; Unicode has 17 times as many."""
_SPACES = frozenset("\t\n\r")
_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Co", "Cs"})
_REPLACEMENT = 0xFFFD
_IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)
"""The blocks that BERT treats as Chinese: each character is a word."""


class WordPiece:
    """Splits words into pieces of a vocabulary, longest match first; `##` marks a piece inside a word.

    >>> pieces = WordPiece(["[UNK]", "un", "##able", "!", "a"])
    >>> pieces.ids("Unable! Ábc"), pieces.ids("unable a", limit=2)
    ([1, 2, 3, 0], [1, 2])

    Names of special tokens in a text are treated as plain words. Unknown words become `[UNK]`, or are
    left out if the vocabulary has no such piece.
    """

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._words = Words()
        numbered = {piece: number for number, piece in enumerate(vocabulary)}
        self._word_starts = numbered
        self._continuations = {
            piece[2:]: number for piece, number in numbered.items() if piece.startswith("##")
        }
        self._longest = max(map(len, numbered), default=0)
        self._unknown = [numbered[UNKNOWN]] if UNKNOWN in numbered else []
        self._pieces = Memo(self._split, limit=_MAX_WORDS, keeps=lambda word, _: len(word) <= _MAX_WORD)

    def ids(self, text: str, *, limit: int | None = None) -> list[int]:
        """Return the ids of the pieces of a text, at most `limit`."""
        words = self._words.split(text)
        return list(islice(chain.from_iterable(map(self._pieces.__getitem__, words)), limit))

    def _split(self, word: str) -> list[int]:
        if len(word) > _MAX_WORD:
            return self._unknown
        numbers: list[int] = []
        start = 0
        known = self._word_starts
        while start < len(word):
            for end in range(min(len(word), start + self._longest), start, -1):
                number = known.get(word[start:end])
                if number is not None:
                    break
            else:
                return self._unknown
            numbers.append(number)
            start, known = end, self._continuations
        return numbers


class Words(dict[int, str]):
    r"""Splits text into lower-case words without accents; each punctuation mark is a word.

    >>> Words().split("Créer_issue: naïve\x00 天气!")
    ['creer', '_', 'issue', ':', 'naive', '天', '气', '!']

    It is a translation table for `str.translate`, filled when a character is first seen. Text is not
    normalised as a whole, because that takes quadratic time for a long run of accents.
    """

    def split(self, text: str) -> list[str]:
        """Return the words of a text."""
        return text.translate(self).split()

    def __missing__(self, code: int) -> str:
        result = _normalize(chr(code))
        if len(self) < _MAX_TABLE:
            self[code] = result
        return result


def _normalize(character: str) -> str:
    """Return the replacement of a character: nothing, a space, or the folded character."""
    category = unicodedata.category(character)
    if character in _SPACES or category.startswith("Z"):
        return " "
    code = ord(character)
    if code == _REPLACEMENT or category in _INVISIBLE_CATEGORIES:
        return ""
    folded = "".join(map(_fold, unicodedata.normalize("NFD", character)))
    return f" {folded} " if any(low <= code <= high for low, high in _IDEOGRAPHS) else folded


def _fold(character: str) -> str:
    """Drop an accent, lower-case a letter, or surround punctuation by spaces."""
    category = unicodedata.category(character)
    if category == "Mn":
        return ""
    # As in BERT's tokenizer, ASCII symbols such as $ and + are punctuation; other symbols are letters.
    if category.startswith("P") or (character.isascii() and category.startswith("S")):
        return f" {character} "
    return character.lower()
