"""Whether confidence tells a question that the catalogue answers from one that nothing fits."""

from collections.abc import Sequence

from toolcrib.discovery.evaluation.everyday import EVERYDAY
from toolcrib.discovery.evaluation.finder import Finder, Removable
from toolcrib.discovery.evaluation.labels import LabelledQuery, LabelledSet
from toolcrib.discovery.evaluation.measure import Progress, percentile, sample_of
from toolcrib.discovery.evaluation.metrics import auc
from toolcrib.model.record import Record

_KEPT = 5
"""The percentage of answerable questions that a threshold may turn away."""
_LIMIT = 10


class Separation(Record):
    """How well the confidence of the first tool tells answerable questions from others."""

    auc: float
    """How often an answerable question has the higher confidence; 0.5 is chance."""
    answerable: int
    """How many questions a tool answers."""
    unanswerable: int
    """How many questions no tool answers."""
    threshold: float
    """The confidence that 95 % of the answerable questions reach."""
    turned_away: float
    """The share of the others that do not reach it."""


def off_topic_auc(
    finder: Finder,
    labelled: LabelledSet,
    *,
    off_topic: Sequence[str] = EVERYDAY,
    sample: int | None = None,
    seed: int = 7,
    progress: Progress | None = None,
) -> Separation:
    """Return how well a set's own questions are distinguished from ones that it should have no tool for.

    Those are everyday questions where no others are given; the questions of an unrelated set will do too.
    """
    own = [question.query for question in sample_of(labelled.queries, sample, seed)]
    confidences = []
    for done, query in enumerate([*own, *off_topic], 1):
        confidences.append(_top(finder, query))
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
    """Return how well questions are distinguished from the same ones asked with their right tools taken out.

    This is the hard case: what is left are the siblings of the right tool.
    """
    groups: dict[frozenset[str], list[LabelledQuery]] = {}
    questions = sample_of(labelled.queries, sample, seed)
    for question in questions:
        groups.setdefault(frozenset(question.relevant), []).append(question)
    present, absent = [], []
    for relevant, asked in groups.items():
        present += [_top(finder, question.query) for question in asked]
        with finder.without([labelled.catalogue.ids[label] for label in sorted(relevant)]):
            absent += [_top(finder, question.query) for question in asked]
        if progress is not None:
            progress(len(absent), len(questions))
    return separate(present, absent)


def separate(answerable: Sequence[float], unanswerable: Sequence[float]) -> Separation:
    """Return how well two groups of confidences are separated.

    >>> separate([0.9, 0.8, 0.7], [0.1, 0.75]).auc
    0.8333333333333334
    """
    threshold = percentile(sorted(answerable), _KEPT)
    below = sum(confidence < threshold for confidence in unanswerable)
    return Separation(
        auc=auc(answerable, unanswerable),
        answerable=len(answerable),
        unanswerable=len(unanswerable),
        threshold=threshold,
        turned_away=below / len(unanswerable) if unanswerable else 0.0,
    )


def _top(finder: Finder, query: str) -> float:
    """Return the confidence of the first tool found, or 0 where there is none."""
    hits = finder.search(query, limit=_LIMIT)
    return hits[0].confidence if hits else 0.0
