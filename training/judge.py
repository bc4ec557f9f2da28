"""Fit what tells whether the tool that was found does what was asked, and measure it on held-out servers.

    python training/judge.py models/static

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

from toolcrib.discovery import Bm25Searcher, EmbeddingSearcher, HybridSearcher
from toolcrib.discovery.evaluation import EVERYDAY, Catalogue, auc, calibrate
from toolcrib.discovery.judge import Judge
from toolcrib.discovery.semantic.named import embedder_in

SHARES = {"answered": 1.0, "missing": 0.5, "unanswered": 0.75, "everyday": 0.5}
"""How much each kind of question weighs in all."""
GROUPS = 6
"""How many catalogues the servers that are learnt from make."""
STRICTNESS = 1e-2
ENOUGH = 1e-6


@dataclass(slots=True)
class Cases:
    """What was found for questions, and whether it was right."""

    kinds: list[str] = field(default_factory=list)
    settings: list[str] = field(default_factory=list)
    right: list[bool] = field(default_factory=list)
    rows: list[np.ndarray] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.kinds)

    def scores(self, judge: Judge, kind: str, setting: str) -> list[float]:
        """Return the verdicts on what was found for one kind of question."""
        chosen = [
            number
            for number in range(len(self))
            if (self.kinds[number], self.settings[number]) == (kind, setting)
        ]
        odds = np.array([self.rows[number] for number in chosen]) @ judge.weights + judge.bias
        return (1 / (1 + np.exp(-odds))).tolist()


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
        if evidence is not None:
            self.cases.kinds.append(kind)
            self.cases.settings.append(setting)
            self.cases.right.append(hits[0].id in right)
            self.cases.rows.append(evidence.features[0])


def collect(corpus: Corpus, folder: Path, *, held: bool) -> Cases:
    """Return what a model finds for all questions of the servers that are held out, or of the others."""
    answered, unanswered = (list(read_lines(QUESTIONS / f"{name}answered.jsonl")) for name in ("", "un"))
    tools = defaultdict(set)
    for row in answered:
        for one in row["relevant"]:
            tools[corpus.lines[one].namespace or ""].add(one)
    cases = Cases()
    for servers in _catalogues(tools, held=held):
        asking = Asking(corpus, servers, EmbeddingSearcher(embedder_in(folder)), cases)
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
        for number, question in enumerate(EVERYDAY):
            siblings = frozenset(ids[one] for one in tools[ordered[number % len(ordered)]])
            asking.ask("everyday", question, siblings, frozenset())
        print(f"{len(cases)} cases", flush=True)
    return cases


def fit(cases: Cases) -> Judge:
    """Return the judge that is wrong least often, by logistic regression."""
    rows, right = np.array(cases.rows, np.float64), np.array(cases.right, np.float64)
    kinds = np.array(cases.kinds)
    weights = sum(
        (kinds == kind) * share * len(kinds) / (kinds == kind).sum() for kind, share in SHARES.items()
    )
    mean, spread = rows.mean(axis=0), rows.std(axis=0) + 1e-9
    scaled = np.column_stack(((rows - mean) / spread, np.ones(len(rows))))
    found = np.zeros(scaled.shape[1])
    for _ in range(30):
        said = 1 / (1 + np.exp(-np.clip(scaled @ found, -30, 30)))
        slope = scaled.T @ (weights * (said - right)) + STRICTNESS * len(rows) * found
        bend = (scaled * (weights * said * (1 - said))[:, None]).T @ scaled
        step = np.linalg.solve(bend + STRICTNESS * len(rows) * np.eye(len(found)), slope)
        found -= step
        if np.abs(step).max() < ENOUGH:
            break
    plain = found[:-1] / spread
    return Judge(plain.astype(np.float32), float(found[-1] - plain @ mean))


def report(judge: Judge, cases: Cases) -> Iterator[str]:
    """Yield how well a judge tells what has an answer from what has none, and how true its numbers are."""
    for setting in ("server", "all"):
        own = cases.scores(judge, "answered", setting)
        areas = {
            kind: auc(own, cases.scores(judge, kind, setting))
            for kind in ("everyday", "unanswered", "missing")
        }
        yield f"{setting}: " + ", ".join(f"{kind} {area:.3f}" for kind, area in areas.items())
    said = np.array(cases.rows) @ judge.weights + judge.bias
    pairs = zip((1 / (1 + np.exp(-said))).tolist(), cases.right, strict=True)
    yield f"calibration: {calibrate(pairs)}"
    told = np.array([said[n] for n in range(len(cases)) if cases.kinds[n] == "answered" and cases.right[n]])
    for threshold in (0.02, 0.05, 0.1, 0.15, 0.2):
        odds = np.log(threshold / (1 - threshold))
        kept = {"right": (told >= odds).mean()}
        for kind in SHARES:
            kept[kind] = np.mean([said[n] >= odds for n in range(len(cases)) if cases.kinds[n] == kind])
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


def make(corpus: Corpus, folder: Path) -> str:
    """Fit the judge of a model, put it into the model's folder, and return how good it is."""
    judge = fit(collect(corpus, folder, held=False))
    judge.save(folder)
    return "\n".join(report(judge, collect(corpus, folder, held=True)))


def main() -> None:
    """Fit the judge of the model in a folder, and say how good it is."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="where the model is")
    print(make(Corpus.read(), parser.parse_args().folder))


if __name__ == "__main__":
    main()
