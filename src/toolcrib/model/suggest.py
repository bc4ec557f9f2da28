"""Suggestions for mistyped names: the nearest of the known ones."""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice

_MAX_LENGTH = 40
_MAX_SCANNED = 2_000
_MAX_COMPARED = 50
_MAX_LISTED = 20
_MAX_SEARCHED = 32
"""How many names of one input get a suggestion: an error shows fewer problems."""


@dataclass(slots=True)
class _Budget:
    """How many more suggestions one input may get."""

    left: int = _MAX_SEARCHED


# A ContextVar, because the names of one input are checked far below where it comes in, some by validators of
# pydantic and of JSON Schema, which leave no argument for the budget.
_BUDGET: ContextVar[_Budget | None] = ContextVar("suggestion_budget", default=None)


@contextmanager
def few_suggestions() -> Iterator[None]:
    """Limit how many suggestions the block makes for one input.

    A suggestion takes milliseconds, and an input may have a hundred thousand unknown names. A block inside
    another shares the budget of the outer one.
    """
    if _BUDGET.get() is not None:
        yield
        return
    token = _BUDGET.set(_Budget())
    try:
        yield
    finally:
        _BUDGET.reset(token)


def take_suggestion() -> bool:
    """Take one suggestion from the budget of the present input; False if none is left."""
    budget = _BUDGET.get()
    if budget is None:
        return True
    if not budget.left:
        return False
    budget.left -= 1
    return True


def nearest(word: str, options: Iterable[str]) -> str | None:
    """Return the option closest to a word, or None where nothing is close.

    >>> nearest("titel", ["title", "body"])
    'title'
    """
    if len(word) > _MAX_LENGTH or not take_suggestion():
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
