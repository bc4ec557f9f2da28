"""A chain that has been read: its steps in order, and what each refers to."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from anyio import to_thread

from toolcrib.errors import InvalidChainError, Problem
from toolcrib.errors.base import MAX_PROBLEMS, shown
from toolcrib.execution.chains.conditions import Condition, read_condition
from toolcrib.execution.chains.references import Known, Reference, StepNames
from toolcrib.execution.chains.steps import MAX_NESTING, ChainLimits, ChainStep, Spelling, read_step
from toolcrib.execution.chains.templates import (
    ArrayTemplate,
    ObjectTemplate,
    Template,
    read_template,
    references_in,
)
from toolcrib.model.plain import parse_json
from toolcrib.model.suggest import few_suggestions

_DEFAULT_CONCURRENCY = 8
_LARGE = 5_000
"""How many values steps have that are read and checked in a thread, and not in the event loop."""


_Read = TypeVar("_Read")


@dataclass(frozen=True, slots=True, eq=False)
class StepNode:
    """A step in its place, its values read."""

    step: ChainStep
    index: int
    """Its place in the chain, or in its group."""
    path: str
    """The same as a JSON Pointer into the chain."""
    slot: int
    top: int
    spelling: Spelling
    args: Template = field(default_factory=dict)
    when: Condition | None = None
    items: Template = None
    fallback: Any = None
    parts: tuple["StepNode", ...] = ()
    tool_id: str | None = None
    """The id of the tool that it means, once that is known."""

    @property
    def name(self) -> str:
        """Return what references call it; a step in a group has a name only with an id."""
        return f"steps.{self.step.id or self.top}"

    @property
    def title(self) -> str:
        """Return what errors call it: its place, and its id where it has one."""
        return self.path if self.step.id is None else f"{self.step.id!r} ({self.path})"

    def at(self, name: str) -> str:
        """Return where a field of it stands in the chain, as a JSON Pointer."""
        return f"{self.path}/{self.spelling[name]}"

    @property
    def repeats(self) -> bool:
        """Return whether it runs for each of many items."""
        return self.step.shared("for_each") is not None

    @property
    def is_group(self) -> bool:
        """Return whether it is a group of steps, rather than a tool."""
        return self.step.parallel is not None

    @property
    def width(self) -> int:
        """Return how many of its parts run at a time."""
        return self.step.max_concurrency or _DEFAULT_CONCURRENCY

    @property
    def references(self) -> tuple[Reference, ...]:
        """Return all references of the step itself."""
        asked = self.when.references if self.when else ()
        return (*references_in(self.args), *references_in(self.items), *asked)

    def named(self, ids: Mapping[int, str]) -> "StepNode":
        """Return the step, and those in it, with the ids of their tools, by slot."""
        return replace(self, tool_id=ids.get(self.slot), parts=tuple(part.named(ids) for part in self.parts))

    def walk(self) -> Iterator["StepNode"]:
        """Yield the step and those in it."""
        yield self
        for part in self.parts:
            yield from part.walk()


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """Steps that have been read and fit together; whether there are such tools is not yet asked.

    >>> Chain.parse([{"toolId": "fetch"}, {"toolId": "parse", "args": {"page": {"$ref": "steps.1/body"}}}])
    Traceback (most recent call last):
    toolcrib.errors.InvalidChainError: the chain cannot run: /1/args/page: 'steps.1' is this step itself
    """

    steps: tuple[ChainStep, ...]
    """The steps as they were given."""
    nodes: tuple[StepNode, ...] = field(repr=False)
    """The steps with their places, conditions and references."""

    @classmethod
    def parse(cls, steps: "Steps", *, limits: ChainLimits | None = None) -> "Chain":
        """Return the chain that steps make: records, JSON objects, or the JSON text of a list of them.

        Raises:
            InvalidChainError: with every problem found; paths begin with the place of the step.
        """
        chain, problems = read_chain(steps, limits)
        if problems:
            raise invalid(problems)
        return chain

    def walk(self) -> Iterator[StepNode]:
        """Yield every step, each group before what is in it."""
        for node in self.nodes:
            yield from node.walk()


Steps = Chain | Sequence[ChainStep | Mapping[str, Any]] | str | bytes
"""What a chain may be given as."""


async def beside(steps: Steps, work: Callable[[], _Read]) -> _Read:
    """Return what some work on steps gives; the event loop turns meanwhile where they are large."""
    return await to_thread.run_sync(work) if _is_large(steps) else work()


def _is_large(steps: Any) -> bool:
    count, pending = 0, [steps.steps if isinstance(steps, Chain) else steps]
    while pending and count <= _LARGE:
        value = pending.pop()
        if isinstance(value, ChainStep):
            value = [value.shared(name) for name in ("args", "for_each", "when", "on_error", "parallel")]
        if isinstance(value, str | bytes | list | tuple | dict):
            count += len(value)
        if isinstance(value, dict):
            pending += value.values()
        elif isinstance(value, list | tuple):
            pending += value
    return count > _LARGE


def invalid(problems: Sequence[Problem]) -> InvalidChainError:
    """Return the error for a chain with these problems."""
    ordered = sorted(problems, key=_place)[:MAX_PROBLEMS]
    first = _place(ordered[0])
    return InvalidChainError(problems=tuple(ordered), step_index=first, reason=str(ordered[0]))


def _place(problem: Problem) -> int:
    top = problem.path.split("/", 2)[1:2]
    return int(top[0]) if top and top[0].isdecimal() else 0


@few_suggestions()
def read_chain(steps: Any, limits: ChainLimits | None = None) -> tuple[Chain, list[Problem]]:
    """Return the steps that can be read, and everything that is wrong with them and the rest."""
    problems: list[Problem] = []
    most = (limits or ChainLimits()).max_steps
    if isinstance(steps, Chain):
        fits = sum(1 for _ in steps.walk()) <= most
        return steps, [] if fits else [Problem("", "max_steps", _too_many(most))]
    listed = _listed(steps, problems)
    if len(listed) > most:
        return Chain((), ()), [Problem("", "max_steps", _too_many(most))]
    read = [(place, read_step(step, f"/{place}", problems)) for place, step in enumerate(listed)]
    placed = _placed([(place, step, listed[place]) for place, step in read if step is not None], problems)
    if len(placed) > most:
        return Chain((), ()), [Problem("", "max_steps", _too_many(most))]
    names = _names(placed, len(listed), problems)
    nodes = tuple(_Reader(names, problems).read(each) for each in placed if each.depth == 0)
    return Chain(tuple(node.step for node in nodes), nodes), problems


def _too_many(most: int) -> str:
    return f"the chain has more than {most:,} steps; repeat one with forEach, or split it"


def _listed(steps: Any, problems: list[Problem]) -> Sequence[Any]:
    """Return the steps as a sequence."""
    if isinstance(steps, str | bytes | bytearray):
        try:
            steps = parse_json(steps)
        except ValueError as error:
            problems.append(Problem("", "json", f"the chain is text that is not JSON: {error}"[:500]))
            return ()
    if type(steps) is dict and set(steps) == {"steps"}:
        steps = steps["steps"]
    if not isinstance(steps, list | tuple):
        problems.append(Problem("", "type", f"a chain must be a list of steps, not {shown(steps)}"))
        return ()
    return steps


@dataclass(frozen=True, slots=True, eq=False)
class _Placed:
    """A step, where it stands, and those in it."""

    step: ChainStep
    index: int
    path: str
    known: Known
    spelling: Spelling
    depth: int
    parts: list["_Placed"]


def _placed(steps: list[tuple[int, ChainStep, Any]], problems: list[Problem]) -> list[_Placed]:
    """Return every step with its place, each group before what is in it."""
    found: list[_Placed] = []

    def place(step: ChainStep, written: Any, path: str, top: int, depth: int) -> _Placed:
        index = int(path.rpartition("/")[2])
        here = _Placed(step, index, path, Known(len(found), top), Spelling(written), depth, [])
        found.append(here)
        if depth == MAX_NESTING + 1:
            problems.append(Problem(path, "parallel", f"groups are nested more than {MAX_NESTING} deep"))
            return here
        parts = step.parallel or ()
        for inner, part in enumerate(parts):
            as_written = written["parallel"][inner] if type(written) is dict else part
            here.parts.append(place(part, as_written, f"{path}/parallel/{inner}", top, depth + 1))
        return here

    for top, step, written in steps:
        place(step, written, f"/{top}", top, 0)
    return found


def _names(placed: list[_Placed], count: int, problems: list[Problem]) -> dict[str, Known]:
    """Return the steps by their places and ids; one that could not be read is known by its place too."""
    names = {str(each.index): each.known for each in placed if each.depth == 0}
    for missing in range(count):
        names.setdefault(str(missing), Known(-1 - missing, missing))
    for each in placed:
        name = each.step.id
        if name is not None and name in names:
            problems.append(Problem(f"{each.path}/id", "id", f"{shown(name)} is the id of another step too"))
        elif name is not None:
            names[name] = each.known
    return names


class _Reader:
    """Reads the values of steps, whose names are known."""

    def __init__(self, by_name: dict[str, Known], problems: list[Problem]) -> None:
        self._by_name = by_name
        self._problems = problems

    def read(self, placed: _Placed) -> StepNode:
        step, path, known, spelling = placed.step, placed.path, placed.known, placed.spelling
        for_each, on_error = f"{path}/{spelling['for_each']}", f"{path}/{spelling['on_error']}"
        outer = StepNames(self._by_name, known, for_each=spelling["for_each"], has_item=False)
        inner = StepNames(
            self._by_name, known, for_each=spelling["for_each"], has_item=step.shared("for_each") is not None
        )
        when = None
        if step.shared("when") is not None:
            when = read_condition(step.shared("when"), inner, f"{path}/when", self._problems)
        return StepNode(
            step=step,
            index=placed.index,
            path=path,
            slot=known.slot,
            top=known.top,
            spelling=spelling,
            args=self._args(step, inner, path),
            when=when,
            items=None
            if step.shared("for_each") is None
            else self._items(step.shared("for_each"), outer, for_each),
            fallback=self._fallback(step.shared("on_error"), outer, on_error),
            parts=tuple(map(self.read, placed.parts)),
        )

    def _args(self, step: ChainStep, names: StepNames, path: str) -> Template:
        given = step.shared("args")
        if step.use_previous:
            given = {key: value for key, value in given.items() if key != "previous"}
        args, sound = self._template(given, names, f"{path}/args")
        if sound and not isinstance(args, dict | ObjectTemplate | Reference):
            self._problems.append(Problem(f"{path}/args", "type", "must be an object"))
        return args

    def _items(self, value: Any, names: StepNames, path: str) -> Template:
        items, sound = self._template(value, names, path)
        if sound and not isinstance(items, list | ArrayTemplate | Reference):
            reason = "must be an array, or a reference to one"
            self._problems.append(Problem(path, "type", reason))
        return items

    def _fallback(self, on_error: Any, names: StepNames, path: str) -> Any:
        if not isinstance(on_error, dict):
            return None
        value, sound = self._template(on_error["fallback"], names, f"{path}/fallback")
        if sound and isinstance(value, Reference | ObjectTemplate | ArrayTemplate):
            reason = "must be a plain value, without references"
            self._problems.append(Problem(f"{path}/fallback", "$ref", reason))
        return value

    def _template(self, value: Any, names: StepNames, path: str) -> tuple[Template, bool]:
        """Return a template, and whether it is all right."""
        found: list[Problem] = []
        template = read_template(value, names, path, found)
        self._problems += found
        return template, not found
