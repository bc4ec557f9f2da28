"""The verb that measures search: `eval`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from toolcrib.cli.screen import note, progress, show_json, show_table
from toolcrib.cli.state import State, shared, wait_for

if TYPE_CHECKING:
    from toolcrib.setup.measuring import Measured, Measurement

_HEADERS = ("searcher", "questions", "tools", "hit@1", "recall@5", "mrr", "ndcg@10", "turned away", "ms")


@click.command("eval")
@click.argument("file", metavar="FILE", type=click.Path(exists=True))
@click.option("--sample", type=click.IntRange(1), metavar="N", help="Use only this many of the questions.")
@shared
@click.pass_obj
def eval_(state: State, file: str, sample: int | None) -> None:
    """Measure search with questions whose answers are known.

    FILE has one JSON object per line: {"query": ..., "relevant": [tool ids]}. The tools are those of the
    catalogue, unless FILE is a folder with queries.jsonl and its own tools.jsonl. For every
    available searcher, it reports hit@1, recall@5, the mean reciprocal rank and NDCG@10. It also reports
    how many everyday questions without a matching tool fall below a threshold of confidence: the highest
    that 95% of the questions in FILE reach.

    Example: toolcrib eval questions.jsonl --sample 200
    """
    is_set = Path(file).is_dir()

    async def work() -> "list[Measured]":
        from toolcrib.setup.measuring import of_set, of_view  # noqa: PLC0415 - not needed to ask for help

        if is_set:
            return await _measure(of_set(file), sample)
        async with state.view() as view:
            await view.tools(limit=1)  # waits for the servers that nothing is known of
            return await _measure(of_view(view, file), sample)

    _show(state, wait_for(work))


async def _measure(measurement: "Measurement", sample: int | None) -> "list[Measured]":
    """Measure in a thread, so that it can be interrupted."""
    from anyio import from_thread, to_thread  # noqa: PLC0415 - as above

    def work() -> "list[Measured]":
        with progress("asking") as advance:

            def report(name: str, done: int, total: int) -> None:
                from_thread.check_cancelled()
                advance(done, total, name)

            return list(measurement.measure(sample=sample, progress=report))

    return await to_thread.run_sync(work)


def _show(state: State, measured: "list[Measured]") -> None:
    if state.json:
        payload = {
            each.searcher: {**each.report.to_json(), "abstention": each.separation.to_json()}
            for each in measured
        }
        show_json({"searchers": payload})
        return
    show_table(_HEADERS, [_row(each) for each in measured], styles=("cyan",))
    if not all(each.report.queries for each in measured):
        note("there are no questions in it")


def _row(measured: "Measured") -> tuple[str, ...]:
    report = measured.report
    shares = (report.hit1, report.recall_at_5, report.mrr, report.ndcg, measured.separation.turned_away)
    return (
        measured.searcher,
        f"{report.queries:,}",
        f"{report.tools:,}",
        *(f"{share:.3f}" for share in shares),
        f"{report.cpu_ms_p50:.2f}",
    )
