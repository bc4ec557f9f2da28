"""Hints for a question that no tool clearly fits: what was found anyway, and where else to look."""

from collections.abc import Iterable

from toolcrib.discovery.records import Page, Result
from toolcrib.discovery.search.confidence import LOW_CONFIDENCE
from toolcrib.model.record import Record
from toolcrib.model.suggest import nearest

_MAX_WORDS = 20
"""The number of words of a question that are compared with names."""


class NoMatch(Record):
    """Hints for a question that no tool clearly fits."""

    guesses: bool
    """Whether the search found anything at all."""
    near: tuple[str, ...] = ()
    """The namespaces of the results; without results, those that a word of the question resembles."""
    others: tuple[str, ...] = ()
    """The other namespaces."""


def explain_no_match(page: Page[Result], query: str, known: Iterable[str] = ()) -> NoMatch | None:
    """Return hints for a question that no tool fits; None if the first page has a fitting tool.

    Also None if the question is blank. `known` are the namespaces of the catalogue, the most important first.

    >>> explain_no_match(Page(items=(), total=0), "send a male", ["git", "mail"])
    NoMatch(guesses=False, near=('mail',), others=('git',))
    """
    best = max((result.confidence for result in page.items), default=0.0)
    if not query.strip() or best >= LOW_CONFIDENCE:
        return None
    names = tuple(filter(None, known))
    found = tuple(dict.fromkeys(filter(None, (result.summary.namespace for result in page.items))))
    near = found if page.items else similar_names(query, names)
    return NoMatch(
        guesses=bool(page.items), near=near, others=tuple(each for each in names if each not in near)
    )


def similar_names(text: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names that words of a text resemble, in the order of the words.

    >>> similar_names("githb issues", ["mail", "github"])
    ('github',)
    """
    options = list(names)
    found = (nearest(word.lower(), options) for word in text.split()[:_MAX_WORDS])
    return tuple(dict.fromkeys(filter(None, found)))
