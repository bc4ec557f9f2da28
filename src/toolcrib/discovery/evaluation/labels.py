"""Questions with the tools that answer them, as people label them: one JSON object to a line."""

from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, TypeVar

from pydantic import AfterValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from toolcrib.discovery.evaluation.catalogue import EvaluationCatalogue, ToolLine
from toolcrib.errors import InvalidToolError, Problem
from toolcrib.errors.base import MAX_PROBLEMS, shown
from toolcrib.model.record import Record, Text

_Line = TypeVar("_Line", bound=Record)
_MAX_MESSAGE = 500


def _some(ids: tuple[str, ...]) -> tuple[str, ...]:
    if not ids:
        raise PydanticCustomError("relevant", "must name at least one tool")
    return ids


class LabelledQuery(Record):
    """A question, and the tools that answer it."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore")

    qid: Text = ""
    """What the file calls the question."""
    query: Text = Field(min_length=1)
    """The question."""
    relevant: Annotated[tuple[Text, ...], AfterValidator(_some)]
    """Ids as the labels have them."""


@dataclass(frozen=True, slots=True)
class LabelledSet:
    """Tools, and questions whose answers are known."""

    name: str
    """What the set is called."""
    catalogue: EvaluationCatalogue
    """The tools."""
    queries: tuple[LabelledQuery, ...]
    """The questions."""


def load_tools(path: str | Path, *, lenient: bool = False) -> EvaluationCatalogue:
    """Return the tools of a file.

    A line is {id, name, namespace?, description?, inputSchema?, tags?, category?}.
    With `lenient`, schemas that do not compile are repaired as far as they can be, and counted.

    Raises:
        InvalidToolError: lines that are no such objects, or an id twice; each problem says its line.
    """
    file = Path(path)
    problems: list[Problem] = []
    lines: dict[str, ToolLine] = {}
    for number, line in _read_lines(file, ToolLine, problems):
        if line.id in lines:
            problems.append(_problem(number, "id", f"the id {shown(line.id)} is on an earlier line too"))
        lines[line.id] = line
    _refuse(problems, file, "file of tools")
    return EvaluationCatalogue.of_lines(lines.values(), lenient=lenient)


def load_queries(path: str | Path, *, known: Container[str] | None = None) -> tuple[LabelledQuery, ...]:
    """Return the questions of a file: lines of {qid?, query, relevant}.

    A question without a `qid` gets the number of its line. Where `known` is given, every relevant id must be
    in it.

    Raises:
        InvalidToolError: lines that are no such objects, or tools that are not known; each says its line.
    """
    file = Path(path)
    problems: list[Problem] = []
    questions = []
    for number, question in _read_lines(file, LabelledQuery, problems):
        unknown = [] if known is None else [name for name in question.relevant if name not in known]
        problems += [
            _problem(number, "relevant", f"there is no tool with the id {shown(name)}") for name in unknown
        ]
        questions.append(question if question.qid else question.replace(qid=str(number)))
    _refuse(problems, file, "file of questions")
    return tuple(questions)


def load_set(folder: str | Path, *, name: str | None = None, lenient: bool = False) -> LabelledSet:
    """Return the set that `tools.jsonl` and `queries.jsonl` in a folder make."""
    place = Path(folder)
    catalogue = load_tools(place / "tools.jsonl", lenient=lenient)
    queries = load_queries(place / "queries.jsonl", known=catalogue.ids)
    return LabelledSet(name or place.name, catalogue, queries)


def _read_lines(file: Path, kind: type[_Line], problems: list[Problem]) -> Iterator[tuple[int, _Line]]:
    """Yield the records of a file with the numbers of their lines; add what is wrong with the others."""
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                yield number, kind.from_json(line)
            except InvalidToolError as error:
                problems += [_problem(number, found.keyword, str(found)) for found in error.problems]
            if len(problems) >= MAX_PROBLEMS:
                return


def _problem(number: int, keyword: str, message: str) -> Problem:
    return Problem("", keyword, f"line {number}: {message}"[:_MAX_MESSAGE])


def _refuse(problems: list[Problem], file: Path, record: str) -> None:
    if problems:
        raise InvalidToolError(tuple(problems[:MAX_PROBLEMS]), str(file), record)
