"""The verb that measures search: `eval`."""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolcrib.cli.screen import note, progress, show_json, show_table
from toolcrib.cli.state import State, shared, wait_for

if TYPE_CHECKING:
    from toolcrib.crib import View
    from toolcrib.discovery.evaluation import Finder, LabelledSet, Report, Separation

__all__ = ["eval_"]

_LIMIT = 1000
_HEADERS = ("searcher", "questions", "tools", "hit@1", "recall@5", "mrr", "ndcg@10", "turned away", "ms")
Measured = tuple[str, "Report", "Separation"]


@click.command("eval")
@click.argument("file", metavar="FILE", type=click.Path(exists=True))
@click.option("--sample", type=click.IntRange(1), metavar="N", help="Ask only so many of the questions.")
@shared
@click.pass_obj
def eval_(state: State, file: str, sample: int | None) -> None:
    r"""Measure search on questions whose answers are known.

    FILE has a JSON object to a line: {"query": ..., "relevant": [tool ids]}. The tools are those of the
    catalogue; or FILE is a folder with queries.jsonl and a tools.jsonl of its own. Each searcher that there
    is, is measured: how often the first tool is right, how much of what is right is among the first five, the
    mean reciprocal rank, NDCG of the first ten, and how many everyday questions that no tool should answer
    are turned away at the confidence which 95 % of these questions reach.

    Example: toolcrib eval questions.jsonl --sample 200
    """
    is_set = Path(file).is_dir()

    async def work() -> list[Measured]:
        from anyio import to_thread  # noqa: PLC0415 - not needed to ask for help

        if is_set:
            finders, labelled = _set_of(file)
            return await to_thread.run_sync(partial(_measure, finders, labelled, sample))
        async with state.view() as view:
            await view.tools(limit=1)  # waits for the servers that nothing is known of
            finders, labelled = _view_of(view, file)
            return await to_thread.run_sync(partial(_measure, finders, labelled, sample))

    _show(state, wait_for(work))


def _set_of(folder: str) -> "tuple[dict[str, Finder], LabelledSet]":
    """Return a set in a folder, and what finds its tools."""
    from toolcrib.discovery import Index  # noqa: PLC0415 - as above
    from toolcrib.discovery.evaluation import finder_of, load_set  # noqa: PLC0415

    labelled = load_set(folder, lenient=True)
    index = Index()
    index.register_many([(tool, None) for tool in labelled.catalogue.tools])
    return {"bm25": finder_of(index)}, labelled


def _view_of(view: "View", file: str) -> "tuple[dict[str, Finder], LabelledSet]":
    """Return the questions of a file about the tools of a view, and what finds them."""
    from toolcrib.discovery import Index  # noqa: PLC0415 - as above
    from toolcrib.discovery.evaluation import (  # noqa: PLC0415
        Catalogue,
        IndexFinder,
        LabelledSet,
        finder_of,
        load_queries,
    )

    known = _Known(view)
    questions = [
        question.replace(relevant=tuple(known.id_of(each) for each in question.relevant))
        for question in load_queries(file, known=known)
    ]
    tools = [view.index.get(each) for each in _ids(view)]
    labelled = LabelledSet(Path(file).stem, Catalogue.of(tools), tuple(questions))
    index: Any = view.index
    finders: dict[str, Finder] = {"bm25": IndexFinder(index)}
    if view.settings.search.model is not None and view.settings.search.searcher != "bm25":
        words = Index()
        words.register_many([(tool, None) for tool in tools])
        finders = {"bm25": finder_of(words), "hybrid": IndexFinder(index)}
    return finders, labelled


class _Known:
    """The tools of a view, as labels may write them: with a version or without."""

    def __init__(self, view: "View") -> None:
        self._view = view

    def __contains__(self, label: object) -> bool:
        from toolcrib.errors import ToolcribError  # noqa: PLC0415 - as above

        try:
            self.id_of(str(label))
        except ToolcribError:
            return False
        return True

    def id_of(self, label: str) -> str:
        return str(self._view.index.resolve(label).id)


def _ids(view: "View") -> Iterable[str]:
    cursor: str | None = None
    while True:
        page = view.index.tools(limit=_LIMIT, cursor=cursor)
        yield from (each.id for each in page)
        cursor = page.next_cursor
        if cursor is None:
            return


def _measure(finders: "dict[str, Finder]", labelled: "LabelledSet", sample: int | None) -> list[Measured]:
    """Ask every finder; runs in a thread, so that it can be interrupted."""
    from anyio import from_thread  # noqa: PLC0415 - as above

    from toolcrib.discovery.evaluation import evaluate, off_topic_auc  # noqa: PLC0415

    found: list[Measured] = []
    for name, finder in finders.items():
        with progress(f"asking {name}") as advance:

            def told(done: int, total: int, advance: Callable[..., None] = advance) -> None:
                from_thread.check_cancelled()
                advance(done, total, None)

            report = evaluate(finder, labelled, sample=sample, progress=told)
            separation = off_topic_auc(finder, labelled, sample=sample, progress=told)
        found.append((name, report, separation))
    return found


def _show(state: State, measured: list[Measured]) -> None:
    if state.json:
        show_json({"searchers": {name: _flat(report, apart) for name, report, apart in measured}})
        return
    rows = [
        (
            name,
            f"{report.queries:,}",
            f"{report.tools:,}",
            *(f"{value:.3f}" for value in (report.hit1, report.recall_at_5, report.mrr, report.ndcg)),
            f"{apart.turned_away:.3f}",
            f"{report.cpu_ms_p50:.2f}",
        )
        for name, report, apart in measured
    ]
    show_table(_HEADERS, rows, styles=("cyan",))
    if not all(report.queries for _, report, _ in measured):
        note("there are no questions in it")


def _flat(report: "Report", apart: "Separation") -> dict[str, Any]:
    return {**report.to_json(), "abstention": apart.to_json()}
