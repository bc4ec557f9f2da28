"""Whether anything that a search found fits the question, and where else to look."""

from collections.abc import Iterable

from toolcrib.discovery.records import Page, Result
from toolcrib.discovery.search.confidence import LOW_CONFIDENCE
from toolcrib.model.record import Record
from toolcrib.model.suggest import nearest

__all__ = ["NoMatch", "alike", "doubt"]

_MAX_WORDS = 20


class NoMatch(Record):
    """What is known of a question that nothing clearly fits."""

    guesses: bool
    """Whether anything was found at all."""
    near: tuple[str, ...] = ()
    """The namespaces of what was found; where nothing was, those that a word of the question resembles."""
    others: tuple[str, ...] = ()
    """The other namespaces there are."""


def doubt(page: Page[Result], query: str, known: Iterable[str] = ()) -> NoMatch | None:
    """Return what to tell of the first page of an answer; None where something fits, or nothing was asked.

    `known` are the namespaces there are, those that are worth a look first.

    >>> doubt(Page(items=(), total=0), "send a male", ["git", "mail"])
    Doubt(guesses=False, near=('mail',), others=('git',))
    """
    best = max((result.confidence for result in page.items), default=0.0)
    if not query.strip() or best >= LOW_CONFIDENCE:
        return None
    names = tuple(filter(None, known))
    found = tuple(dict.fromkeys(filter(None, (result.summary.namespace for result in page.items))))
    near = found if page.items else alike(query, names)
    return NoMatch(
        guesses=bool(page.items), near=near, others=tuple(each for each in names if each not in near)
    )


def alike(text: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names that a word of a text resembles, in the order of the words.

    >>> alike("githb issues", ["mail", "github"])
    ('github',)
    """
    options = list(names)
    found = (nearest(word.lower(), options) for word in text.split()[:_MAX_WORDS])
    return tuple(dict.fromkeys(filter(None, found)))
