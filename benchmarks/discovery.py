"""Measures the quality and cost of search: ours beside other engines, on the same tools and questions.

Each engine runs in processes of its own, one after the other. `--write` puts the tables into
docs/search-measurements.md and the picture into docs/images/search-quality.svg.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

from search_engines import ENGINES, OURS
from search_pages import page, summary
from search_plot import Point, draw
from search_scale import labelled_sets, scale_questions, scale_tools

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "search-measurements.md"
MODEL = ROOT / ".models" / "minilm" / "model.onnx"
PICTURE = ROOT / "docs" / "images" / "search-quality.svg"
CHILD = Path(__file__).with_name("search_child.py")
SIZES = (1_000, 10_000, 100_000)
QUESTIONS = 100
"""Questions of each labelled set in the mix that is timed."""
LARGEST = {"rank-bm25": 10_000, "FastMCP search": 10_000} | {
    name: 10_000 for name in OURS if "MiniLM" in name or "table" in name
}
"""The largest catalogue of an engine that would take minutes to build, or seconds to search."""
FEW = {"FastMCP search": 60}
"""Questions timed with an engine whose searches are slow."""
PACKAGES = ("bm25s", "rank-bm25", "tantivy", "fastmcp")
WIDTH = 30

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Job:
    """One engine to be measured, at one size or, without one, for quality."""

    engine: str
    size: int | None = None

    def __str__(self) -> str:
        return f"{self.engine}: {'quality' if self.size is None else f'{self.size:,} tools'}"


@dataclass(slots=True)
class Found:
    """Everything that was measured."""

    quality: dict[str, list[Json]] = field(default_factory=dict)
    """The reports on the labelled sets, by engine."""
    cost: dict[str, dict[int, Json]] = field(default_factory=dict)
    """Costs at each size, by engine."""
    failed: list[Job] = field(default_factory=list)


def jobs(engines: list[str], sizes: tuple[int, ...]) -> Iterator[Job]:
    """Yield the jobs, one engine after the other."""
    for engine in engines:
        yield Job(engine)
        yield from (Job(engine, size) for size in sizes if size <= LARGEST.get(engine, max(SIZES)))


def order(job: Job, files: dict[int, Path], queries: list[str], share: float) -> Json:
    """Return the input for the process of a job."""
    if job.size is None:
        return {"kind": "quality", "engine": job.engine, "share": share}
    asked = queries[: FEW.get(job.engine)]
    return {"kind": "cost", "engine": job.engine, "tools": str(files[job.size]), "queries": asked}


def run(wanted: Json) -> Any:
    """Run a job in a process of its own, and return its result."""
    done = subprocess.run(
        [sys.executable, CHILD], input=json.dumps(wanted), stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout)


def measure(engines: list[str], sizes: tuple[int, ...], share: float) -> Found:
    """Measure the quality and the cost of every engine."""
    found = Found()
    progress(0, 1, "reading tools")
    sets = labelled_sets()
    queries = [question.query for question in scale_questions(sets, QUESTIONS)]
    todo = list(jobs(engines, sizes))
    with tempfile.TemporaryDirectory() as folder:
        files = {size: Path(folder) / f"{size}.jsonl" for size in sizes}
        write(files, sets)
        for done, job in enumerate(todo):
            progress(done, len(todo), str(job))
            try:
                result = run(order(job, files, queries, share))
            except subprocess.CalledProcessError:
                found.failed.append(job)
                continue
            if job.size is None:
                found.quality[job.engine] = result
            else:
                found.cost.setdefault(job.engine, {})[job.size] = result
    progress(len(todo), len(todo), "done")
    print(file=sys.stderr)
    return found


def write(files: dict[int, Path], sets: Any) -> None:
    """Write the catalogue of each size; the smaller ones are the beginning of the largest."""
    tools = list(scale_tools(sets, max(files)))
    for size, file in files.items():
        with file.open("w", encoding="utf-8") as lines:
            lines.writelines(f"{json.dumps(tool.to_json())}\n" for tool in islice(tools, size))


def progress(done: int, total: int, text: str) -> None:
    """Draw how far the work is, where it does not end up in the tables."""
    filled = WIDTH * done // total
    print(f"\r[{'#' * filled}{'.' * (WIDTH - filled)}] {done}/{total} {text:50}", end="", file=sys.stderr)


def points(found: Found, size: int) -> list[Point]:
    """Return the engines as points of quality and cost."""
    return [
        Point(
            name,
            costs[size]["p50_ms"],
            100 * fmean(report["ndcg"] for report in found.quality[name]),
            name in OURS,
        )
        for name, costs in found.cost.items()
        if size in costs
    ]


def main() -> None:
    """Print one table of all engines, and the ratios that matter."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few questions, 1,000 tools, no MiniLM")
    parser.add_argument("--only", default="", help="just the engines whose name holds this")
    parser.add_argument(
        "--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)} and the picture"
    )
    wanted = parser.parse_args()
    engines = [name for name in ENGINES if wanted.only in name]
    if wanted.quick or not MODEL.exists():
        engines = [name for name in engines if "MiniLM" not in name]
    sizes = SIZES[:1] if wanted.quick else SIZES
    found = measure(engines, sizes, 0.05 if wanted.quick else 1.0)
    print(summary(found.quality, found.cost))
    if found.failed:
        raise SystemExit(f"failed, and nothing is written: {'; '.join(map(str, found.failed))}")
    if wanted.write:
        versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
        draw(points(found, drawn := min(10_000, max(sizes))), drawn, PICTURE)
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(page(found.quality, found.cost, versions), encoding="utf-8")
        print(f"wrote {PAGE} and {PICTURE}", file=sys.stderr)


if __name__ == "__main__":
    main()
