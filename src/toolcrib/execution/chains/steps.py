"""Parses and validates one step of a chain, as people, programs and models write it."""

import re
from collections.abc import Container
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

import pydantic
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictStr,
    model_validator,
)
from pydantic_core import PydanticCustomError

from toolcrib.errors import InvalidChainError, Problem, ToolcribError, ValidationError
from toolcrib.errors.base import MAX_PROBLEMS, short_repr
from toolcrib.model.plain import measure, parse_json, pointer
from toolcrib.model.record import Json, JsonObject, Record, problems_of
from toolcrib.model.suggest import did_you_mean
from toolcrib.model.toolid import ToolId, name_fault

MAX_CONCURRENCY = 64
"""The largest `max_concurrency` of a step."""
MAX_NESTING = 8
"""The maximum nesting of groups."""
_CAMEL = {
    "tool_id": "toolId",
    "use_previous": "usePrevious",
    "for_each": "forEach",
    "max_concurrency": "maxConcurrency",
    "on_error": "onError",
}
"""The fields with two spellings."""
_FIELD_NAME = re.compile(rf"\b(?:{'|'.join(_CAMEL)})\b")
_MAX_DEPTH = 256
_MAX_REFERENCE = 1_000
_Seconds = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
_Width = Annotated[int, Field(strict=True, ge=1, le=MAX_CONCURRENCY)]
_FIELD_OF_OTHERS = {
    **dict.fromkeys(("function", "name", "tool", "tool_name", "toolName"), "tool_id"),
    **dict.fromkeys(("arguments", "input", "inputs", "parameters", "params"), "args"),
    **dict.fromkeys(("condition", "if"), "when"),
    "steps": "parallel",
}
"""Names of the same fields elsewhere, such as in the APIs of models, for suggestions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainLimits:
    """Limits of one chain."""

    max_steps: int = 1_000
    """Steps, including those in groups."""
    max_calls: int = 10_000
    """Tool calls in one run; a step with `for_each` makes one for each item."""
    max_bytes: int = 16 << 20
    """Size of all results together, as JSON."""
    max_values: int = 1_000_000
    """Values in all results and in arguments filled with references, containers included."""


class Spelling:
    """The spelling of the fields of one step: as in its source, or in the style of its other fields.

    >>> spelling = Spelling({"toolId": "greet", "for_each": [1]})
    >>> spelling["tool_id"], spelling["for_each"], spelling["on_error"]
    ('toolId', 'for_each', 'on_error')
    >>> Spelling({"toolId": "greet"}).respell("max_concurrency is for steps with for_each")
    'maxConcurrency is for steps with forEach'
    """

    __slots__ = ("_written",)

    def __init__(self, written: Any) -> None:
        """Take the source of a step; a record made in Python has the spelling of Python."""
        self._written = written

    def __getitem__(self, field: str) -> str:
        """Return the spelling of a field."""
        if type(self._written) is not dict or field in self._written:
            return field
        camel = _CAMEL.get(field, field)
        is_camel = camel in self._written or not any("_" in name for name in self._written)
        return camel if is_camel else field

    def respell(self, text: str) -> str:
        """Return a text with all field names in this spelling."""
        return _FIELD_NAME.sub(lambda found: self[found[0]], text)


def _tool_to_text(value: Any) -> Any:
    return str(value) if isinstance(value, ToolId) else value


def _check_step_id(value: str) -> str:
    if fault := name_fault(value):
        raise PydanticCustomError("id", "{fault}", {"fault": fault})
    if value.isdecimal():
        raise PydanticCustomError("id", "must not be a number, which would be read as the place of a step")
    return value


def _check_on_error(value: Any) -> Any:
    if value in ("stop", "continue") or (isinstance(value, dict) and set(value) == {"fallback"}):
        return value
    reason = "must be 'stop', 'continue' or {'fallback': value}"
    raise PydanticCustomError("on_error", "{reason}", {"reason": f"{reason}, not {short_repr(value)}"})


_ToolRef = Annotated[
    StrictStr, Field(min_length=1, max_length=_MAX_REFERENCE), BeforeValidator(_tool_to_text)
]
_OnError = Annotated[Literal["stop", "continue"] | JsonObject, BeforeValidator(_check_on_error)]


class ChainStep(Record):
    """A call to a tool, once or for each of many items; or a group of steps that run in parallel.

    In the values of a step, `{"$ref": "steps.find/items/0/id"}` stands for a part of an earlier result, and
    `{"$literal": value}` for a value in which references are not resolved.

    >>> ChainStep.from_json('{"toolId": "mail:send", "args": {"to": "ann"}, "usePrevious": true}').tool_id
    'mail:send'

    Raises:
        InvalidChainError: with every problem found.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(loc_by_alias=False)

    tool_id: _ToolRef | None = None
    """The tool: an id, `namespace:name`, or that with a version constraint."""
    args: JsonObject = Field(default_factory=dict)
    """The arguments, which may contain references."""
    use_previous: StrictBool = False
    """Whether to pass the result of the previous step as `args["previous"]`; null for the first step."""
    id: Annotated[StrictStr, AfterValidator(_check_step_id)] | None = None
    """The name of the step in references; without one it is its index, from 0."""
    when: Json | None = None
    """The condition for the step to run; without one it always runs."""
    for_each: Json | None = None
    """A list, or a reference to one: the step runs once for each `item`, and its result is a list."""
    parallel: tuple["ChainStep", ...] | None = None
    """Steps to run in parallel, instead of a tool; the result is the list of their results."""
    max_concurrency: _Width | None = None
    """The number of items, or of steps of a group, that run in parallel; 8 by default."""
    timeout: _Seconds | None = None
    """The timeout of each call, in seconds."""
    on_error: _OnError = "stop"
    """`stop` ends the chain; `continue` uses null as the result, `{"fallback": value}` the value."""

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        faults = _find_group_faults(self) if self.parallel is not None else _find_call_faults(self)
        if faults:
            raise PydanticCustomError("step", "{reason}", {"reason": "; ".join(faults)})
        return self

    @classmethod
    def from_json(cls, source: str | bytes | bytearray | dict[str, Any] | BaseModel) -> Self:
        """Return the step for its JSON, whose fields may be in snake_case or camelCase.

        Raises:
            InvalidChainError: it is not JSON, not an object, or not a step.
        """
        data: Any = source
        if isinstance(source, str | bytes | bytearray):
            try:
                data = parse_json(source)
            except ValueError as error:
                raise cls._refusal((Problem("", "json", f"it is not JSON: {error}"[:500]),), {}) from error
        problems: list[Problem] = []
        step = read_step(data, "", problems)
        if step is None or problems:
            raise cls._refusal(tuple(problems), {})
        return step  # type: ignore[return-value]  # the class is not subclassed

    def to_json(self, *, without: Container[str] = ()) -> dict[str, Any]:
        """Return the JSON form: camelCase, without fields that have their default."""
        fields = type(self).model_fields.items()
        usual = {
            name
            for name, field in fields
            if name in without or getattr(self, name) == field.get_default(call_default_factory=True)
        }
        return super().to_json(without=usual)

    @classmethod
    def _refusal(cls, problems: tuple[Problem, ...], data: dict[str, Any]) -> ToolcribError:  # noqa: ARG003 - the base's signature
        return InvalidChainError(problems=tuple(map(_add_suggestion, problems)))


def _find_call_faults(step: ChainStep) -> list[str]:
    faults = [] if step.tool_id else ["needs a tool_id, or a parallel group of steps"]
    if step.max_concurrency is not None and step.shared("for_each") is None:
        faults.append("max_concurrency is for steps with for_each, and for groups")
    return faults


def _find_group_faults(step: ChainStep) -> list[str]:
    given = {name: getattr(step, name) for name in ("tool_id", "args", "use_previous", "for_each", "timeout")}
    return [f"a parallel group has no {name}; give it to the steps in it" for name in given if given[name]]


_FIELD_BY_SPELLING = {field.alias or name: name for name, field in ChainStep.model_fields.items()}
_FIELD_BY_SPELLING |= {name: name for name in ChainStep.model_fields}


def _describe_unknown_field(name: str, spelling: Spelling) -> str:
    meant = _FIELD_OF_OTHERS.get(name)
    hint = f"; did you mean {spelling[meant]!r}?" if meant else did_you_mean(name, _FIELD_BY_SPELLING)
    return f"is not a field of a step{hint}"


def _add_suggestion(problem: Problem) -> Problem:
    """Return the problem of an unknown field with the nearest known field."""
    if problem.keyword != "extra_forbidden":
        return problem
    return Problem(
        problem.path,
        problem.keyword,
        _describe_unknown_field(problem.path.rpartition("/")[2], Spelling(None)),
    )


def read_step(value: Any, path: str, problems: list[Problem]) -> ChainStep | None:
    """Return a step; None if it is invalid, whose problems are added to the list."""
    if isinstance(value, ChainStep):
        return value
    if type(value) is dict and "parallel" in value:
        # Groups are read before pydantic measures their values, and a group may hold itself.
        try:
            measure(value, max_depth=_MAX_DEPTH)
        except ValidationError as error:
            problems += [Problem(path + each.path, each.keyword, each.message) for each in error.problems]
            return None
    fields = _read_fields(value, path, problems, 0)
    if fields is None:
        return None
    try:
        return ChainStep.model_validate(fields)
    except pydantic.ValidationError as error:
        problems += [_respell_problem(each, value, path) for each in problems_of(error)]
        return None


def _respell_problem(problem: Problem, step: dict[str, Any], path: str) -> Problem:
    """Return a problem with the path of its step, and its fields spelt as in the source."""
    spelling, parts = Spelling(step), problem.path.split("/")[1:]
    while parts:
        field = spelling[parts[0]]
        path = f"{path}/{field}"
        if parts[0] != "parallel" or len(parts) == 1:
            return Problem("/".join([path, *parts[1:]]), problem.keyword, problem.message)
        step = step[field][int(parts[1])]
        spelling, path, parts = Spelling(step), f"{path}/{parts[1]}", parts[2:]
    return Problem(path, problem.keyword, spelling.respell(problem.message))


def _read_fields(value: Any, path: str, problems: list[Problem], depth: int) -> dict[str, Any] | None:
    """Return the fields of a step in snake_case; None if it is no object, or nested too deep."""
    if type(value) is not dict:
        problems.append(Problem(path, "type", f"a step must be an object, not {short_repr(value)}"))
        return None
    if depth > MAX_NESTING:
        problems.append(Problem(path, "parallel", f"groups are nested more than {MAX_NESTING} deep"))
        return None
    fields: dict[str, Any] = {}
    for name, member in value.items():
        field = _FIELD_BY_SPELLING.get(name)
        if field is None:
            # the error shows no more problems, and each costs a search for similar names
            if len(problems) < MAX_PROBLEMS:
                reason = _describe_unknown_field(name, Spelling(value))
                problems.append(Problem(path + pointer([name[:100]]), "extra_forbidden", reason))
        elif field in fields:
            problems.append(Problem(f"{path}/{name}", "name", "is given under both its names"))
        else:
            fields[field] = _read_field(field, member, path, problems, depth)
    return fields


def _read_field(field: str, value: Any, path: str, problems: list[Problem], depth: int) -> Any:
    """Return the value of a field; parse steps of a group, and arguments that came as JSON text."""
    if field == "parallel" and type(value) is list:
        read = [
            _read_fields(step, f"{path}/parallel/{index}", problems, depth + 1)
            for index, step in enumerate(value)
        ]
        return [{"tool_id": "unreadable"} if step is None else step for step in read]
    if field == "args" and value is None:
        return {}
    if field == "args" and type(value) is str:
        try:
            return parse_json(value) if value.strip() else {}
        except ValueError as error:
            problems.append(Problem(f"{path}/args", "json", f"is text that is not JSON: {error}"[:500]))
            return {}
    return value
