"""Quality and speed of lexical search, on tools and questions such as people have."""

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from discovery.support import indexed
from effort import at_most

from toolcrib.discovery import Bm25Searcher
from toolcrib.discovery.evaluation import evaluate, load_set, load_tools
from toolcrib.discovery.search.text import words
from toolcrib.model import Tool

LIMIT = 0.5
"""Seconds of CPU time; each takes a tenth of it where nothing else runs and nothing is traced."""
FLOORS = {
    "tests": {"metatool_single": 0.33, "bfcl": 0.98, "sealtools_dev": 0.99},
    "shared": {"metatool_single": 0.567, "bfcl": 0.769, "sealtools_dev": 0.896},
}
"""The least nDCG of each set, by the folder that holds it."""
THOUSANDS = 4_000
"""The least number of tools in the catalogue that is searched."""


def common(words: list[str], size: int = 600) -> str:
    """Return common words, in parts of a size."""
    return ", ".join(" ".join(words[at : at + size]) for at in range(0, 600, size))


QUESTIONS: dict[str, Callable[[list[str]], str]] = {
    "plain": lambda _: "create an issue in a repository",
    "common words": common,
    "common words in parts": lambda words: common(words, 30),
    "common words in many parts": lambda words: common(words, 4),
    "slips": lambda _: "creatoin repositry wheather calender",
    "long slips": lambda _: (
        "authenticationconfigurator internationalisationss characteristicallyy configuratoinmanager"
    ),
    "dots": lambda _: "." * 9_999 + "x",
    "a megabyte": lambda _: "create issue " * 80_000,
    "a megabyte without a space": lambda _: "x" * 1_000_000,
    "a megabyte of accents": lambda _: "\u0951\u0952" * 500_000,
    "a megabyte of ligatures": lambda _: "\ufdfa" * 1_000_000,
    "a megabyte of errands": lambda _: "send a mail, and then " * 50_000,
}
"""Questions that are hard to answer, made of the most common words."""


def filled(tools: Iterable[Tool]) -> Bm25Searcher:
    searcher = Bm25Searcher()
    searcher.update([indexed(tool) for tool in tools])
    return searcher


@pytest.mark.parametrize(
    ("name", "questions"), [("metatool_single", 500), ("bfcl", 400), ("sealtools_dev", 200)]
)
def test_the_right_tools_stand_as_high_as_they_did(data: Path, name: str, questions: int) -> None:
    labelled = load_set(data / "retrieval" / name, lenient=True)
    found = evaluate(filled(labelled.catalogue.tools), labelled, sample=questions)
    assert found.ndcg >= FLOORS[data.parent.name][name]


@pytest.fixture(scope="module")
def tools(data: Path) -> list[Tool]:
    """Return thousands of tools: those of the sample over and over, under other names."""
    found = load_tools(data / "retrieval" / "scale_toolsdk" / "tools.jsonl").tools
    rounds = -(-THOUSANDS // len(found))
    if rounds == 1:
        return list(found)
    return [tool.replace(name=f"{tool.name}_{number}") for tool in found for number in range(rounds)]


@pytest.fixture(scope="module")
def many(tools: list[Tool]) -> Bm25Searcher:
    return filled(tools)


@pytest.fixture(scope="module")
def usual(tools: list[Tool]) -> list[str]:
    """Return the most common words of the descriptions."""
    counted = Counter(word for tool in tools for word in words(tool.description or ""))
    return [word for word, _ in counted.most_common(600)]


@pytest.mark.attack
@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_no_question_takes_long_among_thousands_of_tools(
    many: Bm25Searcher, usual: list[str], question: Callable[[list[str]], str]
) -> None:
    text = question(usual)
    with at_most(LIMIT):
        many.search(text, limit=10)
