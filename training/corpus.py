"""What the models learn from: tools as texts, and questions with the tools that answer them.

Nothing is read but `shared/data/training`, the real tools in `shared/data/retrieval/scale_*`, and our own
questions. Tools that are validated on are left out of everything, and so is a share of our own servers.
"""

import json
import random
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolcrib.discovery.evaluation import EvaluationCatalogue, LabelledSet, ToolLine
from toolcrib.discovery.evaluation import LabelledQuery as Labelled
from toolcrib.discovery.search.semantic.text import DocumentText
from toolcrib.model import Tool

DATA = Path(__file__).parents[2] / "shared" / "data"
QUESTIONS = Path(__file__).parent / "questions"
LISTS = ("scale_toolsdk", "scale_docker")
HELD_OUT = 15
"""The percentage of servers whose tools and questions are kept for measuring."""
UNSEEN = ("metatool_unseen", "bfcl_unseen", "seal_val", "ace_unseen")
"""The validation sets whose tools were mostly never trained on: none of the first, a sixth of the second, a
few of the fourth; of seal_val, nearly half were, with other questions."""
TEXTS = (DocumentText(), DocumentText(parameters=False))
"""How a tool is told: as the product tells it, and without its parameters."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A question, the tools that answer it, and tools that seem to and do not."""

    query: str
    relevant: tuple[str, ...]
    group: str
    """What it is mixed and compared with: the tools of one source."""
    negatives: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """A tool as an index hands it to its searcher."""

    tool: Tool
    examples: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """The tool id, as text."""
        return str(self.tool.id)

    @property
    def content_hash(self) -> str:
        """What no other tool of the corpus has."""
        return self.id


@dataclass(slots=True)
class Corpus:
    """Everything that is learnt from or validated on."""

    lines: dict[str, ToolLine] = field(default_factory=dict)
    """Every tool, by its id."""
    groups: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """The tools that are learnt from, by source."""
    pairs: list[Pair] = field(default_factory=list)
    validation: dict[str, LabelledSet] = field(default_factory=dict)
    own: LabelledSet | None = None
    """Our questions that are held out, over the tools of their servers."""
    unanswered: tuple[str, ...] = ()
    """Those that no tool of these servers answers."""

    @classmethod
    def read(cls) -> "Corpus":
        """Return what the files hold."""
        corpus = cls()
        corpus._read_public()
        corpus._read_own()
        return corpus

    def texts(self, ids: Iterable[str]) -> Iterator[tuple[str, ...]]:
        """Yield each tool in the ways that it is told."""
        for tool in EvaluationCatalogue.of_lines(self.lines[one] for one in ids).tools:
            yield tuple(text(Entry(tool)) for text in TEXTS)

    def joined(self, count: int, chance: random.Random) -> list[Pair]:
        """Return questions with two errands, made of two questions of one source."""
        by_group = defaultdict(list)
        for pair in self.pairs:
            by_group[pair.group].append(pair)
        pairs = [pair for pair in self.pairs if len(by_group[pair.group]) > 1]
        made = []
        for first in chance.choices(pairs, k=count):
            second = chance.choice(by_group[first.group])
            link = chance.choice((" ", ", and ", ". Then ", ". Also, ", " and then "))
            query = first.query.rstrip(" .") + link + second.query
            made.append(Pair(query, first.relevant + second.relevant, first.group))
        return made

    def _read_public(self) -> None:
        folder = DATA / "training"
        places = json.loads((folder / "validation_tools.json").read_text())
        known = {int(row["id"]): row for row in read_lines(folder / "tools.jsonl")}
        for number, row in known.items():
            self.lines[f"{number}"] = _public_line(row)
        labelled = list(read_lines(folder / "pairs.jsonl"))
        asked = list(read_lines(folder / "validation.jsonl"))
        trained = {number for row in labelled for number in row["relevant"]}
        withheld = set(places["never_train"])
        withheld |= {number for row in asked for number in row["relevant"] if number not in trained}
        for number, row in known.items():
            if number not in withheld:
                self.groups[row["source"]].append(str(number))
        for row in labelled:
            negatives = tuple(str(number) for number in row["hard_negatives"] if number not in withheld)
            self.pairs.append(Pair(row["query"], _strings(row["relevant"]), row["source"], negatives))
        for name, numbers in places.items():
            rows = [row for row in asked if row["set"] == name]
            if rows:
                self.validation[name] = _labelled(name, [self.lines[str(one)] for one in numbers], rows)

    def _read_own(self) -> None:
        for name in LISTS:
            for row in read_lines(DATA / "retrieval" / name / "tools.jsonl"):
                self.lines[row["id"]] = ToolLine.from_json(json.dumps(row))
        for row in read_lines(QUESTIONS / "tools.jsonl"):
            self.lines[row["id"]] = ToolLine.from_json(json.dumps(row))
        for key, line in self.lines.items():
            if not key.isdigit() and not held_out(line.namespace or ""):
                self.groups["own"].append(key)
        rows = list(read_lines(QUESTIONS / "answered.jsonl"))
        spaces = [{self.lines[one].namespace or "" for one in row["relevant"]} for row in rows]
        for row, among in zip(rows, spaces, strict=True):
            if not any(map(held_out, among)):
                self.pairs.append(Pair(row["question"], tuple(row["relevant"]), "own"))
        kept = [row for row, among in zip(rows, spaces, strict=True) if all(map(held_out, among))]
        lost = [row for row in read_lines(QUESTIONS / "unanswered.jsonl") if held_out(row["server"])]
        tools = [one for one in self.lines if not one.isdigit() and held_out(self.lines[one].namespace or "")]
        asked = [{"query": row["question"], "relevant": row["relevant"]} for row in kept]
        self.own = _labelled("own", [self.lines[one] for one in tools], asked)
        self.unanswered = tuple(row["question"] for row in lost)


def held_out(server: str) -> bool:
    """Return whether a server is kept for measuring."""
    return zlib.crc32(server.encode()) % 100 < HELD_OUT


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file."""
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _public_line(row: Mapping[str, Any]) -> ToolLine:
    names = [name.strip() for name in row["parameters"].split(",") if name.strip()]
    schema = {"type": "object", "properties": {name: {} for name in names}}
    return ToolLine(
        id=str(row["id"]),
        name=row["name"] or "tool",
        namespace=row["namespace"] or None,
        description=row["description"],
        input_schema=schema,
    )


def _labelled(name: str, lines: Sequence[ToolLine], rows: Iterable[Mapping[str, Any]]) -> LabelledSet:
    questions = tuple(Labelled(query=row["query"], relevant=_strings(row["relevant"])) for row in rows)
    return LabelledSet(name, EvaluationCatalogue.of_lines(lines), questions)


def _strings(values: Iterable[object]) -> tuple[str, ...]:
    return tuple(map(str, values))
