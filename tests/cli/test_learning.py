"""The verbs `learned list` and `learned forget`."""

import json
from pathlib import Path
from typing import Any

import pytest

from toolcrib.discovery import SqliteStore
from toolcrib.discovery.learned import LearnedQuestion, LearnedQuestions

ROWS = (
    ("mail:send", "write to the team", 2),
    ("mail:send", "tell the family", 1),
    ("w:get", "will it rain today", 1),
)


@pytest.fixture
def config(tmp_path: Path) -> str:
    """Write a configuration whose catalogue has learned questions."""
    with SqliteStore(tmp_path / "catalogue.db") as store:
        LearnedQuestions(store).learn(
            LearnedQuestion(tool_id=tool_id, question=question, uses=uses) for tool_id, question, uses in ROWS
        )
    path = tmp_path / "toolcrib.toml"
    path.write_text('store = "catalogue.db"\n', encoding="utf-8")
    return str(path)


def list_learned(toolcrib: Any, config: str, *args: str) -> list[tuple[str, str, int]]:
    found = json.loads(toolcrib("--config", config, "learned", "list", *args, "--json").stdout)
    assert found["total"] == len(found["learned"])
    return [(row["toolId"], row["question"], row["uses"]) for row in found["learned"]]


def test_questions_are_listed_by_tool_the_most_used_first(toolcrib: Any, config: str) -> None:
    assert list_learned(toolcrib, config) == list(ROWS)
    assert list_learned(toolcrib, config, "w:get:1.0.0") == [ROWS[2]]
    shown = toolcrib("--config", config, "learned", "list").stdout.splitlines()
    assert shown[0].split() == ["TOOL", "USES", "MISSES", "QUESTION"]
    assert shown[1].split(maxsplit=3) == ["mail:send", "2", "0", "write to the team"]


def test_questions_of_a_tool_are_forgotten(toolcrib: Any, config: str) -> None:
    one = toolcrib("--config", config, "learned", "forget", "mail:send", "--question", "tell the family")
    assert one.stderr == "note: deleted 1 question\n"
    assert list_learned(toolcrib, config) == [ROWS[0], ROWS[2]]
    assert json.loads(toolcrib("--config", config, "learned", "forget", "--all", "--json").stdout) == {
        "forgotten": 2
    }
    assert toolcrib("--config", config, "learned", "list").stdout == "nothing has been learned\n"


def test_forgetting_what_is_not_there_is_not_found(toolcrib: Any, config: str) -> None:
    assert toolcrib("--config", config, "learned", "forget", "mail:other").exit_code == 3
    both = toolcrib("--config", config, "learned", "forget", "mail:send", "--all")
    neither = toolcrib("--config", config, "learned", "forget")
    assert [both.exit_code, neither.exit_code] == [2, 2]
    assert list_learned(toolcrib, config) == list(ROWS)
