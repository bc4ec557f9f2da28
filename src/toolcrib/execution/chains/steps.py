"""One step of a chain, as people, programs and models write it."""

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
from toolcrib.errors.base import MAX_PROBLEMS, shown
from toolcrib.model.plain import measure, parse_json, pointer
from toolcrib.model.record import Json, JsonObject, Record, problems_of
from toolcrib.model.suggest import did_you_mean
from toolcrib.model.toolid import ToolId, name_fault

MAX_CONCURRENCY = 64
"""The most that one step may ask to run at a time."""
MAX_NESTING = 8
"""How deep groups may stand in groups."""
_CAMEL = {
    "tool_id": "toolId",
    "use_previous": "usePrevious",
    "for_each": "forEach",
    "max_concurrency": "maxConcurrency",
    "on_error": "onError",
}
"""The fields that may be spelt in two ways."""
_FIELD = re.compile(rf"\b(?:{'|'.join(_CAMEL)})\b")
_MAX_DEPTH = 256
_MAX_REFERENCE = 1_000
_Seconds = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
_Width = Annotated[int, Field(strict=True, ge=1, le=MAX_CONCURRENCY)]
_MEANT = {
    **dict.fromkeys(("function", "name", "tool", "tool_name", "toolName"), "tool_id"),
    **dict.fromkeys(("arguments", "input", "inputs", "parameters", "params"), "args"),
    **dict.fromkeys(("condition", "if"), "when"),
    "steps": "parallel",
}
"""What others call a field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainLimits:
    """What one chain may use."""

    max_steps: int = 1_000
    """Steps that are written down, those in groups included."""
    max_calls: int = 10_000
    """Calls of tools in one run, one for each item that a step is repeated for."""
    max_bytes: int = 16 << 20
    """Bytes that the results of all steps take as JSON, together."""
    max_values: int = 1_000_000
    """Values that they hold, containers included, with those that filling in arguments made."""


class Spelling:
    """The names of the fields of one step, as they were written or would have been.

    >>> spelling = Spelling({"toolId": "greet", "for_each": [1]})
    >>> spelling["tool_id"], spelling["for_each"], spelling["on_error"]
    ('toolId', 'for_each', 'on_error')
    >>> Spelling({"toolId": "greet"}).of_text("max_concurrency is for steps with for_each")
    'maxConcurrency is for steps with forEach'
    """

    __slots__ = ("_written",)

    def __init__(self, written: Any) -> None:
        """Keep what a step was written as; a record made in Python is spelt as Python is."""
        self._written = written

    def __getitem__(self, field: str) -> str:
        """Return how a field is spelt."""
        if type(self._written) is not dict or field in self._written:
            return field
        camel = _CAMEL.get(field, field)
        is_camel = camel in self._written or not any("_" in name for name in self._written)
        return camel if is_camel else field

    def of_text(self, text: str) -> str:
        """Return a text with all fields in it spelt so."""
        return _FIELD.sub(lambda found: self[found[0]], text)


def _tool(value: Any) -> Any:
    return str(value) if isinstance(value, ToolId) else value


def _step_id(value: str) -> str:
    if fault := name_fault(value):
        raise PydanticCustomError("id", "{fault}", {"fault": fault})
    if value.isdecimal():
        raise PydanticCustomError("id", "must not be a number, which would be read as the place of a step")
    return value


def _on_error(value: Any) -> Any:
    if value in ("stop", "continue") or (isinstance(value, dict) and set(value) == {"fallback"}):
        return value
    reason = "must be 'stop', 'continue' or {'fallback': value}"
    raise PydanticCustomError("on_error", "{reason}", {"reason": f"{reason}, not {shown(value)}"})


_ToolRef = Annotated[StrictStr, Field(min_length=1, max_length=_MAX_REFERENCE), BeforeValidator(_tool)]
_OnError = Annotated[Literal["stop", "continue"] | JsonObject, BeforeValidator(_on_error)]


class ChainStep(Record):
    """A tool to run with arguments, once or for each of many items; or a group of steps to run side by side.

    Wherever a step takes a value, `{"$ref": "steps.find/items/0/id"}` stands for a part of what an earlier
    step gave, and `{"$literal": value}` for a value that is not looked into.

    >>> ChainStep.from_json('{"toolId": "mail:send", "args": {"to": "ann"}, "usePrevious": true}').tool_id
    'mail:send'

    Raises:
        InvalidChainError: with every problem found.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(loc_by_alias=False)

    tool_id: _ToolRef | None = None
    """The tool: an id, `namespace:name`, or that with a constraint for its version."""
    args: JsonObject = Field(default_factory=dict)
    """The arguments, references included."""
    use_previous: StrictBool = False
    """Whether `args["previous"]` is what the step before gave; null where there is none."""
    id: Annotated[StrictStr, AfterValidator(_step_id)] | None = None
    """What references call the step; without one it is known by its place, the first being 0."""
    when: Json | None = None
    """The condition for the step to run; without one it does."""
    for_each: Json | None = None
    """A list, or a reference to one: the step runs once for each `item` in it, and gives a list."""
    parallel: tuple["ChainStep", ...] | None = None
    """Steps to run side by side, instead of a tool; the group gives the list of what they gave."""
    max_concurrency: _Width | None = None
    """How many items, or steps of a group, run at a time; 8 by default."""
    timeout: _Seconds | None = None
    """Seconds that each call of the tool may take."""
    on_error: _OnError = "stop"
    """`stop` ends the chain; `continue` goes on with null as the result, `{"fallback": value}` with that."""

    @model_validator(mode="after")
    def _is_one_thing(self) -> Self:
        faults = _group_faults(self) if self.parallel is not None else _call_faults(self)
        if faults:
            raise PydanticCustomError("step", "{reason}", {"reason": "; ".join(faults)})
        return self

    @classmethod
    def from_json(cls, source: str | bytes | bytearray | dict[str, Any] | BaseModel) -> Self:
        """Return the step that JSON describes, whose fields may be spelt `tool_id` or `toolId`.

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
        return step  # type: ignore[return-value]  # nobody inherits from a step

    def to_json(self, *, without: Container[str] = ()) -> dict[str, Any]:
        """Return the JSON form: camelCase, what is as it would be anyway left out."""
        fields = type(self).model_fields.items()
        usual = {
            name
            for name, field in fields
            if name in without or getattr(self, name) == field.get_default(call_default_factory=True)
        }
        return super().to_json(without=usual)

    @classmethod
    def _refusal(cls, problems: tuple[Problem, ...], data: dict[str, Any]) -> ToolcribError:  # noqa: ARG003 - the base's signature
        return InvalidChainError(problems=tuple(map(_hinted, problems)))


def _call_faults(step: ChainStep) -> list[str]:
    faults = [] if step.tool_id else ["needs a tool_id, or a parallel group of steps"]
    if step.max_concurrency is not None and step.shared("for_each") is None:
        faults.append("max_concurrency is for steps with for_each, and for groups")
    return faults


def _group_faults(step: ChainStep) -> list[str]:
    given = {name: getattr(step, name) for name in ("tool_id", "args", "use_previous", "for_each", "timeout")}
    return [f"a parallel group has no {name}; give it to the steps in it" for name in given if given[name]]


_NAMES = {field.alias or name: name for name, field in ChainStep.model_fields.items()}
_NAMES |= {name: name for name in ChainStep.model_fields}


def _unknown(name: str, spelling: Spelling) -> str:
    meant = _MEANT.get(name)
    hint = f"; did you mean {spelling[meant]!r}?" if meant else did_you_mean(name, _NAMES)
    return f"is not a field of a step{hint}"


def _hinted(problem: Problem) -> Problem:
    """Return a problem with the nearest field, where it is about one that there is not."""
    if problem.keyword != "extra_forbidden":
        return problem
    return Problem(problem.path, problem.keyword, _unknown(problem.path.rpartition("/")[2], Spelling(None)))


def read_step(value: Any, path: str, problems: list[Problem]) -> ChainStep | None:
    """Return a step, or None where it is none; what is wrong with it is added to the problems."""
    if isinstance(value, ChainStep):
        return value
    try:
        measure(value, max_depth=_MAX_DEPTH)
    except ValidationError as error:
        problems += [Problem(path + each.path, each.keyword, each.message) for each in error.problems]
        return None
    spelt = _spelt(value, path, problems, 0)
    if spelt is None:
        return None
    try:
        return ChainStep.model_validate(spelt)
    except pydantic.ValidationError as error:
        problems += [_as_written(each, value, path) for each in problems_of(error)]
        return None


def _as_written(problem: Problem, step: dict[str, Any], path: str) -> Problem:
    """Return a problem of a step that was written at a path, with the fields spelt as there."""
    spelling, parts = Spelling(step), problem.path.split("/")[1:]
    while parts:
        field = spelling[parts[0]]
        path = f"{path}/{field}"
        if parts[0] != "parallel" or len(parts) == 1:
            return Problem("/".join([path, *parts[1:]]), problem.keyword, problem.message)
        step = step[field][int(parts[1])]
        spelling, path, parts = Spelling(step), f"{path}/{parts[1]}", parts[2:]
    return Problem(path, problem.keyword, spelling.of_text(problem.message))


def _spelt(value: Any, path: str, problems: list[Problem], depth: int) -> dict[str, Any] | None:
    """Return the fields of a step by their names; None where nothing can be made of it."""
    if type(value) is not dict:
        problems.append(Problem(path, "type", f"a step must be an object, not {shown(value)}"))
        return None
    if depth > MAX_NESTING:
        problems.append(Problem(path, "parallel", f"groups are nested more than {MAX_NESTING} deep"))
        return None
    fields: dict[str, Any] = {}
    spelling = Spelling(value)
    for name, member in value.items():
        field = _NAMES.get(name)
        if field is None:
            if (
                len(problems) < MAX_PROBLEMS
            ):  # an error shows no more, and each costs a search for the nearest
                reason = _unknown(name, spelling)
                problems.append(Problem(path + pointer([name[:100]]), "extra_forbidden", reason))
        elif field in fields:
            problems.append(Problem(f"{path}/{name}", "name", "is given under both its names"))
        else:
            fields[field] = _member(field, member, path, problems, depth)
    return fields


def _member(field: str, value: Any, path: str, problems: list[Problem], depth: int) -> Any:
    """Return the value of one field, the steps of a group and arguments that came as text read."""
    if field == "parallel" and type(value) is list:
        read = [
            _spelt(step, f"{path}/parallel/{index}", problems, depth + 1) for index, step in enumerate(value)
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
