"""Suggestions for mistyped names: the nearest of the known ones."""

from collections.abc import Collection, Iterable
from difflib import get_close_matches
from itertools import islice

_MAX_LENGTH = 40
_MAX_SCANNED = 2_000
_MAX_COMPARED = 50
_MAX_LISTED = 20


def nearest(word: str, options: Iterable[str]) -> str | None:
    """Return the option closest to a word, or None where nothing is close.

    It takes milliseconds: who looks through an input that may have a hundred thousand wrong names stops at
    `MAX_PROBLEMS`, since an error shows no more.

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


def there_are(options: Collection[str]) -> str:
    """Return `; there are a, b`, and of very many how many more; nothing where there is none.

    >>> there_are(["title"]), there_are(["a", "b"]), there_are([])
    ('; there is title', '; there are a, b', '')
    """
    if not options:
        return ""
    more = f" and {len(options) - _MAX_LISTED} more" if len(options) > _MAX_LISTED else ""
    return f"; there {'is' if len(options) == 1 else 'are'} {', '.join(islice(options, _MAX_LISTED))}{more}"


def choose(word: str, options: Collection[str]) -> str:
    """Return what somebody could have written: the option that is close, or else all of them.

    >>> choose("titel", ["title", "body"]), choose("zebra", ["title", "body"])
    ("; did you mean 'title'?", '; there are title, body')
    """
    return did_you_mean(word, options) or there_are(options)
