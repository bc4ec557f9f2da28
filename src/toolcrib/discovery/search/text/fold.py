"""One spelling for what has several: with accents or without, wide or narrow, pointed or not."""

import re
import unicodedata

__all__ = ["fold"]

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


def fold(text: str) -> str:
    """Return text with compatible characters made one, accents and vowel points taken off; the case stays.

    >>> fold("Café №"), fold("Łódź")
    ('Cafe No', 'Lodz')
    """
    if text.isascii():
        return text
    return "".join(map(_folded, _PIECE.findall(text)))


def _folded(piece: str) -> str:
    bare = _LEFT_OUT.sub("", unicodedata.normalize("NFKD", piece))
    return unicodedata.normalize("NFC", _SPECIAL.sub(lambda found: _SIMPLER[found[0]], bare))
