"""Evaluation of abstention: does confidence distinguish answerable questions from unanswerable ones?"""

from collections.abc import Sequence

from toolcrib.discovery.evaluation.everyday import EVERYDAY
from toolcrib.discovery.evaluation.finder import Finder, Removable
from toolcrib.discovery.evaluation.labels import LabelledQuery, LabelledSet
from toolcrib.discovery.evaluation.measure import Progress, percentile, sample_of
from toolcrib.discovery.evaluation.metrics import auc
from toolcrib.model.record import Record

_LOST_PERCENT = 5
"""The percentage of answerable questions that are below the threshold."""
_LIMIT = 10


class Separation(Record):
    """Separation of answerable and unanswerable questions by the confidence of the first tool."""

    auc: float
    """The probability that an answerable question has the higher confidence; 0.5 is chance."""
    answerable: int
    """The number of questions that a tool answers."""
    unanswerable: int
    """The number of questions that no tool answers."""
    threshold: float
    """The confidence that 95% of the answerable questions reach."""
    turned_away: float
    """The share of the unanswerable questions that do not reach it."""


def off_topic_auc(
    finder: Finder,
    labelled: LabelledSet,
    *,
    off_topic: Sequence[str] = EVERYDAY,
    sample: int | None = None,
    seed: int = 7,
    progress: Progress | None = None,
) -> Separation:
    """Measure the separation of a set's own questions from off-topic ones.

    By default these are everyday questions; the questions of an unrelated set can be used too.
    """
    own = [question.query for question in sample_of(labelled.queries, sample, seed)]
    confidences = []
    for done, query in enumerate([*own, *off_topic], 1):
        confidences.append(_top_confidence(finder, query))
        if progress is not None:
            progress(done, len(own) + len(off_topic))
    return separate(confidences[: len(own)], confidences[len(own) :])


def missing_auc(
    finder: Removable,
    labelled: LabelledSet,
    *,
    sample: int | None = None,
    seed: int = 7,
    progress: Progress | None = None,
) -> Separation:
    """Measure the separation of questions from the same questions after removing their right tools.

    This is the hard case, because tools similar to the right one remain.
    """
    groups: dict[frozenset[str], list[LabelledQuery]] = {}
    questions = sample_of(labelled.queries, sample, seed)
    for question in questions:
        groups.setdefault(frozenset(question.relevant), []).append(question)
    present, absent = [], []
    for relevant, asked in groups.items():
        present += [_top_confidence(finder, question.query) for question in asked]
        with finder.without([labelled.catalogue.ids[label] for label in sorted(relevant)]):
            absent += [_top_confidence(finder, question.query) for question in asked]
        if progress is not None:
            progress(len(absent), len(questions))
    return separate(present, absent)


def separate(answerable: Sequence[float], unanswerable: Sequence[float]) -> Separation:
    """Measure the separation of two groups of confidences.

    >>> separate([0.9, 0.8, 0.7], [0.1, 0.75]).auc
    0.8333333333333334
    """
    threshold = percentile(sorted(answerable), _LOST_PERCENT)
    below = sum(confidence < threshold for confidence in unanswerable)
    return Separation(
        auc=auc(answerable, unanswerable),
        answerable=len(answerable),
        unanswerable=len(unanswerable),
        threshold=threshold,
        turned_away=below / len(unanswerable) if unanswerable else 0.0,
    )


def _top_confidence(finder: Finder, query: str) -> float:
    """Return the confidence of the first hit; 0 if there is none."""
    hits = finder.search(query, limit=_LIMIT)
    return hits[0].confidence if hits else 0.0
