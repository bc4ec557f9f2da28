"""Measurements of search: searchers, questions, and progress."""

import json
from pathlib import Path

import pytest

from toolcrib import Crib
from toolcrib.errors import ToolcribError
from toolcrib.setup.demo import open_with_demo
from toolcrib.setup.measuring import of_set, of_view

pytestmark = pytest.mark.anyio


def write(path: Path, *rows: dict[str, object]) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


async def test_the_tools_of_a_crib_are_measured_by_words_and_by_meaning(tmp_path: Path) -> None:
    file = write(tmp_path / "q.jsonl", {"query": "miles to kilometres", "relevant": ["math:convert_length"]})
    told: list[tuple[str, int, int]] = []
    crib = Crib()
    async with open_with_demo(crib):
        measurement = of_view(crib, file)
        words, both = measurement.measure(progress=lambda *far: told.append(far))
    assert [words.searcher, words.report.hit1, words.report.tools] == ["bm25", 1, 12]
    assert [both.searcher, both.report.hit1, both.report.tools] == ["hybrid", 1, 12]
    assert min(words.separation.auc, both.separation.auc) > 0.9
    assert [told[0][0], told[-1][0]] == ["bm25", "hybrid"]


async def test_a_crib_that_finds_by_words_alone_is_measured_so(tmp_path: Path) -> None:
    file = write(tmp_path / "q.jsonl", {"query": "miles to kilometres", "relevant": ["math:convert_length"]})
    crib = Crib({"search": {"searcher": "bm25"}})
    async with open_with_demo(crib):
        assert list(of_view(crib, file).finders) == ["bm25"]


async def test_a_part_of_a_crib_is_measured_alone(tmp_path: Path) -> None:
    file = write(tmp_path / "q.jsonl", {"query": "a note", "relevant": ["notes:add"]})
    crib = Crib({"toolsets": {"sums": {"namespaces": ["math"]}, "notes": {"namespaces": ["notes"]}}})
    async with open_with_demo(crib):
        measured, _ = of_view(crib.view("notes"), file).measure()
        assert measured.report.tools == 3
        with pytest.raises(ToolcribError, match="there is no tool with the id 'notes:add'"):
            of_view(crib.view("sums"), file)


def test_a_set_brings_its_own_tools(tmp_path: Path) -> None:
    write(tmp_path / "tools.jsonl", {"id": "1", "name": "Drill", "description": "Make a hole."})
    write(
        tmp_path / "queries.jsonl",
        {"query": "a hole", "relevant": ["1"]},
        {"query": "drill", "relevant": ["1"]},
    )
    for measured in of_set(tmp_path).measure(sample=1):
        assert [measured.report.queries, measured.report.mrr] == [1, 1]
    assert [measured.searcher for measured in of_set(tmp_path).measure(sample=1)] == ["bm25", "hybrid"]
