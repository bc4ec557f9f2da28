"""The nearest thing to what somebody wrote."""

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

__all__ = ["did_you_mean", "nearest"]

_MAX_LENGTH = 40
_MAX_SCANNED = 2_000
_MAX_COMPARED = 50


def nearest(word: str, options: Iterable[str]) -> str | None:
    """Return the option closest to a word, or None where nothing is close.

    >>> nearest("titel", ["title", "body"])
    'title'
    """
    if len(word) > _MAX_LENGTH:
        return None
    reach = max(1, len(word) // 3)
    alike = (option for option in islice(options, _MAX_SCANNED) if abs(len(option) - len(word)) <= reach)
    return next(iter(get_close_matches(word, list(islice(alike, _MAX_COMPARED)), n=1, cutoff=0.7)), None)


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """Return `; did you mean 'x'?`, or nothing where nothing is close.

    >>> did_you_mean("titel", ["title", "body"])
    "; did you mean 'title'?"
    """
    option = nearest(word, options)
    return f"; did you mean {option!r}?" if option else ""
