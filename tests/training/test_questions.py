"""The training questions match the model card."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from toolcrib import Tool
from toolcrib.discovery.search.text import split_identifier
from toolcrib.errors import ValidationError
from toolcrib.model import DefaultValidator

STYLES = {"chatty", "indirect", "parameters", "steps", "terse", "typos"}
GRAM = 8


def rows(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@dataclass(frozen=True, slots=True)
class Questions:
    answered: list[dict[str, Any]]
    unanswered: list[dict[str, Any]]
    invented: list[dict[str, Any]]

    @property
    def texts(self) -> Iterator[str]:
        return (row["question"] for row in chain(self.answered, self.unanswered))

    @property
    def asked_for(self) -> set[str]:
        return {one for row in self.answered for one in row["relevant"]}


@pytest.fixture(scope="module")
def questions(root: Path) -> Questions:
    folder = root / "training" / "questions"
    return Questions(*(rows(folder / f"{name}.jsonl") for name in ("answered", "unanswered", "tools")))


@pytest.fixture(scope="module")
def real(public_data: Path) -> dict[str, str]:
    """Return the names of the real tools by their ids."""
    lists = ("scale_toolsdk", "scale_docker")
    found = chain.from_iterable(rows(public_data / "retrieval" / name / "tools.jsonl") for name in lists)
    return {row["id"]: row["name"] for row in found}


def grams(text: str) -> set[tuple[str, ...]]:
    said = re.findall(r"[a-z0-9]+", text.lower())
    return {tuple(said[start : start + GRAM]) for start in range(len(said) - GRAM + 1)}


def names_all(question: str, name: str) -> bool:
    """Return whether every word of a tool's name is in a question."""
    said = re.findall(r"[a-z0-9]+", question.lower())
    return {word.lower() for word in split_identifier(name)} <= set(said)


def test_there_are_many_questions_for_many_tools(questions: Questions) -> None:
    invented = {row["id"] for row in questions.invented}
    assert len(questions.answered) >= 10_000
    assert len(questions.unanswered) >= 1_000
    assert len(questions.asked_for - invented) >= 2_500
    assert invented <= questions.asked_for


def test_the_card_says_how_many(root: Path, questions: Questions) -> None:
    styles = Counter(row["style"] for row in questions.answered)
    told = [len(questions.answered), len(questions.unanswered), len(questions.asked_for), *styles.values()]
    card = (root / "docs" / "model-card.md").read_text(encoding="utf-8")
    assert [number for number in told if f"{number:,}" not in card] == []


def test_people_ask_in_many_ways(questions: Questions) -> None:
    styles = Counter(row["style"] for row in questions.answered)
    assert set(styles) == STYLES
    assert min(styles.values()) >= 0.05 * len(questions.answered)


def test_no_question_stands_there_twice(questions: Questions) -> None:
    # What differs in case, spaces or punctuation alone is the same.
    seen = Counter("".join(filter(str.isalnum, text.lower())) for text in questions.texts)
    assert "" not in seen
    assert [text for text, count in seen.items() if count > 1] == []


def test_every_answer_is_a_tool_that_is_there(questions: Questions, real: dict[str, str]) -> None:
    offered = {one for row in questions.unanswered for one in row["catalogue"]}
    assert all(row["relevant"] for row in questions.answered)
    assert (questions.asked_for | offered) - {row["id"] for row in questions.invented} - set(real) == set()


def test_invented_tools_have_schemas_that_compile(questions: Questions) -> None:
    validator = DefaultValidator()
    for row in questions.invented:
        tool = Tool(
            name=row["name"],
            namespace=row["namespace"],
            description=row["description"],
            input_schema=row["inputSchema"],
        )
        assert row["id"] == f"{tool.namespace}:{tool.name}"
        assert tool.input_schema["properties"]
        with pytest.raises(ValidationError, match="must be an object"):  # and not that the schema is invalid
            validator.validate_input(tool, [])


def test_few_questions_give_their_tool_away(questions: Questions, real: dict[str, str]) -> None:
    names = real | {row["id"]: row["name"] for row in questions.invented}
    given = sum(
        any(names_all(row["question"], names[one]) for one in row["relevant"]) for row in questions.answered
    )
    assert given <= 0.1 * len(questions.answered)


def test_hardly_a_question_repeats_what_is_validated_on(questions: Questions, public_data: Path) -> None:
    asked = rows(public_data / "training" / "validation.jsonl")
    known = set().union(*(grams(row["query"]) for row in asked))
    repeated = [text for text in questions.texts if not known.isdisjoint(grams(text))]
    assert len(repeated) <= 5, repeated
