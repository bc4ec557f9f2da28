"""English stems by the Snowball rules ("Porter 2"), so that `issues` finds `issue`."""

from collections.abc import Callable
from functools import lru_cache, wraps
from threading import Lock
from typing import TypeVar

from Stemmer import Stemmer  # type: ignore[import-not-found]  # compiled, without stubs

T = TypeVar("T")
_SHORTEST = 3
_LONGEST = 64
"""A longer word is a hash or an encoding, which has no stem."""
_ENGLISH = Stemmer("english", 0)
_LOCK = Lock()
"""A stemmer has state, and may be used by one thread at a time."""


def cached_by_word(size: int) -> Callable[[Callable[[str], T]], Callable[[str], T]]:
    """Keep what a function returns for so many words; not for long ones, which anybody can make up."""

    def decorate(function: Callable[[str], T]) -> Callable[[str], T]:
        cached = lru_cache(maxsize=size)(function)

        @wraps(function)
        def look_up(word: str) -> T:
            return cached(word) if len(word) <= _LONGEST else function(word)

        return look_up

    return decorate


@cached_by_word(1 << 16)
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
