"""How well words find tools, and how fast, on real tools and real questions."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from discovery.support import indexed
from discovery.text.support import seconds

from toolcrib.discovery import Bm25Searcher
from toolcrib.discovery.evaluation import evaluate, load_set, load_tools
from toolcrib.discovery.text import words
from toolcrib.model import Tool

pytestmark = pytest.mark.untraced

LIMIT = 0.5
"""Seconds of CPU time; each takes a tenth of it where nothing else runs and nothing is traced."""


def filled(tools: Iterable[Tool]) -> Bm25Searcher:
    searcher = Bm25Searcher()
    searcher.update([indexed(tool) for tool in tools])
    return searcher


@pytest.mark.parametrize(
    ("name", "questions", "floor"),
    [("metatool_single", 500, 0.567), ("bfcl", 400, 0.769), ("sealtools_dev", 200, 0.896)],
)
def test_the_right_tools_stand_as_high_as_they_did(
    shared_data: Path, name: str, questions: int, floor: float
) -> None:
    labelled = load_set(shared_data / "retrieval" / name, lenient=True)
    assert evaluate(filled(labelled.catalogue.tools), labelled, sample=questions).ndcg >= floor


@pytest.mark.attack
@pytest.mark.timeout(120)
def test_no_question_takes_long_among_thousands_of_real_tools(shared_data: Path) -> None:
    tools = load_tools(shared_data / "retrieval" / "scale_toolsdk" / "tools.jsonl").tools
    searcher = filled(tools)
    common = [
        word
        for word, _ in Counter(word for tool in tools for word in words(tool.description or "")).most_common(
            600
        )
    ]
    questions = {
        "plain": "create an issue in a repository",
        "common words": " ".join(common),
        "common words in parts": ", ".join(" ".join(common[at : at + 30]) for at in range(0, 600, 30)),
        "common words in many parts": ", ".join(" ".join(common[at : at + 4]) for at in range(0, 600, 4)),
        "slips": "creatoin repositry wheather calender",
        "long slips": "authenticationconfigurator internationalisationss characteristicallyy configuratoinmanager",
        "dots": "." * 9_999 + "x",
        "a megabyte": "create issue " * 80_000,
        "a megabyte without a space": "x" * 1_000_000,
        "a megabyte of accents": "\u0951\u0952" * 500_000,
        "a megabyte of ligatures": "\ufdfa" * 1_000_000,
        "a megabyte of errands": "send a mail, and then " * 50_000,
    }
    slow = {
        name: taken
        for name, question in questions.items()
        if (taken := seconds(lambda text=question: searcher.search(text, limit=10))) > LIMIT
    }
    assert slow == {}
