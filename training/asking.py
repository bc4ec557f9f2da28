"""What is found first for questions that have an answer in a catalogue, and for those that have none."""

import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random

import numpy as np
from corpus import QUESTIONS, Corpus, Entry, held_out, read_lines

from toolcrib.discovery import Bm25Searcher, EmbeddingSearcher, HybridSearcher
from toolcrib.discovery.evaluation import EVERYDAY, EvaluationCatalogue, ToolLine
from toolcrib.discovery.protocols import LocalEmbedder
from toolcrib.discovery.search.confidence import RelevanceClassifier

GROUPS = 6
"""How many catalogues the servers that are learnt from make."""
MOST = 500
"""How many questions of a public set are put."""


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

    def said(self, judge: RelevanceClassifier) -> np.ndarray:
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
    """A catalogue, which questions are put to."""

    def __init__(self, lines: Iterable[ToolLine], embedder: LocalEmbedder, cases: Cases) -> None:
        catalogue = EvaluationCatalogue.of_lines(lines)
        self.ids = catalogue.ids
        self.searcher = HybridSearcher(Bm25Searcher(), EmbeddingSearcher(embedder))
        self.searcher.update([Entry(tool) for tool in catalogue.tools])
        self.cases = cases

    def ask(
        self,
        kind: str,
        question: str,
        settings: Mapping[str, Iterable[str] | None],
        right: Iterable[str] = (),
    ) -> None:
        """Put a question to parts of the catalogue; with its right tools and, if it has any, without."""
        answers = frozenset(self.ids[one] for one in right)
        for setting, tools in settings.items():
            among = None if tools is None else frozenset(self.ids[one] for one in tools)
            self._put(kind, setting, question, among, answers)
            if answers:
                self._put("missing", setting, question, among, frozenset(), without=answers)

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
        evidence = self.searcher.compute_features(question, [hit.id for hit in hits]) if hits else None
        row = None if evidence is None else evidence.features[0]
        self.cases.add(kind, setting, row, right=bool(hits) and hits[0].id in right)


def own_cases(corpus: Corpus, embedder: LocalEmbedder, cases: Cases, *, held: bool) -> None:
    """Add what a model finds for our questions, of the servers that are held out or of the others.

    Each is put to the tools of its own server, and to those of many. Every other catalogue is terse, and of
    the everyday questions every other one is held out.
    """
    answered, unanswered = (list(read_lines(QUESTIONS / f"{name}answered.jsonl")) for name in ("", "un"))
    tools = defaultdict(set)
    for row in answered:
        for one in row["relevant"]:
            tools[corpus.lines[one].namespace or ""].add(one)
    for terse, servers in _catalogues(tools, held=held):
        lines = [
            line for key, line in corpus.lines.items() if not key.isdigit() and line.namespace in servers
        ]
        asking = Asking(map(_terse, lines) if terse else lines, embedder, cases)
        near, far = ("terse server", "terse all") if terse else ("server", "all")
        for row in answered:
            spaces = {corpus.lines[one].namespace or "" for one in row["relevant"]}
            if spaces <= servers:
                siblings = [one for space in spaces for one in tools[space]]
                asking.ask("answered", row["question"], {near: siblings, far: None}, row["relevant"])
        for row in unanswered:
            if row["server"] in servers:
                asking.ask("unanswered", row["question"], {near: row["catalogue"], far: None})
        ordered = sorted(servers)
        for number, question in enumerate(EVERYDAY[held::2]):
            siblings = list(tools[ordered[number % len(ordered)]])
            asking.ask("everyday", question, {near: siblings, far: None})
        print(f"{len(cases)} cases", flush=True)


def public_cases(corpus: Corpus, embedder: LocalEmbedder, cases: Cases, *, held: bool) -> None:
    """Add what a model finds in the public sets: those that are validated on, or those that are learnt from.

    Beside the questions of a set, it is asked those of the other ones, and everyday ones.
    """
    chance = Random(7)  # noqa: S311 - the same each time
    sets = dict(_held_sets(corpus) if held else _learnt_sets(corpus))
    for name, (lines, questions) in sets.items():
        asking = Asking(lines, embedder, cases)
        for question, relevant in _some(questions, chance):
            asking.ask("answered", question, {"public": None}, relevant)
        others = [one for other, (_, asked) in sets.items() if other != name for one in asked]
        for question, _ in _some(others, chance):
            asking.ask("foreign", question, {"public": None})
        for question in EVERYDAY[held::2]:
            asking.ask("everyday", question, {"public": None})
        print(f"{name}: {len(cases)} cases", flush=True)


Questions = list[tuple[str, tuple[str, ...]]]


def _some(questions: Questions, chance: Random) -> Questions:
    return chance.sample(questions, min(MOST, len(questions)))


def _learnt_sets(corpus: Corpus) -> Iterator[tuple[str, tuple[list[ToolLine], Questions]]]:
    for name, members in corpus.groups.items():
        asked = [(pair.query, pair.relevant) for pair in corpus.pairs if pair.group == name]
        if name != "own" and asked:
            yield name, ([corpus.lines[one] for one in members], asked)


def _held_sets(corpus: Corpus) -> Iterator[tuple[str, tuple[list[ToolLine], Questions]]]:
    for name, labelled in corpus.validation.items():
        lines = [corpus.lines[label] for label in labelled.catalogue.labels.values()]
        yield name, (lines, [(question.query, tuple(question.relevant)) for question in labelled.queries])


def _terse(line: ToolLine) -> ToolLine:
    """Return a tool that says of itself no more than its name and one sentence."""
    first = (line.description or "").split(". ", 1)[0].split("\n", 1)[0]
    return ToolLine(id=line.id, name=line.name, description=first)


def _catalogues(tools: Mapping[str, set[str]], *, held: bool) -> Iterator[tuple[bool, set[str]]]:
    """Yield the servers of each catalogue, and whether it is terse."""
    if held:
        kept = {server for server in tools if held_out(server)}
        yield from ((False, kept), (True, kept))
        return
    for number in range(GROUPS):
        yield (
            number % 2 == 1,
            {
                server
                for server in tools
                if not held_out(server) and zlib.crc32(b"x" + server.encode()) % GROUPS == number
            },
        )
