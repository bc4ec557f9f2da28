"""Asking a finder every question of a set, and saying how good its answers are and what they cost."""

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
"""Called with how many are done, of how many."""
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
    """Ids as the labels have them, best first."""
    confidence: float
    """That of the first, or 0 where nothing was found."""
    cpu_ms: float
    """CPU time of the search in the whole process, in milliseconds."""

    @property
    def is_right(self) -> bool:
        """Whether the first tool answers the question."""
        return bool(hit_at_1(self.ranked, self.question.relevant))


class EvaluationReport(Record):
    """How well a finder does on a labelled set; shares are means over its questions."""

    name: str
    """The name of the labelled set."""
    tools: int
    """How many tools were searched."""
    queries: int
    """How many questions were asked."""
    k: int
    """How many results of a search are looked at."""
    ndcg: float
    """Of the first k."""
    recall: float
    """Of the first k."""
    recall_at_5: float
    """The share of the right tools among the first five."""
    mrr: float
    """The mean of one over the place of the first right tool."""
    hit1: float
    """How often the first tool is right."""
    found: float
    """How often there was any answer at all."""
    cpu_ms_p50: float
    """CPU time of one search, in the whole process, whatever the number of threads."""
    cpu_ms_p95: float
    """The same at the 95th percentile."""
    calibration: Calibration
    """How far the confidence can be believed."""


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


class Cost(Record):
    """What building something took."""

    cpu_seconds: float
    """In the whole process, whatever the number of threads."""
    rss_bytes: int | None = None
    """By how much the memory of the process grew, or None where the system does not say."""


def cost_of(build: Callable[[], Made], *, status: Path = _STATUS) -> tuple[Made, Cost]:
    """Build something, and return it with what that cost.

    Memory is reported by the operating system, so measure in a process of its own: what was freed before is
    used again, and does not show.
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
    """Return how much memory this process holds, where the system keeps a status file that says so."""
    try:
        lines = status.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return None
    sizes = (line.split()[1] for line in lines if line.startswith(_LABEL))
    return next((int(size) * 1024 for size in sizes), None)
