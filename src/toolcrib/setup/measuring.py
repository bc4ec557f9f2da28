"""Measures search on labelled questions, with the searchers of a crib or of a set."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolcrib.crib.view import View
from toolcrib.discovery import Bm25Searcher, Index, Searcher
from toolcrib.discovery.evaluation import (
    EvaluationCatalogue,
    EvaluationReport,
    Finder,
    IndexFinder,
    LabelledSet,
    Separation,
    evaluate,
    finder_of,
    load_queries,
    load_set,
    off_topic_auc,
)
from toolcrib.errors import ToolcribError
from toolcrib.model import Tool

__all__ = ["Measured", "Measurement", "OnProgress", "of_set", "of_view"]

OnProgress = Callable[[str, int, int], None]
"""Called with the name of a searcher, the number of questions done, and the total."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The measured quality of one searcher."""

    searcher: str
    """The name of the searcher."""
    report: EvaluationReport
    """The quality of its results."""
    separation: Separation
    """The separation of answerable from unanswerable questions."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """Some searchers, and questions whose answers are known."""

    finders: Mapping[str, Finder]
    """The searchers, by name."""
    labelled: LabelledSet
    """The tools and the questions."""

    def measure(self, *, sample: int | None = None, progress: OnProgress | None = None) -> Iterator[Measured]:
        """Ask the searchers one after another, and yield the quality of each.

        Args:
            sample: the number of questions to ask; None: all.
            progress: called after each question; may stop the measurement by raising.
        """
        for name, finder in self.finders.items():

            def tell(done: int, total: int, name: str = name) -> None:
                if progress is not None:
                    progress(name, done, total)

            report = evaluate(finder, self.labelled, sample=sample, progress=tell)
            separation = off_topic_auc(finder, self.labelled, sample=sample, progress=tell)
            yield Measured(name, report, separation)


def of_set(folder: str | Path) -> Measurement:
    """Return the measurement of two searchers, BM25 and hybrid, on a set with tools."""
    labelled = load_set(folder, lenient=True)
    tools = labelled.catalogue.tools
    searchers = {"bm25": Bm25Searcher(), "hybrid": None}
    finders = {name: finder_of(_index(tools, searcher)) for name, searcher in searchers.items()}
    return Measurement(finders, labelled)


def of_view(view: View, file: str | Path) -> Measurement:
    """Return the measurement of the searchers of a view on the questions of a file about its tools."""
    known = _Known(view)
    questions = tuple(
        question.replace(relevant=tuple(known.id_of(each) for each in question.relevant))
        for question in load_queries(file, known=known)
    )
    tools = [view.index.get(each.id) for each in view.index.list_all()]
    labelled = LabelledSet(Path(file).stem, EvaluationCatalogue.of(tools), questions)
    index: Any = view.index  # a view has nothing to add tools with, and no finder adds any
    own = IndexFinder(index)
    if view.settings.search.searcher == "bm25":
        return Measurement({"bm25": own}, labelled)
    return Measurement({"bm25": finder_of(_index(tools, Bm25Searcher())), "hybrid": own}, labelled)


def _index(tools: Iterable[Tool], searcher: Searcher | None) -> Index:
    index = Index(searcher)
    index.register_many([(tool, None) for tool in tools])
    return index


class _Known:
    """The tools of a view, as labels may write them: with a version or without."""

    def __init__(self, view: View) -> None:
        self._view = view

    def __contains__(self, label: object) -> bool:
        try:
            self.id_of(str(label))
        except ToolcribError:
            return False
        return True

    def id_of(self, label: str) -> str:
        return str(self._view.index.resolve(label).id)
