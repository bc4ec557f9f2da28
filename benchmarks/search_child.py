"""One engine measured in a process of its own: quality on the labelled sets, or cost at one size."""

import ctypes
import gc
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from search_engines import builder
from search_scale import SETS, labelled_sets

from toolcrib.discovery.evaluation import (
    EVERYDAY,
    Finder,
    IndexFinder,
    LabelledSet,
    evaluate,
    missing_auc,
    off_topic_auc,
    resident_bytes,
)
from toolcrib.discovery.evaluation.measure import percentile, sample_of
from toolcrib.model import Tool

Json = dict[str, Any]

WARM_UP = "find a tool that does this"
K = 10
ADDED = 20
"""Tools added one by one to a catalogue, with searches in between."""
MEGABYTE = 1 << 20
ROUNDS = 3
PATIENCE = 15.0
"""Seconds of CPU time after which no further round begins."""


def quality(name: str, share: float) -> list[Json]:
    """Return how good an engine is on each labelled set, with this share of the questions."""
    sets = labelled_sets()
    found = []
    for labelled in sets:
        finder = builder(name)(labelled.catalogue.tools)
        finder.search(WARM_UP, limit=K)
        asked = max(int((SETS[labelled.name] or len(labelled.queries)) * share), 1)
        report = evaluate(finder, labelled, k=K, sample=asked)
        found.append(report.to_json() | {"abstention": abstention(finder, labelled, sets, asked)})
        close(finder)
    return found


def abstention(finder: Finder, labelled: LabelledSet, sets: list[LabelledSet], asked: int) -> Json:
    """Return how well confidence, or else the score, separates questions without a matching tool."""
    few = min(asked, 300)
    others = [
        question.query
        for other in sets
        if other is not labelled
        for question in sample_of(other.queries, few // 2, seed=7)
    ]
    found = {
        "everyday": off_topic_auc(finder, labelled, off_topic=EVERYDAY, sample=few).to_json(),
        "others": off_topic_auc(finder, labelled, off_topic=others, sample=few).to_json(),
    }
    if isinstance(finder, IndexFinder):
        found["missing"] = missing_auc(finder, labelled, sample=few).to_json()
    return found


class Reading:
    """Tools read one by one from a file, with the CPU time that reading takes, which is not the engine's."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.search_cpu_time = 0.0

    def __iter__(self) -> Iterator[Tool]:
        start = time.process_time()
        with self.file.open("rb") as lines:
            for line in lines:
                tool = Tool.from_json(line)
                self.search_cpu_time += time.process_time() - start
                yield tool
                start = time.process_time()


def cost(name: str, tools: Path, queries: list[str]) -> Json:
    """Return the costs of an engine at one size: building, searching, memory, and adding one tool."""
    reading = Reading(tools)
    build = builder(name)
    trim()
    before = resident_bytes() or 0
    start = time.process_time()
    finder = build(reading)
    finder.search(WARM_UP, limit=K)  # some engines do their work at the first question
    built = time.process_time() - start - reading.search_cpu_time
    trim()
    grown = (resident_bytes() or 0) - before
    times = latencies(finder, queries)
    found = {
        "build_s": built,
        "rss_mb": grown / MEGABYTE,
        "p50_ms": percentile(times, 50) * 1e3,
        "p95_ms": percentile(times, 95) * 1e3,
    }
    if isinstance(finder, IndexFinder):
        found["add_ms"] = adding(finder, queries) * 1e3
    close(finder)
    return found


def latencies(finder: Finder, queries: list[str]) -> list[float]:
    """Return the CPU time of each search, in order: the least of a few rounds, if they do not take too long.

    There are more questions than an engine would remember the answers of.
    """
    best = [float("inf")] * len(queries)
    start = time.process_time()
    for _ in range(ROUNDS):
        best = list(map(min, best, [search_cpu_time(finder, query) for query in queries]))
        if time.process_time() - start > PATIENCE:
            break
    return sorted(best)


def adding(finder: IndexFinder, queries: list[str]) -> float:
    """Return the CPU time to add one tool and answer the next question."""
    extra = []
    for turn in range(ADDED):
        query = queries[turn % len(queries)]
        tool = Tool(
            name=f"added_{turn}", namespace="late", description=query, input_schema={"type": "object"}
        )
        usual = min(search_cpu_time(finder, query) for _ in range(3))
        start = time.process_time()
        finder.index.register_many([(tool, None)])
        finder.search(query, limit=K)
        extra.append(max(time.process_time() - start - usual, 0.0))
    return median(extra)


def search_cpu_time(finder: Finder, query: str) -> float:
    """Return the CPU time of one search."""
    start = time.process_time()
    finder.search(query, limit=K)
    return time.process_time() - start


def trim() -> None:
    """Return unused memory to the system, if the C library can."""
    gc.collect()
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)


def close(finder: Finder) -> None:
    """Stop the engine's background work."""
    end = getattr(finder, "close", None)
    if end is not None:
        end()


def main() -> None:
    """Read a job from standard input, and write its result to standard output."""
    order = json.load(sys.stdin)
    if order["kind"] == "quality":
        found: Any = quality(order["engine"], order["share"])
    else:
        found = cost(order["engine"], Path(order["tools"]), order["queries"])
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
