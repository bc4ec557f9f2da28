"""The tables of the search benchmark, for the terminal and for the documentation."""

from collections.abc import Callable, Iterable
from typing import Any

Json = dict[str, Any]
Quality = dict[str, list[Json]]
Cost = dict[str, dict[int, Json]]

DEFAULT = "toolcrib"
WORDS = "toolcrib, words alone"
SEARCHER = "toolcrib, Bm25Searcher alone"
SAME_TOKENS = "bm25s, our tokens"
FASTMCP = "FastMCP search"
NONE = "-"

INTRO = """\
# Search measurements

<!-- Made by `.venv/bin/python benchmarks/discovery.py --write` from the public data described in
CONTRIBUTING.md; do not edit it by hand. -->

Every engine gets the same tools, with all their text, and the same questions, in one run. `toolcrib` is the
default `Index()`, with keywords ("words" in the tables) and the built-in table: it matches names, applies
filters and builds summaries; `Bm25Searcher alone` returns only ids, as bm25s does. "Our tokens" are our
terms passed to bm25s, so that only the engines differ. MiniLM is ours, from toolcrib-minilm; stock is
all-MiniLM-L6-v2; both are int8 and run on the CPU. We looked at these sets while we chose word lists and
weights, and our models were trained on tools of all three and on some of their questions (41% of
metatool's, 60% of bfcl's, 54% of sealtools'), so the results of our models here are too optimistic:
`model-card.md` measures them on unseen data. The other engines are used as their documentation shows:
{versions}.

![Quality against CPU time](images/search-quality.svg)
"""
QUALITY = """\
## Quality

In per cent, on {sets}.
NDCG@10 rewards a high rank of the right tools, Recall@5 is the share of them among the first five, and
hit@1 says how often the first tool is right.
"""
COST = """\
## Cost

CPU time of one search and of building the index, and growth of the process's memory, including the
tools and the index; each engine and size runs in a process of its own. The catalogue has real tools
and, beyond 14,000, varied copies of them. A dash means that the engine was not measured at that size.
"""
ABSTENTION = """\
## Questions that no tool answers

The table shows how often the first tool's confidence is higher for a question that the catalogue answers than
for one that it does not (AUC; 0.5 is chance). Unanswerable questions are small talk and trivia, the questions
of the other sets, some of which it may well answer, and the set's own questions with their right tools
removed. The other engines have no confidence, so their scores are compared, which grow with the length of a
question, regardless of its content; FastMCP has no scores.
"""
CALIBRATION = """\
## Calibration

The table shows the share of right answers among those that `{name}` gives with a confidence in each range,
on all labelled sets together. Every question here has an answer; confidence assumes that only
half do, so it is too low here.
The expected calibration errors on the sets are {errors}.
"""


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown."""
    titles = list(head)
    rule = ["---", *["--:"] * (len(titles) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (titles, rule, *rows))


def summary(quality: Quality, cost: Cost) -> str:
    """Return everything in one table, and the ratios that matter."""
    sizes = sizes_of(cost)
    head = ["engine", *(f"NDCG@10 {name}" for name in names_of(quality)), "Recall@5", "hit@1"]
    head += [f"ms at {size:,}" for size in sizes] + ["build s", "MB"]
    rows = []
    for engine, reports in quality.items():
        costs = cost.get(engine, {})
        cells = [engine, *(per_cent(report["ndcg"]) for report in reports)]
        cells += [" / ".join(per_cent(report[key]) for report in reports) for key in ("recallAt5", "hit1")]
        cells += [cell(costs, size, latency) for size in sizes]
        cells += [" / ".join(cell(costs, size, show) for size in sizes) for show in (build_seconds, memory)]
        rows.append(cells)
    return "\n".join([table(head, rows), "", *ratios(cost)])


def page(quality: Quality, cost: Cost, versions: str) -> str:
    """Return the page of the documentation."""
    sets = ", ".join(f"{report['name']} ({report['queries']:,} questions)" for report in first(quality))
    parts = [
        INTRO.format(versions=versions),
        QUALITY.format(sets=sets),
        quality_table(quality),
        COST,
        cost_table(cost),
        "\n".join(ratios(cost)),
        ABSTENTION,
        abstention_table(quality),
        *calibration(quality),
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def quality_table(quality: Quality) -> str:
    """Return every metric on every set."""
    metrics = {"NDCG@10": "ndcg", "Recall@5": "recallAt5", "hit@1": "hit1"}
    head = ["engine", *(f"{name} {title}" for name in names_of(quality) for title in metrics)]
    rows = [
        [engine, *(per_cent(report[key]) for report in reports for key in metrics.values())]
        for engine, reports in quality.items()
    ]
    return table(head, rows)


def cost_table(cost: Cost) -> str:
    """Return the cost of every engine at every size."""
    sizes = sizes_of(cost)
    shown: dict[str, Callable[[Json], str]] = {"ms p50/p95": latency, "build s": build_seconds, "MB": memory}
    head = ["engine", *(f"{title} at {size:,}" for title in shown for size in sizes)]
    rows = [
        [engine, *(cell(costs, size, show) for show in shown.values() for size in sizes)]
        for engine, costs in cost.items()
    ]
    return table(head, rows)


def ratios(cost: Cost) -> list[str]:
    """Return how ours compares, as far as it was measured."""
    lines: list[str] = []
    for size in sizes_of(cost):
        add_ratio(
            lines, "Ratio of Bm25Searcher to bm25s with the same tokens", cost, (SEARCHER, SAME_TOKENS), size
        )
        add_ratio(lines, "Ratio of a keyword-only Index to the same bm25s", cost, (WORDS, SAME_TOKENS), size)
        add_ratio(lines, "Ratio of Index() to a keyword-only Index", cost, (DEFAULT, WORDS), size)
        add_ratio(lines, "Ratio of FastMCP search to toolcrib", cost, (FASTMCP, DEFAULT), size)
    largest = max(cost.get(DEFAULT, {}), default=0)
    if largest:
        costs = cost[DEFAULT][largest]
        share = costs["add_ms"] / 1e3 / costs["build_s"]
        lines.append(
            f"- Adding one tool to {largest:,}: {costs['add_ms']:.2f} ms, 1/{1 / share if share else 0:,.0f} "
            "of the build time."
        )
    return lines


def add_ratio(lines: list[str], title: str, cost: Cost, engines: tuple[str, str], size: int) -> None:
    """Add the ratio of two engines at one size, where both were measured."""
    one, other = (cost.get(engine, {}).get(size) for engine in engines)
    if one and other:
        lines.append(f"- {title}, p50 at {size:,} tools: {one['p50_ms'] / other['p50_ms']:.2f}.")


def abstention_table(quality: Quality) -> str:
    """Return how well each engine tells that nothing fits."""
    kinds = {"everyday": "small talk", "others": "other sets", "missing": "right tools removed"}
    head = ["engine", *(f"{name}: {title}" for name in names_of(quality) for title in kinds.values())]
    rows = [
        [
            engine,
            *(
                f"{report['abstention'][kind]['auc']:.2f}" if kind in report["abstention"] else NONE
                for report in reports
                for kind in kinds
            ),
        ]
        for engine, reports in quality.items()
    ]
    return table(head, rows)


def calibration(quality: Quality) -> list[str]:
    """Return how far our confidence can be believed, tenth by tenth."""
    if DEFAULT not in quality:
        return []
    reports = quality[DEFAULT]
    held = [found for report in reports for found in report["calibration"].get("bins", ())]
    rows = []
    for low in sorted({found["low"] for found in held}):
        tenth = [found for found in held if found["low"] == low]
        count = sum(found["count"] for found in tenth)
        right = sum(found["count"] * found["precision"] for found in tenth)
        rows.append([f"{low:.1f} to {low + 0.1:.1f}", f"{count:,}", per_cent(right / count)])
    errors = ", ".join(f"{report['name']} {report['calibration']['error']:.3f}" for report in reports)
    head = ("confidence", "answers", "right, %")
    return [CALIBRATION.format(name=DEFAULT, errors=errors), table(head, rows)]


def cell(costs: dict[int, Json], size: int, show: Callable[[Json], str]) -> str:
    """Return the cost of an engine at one size, or a dash."""
    return show(costs[size]) if size in costs else NONE


def latency(costs: Json) -> str:
    """Return the usual and the slow search."""
    return f"{number(costs['p50_ms'])}/{number(costs['p95_ms'])}"


def build_seconds(costs: Json) -> str:
    """Return the seconds that building takes."""
    return number(costs["build_s"])


def memory(costs: Json) -> str:
    """Return the megabytes that the process grew by."""
    return f"{costs['rss_mb']:,.0f}"


def number(value: float) -> str:
    """Return a number with two digits that count."""
    return f"{value:.2f}" if value < 10 else f"{value:,.0f}"  # noqa: PLR2004 - where a second decimal says nothing


def per_cent(value: float) -> str:
    """Return a share in per cent."""
    return f"{100 * value:.1f}"


def names_of(quality: Quality) -> list[str]:
    """Return the labelled sets."""
    return [report["name"] for report in first(quality)]


def first(quality: Quality) -> list[Json]:
    """Return the reports on one engine."""
    return next(iter(quality.values()), [])


def sizes_of(cost: Cost) -> list[int]:
    """Return the sizes that any engine was taken to."""
    return sorted({size for costs in cost.values() for size in costs})
