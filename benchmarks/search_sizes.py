"""Measures an index with a store at 1,000 to 1,000,000 tools: building, opening, memory and searching.

Each step runs in a process of its own: one fills a store, another opens it. `--write` puts the table and the
picture into docs/how-search-works.md. A million tools take about 20 minutes and 4 GB.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from search_child import MEGABYTE, WARM_UP, K, latencies, trim
from search_pages import number
from search_plot import OURS, SETTINGS, THEIRS, save
from search_scale import labelled_sets, scale_questions, scale_tools

from toolcrib.discovery import Index, SqliteStore
from toolcrib.discovery.evaluation import finder_of, resident_bytes
from toolcrib.discovery.evaluation.measure import percentile

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "how-search-works.md"
PICTURE = ROOT / "docs" / "images" / "search-sizes.svg"
BEGIN = "<!-- sizes -->\n"
END = "<!-- end of sizes -->\n"
SIZES = (1_000, 10_000, 100_000, 1_000_000)
QUESTIONS = 100
"""Questions of each labelled set."""
BATCH = 10_000
"""Tools registered at a time, as a server that lists many would."""

Json = dict[str, Any]


def fill(store: Path, size: int) -> Json:
    """Fill a store, and return what it costs to register the tools and to answer the first question."""
    index = Index(store=SqliteStore(store))
    tools = scale_tools(labelled_sets(), size)
    spent = 0.0
    while batch := list(islice(tools, BATCH)):
        start = time.process_time()
        index.register_many((tool, None) for tool in batch)
        spent += time.process_time() - start
    start = time.process_time()
    index.search(WARM_UP, limit=K)
    return {"build_s": spent + time.process_time() - start}


def search(store: Path) -> Json:
    """Open a store, and return what that and searching cost."""
    trim()
    before, start = resident_bytes() or 0, time.process_time()
    index = Index(store=SqliteStore(store))
    opened = time.process_time() - start
    index.search(WARM_UP, limit=K)
    first = time.process_time() - start
    trim()
    grown = (resident_bytes() or 0) - before
    # Read only now: memory that reading the sets leaves free would be used by the index, unseen.
    queries = [question.query for question in scale_questions(labelled_sets(), QUESTIONS)]
    times = latencies(finder_of(index), queries)
    return {
        "open_s": opened,
        "first_s": first,
        "rss_mb": grown / MEGABYTE,
        "p50_ms": percentile(times, 50) * 1e3,
        "p95_ms": percentile(times, 95) * 1e3,
    }


def run(*step: str) -> Json:
    """Run a step in a process of its own, and return its result."""
    done = subprocess.run([sys.executable, __file__, *step], stdout=subprocess.PIPE, text=True, check=True)
    found: Json = json.loads(done.stdout)
    return found


def measure(sizes: tuple[int, ...]) -> dict[int, Json]:
    """Return the costs at each size."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            store = Path(folder) / f"{size}.db"
            print(f"{size:,} tools", file=sys.stderr, flush=True)
            found[size] = run("--fill", str(size), str(store)) | run("--search", str(store))
            files = list(Path(folder).iterdir())
            found[size]["store_mb"] = sum(file.stat().st_size for file in files) / MEGABYTE
            for file in files:
                file.unlink()
    return found


def table(found: dict[int, Json]) -> str:
    """Return the costs as a table."""
    rows = [
        "| tools | build, s | open, s | with a search, s | memory, MB | search, ms p50/p95 | store, MB |",
        "| --: | --: | --: | --: | --: | --: | --: |",
    ]
    for size, costs in found.items():
        each = [number(costs[name]) for name in ("build_s", "open_s", "first_s", "rss_mb")]
        latency = f"{number(costs['p50_ms'])}/{number(costs['p95_ms'])}"
        rows.append(f"| {' | '.join([f'{size:,}', *each, latency, number(costs['store_mb'])])} |")
    return "\n".join(rows) + "\n"


def draw(found: dict[int, Json], file: Path) -> None:
    """Write the picture of memory and time by the number of tools."""
    sizes = list(found)
    with mpl.rc_context(SETTINGS):
        figure = Figure(figsize=(8, 3.4), layout="constrained")
        FigureCanvasSVG(figure)
        left, right = figure.subplots(1, 2)
        left.plot(sizes, [costs["rss_mb"] for costs in found.values()], "o-", color=OURS)
        left.set_title("Memory after the first search, MB", loc="left")
        right.plot(
            sizes, [costs["p95_ms"] for costs in found.values()], "o-", color=THEIRS, label="95th percentile"
        )
        right.plot(sizes, [costs["p50_ms"] for costs in found.values()], "o-", color=OURS, label="median")
        right.legend(frameon=False, labelcolor="linecolor")
        right.set_title("CPU time of a search, ms", loc="left")
        for axes in (left, right):
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.xaxis.set_major_formatter("{x:,.0f}")
            axes.yaxis.set_major_formatter("{x:,g}")
            axes.set_xlabel("tools")
            axes.grid(visible=True, color="#88888844", linewidth=0.6)
            axes.patch.set_alpha(0)
        save(figure, file)


def main() -> None:
    """Run one step, or measure every size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="1,000 tools")
    parser.add_argument("--write", action="store_true", help=f"write the table and {PICTURE.name}")
    parser.add_argument("--fill", nargs=2, metavar=("SIZE", "STORE"), help=argparse.SUPPRESS)
    parser.add_argument("--search", metavar="STORE", help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.fill:
        json.dump(fill(Path(wanted.fill[1]), int(wanted.fill[0])), sys.stdout)
        return
    if wanted.search:
        json.dump(search(Path(wanted.search)), sys.stdout)
        return
    found = measure(SIZES[:1] if wanted.quick else SIZES)
    print("toolcrib, an index with a store")
    print(table(found))
    if wanted.write:
        draw(found, PICTURE)
        before, marker, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        if not marker or END not in rest:
            raise SystemExit(f"{PAGE} has no place for the table, between {BEGIN.strip()} and {END.strip()}")
        PAGE.write_text(f"{before}{BEGIN}{table(found)}{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()
