"""The verb `eval`."""

import json
from pathlib import Path
from typing import Any

import pytest

QUESTIONS = [
    {"query": "convert miles to kilometres", "relevant": ["math:convert_length"]},
    {"query": "write a reminder", "relevant": ["notes:add"]},
]


@pytest.fixture
def questions() -> str:
    Path("questions.jsonl").write_text("\n".join(map(json.dumps, QUESTIONS)))
    return "questions.jsonl"


def test_search_is_measured_on_the_catalogue(toolcrib: Any, questions: str) -> None:
    told = toolcrib("eval", questions, "--demo")
    assert told.exit_code == 0
    header, row, meaning = [line.split() for line in told.stdout.splitlines()]
    assert header[:4] == ["SEARCHER", "QUESTIONS", "TOOLS", "HIT@1"]
    assert row[:4] == ["bm25", "2", "12", "1.000"]
    assert meaning[:3] == ["hybrid", "2", "12"]


def test_the_measures_as_json(toolcrib: Any, questions: str) -> None:
    told = json.loads(toolcrib("eval", questions, "--demo", "--json", "--sample", "1").stdout)
    measured = told["searchers"]["bm25"]
    assert [measured["queries"], measured["hit1"], measured["recallAt5"]] == [1, 1, 1]
    assert measured["abstention"]["auc"] > 0.9


def test_a_set_brings_its_own_tools(toolcrib: Any) -> None:
    Path("set").mkdir()
    Path("set/tools.jsonl").write_text('{"id": "1", "name": "Drill", "description": "Make a hole."}\n')
    Path("set/queries.jsonl").write_text('{"query": "a hole", "relevant": ["1"]}\n')
    told = json.loads(toolcrib("eval", "set", "--json").stdout)["searchers"]["bm25"]
    assert [told["name"], told["tools"], told["mrr"]] == ["set", 1, 1]


@pytest.mark.parametrize(
    ("search", "searchers"),
    [
        pytest.param('model = "minilm"', ["bm25", "hybrid"], marks=pytest.mark.proof),
        ('searcher = "bm25"', ["bm25"]),
    ],
)
def test_measured_searcher_is_the_configured_one(
    toolcrib: Any, questions: str, search: str, searchers: list[str]
) -> None:
    Path("toolcrib.toml").write_text(f"[search]\n{search}\n")
    told = json.loads(toolcrib("eval", questions, "--demo", "--config", "toolcrib.toml", "--json").stdout)
    assert list(told["searchers"]) == searchers


def test_no_questions_are_told(toolcrib: Any) -> None:
    Path("none.jsonl").write_text("")
    assert "there are no questions in it" in toolcrib("eval", "none.jsonl", "--demo").stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "line 1: "),
        ('{"query": "a", "relevant": ["math:nosuch"]}', "line 1: there is no tool with the id 'math:nosuch'"),
        ('{"query": "a", "relevant": []}', "line 1: /relevant: must name at least one tool"),
    ],
    ids=["json", "tool", "none"],
)
def test_bad_labels_exit_with_2(toolcrib: Any, text: str, message: str) -> None:
    Path("bad.jsonl").write_text(text)
    told = toolcrib("eval", "bad.jsonl", "--demo")
    assert told.exit_code == 2
    assert message in told.stderr


def test_a_file_that_is_not_there_exits_with_2(toolcrib: Any) -> None:
    assert toolcrib("eval", "nosuch.jsonl", "--demo").exit_code == 2
