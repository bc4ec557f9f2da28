"""Evaluation of a finder on a labelled set: ranking metrics, calibration and CPU time."""

import gc
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from statistics import fmean
from typing import TypeVar

from toolcrib.discovery.evaluation.finder import Finder
from toolcrib.discovery.evaluation.labels import LabelledQuery, LabelledSet
from toolcrib.discovery.evaluation.metrics import (
    Calibration,
    calibrate,
    hit_at_1,
    ndcg_at,
    recall_at,
    reciprocal_rank,
)
from toolcrib.model.record import Record

Progress = Callable[[int, int], None]
"""Called with the number of finished questions and the total."""
_FEW = 5
Made = TypeVar("Made")
_STATUS = Path("/proc/self/status")
_LABEL = "VmRSS:"


@dataclass(frozen=True, slots=True)
class QueryResult:
    """A finder's answer to one question."""

    question: LabelledQuery
    """The question."""
    ranked: tuple[str, ...]
    """Ids as in the labels, best first."""
    confidence: float
    """The confidence of the first hit; 0 if nothing was found."""
    cpu_ms: float
    """CPU time of the search in the whole process, in milliseconds."""

    @property
    def is_right(self) -> bool:
        """Whether the first tool answers the question."""
        return bool(hit_at_1(self.ranked, self.question.relevant))


class EvaluationReport(Record):
    """Results of a finder on a labelled set; the metrics are means over its questions."""

    name: str
    """The name of the labelled set."""
    tools: int
    """The number of tools."""
    queries: int
    """The number of questions."""
    k: int
    """The number of results that count."""
    ndcg: float
    """NDCG of the first k."""
    recall: float
    """Recall among the first k."""
    recall_at_5: float
    """The share of the right tools that are among the first five."""
    mrr: float
    """Mean reciprocal rank of the first right tool."""
    hit1: float
    """The share of questions whose first tool is right."""
    found: float
    """The share of questions with any result."""
    cpu_ms_p50: float
    """The median CPU time of a search in milliseconds, over all threads of the process."""
    cpu_ms_p95: float
    """The 95th percentile of the CPU time of a search."""
    calibration: Calibration
    """The calibration of the confidences."""


def evaluate(
    finder: Finder,
    labelled: LabelledSet,
    *,
    k: int = 10,
    sample: int | None = None,
    seed: int = 7,
    progress: Progress | None = None,
) -> EvaluationReport:
    """Evaluate a finder that contains the tools of a set on its questions.

    With `sample`, only this many questions are asked: the same ones for the same seed.
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
    """Ask a finder each question, and yield the results with ids as in the labels."""
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
    """Return a random sample of questions, or all of them if there are not more."""
    if sample is None or sample >= len(questions):
        return questions
    return random.Random(seed).sample(questions, sample)  # noqa: S311 - a sample is no secret


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return a percentile of sorted values (nearest rank); 0 if there are none.

    >>> percentile([1, 2, 3, 4], 50), percentile([1, 2, 3, 4], 95)
    (2, 4)
    """
    if not ordered:
        return 0.0
    return ordered[max(ceil(len(ordered) * percent / 100) - 1, 0)]


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return fmean(listed) if listed else 0.0


class Cost(Record):
    """The cost of building an object."""

    cpu_seconds: float
    """CPU time over all threads of the process."""
    rss_bytes: int | None = None
    """The growth of the process's resident memory; None if the system does not report it."""


def cost_of(build: Callable[[], Made], *, status: Path = _STATUS) -> tuple[Made, Cost]:
    """Build an object, and return it with the cost.

    Memory is measured as the operating system reports it, so measure in a separate process: memory that was
    freed earlier is reused, and does not count.
    """
    gc.collect()
    before = resident_bytes(status)
    start = time.process_time()
    made = build()
    spent = time.process_time() - start
    gc.collect()
    after = resident_bytes(status)
    grown = None if before is None or after is None else after - before
    return made, Cost(cpu_seconds=spent, rss_bytes=grown)


def resident_bytes(status: Path = _STATUS) -> int | None:
    """Return the resident memory of this process; None if the system has no status file."""
    try:
        lines = status.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return None
    sizes = (line.split()[1] for line in lines if line.startswith(_LABEL))
    return next((int(size) * 1024 for size in sizes), None)
