"""The nearest thing to what somebody wrote."""

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["did_you_mean", "nearest"]

_MAX_LENGTH = 64
_MAX_OPTIONS = 2_000


def nearest(word: str, options: Iterable[str]) -> str | None:
    """Return the option closest to a word, or None where nothing is close.

    >>> nearest("titel", ["title", "body"])
    'title'
    """
    if len(word) > _MAX_LENGTH:
        return None
    candidates = [option for option, _ in zip(options, range(_MAX_OPTIONS), strict=False)]
    short = [option for option in candidates if len(option) <= _MAX_LENGTH]
    return next(iter(get_close_matches(word, short, n=1, cutoff=0.7)), None)


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """Return `; did you mean 'x'?`, or nothing where nothing is close.

    >>> did_you_mean("titel", ["title", "body"])
    "; did you mean 'title'?"
    """
    option = nearest(word, options)
    return f"; did you mean {option!r}?" if option else ""
