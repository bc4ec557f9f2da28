"""Fit what tells whether the tool that was found does what was asked, and measure it on held-out servers.

    python training/judge.py models

Every question is put to the tools of its own server, and to those of many servers: with the right tools
there, without them, and beside questions of the same field that no tool answers and everyday ones.
"""

import argparse
import zlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from corpus import QUESTIONS, Corpus, Entry, held_out, read_lines
from models import models_in

from toolcrib.discovery import Bm25Searcher, EmbeddingSearcher, HybridSearcher
from toolcrib.discovery.evaluation import EVERYDAY, Catalogue, auc, calibrate
from toolcrib.discovery.judge import Judge
from toolcrib.discovery.protocols import LocalEmbedder

SHARES = {"answered": 1.0, "missing": 0.5, "unanswered": 1.0, "everyday": 0.5}
"""How much each kind of question weighs in all."""
GROUPS = 6
"""How many catalogues the servers that are learnt from make."""
STRICTNESS = 3e-3
ENOUGH = 1e-6


@dataclass(slots=True)
class Cases:
    """What was found first for questions, if anything, and whether it was right."""

    kinds: list[str] = field(default_factory=list)
    settings: list[str] = field(default_factory=list)
    right: list[bool] = field(default_factory=list)
    rows: list[np.ndarray | None] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.kinds)

    def add(self, kind: str, setting: str, row: np.ndarray | None, *, right: bool) -> None:
        """Note a case."""
        self.kinds.append(kind)
        self.settings.append(setting)
        self.rows.append(row)
        self.right.append(right)

    def said(self, judge: Judge) -> np.ndarray:
        """Return the verdict on each case: 0 where nothing was found."""
        found = [number for number, row in enumerate(self.rows) if row is not None]
        odds = np.array([self.rows[number] for number in found]) @ judge.weights + judge.bias
        said = np.zeros(len(self))
        said[found] = 1 / (1 + np.exp(-odds))
        return said

    def of(self, kind: str, setting: str | None = None) -> np.ndarray:
        """Return which cases are of one kind of question."""
        chosen = np.array(self.kinds) == kind
        return chosen if setting is None else chosen & (np.array(self.settings) == setting)


class Asking:
    """A catalogue of some servers, which questions are put to."""

    def __init__(self, corpus: Corpus, servers: set[str], model: EmbeddingSearcher, cases: Cases) -> None:
        lines = [
            line for key, line in corpus.lines.items() if not key.isdigit() and line.namespace in servers
        ]
        self.catalogue = Catalogue.of_lines(lines)
        self.searcher = HybridSearcher(Bm25Searcher(), model)
        self.searcher.update([Entry(tool) for tool in self.catalogue.tools])
        self.cases = cases

    def ask(self, kind: str, question: str, siblings: frozenset[str], right: frozenset[str]) -> None:
        """Put a question to its own server, and to all; with its right tools and, if it has any, without."""
        for setting, among in (("server", siblings), ("all", None)):
            self._put(kind, setting, question, among, right)
            if right:
                self._put("missing", setting, question, among, frozenset(), without=right)

    def _put(
        self,
        kind: str,
        setting: str,
        question: str,
        among: frozenset[str] | None,
        right: frozenset[str],
        without: frozenset[str] = frozenset(),
    ) -> None:
        hits = self.searcher.search(question, limit=1, among=among, exclude=without)
        evidence = self.searcher.evidence(question, [hit.id for hit in hits]) if hits else None
        row = None if evidence is None else evidence.features[0]
        self.cases.add(kind, setting, row, right=bool(hits) and hits[0].id in right)


def collect(corpus: Corpus, embedder: LocalEmbedder, *, held: bool) -> Cases:
    """Return what a model finds for all questions of the servers that are held out, or of the others.

    Of the everyday questions, every other one is held out.
    """
    answered, unanswered = (list(read_lines(QUESTIONS / f"{name}answered.jsonl")) for name in ("", "un"))
    tools = defaultdict(set)
    for row in answered:
        for one in row["relevant"]:
            tools[corpus.lines[one].namespace or ""].add(one)
    cases = Cases()
    for servers in _catalogues(tools, held=held):
        asking = Asking(corpus, servers, EmbeddingSearcher(embedder), cases)
        ids = asking.catalogue.ids
        for row in answered:
            spaces = {corpus.lines[one].namespace or "" for one in row["relevant"]}
            if spaces <= servers:
                siblings = frozenset(ids[one] for space in spaces for one in tools[space])
                asking.ask(
                    "answered", row["question"], siblings, frozenset(ids[one] for one in row["relevant"])
                )
        for row in unanswered:
            if row["server"] in servers:
                siblings = frozenset(ids[one] for one in row["catalogue"])
                asking.ask("unanswered", row["question"], siblings, frozenset())
        ordered = sorted(servers)
        for number, question in enumerate(EVERYDAY[held::2]):
            siblings = frozenset(ids[one] for one in tools[ordered[number % len(ordered)]])
            asking.ask("everyday", question, siblings, frozenset())
        print(f"{len(cases)} cases", flush=True)
    return cases


def fit(cases: Cases) -> Judge:
    """Return the judge that is wrong least often, by logistic regression."""
    found = [number for number, row in enumerate(cases.rows) if row is not None]
    rows = np.array([cases.rows[number] for number in found], np.float64)
    right, kinds = np.array(cases.right, np.float64)[found], np.array(cases.kinds)[found]
    weights = sum(
        (kinds == kind) * share * len(kinds) / (kinds == kind).sum() for kind, share in SHARES.items()
    )
    mean, spread = rows.mean(axis=0), rows.std(axis=0) + 1e-9
    scaled = np.column_stack(((rows - mean) / spread, np.ones(len(rows))))
    learnt = np.zeros(scaled.shape[1])
    for _ in range(30):
        said = 1 / (1 + np.exp(-np.clip(scaled @ learnt, -30, 30)))
        slope = scaled.T @ (weights * (said - right)) + STRICTNESS * len(rows) * learnt
        bend = (scaled * (weights * said * (1 - said))[:, None]).T @ scaled
        step = np.linalg.solve(bend + STRICTNESS * len(rows) * np.eye(len(learnt)), slope)
        learnt -= step
        if np.abs(step).max() < ENOUGH:
            break
    plain = learnt[:-1] / spread
    return Judge(plain.astype(np.float32), float(learnt[-1] - plain @ mean))


def report(judge: Judge, cases: Cases) -> Iterator[str]:
    """Yield how well a judge tells what has an answer from what has none, and how true its numbers are."""
    said, right = cases.said(judge), np.array(cases.right)
    for setting in ("server", "all"):
        own = said[cases.of("answered", setting)].tolist()
        areas = {
            kind: auc(own, said[cases.of(kind, setting)].tolist())
            for kind in ("everyday", "unanswered", "missing")
        }
        yield f"{setting}: " + ", ".join(f"{kind} {area:.3f}" for kind, area in areas.items())
    yield f"calibration: {calibrate(zip(said.tolist(), cases.right, strict=True))}"
    for threshold in (0.02, 0.05, 0.1, 0.15, 0.2):
        kept = {"right": (said[cases.of("answered") & right] >= threshold).mean()}
        kept |= {kind: (said[cases.of(kind)] >= threshold).mean() for kind in SHARES}
        yield f"at {threshold}: " + ", ".join(f"{kind} {share:.2f} kept" for kind, share in kept.items())


def _catalogues(tools: dict[str, set[str]], *, held: bool) -> Iterator[set[str]]:
    """Yield the servers of each catalogue."""
    if held:
        yield {server for server in tools if held_out(server)}
        return
    for number in range(GROUPS):
        yield {
            server
            for server in tools
            if not held_out(server) and zlib.crc32(b"x" + server.encode()) % GROUPS == number
        }


def make(corpus: Corpus, embedder: LocalEmbedder, folder: Path) -> str:
    """Fit the judge of a model, put it into a folder, and return how good it is."""
    judge = fit(collect(corpus, embedder, held=False))
    judge.save(folder)
    return "\n".join(report(judge, collect(corpus, embedder, held=True)))


def main() -> None:
    """Fit the judges of the models in a folder, and say how good they are."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="where the models are")
    corpus = Corpus.read()
    for name, (embedder, place) in models_in(parser.parse_args().folder).items():
        print(f"the judge of {name}\n{make(corpus, embedder, place)}", flush=True)


if __name__ == "__main__":
    main()
