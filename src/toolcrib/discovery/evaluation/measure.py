"""Asking a finder every question of a set, and saying how good its answers are and what they cost."""

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import fmean

from toolcrib.discovery.evaluation.calibration import Calibration, calibrate
from toolcrib.discovery.evaluation.finder import Finder
from toolcrib.discovery.evaluation.labels import LabelledQuery, LabelledSet
from toolcrib.discovery.evaluation.metrics import hit_at_1, ndcg_at, recall_at, reciprocal_rank
from toolcrib.model.record import Record

__all__ = ["EvaluationReport", "Progress", "QueryResult", "ask", "evaluate", "percentile", "sample_of"]

Progress = Callable[[int, int], None]
"""Told how many are done, of how many."""
_FEW = 5


@dataclass(frozen=True, slots=True)
class QueryResult:
    """What a finder said to one question."""

    question: LabelledQuery
    ranked: tuple[str, ...]
    """Ids as the labels have them, best first."""
    confidence: float
    """That of the first, or 0 where nothing was found."""
    cpu_ms: float

    @property
    def is_right(self) -> bool:
        """Whether the first tool answers the question."""
        return bool(hit_at_1(self.ranked, self.question.relevant))


class EvaluationReport(Record):
    """How well a finder does on a labelled set; shares are means over its questions."""

    name: str
    tools: int
    queries: int
    k: int
    ndcg: float
    """Of the first k."""
    recall: float
    """Of the first k."""
    recall_at_5: float
    mrr: float
    hit1: float
    """How often the first tool is right."""
    found: float
    """How often there was any answer at all."""
    cpu_ms_p50: float
    """CPU time of one search, in the whole process, whatever the number of threads."""
    cpu_ms_p95: float
    calibration: Calibration


def evaluate(
    finder: Finder,
    labelled: LabelledSet,
    *,
    k: int = 10,
    sample: int | None = None,
    seed: int = 7,
    progress: Progress | None = None,
) -> EvaluationReport:
    """Return how well a finder, which holds the tools of a set, answers its questions.

    With `sample`, only so many are asked: the same ones for the same seed.
    """
    questions = sample_of(labelled.queries, sample, seed)
    answers = list(ask(finder, labelled, questions, limit=max(k, _FEW), progress=progress))
    times = sorted(answer.cpu_ms for answer in answers)
    return EvaluationReport(
        name=labelled.name,
        tools=len(labelled.catalogue.tools),
        queries=len(answers),
        k=k,
        ndcg=_mean(ndcg_at(k, answer.ranked, answer.question.relevant) for answer in answers),
        recall=_mean(recall_at(k, answer.ranked, answer.question.relevant) for answer in answers),
        recall_at_5=_mean(recall_at(_FEW, answer.ranked, answer.question.relevant) for answer in answers),
        mrr=_mean(reciprocal_rank(answer.ranked[:k], answer.question.relevant) for answer in answers),
        hit1=_mean(hit_at_1(answer.ranked, answer.question.relevant) for answer in answers),
        found=_mean(float(bool(answer.ranked)) for answer in answers),
        cpu_ms_p50=percentile(times, 50),
        cpu_ms_p95=percentile(times, 95),
        calibration=calibrate((answer.confidence, answer.is_right) for answer in answers),
    )


def ask(
    finder: Finder,
    labelled: LabelledSet,
    questions: Sequence[LabelledQuery],
    *,
    limit: int = 10,
    progress: Progress | None = None,
) -> Iterator[QueryResult]:
    """Yield what a finder says to each question, under the labels' own ids."""
    label_of = labelled.catalogue.labels
    for done, question in enumerate(questions, 1):
        start = time.process_time()
        hits = finder.search(question.query, limit=limit)
        spent = time.process_time() - start
        ranked = tuple(label_of.get(hit.id, hit.id) for hit in hits)
        yield QueryResult(question, ranked, hits[0].confidence if hits else 0.0, spent * 1e3)
        if progress is not None:
            progress(done, len(questions))


def sample_of(questions: Sequence[LabelledQuery], sample: int | None, seed: int) -> Sequence[LabelledQuery]:
    """Return so many questions, chosen by the seed, or all of them where there are not more."""
    if sample is None or sample >= len(questions):
        return questions
    return random.Random(seed).sample(questions, sample)  # noqa: S311 - a sample is no secret


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return the value that so many percent of sorted values do not exceed; 0 where there are none.

    >>> percentile([1, 2, 3, 4], 50), percentile([1, 2, 3, 4], 95)
    (2, 4)
    """
    if not ordered:
        return 0.0
    return ordered[max(ceil(len(ordered) * percent / 100) - 1, 0)]


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return fmean(listed) if listed else 0.0
