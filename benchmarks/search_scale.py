"""A catalogue of any size: real tools first, then varied copies of them that read as naturally."""

import random
import re
from collections.abc import Iterator, Sequence
from itertools import chain, count, islice
from pathlib import Path

from toolcrib.discovery.evaluation import LabelledQuery, LabelledSet, load_set, load_tools
from toolcrib.model import Tool

DATA = Path(__file__).parents[2] / "shared" / "data" / "retrieval"
SETS: dict[str, int | None] = {"metatool_single": 2_000, "bfcl": 1_200, "sealtools_dev": None}
"""The labelled sets, and the number of questions searched in each."""
UNLABELLED = ("scale_toolsdk", "scale_docker")
SEED = 7
CHANGED = 0.25
"""The share of a description's words that a copy has from elsewhere."""
JOINED = 0.03
"""The share of a description's words that a copy makes up."""
SPACE = 12
"""Tools of a made-up namespace."""


def labelled_sets() -> list[LabelledSet]:
    """Return the labelled sets."""
    if not DATA.is_dir():
        raise SystemExit(f"the benchmark needs {DATA}, which is not part of the repository")
    return [load_set(DATA / name, lenient=True) for name in SETS]


def scale_questions(sets: list[LabelledSet], each: int) -> list[LabelledQuery]:
    """Return a fixed mix: as many questions of each set, shuffled."""
    chance = random.Random(SEED)  # noqa: S311 - the same each time
    mixed = [question for labelled in sets for question in chance.sample(labelled.queries, each)]
    chance.shuffle(mixed)
    return mixed


def scale_tools(sets: list[LabelledSet], size: int) -> Iterator[Tool]:
    """Yield so many tools, the same ones each time; a smaller catalogue is the beginning of a larger."""
    listed = [load_tools(DATA / name / "tools.jsonl", lenient=True) for name in UNLABELLED]
    real = [tool for catalogue in listed for tool in catalogue.tools]
    spaces = _spaces(real)
    for labelled in sets:
        for crowd in split_batches(labelled.catalogue.tools, SPACE):
            space = next(spaces)
            real += [tool.replace(namespace=space) for tool in crowd]
    random.Random(SEED).shuffle(real)  # noqa: S311 - the same each time
    yield from islice(chain(real, _copies(real, spaces)), size)


def split_batches(tools: Sequence[Tool], count: int) -> Iterator[Sequence[Tool]]:
    """Yield tools in groups of so many."""
    yield from (tools[start : start + count] for start in range(0, len(tools), count))


def _spaces(real: list[Tool]) -> Iterator[str]:
    """Yield namespaces without end, made of parts of real ones and a number, so that each is another."""
    chance = random.Random(SEED)  # noqa: S311 - the same each time
    parts = sorted({part for tool in real for part in re.findall(r"[A-Za-z]{3,}", tool.namespace or "")})
    for turn in count():
        ending = "-mcp" if chance.random() < 1 / 2 else ""
        yield f"{chance.choice(parts)}-{chance.choice(parts)}-{turn}{ending}"


def _copies(real: list[Tool], spaces: Iterator[str]) -> Iterator[Tool]:
    """Yield copies of real tools without end, under other namespaces and in partly other words.

    A word that stands in for another is drawn from running text, so that each is as frequent as it is there;
    a few are two of them joined, so that the vocabulary grows as a real one does.
    """
    chance = random.Random(SEED)  # noqa: S311 - the same each time
    running = [word for tool in real for word in (tool.description or "").split()]

    def vary(word: str) -> str:
        drawn = chance.random()
        if drawn < JOINED:
            return f"{chance.choice(running)}{chance.choice(running)}"
        return chance.choice(running) if drawn < CHANGED else word

    for space in spaces:
        crowd = {tool.name: tool for tool in chance.sample(real, SPACE)}
        for tool in crowd.values():
            described = " ".join(map(vary, (tool.description or "").split()))
            fields = {name: getattr(tool, name) for name in tool.model_fields_set}
            yield Tool.from_valid(**fields | {"namespace": space, "description": described or None})
