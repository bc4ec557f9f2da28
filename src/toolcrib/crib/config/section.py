"""The base record of configuration sections, which reports every mistake with a suggestion."""

from collections.abc import Iterable
from types import UnionType
from typing import Annotated, Any, ClassVar, get_args

from pydantic import AfterValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from toolcrib.errors import ConfigError, Problem, ToolcribError
from toolcrib.model.record import Record
from toolcrib.model.schema.references import parse_pointer
from toolcrib.model.suggest import choose
from toolcrib.paths import path_fault

INTERNAL = frozenset({"source", "others", "text"})
"""Fields that only the file reader sets."""
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Text = Annotated[str, Field(min_length=1)]


def _path(path: str) -> str:
    if fault := path_fault(path):
        raise PydanticCustomError("path", "{fault}", {"fault": fault})
    return path


FilePath = Annotated[Text, AfterValidator(_path)]


class Section(Record):
    """Base of the sections of the configuration."""

    model_config: ClassVar[ConfigDict] = ConfigDict(strict=False)

    @classmethod
    def _refusal(cls, problems: tuple[Problem, ...], data: dict[str, Any]) -> ToolcribError:  # noqa: ARG003 - values may be secret
        return ConfigError(cls.__name__, tuple(add_suggestion(problem, cls) for problem in problems))


def add_suggestion(problem: Problem, record: type[Record]) -> Problem:
    """Return the problem of an unknown key with a suggestion."""
    if problem.keyword != "extra_forbidden":
        return problem
    *places, key = parse_pointer(problem.path)
    options = _options(record, places)
    return Problem(problem.path, problem.keyword, f"is not a setting{choose(key, options)}")


def _options(record: type[Record], places: Iterable[str]) -> list[str]:
    """Return the keys of the section at a place."""
    kind: Any = record
    for place in places:
        if _is_record(kind):
            fields = kind.model_fields
            name = next((name for name, field in fields.items() if place in {name, field.alias}), "")
            kind = _without_none(fields[name].annotation) if name else None
        else:
            kind = get_args(kind)[1] if get_args(kind) else None  # of what a table's values are
    return [name for name in kind.model_fields if name not in INTERNAL] if _is_record(kind) else []


def _is_record(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Record)


def _without_none(kind: Any) -> Any:
    """Return the type of a field without None."""
    return get_args(kind)[0] if isinstance(kind, UnionType) else kind
