"""Labelled sets in JSON Lines: questions with the tools that answer them."""

from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, TypeVar

from pydantic import AfterValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from toolcrib.discovery.evaluation.catalogue import EvaluationCatalogue, ToolLine
from toolcrib.errors import InvalidToolError, Problem
from toolcrib.errors.base import MAX_PROBLEMS, short_repr
from toolcrib.model.record import Record, Text

_Line = TypeVar("_Line", bound=Record)
_MAX_MESSAGE = 500


def _check_not_empty(ids: tuple[str, ...]) -> tuple[str, ...]:
    if not ids:
        raise PydanticCustomError("relevant", "must name at least one tool")
    return ids


class LabelledQuery(Record):
    """A question, and the tools that answer it."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore")

    qid: Text = ""
    """The id of the question in the file."""
    query: Text = Field(min_length=1)
    """The question."""
    relevant: Annotated[tuple[Text, ...], AfterValidator(_check_not_empty)]
    """The ids of the right tools, as in the labels."""


@dataclass(frozen=True, slots=True)
class LabelledSet:
    """Tools, and questions with known answers."""

    name: str
    """The name of the set."""
    catalogue: EvaluationCatalogue
    """The tools."""
    queries: tuple[LabelledQuery, ...]
    """The questions."""


def load_tools(path: str | Path, *, lenient: bool = False) -> EvaluationCatalogue:
    """Load the tools of a file.

    A line is {id, name, namespace?, description?, inputSchema?, tags?, category?}.
    With `lenient`, schemas that do not compile are repaired as far as possible, and counted.

    Raises:
        InvalidToolError: a line is malformed, or an id occurs twice; each problem has its line.
    """
    file = Path(path)
    problems: list[Problem] = []
    lines: dict[str, ToolLine] = {}
    for number, line in _read_lines(file, ToolLine, problems):
        if line.id in lines:
            problems.append(
                _make_problem(number, "id", f"the id {short_repr(line.id)} is on an earlier line too")
            )
        lines[line.id] = line
    _raise_problems(problems, file, "file of tools")
    return EvaluationCatalogue.of_lines(lines.values(), lenient=lenient)


def load_queries(path: str | Path, *, known: Container[str] | None = None) -> tuple[LabelledQuery, ...]:
    """Load the questions of a file: lines of {qid?, query, relevant}.

    A question without a `qid` gets the number of its line. If `known` is given, it must contain every
    relevant id.

    Raises:
        InvalidToolError: a line is malformed, or a tool is unknown; each problem has its line.
    """
    file = Path(path)
    problems: list[Problem] = []
    questions = []
    for number, question in _read_lines(file, LabelledQuery, problems):
        unknown = [] if known is None else [name for name in question.relevant if name not in known]
        problems += [
            _make_problem(number, "relevant", f"there is no tool with the id {short_repr(name)}")
            for name in unknown
        ]
        questions.append(question if question.qid else question.replace(qid=str(number)))
    _raise_problems(problems, file, "file of questions")
    return tuple(questions)


def load_set(folder: str | Path, *, name: str | None = None, lenient: bool = False) -> LabelledSet:
    """Load the set in `tools.jsonl` and `queries.jsonl` of a folder."""
    place = Path(folder)
    catalogue = load_tools(place / "tools.jsonl", lenient=lenient)
    queries = load_queries(place / "queries.jsonl", known=catalogue.ids)
    return LabelledSet(name or place.name, catalogue, queries)


def _read_lines(file: Path, kind: type[_Line], problems: list[Problem]) -> Iterator[tuple[int, _Line]]:
    """Yield the records of a file with their line numbers; append the problems of malformed lines."""
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                yield number, kind.from_json(line)
            except InvalidToolError as error:
                problems += [_make_problem(number, found.keyword, str(found)) for found in error.problems]
            if len(problems) >= MAX_PROBLEMS:
                return


def _make_problem(number: int, keyword: str, message: str) -> Problem:
    return Problem("", keyword, f"line {number}: {message}"[:_MAX_MESSAGE])


def _raise_problems(problems: list[Problem], file: Path, record: str) -> None:
    if problems:
        raise InvalidToolError(tuple(problems[:MAX_PROBLEMS]), str(file), record)
