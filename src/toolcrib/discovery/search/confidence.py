"""How far a result can be trusted to fit, from what was measured about it and not from how it was ranked.

The weights are those of logistic regressions on labelled questions, on as many that no tool answers, and on
some whose tools were taken out; `docs/search-measurements.md` says how well they tell them apart.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from math import exp, log, log1p

from toolcrib.discovery.records import Page, Result
from toolcrib.model.record import Record
from toolcrib.model.suggest import nearest

LOW_CONFIDENCE = 0.05
"""Below this, of the best result, nothing fits.

Words and the built-in table keep 95 % of the right first answers that were measured, and turn away 55 % of
small talk, with MiniLM 96 and 65 %; `docs/model-card.md` has the measurements. Words alone keep an answer to
70 to 100 % of the questions, and turn away 67 to 91 % of those that no tool answers.
"""
JUDGED = 5
"""How many of the first tools are ordered by their confidence too, and have theirs averaged where it differs
from the order all the same."""
_STEEPEST = 60.0
"""Beyond this a probability is 0 or 1 in all digits that matter."""
_MAX_WORDS = 20
_BY_TOPIC = 0.3
"""The confidence in a tool of which nothing is known but that a topic of it is all of the question."""
_DEPRECATED_ODDS = 0.5
"""What the odds of a deprecated tool are multiplied with."""


def by_words(*, matched: float, coverage: float) -> float:
    """Return the confidence in a tool found by words.

    `matched` is how many of the rarest words its score is worth, `coverage` the share of the question that it
    says.

    >>> by_words(matched=0, coverage=0) < 0.01 < 0.7 < by_words(matched=4, coverage=1)
    True
    """
    return _logistic(4.85 * log1p(matched) + 2.51 * min(coverage, 1.5) - 8.18)


def by_meaning(exponent: float) -> float:
    """Return the confidence in a tool whose cosine gives these logarithmic odds.

    >>> by_meaning(0)
    0.5
    """
    return _logistic(exponent)


def by_words_and_meaning(*, matched: float, coverage: float, meaning: float) -> float:
    """Return the confidence in a tool of which both are known; `meaning` is what `by_meaning` takes."""
    return _logistic(3.5 * log1p(matched) + 1.63 * min(coverage, 1.5) + 0.318 * meaning - 5.42)


def adjust_confidence(confidence: float, *, share: float, deprecated: bool) -> float:
    """Return the confidence in a tool whose topics a share of the question names, or that is deprecated.

    The tool may fit by its texts or by its topics; the square keeps a word in passing from counting much.

    >>> round(adjust_confidence(0.01, share=1.0, deprecated=False), 3)
    0.307
    """
    raised = confidence + _BY_TOPIC * share**2 * (1 - confidence)
    if not deprecated:
        return raised
    return raised * _DEPRECATED_ODDS / (raised * _DEPRECATED_ODDS + 1 - raised)


def order_confidences(confidences: Sequence[float]) -> list[float]:
    """Return confidences of ranked tools such that none is higher than the one before it.

    Among the first `JUDGED`, those that contradict the order share the mean of their log-odds, which is the
    nearest sequence in order (isotonic regression); after these each is at most the one before.

    >>> [round(one, 2) for one in order_confidences([0.2, 0.4, 0.1, 0.1, 0.1, 0.3])]
    [0.29, 0.29, 0.1, 0.1, 0.1, 0.1]
    """
    blocks: list[tuple[float, list[float]]] = []
    for confidence in confidences[:JUDGED]:
        mean, members = _log_odds(confidence), [confidence]
        while blocks and blocks[-1][0] < mean:
            members = [*blocks.pop()[1], *members]
            mean = sum(map(_log_odds, members)) / len(members)
        blocks.append((mean, members))
    pooled = (members if len(members) == 1 else [_logistic(mean)] * len(members) for mean, members in blocks)
    return list(accumulate(chain(*pooled, confidences[JUDGED:]), min))


def _log_odds(confidence: float) -> float:
    if not 0 < confidence < 1:
        return _STEEPEST if confidence else -_STEEPEST
    return min(max(log(confidence) - log1p(-confidence), -_STEEPEST), _STEEPEST)


def _logistic(exponent: float) -> float:
    return 1 / (1 + exp(min(max(-exponent, -_STEEPEST), _STEEPEST)))


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
    NoMatch(guesses=False, near=('mail',), others=('git',))
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
