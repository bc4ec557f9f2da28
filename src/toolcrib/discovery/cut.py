"""Text cut to a length, never in the middle of what a reader sees as one character."""

import unicodedata

__all__ = ["cut"]

ELLIPSIS = "…"
_MAX_CLUSTER = 32
"""How far to step back for a whole character; what is longer was not made to be read."""
_JOINER = "\u200d"


def cut(text: str, limit: int) -> str:
    """Return text of at most `limit` characters, ending in an ellipsis where some is missing.

    >>> cut("Create an issue", 9)
    'Create a…'
    >>> cut("cafe\u0301s", 5)  # the accent is not parted from its letter
    'caf…'
    """
    if len(text) <= limit:
        return text
    if limit < 1:
        return ""
    return text[: _boundary(text, limit - 1)] + ELLIPSIS


def _boundary(text: str, end: int) -> int:
    """Return the last place at or before `end` where no character is parted."""
    for place in range(end, max(0, end - _MAX_CLUSTER), -1):
        if not _parts(text, place):
            return place
    return end if end > _MAX_CLUSTER else 0


def _parts(text: str, place: int) -> bool:
    """Return whether a cut before `place` parts one character."""
    before, after = text[place - 1], text[place]
    if after.isascii():
        return before == "\r" and after == "\n"
    if _is_flag_half(after) and _is_flag_half(before):
        return _count_flag_halves(text, place) % 2 == 1
    return _JOINER in {before, after} or _extends(after)


def _extends(char: str) -> bool:
    """Return whether a character only changes the one before it."""
    return (
        unicodedata.category(char).startswith("M")
        or "\U0001f3fb" <= char <= "\U0001f3ff"  # skin tones
        or "\U000e0020" <= char <= "\U000e007f"  # the letters of a flag
        or "\u1160" <= char <= "\u11ff"  # the later parts of a Korean syllable
    )


def _is_flag_half(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _count_flag_halves(text: str, place: int) -> int:
    """Return how many letters of flags stand right before a place, as far as it matters."""
    start = place
    while start > max(0, place - _MAX_CLUSTER) and _is_flag_half(text[start - 1]):
        start -= 1
    return place - start
