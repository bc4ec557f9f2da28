"""Homoglyphs: letters of other alphabets that look like Latin ones."""

import re

_CYRILLIC = str.maketrans("асеорхуіјѕһԁԛԝвкмнтАВЕКМНОРСТХУІЈЅҺԌ", "aceopxyijshdqwbkmhtABEKMHOPCTXYIJSHG")
_GREEK = str.maketrans("ονικυρΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "ovikupABEZHIKMNOPTYX")
_OTHERS = str.maketrans("ɑɡօսհⲟᴀᴄᴅᴇᴊᴋᴍᴏᴘᴛᴜᴠᴡᴢᏟᎪᎬᎻᏢᏴ", "agouhoacdejkmoptuvwzCAEHPB")
_TABLE = {**_CYRILLIC, **_GREEK, **_OTHERS}
_LOOKALIKE = re.compile(f"[{''.join(map(chr, _TABLE))}]")
_WORD = re.compile(r"\w*[^\W\x00-\x7f]\w*")
_LATIN = re.compile(r"[A-Za-z]")
_LEAST = 3


def has_lookalikes(text: str) -> bool:
    r"""Return whether a text has letters that look like Latin ones.

    >>> has_lookalikes("r\u0435ad"), has_lookalikes("na\u00efve")
    (True, False)
    """
    return not text.isascii() and _LOOKALIKE.search(text) is not None


def fold_homoglyphs(text: str) -> str:
    r"""Return a text with Latin letters in place of those that look like them.

    >>> fold_homoglyphs("r\u0435\u0430d")
    'read'
    """
    return text if text.isascii() else text.translate(_TABLE)


def mixed_word(text: str) -> str | None:
    r"""Return a word in which Latin letters stand beside others that look like Latin ones, or None.

    >>> mixed_word("a p\u0430ssword") == "p\u0430ssword", mixed_word("\u043a\u041e\u043c")
    (True, None)
    """
    if text.isascii():
        return None
    for found in _WORD.finditer(text):
        word = found[0]
        folded = word.translate(_TABLE)
        if len(word) >= _LEAST and folded != word and folded.isascii() and _LATIN.search(word):
            return word
    return None
