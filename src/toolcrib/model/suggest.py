"""Suggestions for mistyped names."""

from collections.abc import Collection, Iterable
from difflib import get_close_matches
from itertools import islice

_MAX_LENGTH = 40
_MAX_SCANNED = 2_000
_MAX_COMPARED = 50
_MAX_LISTED = 20


def nearest(word: str, options: Iterable[str]) -> str | None:
    """Return the option most similar to a word; None if none is similar.

    A call takes milliseconds. Code that checks an input with very many wrong names must stop at
    `MAX_PROBLEMS`, since an error shows no more.

    >>> nearest("titel", ["title", "body"])
    'title'
    """
    if len(word) > _MAX_LENGTH:
        return None
    reach = max(1, len(word) // 3)
    # Only options of similar length are compared, because `difflib` is slow.
    similar = (option for option in islice(options, _MAX_SCANNED) if abs(len(option) - len(word)) <= reach)
    return next(iter(get_close_matches(word, list(islice(similar, _MAX_COMPARED)), n=1, cutoff=0.7)), None)


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """Return `; did you mean 'x'?`; empty if no option is similar.

    >>> did_you_mean("titel", ["title", "body"])
    "; did you mean 'title'?"
    """
    option = nearest(word, options)
    return f"; did you mean {option!r}?" if option else ""


def there_are(options: Collection[str]) -> str:
    """Return `; there are a, b`, with the number of further ones if there are many; empty if there are none.

    >>> there_are(["title"]), there_are(["a", "b"]), there_are([])
    ('; there is title', '; there are a, b', '')
    """
    if not options:
        return ""
    more = f" and {len(options) - _MAX_LISTED} more" if len(options) > _MAX_LISTED else ""
    return f"; there {'is' if len(options) == 1 else 'are'} {', '.join(islice(options, _MAX_LISTED))}{more}"


def choose(word: str, options: Collection[str]) -> str:
    """Return a hint with the most similar option, or else with all options.

    >>> choose("titel", ["title", "body"]), choose("zebra", ["title", "body"])
    ("; did you mean 'title'?", '; there are title, body')
    """
    return did_you_mean(word, options) or there_are(options)
