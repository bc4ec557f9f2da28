"""English stems by the Snowball rules ("Porter 2"), so that `issues` finds `issue`."""

import re
from functools import lru_cache

__all__ = ["stem"]

_VOWELS = frozenset("aeiouy")
_DOUBLES = frozenset({"bb", "dd", "ff", "gg", "mm", "nn", "pp", "rr", "tt"})
_LI = frozenset("cdeghkmnrt")
"""The letters after which a final `li` is a suffix."""
_SHORTEST = 3
_LONGEST = 64
"""A longer word is a hash or an encoding, which has no stem."""

_WHOLE = {
    "skis": "ski",
    "skies": "sky",
    "idly": "idl",
    "gently": "gentl",
    "ugly": "ugli",
    "early": "earli",
    "only": "onli",
    "singly": "singl",
    **{word: word for word in ("sky", "news", "howe", "atlas", "cosmos", "bias", "andes")},
}
_AFTER_1A = frozenset(
    {"inning", "outing", "canning", "herring", "earring", "proceed", "exceed", "succeed"}
    | {"evening", "even"}
)
_REGION = re.compile(r"[aeiouy][^aeiouy]")
_PREFIXES = ("gener", "commun", "arsen", "past", "univers", "later", "emerg", "organ", "inter")

_STEP_2 = {
    "ization": "ize",
    "ational": "ate",
    "fulness": "ful",
    "ousness": "ous",
    "iveness": "ive",
    "tional": "tion",
    "biliti": "ble",
    "lessli": "less",
    "entli": "ent",
    "ation": "ate",
    "alism": "al",
    "aliti": "al",
    "ousli": "ous",
    "iviti": "ive",
    "fulli": "ful",
    "ogist": "og",
    "enci": "ence",
    "anci": "ance",
    "abli": "able",
    "izer": "ize",
    "ator": "ate",
    "alli": "al",
    "bli": "ble",
    "ogi": "og",
    "li": "",
}
_STEP_3 = {
    "ational": "ate",
    "tional": "tion",
    "alize": "al",
    "icate": "ic",
    "iciti": "ic",
    "ative": "",
    "ical": "ic",
    "ness": "",
    "ful": "",
}
_STEP_4 = (
    *("ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ism", "ate", "iti", "ous", "ive"),
    *("ize", "ion", "al", "er", "ic"),
)


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """Return the stem of a word in lower case; a word of another script is its own stem.

    >>> [stem(word) for word in ("issues", "creating", "generously", "queries")]
    ['issu', 'creat', 'generous', 'queri']
    """
    if len(word) < _SHORTEST or len(word) > _LONGEST or not (word.isascii() and word.isalpha()):
        return word
    if word in _WHOLE:
        return _WHOLE[word]
    word = _mark_consonant_y(word)
    r1, r2 = _regions(word)
    word = _step_1a(word)
    if word in _AFTER_1A:
        return word
    word = _step_1c(_step_1b(word, r1))
    word = _step_2(word, r1)
    word = _step_3(word, r1, r2)
    return _step_5(_step_4(word, r2), r1, r2).lower()


def _mark_consonant_y(word: str) -> str:
    """Write `Y` for a y that begins the word or follows a vowel."""
    if "y" not in word:
        return word
    letters = list(word)
    for at, letter in enumerate(letters):
        if letter == "y" and (at == 0 or letters[at - 1] in _VOWELS):
            letters[at] = "Y"
    return "".join(letters)


def _regions(word: str) -> tuple[int, int]:
    """Return where R1 and R2 begin: after the first, and the second, consonant that follows a vowel."""
    prefix = next((prefix for prefix in _PREFIXES if word.startswith(prefix)), None)
    if prefix:
        r1 = len(prefix)
    else:
        found = _REGION.search(word)
        r1 = found.end() if found else len(word)
    found = _REGION.search(word, r1)
    return r1, found.end() if found else len(word)


def _has_vowel(part: str) -> bool:
    return not _VOWELS.isdisjoint(part)


def _ends_short(word: str) -> bool:
    """Return whether a word ends in a short syllable."""
    if word.endswith("past"):
        return True
    if len(word) == 2:  # noqa: PLR2004 - a vowel that begins the word, and a consonant
        return word[0] in _VOWELS and word[1] not in _VOWELS
    return (
        len(word) > 2  # noqa: PLR2004 - consonant, vowel, consonant
        and word[-3] not in _VOWELS
        and word[-2] in _VOWELS
        and word[-1] not in _VOWELS
        and word[-1] not in "wxY"
    )


def _step_1a(word: str) -> str:
    if word.endswith("sses"):
        return word[:-2]
    if word.endswith(("ied", "ies")):
        return word[:-2] if len(word) > 4 else word[:-1]  # noqa: PLR2004 - `ties` is `tie`
    if word.endswith(("us", "ss")) or not word.endswith("s"):
        return word
    return word[:-1] if _has_vowel(word[:-2]) else word


def _step_1b(word: str, r1: int) -> str:
    for suffix in ("eedly", "eed"):
        if word.endswith(suffix):
            return f"{word[: -len(suffix)]}ee" if len(word) - len(suffix) >= r1 else word
    for suffix in ("ingly", "edly", "ing", "ed"):
        if word.endswith(suffix):
            return _after_1b(word, word[: -len(suffix)], suffix, r1)
    return word


def _after_1b(word: str, rest: str, suffix: str, r1: int) -> str:
    if not _has_vowel(rest):
        return word
    if suffix == "ing" and len(rest) == 2 and rest[1] == "y" and rest[0] not in _VOWELS:  # noqa: PLR2004 - `dying`
        return f"{rest[0]}ie"
    if rest.endswith(("at", "bl", "iz")):
        return f"{rest}e"
    if rest[-2:] in _DOUBLES:
        return rest if len(rest) == 3 and rest[0] in "aeo" else rest[:-1]  # noqa: PLR2004 - `adding` is `add`
    if len(rest) <= r1 and _ends_short(rest):
        return f"{rest}e"
    return rest


def _step_1c(word: str) -> str:
    if len(word) > 2 and word[-1] in "yY" and word[-2] not in _VOWELS:  # noqa: PLR2004 - `by` stays
        return f"{word[:-1]}i"
    return word


def _step_2(word: str, r1: int) -> str:
    for suffix, ending in _STEP_2.items():
        if word.endswith(suffix):
            rest = word[: -len(suffix)]
            allowed = {"ogi": rest.endswith("l"), "li": rest[-1:] in _LI}.get(suffix, True)
            return rest + ending if len(rest) >= r1 and allowed else word
    return word


def _step_3(word: str, r1: int, r2: int) -> str:
    for suffix, ending in _STEP_3.items():
        if word.endswith(suffix):
            start = len(word) - len(suffix)
            return word[:start] + ending if start >= (r2 if suffix == "ative" else r1) else word
    return word


def _step_4(word: str, r2: int) -> str:
    for suffix in _STEP_4:
        if word.endswith(suffix):
            rest = word[: -len(suffix)]
            allowed = rest[-1:] in ("s", "t") if suffix == "ion" else True
            return rest if len(rest) >= r2 and allowed else word
    return word


def _step_5(word: str, r1: int, r2: int) -> str:
    end = len(word) - 1
    if word.endswith("e"):
        return word[:-1] if end >= r2 or (end >= r1 and not _ends_short(word[:-1])) else word
    return word[:-1] if word.endswith("ll") and end >= r2 else word
