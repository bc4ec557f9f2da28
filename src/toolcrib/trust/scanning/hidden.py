"""Hidden characters: those that steer a terminal, turn the direction of text, or that nobody sees."""

import re
import unicodedata
from collections.abc import Iterator

from toolcrib.model.display import HIDDEN

_JOINERS = frozenset("\u200c\u200d")
_MARKS = frozenset("\u200e\u200f\u061c")
"""Marks of text direction, which Arabic and Hebrew need."""
_LONGEST_FLAG = 7
_FLAG = re.compile("\U0001f3f4[\U000e0020-\U000e007f]*$")
"""A black flag and the tags that make it that of Scotland, of which there are six with their end."""
_ALLOWED = frozenset("\u00ad\r")
"""The soft hyphen, and the carriage return of Windows line ends."""
_NEAR = 40
_KINDS = (
    ("\x1b", "\x1b", "an escape sequence of a terminal"),
    ("\u202a", "\u202e", "a character that turns the direction of text"),
    ("\u2066", "\u2069", "a character that turns the direction of text"),
    ("\U000e0000", "\U000e007f", "a tag character, which people do not see but a model reads"),
    ("\ufe00", "\ufe0f", "a variation selector, which nobody sees and a model reads"),
    ("\U000e0100", "\U000e01ef", "a variation selector, which nobody sees and a model reads"),
    ("\ue000", "\uf8ff", "a character for private use, which has no agreed meaning"),
    ("\U000f0000", "\U0010ffff", "a character for private use, which has no agreed meaning"),
    ("\u200b", "\u200f", "a character without width"),
    ("\u2060", "\u2065", "a character without width"),
    ("\ufeff", "\ufeff", "a character without width"),
    ("\u2028", "\u2029", "a character that ends a line"),
    ("\x00", "\x1f", "a control character"),
    ("\x7f", "\x9f", "a control character"),
)
_MORE = re.compile(
    "["
    "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"  # letters that are blank
    "\ue000-\uf8ff\U000f0000-\U0010ffff"  # for private use
    "\ufe00-\ufe0f"  # variation selectors
    "](?<![\u00a9\u00ae\u203c-\u3299\U0001f000-\U0001faff#*0-9][\ufe00-\ufe0f])"  # but not after a picture
)
"""It begins with one set of characters, for which whole texts are searched fast."""


def hidden_characters(text: str) -> Iterator[tuple[int, str]]:
    r"""Yield the hidden characters of a text, with their positions.

    What scripts and emoji need is none: joiners between letters or pictures, the flag of Scotland.

    >>> list(hidden_characters("Add two numbers.\u202e"))
    [(16, 'a character that turns the direction of text (U+202E)')]
    """
    for found in HIDDEN.finditer(text):
        if not _is_needed(text, found.start()):
            yield found.start(), _name(found[0])
    if not text.isascii():
        for found in _MORE.finditer(text):
            yield found.start(), _name(found[0][0])


def hidden_message(text: str) -> str:
    r"""Return what tag characters say, which are ASCII moved to where nobody sees it.

    >>> hidden_message("Hi.\U000e0053\U000e006f")
    'So'
    """
    return "".join(chr(ord(char) - 0xE0000) for char in text if "\U000e0020" <= char <= "\U000e007e")


def without_hidden(text: str) -> str:
    r"""Return a text without what is hidden in it.

    >>> without_hidden("ig\u200bnore")
    'ignore'
    """
    return text if text.isascii() and text.isprintable() else _MORE.sub("", HIDDEN.sub(_keep_space, text))


def _keep_space(found: re.Match[str]) -> str:
    return " " if found[0] in "\r\x0b\x0c\x85\u2028\u2029" else ""


def _name(char: str) -> str:
    kind = next((name for low, high, name in _KINDS if low <= char <= high), "an invisible character")
    return f"{kind} (U+{ord(char):04X})"


def _is_needed(text: str, place: int) -> bool:
    char = text[place]
    before, after = text[place - 1 : place], text[place + 1 : place + 2]
    if char in _JOINERS:  # between letters of a script that joins them, or between pictures
        return not before.isascii() and not after.isascii() and bool(before) and bool(after)
    if char in _MARKS:
        near = text[max(0, place - _NEAR) : place + _NEAR]
        return any(unicodedata.bidirectional(each) in {"R", "AL"} for each in near if each not in _MARKS)
    if "\U000e0020" <= char <= "\U000e007f":
        return bool(_FLAG.search(text, max(0, place - _LONGEST_FLAG), place))
    return char in _ALLOWED or (char == "\ufeff" and place == 0)
