"""English stemming by the Snowball algorithm ("Porter 2"), so that `issues` finds `issue`."""

from functools import lru_cache
from threading import Lock

from Stemmer import Stemmer  # type: ignore[import-not-found]  # compiled, without stubs

_SHORTEST = 3
_LONGEST = 64
"""Longer words are hashes or encoded data, which are not stemmed."""
_ENGLISH = Stemmer("english", 0)
_LOCK = Lock()
"""PyStemmer's objects are not thread-safe."""


@lru_cache(maxsize=1 << 16)  # `words` bounds the length of a word
def stem(word: str) -> str:
    """Return the stem of a word in lower case; a word of another script is its own stem.

    >>> [stem(word) for word in ("issues", "creating", "generously", "queries")]
    ['issu', 'creat', 'generous', 'queri']
    """
    if len(word) < _SHORTEST or len(word) > _LONGEST or not (word.isascii() and word.isalpha()):
        return word
    with _LOCK:
        stemmed: str = _ENGLISH.stemWord(word)
    return stemmed
