"""Confidence of search results: the estimated probability that a tool fits a question.

Scores order the results of one search, but say nothing about whether the best one is any good: the best of a
hundred wrong tools has a high score too. So a confidence is computed from signals that mean the same in every
catalogue: how many rare words a tool shares with the question, what share of the question these are, and the
cosine. The weights below come from logistic regressions on labelled questions, on as many questions that no
tool answers, and on some whose tools were removed; `docs/search-measurements.md` has the error rates.
An embedder that brings a trained classifier (`relevance`) replaces these formulas.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from math import exp, log, log1p

from toolcrib.discovery.records import Page, Result
from toolcrib.model.record import Record
from toolcrib.model.suggest import nearest

LOW_CONFIDENCE = 0.05
"""If the best result of a search has less confidence than this, no tool fits.

At this limit, words with the built-in table keep 95 % of the right first answers in the measurements and
reject 55 % of small talk; with MiniLM it is 96 and 65 % (`docs/model-card.md`). Words alone keep an answer to
70 to 100 % of the questions, and reject 67 to 91 % of those that no tool answers.
"""
RERANKED = 5
"""The number of first results that are reordered by confidence and whose confidences are pooled."""
_MAX_LOG_ODDS = 60.0
"""Log-odds are limited to this, where a probability is 0 or 1 to double precision and `exp` is safe."""
_MAX_WORDS = 20
_TOPIC_CONFIDENCE = 0.3
"""The confidence of a tool without other evidence, if the question consists of one of its topics."""
_DEPRECATED_ODDS_FACTOR = 0.5


def confidence_by_words(*, matched: float, coverage: float) -> float:
    """Return the confidence of a tool found by words.

    `matched` is its score in units of the rarest word, `coverage` its score as a share of the highest
    possible one.

    >>> confidence_by_words(matched=0, coverage=0) < 0.01 < 0.7 < confidence_by_words(matched=4, coverage=1)
    True
    """
    return _logistic(4.85 * log1p(matched) + 2.51 * min(coverage, 1.5) - 8.18)


def confidence_by_meaning(exponent: float) -> float:
    """Return the confidence of a tool from the log-odds that its cosine gives.

    >>> confidence_by_meaning(0)
    0.5
    """
    return _logistic(exponent)


def confidence_by_both(*, matched: float, coverage: float, meaning: float) -> float:
    """Return the confidence of a tool from its words and its meaning, the log-odds that its cosine gives."""
    return _logistic(3.5 * log1p(matched) + 1.63 * min(coverage, 1.5) + 0.318 * meaning - 5.42)


def adjust_confidence(confidence: float, *, share: float, deprecated: bool) -> float:
    """Return the confidence of a tool, raised for named topics and lowered if the tool is deprecated.

    `share` is the share of the question that names topics of the tool. The tool may fit by its texts or by
    its topics, so the two probabilities are combined; the square keeps a word in passing from counting much.

    >>> round(adjust_confidence(0.01, share=1.0, deprecated=False), 3)
    0.307
    """
    raised = confidence + _TOPIC_CONFIDENCE * share**2 * (1 - confidence)
    if not deprecated:
        return raised
    return raised * _DEPRECATED_ODDS_FACTOR / (raised * _DEPRECATED_ODDS_FACTOR + 1 - raised)


def order_confidences(confidences: Sequence[float]) -> list[float]:
    """Return confidences of ranked tools, made non-increasing.

    Among the first `RERANKED`, those that contradict the order are replaced by the mean of their log-odds,
    which gives the closest ordered sequence (isotonic regression by pooling adjacent violators). After these,
    each is limited to the one before.

    >>> [round(one, 2) for one in order_confidences([0.2, 0.4, 0.1, 0.1, 0.1, 0.3])]
    [0.29, 0.29, 0.1, 0.1, 0.1, 0.1]
    """
    blocks: list[tuple[float, list[float]]] = []
    for confidence in confidences[:RERANKED]:
        mean, members = _log_odds(confidence), [confidence]
        while blocks and blocks[-1][0] < mean:
            members = [*blocks.pop()[1], *members]
            mean = sum(map(_log_odds, members)) / len(members)
        blocks.append((mean, members))
    pooled = (members if len(members) == 1 else [_logistic(mean)] * len(members) for mean, members in blocks)
    return list(accumulate(chain(*pooled, confidences[RERANKED:]), min))


def _log_odds(confidence: float) -> float:
    if not 0 < confidence < 1:
        return _MAX_LOG_ODDS if confidence else -_MAX_LOG_ODDS
    return min(max(log(confidence) - log1p(-confidence), -_MAX_LOG_ODDS), _MAX_LOG_ODDS)


def _logistic(exponent: float) -> float:
    return 1 / (1 + exp(min(max(-exponent, -_MAX_LOG_ODDS), _MAX_LOG_ODDS)))


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

    None too if the question is blank. `known` are the namespaces of the catalogue, the most important first.

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
