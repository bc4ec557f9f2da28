"""A chain that has been read: its steps in order, and what each refers to."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from anyio import to_thread

from toolcrib.errors import InvalidChainError, Problem
from toolcrib.errors.base import MAX_PROBLEMS, shown
from toolcrib.execution.chains.conditions import Condition, read_condition
from toolcrib.execution.chains.references import Reference, StepNames, StepPlace
from toolcrib.execution.chains.steps import MAX_NESTING, ChainLimits, ChainStep, Spelling, read_step
from toolcrib.execution.chains.templates import (
    ArrayTemplate,
    ObjectTemplate,
    Template,
    read_template,
    references_in,
)
from toolcrib.model.plain import parse_json

_DEFAULT_CONCURRENCY = 8
_LARGE = 5_000
"""How many values steps have that are read and checked in a thread, and not in the event loop."""
_SCALARS = frozenset({int, float, bool, type(None)})
_SIZED = frozenset({dict, list, tuple, str, bytes})
_VALUES = ("args", "for_each", "when", "on_error", "parallel")
"""The fields of a step that hold JSON, or steps."""
_OBJECT = (dict, ObjectTemplate, Reference)
_ARRAY = (list, ArrayTemplate, Reference)
_PLAIN = (dict, list, str, int, float, bool, type(None))
_Read = TypeVar("_Read")


@dataclass(slots=True, eq=False)
class StepNode:
    """A step in its place, its values read."""

    step: ChainStep
    index: int
    """Its place in the chain, or in its group."""
    path: str
    """The same as a JSON Pointer into the chain."""
    place: StepPlace
    """The same as references know it."""
    spelling: Spelling
    parts: list["StepNode"] = field(default_factory=list)
    args: Template = None
    when: Condition | None = None
    items: Template = None
    fallback: Any = None

    @property
    def slot(self) -> int:
        """Return its place among all steps of the chain, each group before what is in it."""
        return self.place.slot

    @property
    def top(self) -> int:
        """Return the place in the chain of the step, or of the outermost group that it is in."""
        return self.place.top

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
    by_slot: tuple[StepNode, ...] = field(repr=False)
    """The same with the steps in groups, each group before what is in it."""
    tool_ids: Mapping[int, str] = field(default_factory=dict, repr=False)
    """The ids of the tools that steps mean, by slot, once they are known."""

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
        return iter(self.by_slot)


Steps = Chain | Sequence[ChainStep | Mapping[str, Any]] | str | bytes
"""What a chain may be given as."""


async def in_thread_if_large(steps: Steps, work: Callable[[], _Read]) -> _Read:
    """Return the result of some work on steps; the event loop turns meanwhile where they are large."""
    return await to_thread.run_sync(work) if _are_large(steps) else work()


def _are_large(steps: Any) -> bool:
    pending: list[Any] = [steps.steps if isinstance(steps, Chain) else steps]
    count = 0
    for value in pending:
        kind = type(value)
        if kind is dict:
            pending += [member for member in value.values() if type(member) not in _SCALARS]
        elif kind is list or kind is tuple:
            pending += value
        elif kind is ChainStep:
            pending += [value.shared(name) for name in _VALUES]
        count += len(value) if kind in _SIZED else 0
        if count > _LARGE:
            return True
    return False


def invalid(problems: Sequence[Problem]) -> InvalidChainError:
    """Return the error for a chain with these problems."""
    ordered = sorted(problems, key=_place)[:MAX_PROBLEMS]
    first = _place(ordered[0])
    return InvalidChainError(problems=tuple(ordered), step_index=first, reason=str(ordered[0]))


def _place(problem: Problem) -> int:
    top = problem.path.split("/", 2)[1:2]
    return int(top[0]) if top and top[0].isdecimal() else 0


def read_chain(steps: Any, limits: ChainLimits | None = None) -> tuple[Chain, list[Problem]]:
    """Return the steps that can be read, and everything that is wrong with them and the rest."""
    problems: list[Problem] = []
    most = (limits or ChainLimits()).max_steps
    if isinstance(steps, Chain):
        return steps, [] if len(steps.by_slot) <= most else [_too_many(most)]
    listed = _list_steps(steps, problems)
    if len(listed) > most:
        return Chain((), (), ()), [_too_many(most)]
    nodes: list[StepNode] = []
    placer = _StepPlacer(problems)
    for place, written in enumerate(listed):
        if (step := read_step(written, f"/{place}", problems)) is not None:
            nodes.append(placer.place(step, written, f"/{place}", place))
    by_slot = tuple(placer.by_slot)
    if len(by_slot) > most:
        return Chain((), (), ()), [_too_many(most)]
    places = _name_places(nodes, by_slot, len(listed), problems)
    for node in by_slot:
        if len(problems) >= MAX_PROBLEMS:
            break  # an error shows no more
        _read_values(node, places, problems)
    return Chain(tuple(node.step for node in nodes), tuple(nodes), by_slot), problems


def _too_many(most: int) -> Problem:
    reason = f"the chain has more than {most:,} steps; repeat one with forEach, or split it"
    return Problem("", "max_steps", reason)


def _list_steps(steps: Any, problems: list[Problem]) -> Sequence[Any]:
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


class _StepPlacer:
    """Gives steps their places in a chain."""

    def __init__(self, problems: list[Problem]) -> None:
        self._problems = problems
        self.by_slot: list[StepNode] = []

    def place(self, step: ChainStep, written: Any, path: str, top: int, depth: int = 0) -> StepNode:
        """Return a step in its place, after those in it have been given theirs."""
        index = int(path.rpartition("/")[2])
        node = StepNode(step, index, path, StepPlace(len(self.by_slot), top), Spelling(written))
        self.by_slot.append(node)
        if depth == MAX_NESTING + 1:
            reason = f"groups are nested more than {MAX_NESTING} deep"
            self._problems.append(Problem(path, "parallel", reason))
            return node
        for inner, part in enumerate(step.parallel or ()):
            as_written = written["parallel"][inner] if type(written) is dict else part
            node.parts.append(self.place(part, as_written, f"{path}/parallel/{inner}", top, depth + 1))
        return node


def _name_places(
    nodes: Sequence[StepNode], by_slot: Sequence[StepNode], count: int, problems: list[Problem]
) -> dict[str, StepPlace]:
    """Return the places of steps by their numbers and ids; one that could not be read has a number too."""
    places = {str(number): StepPlace(-1 - number, number) for number in range(count)}
    places |= {str(node.index): node.place for node in nodes}
    for node in by_slot:
        name = node.step.id
        if name is not None and name in places:
            problems.append(Problem(f"{node.path}/id", "id", f"{shown(name)} is the id of another step too"))
        elif name is not None:
            places[name] = node.place
    return places


def _read_values(node: StepNode, places: Mapping[str, StepPlace], problems: list[Problem]) -> None:
    """Read the arguments, the condition, the items and the fallback of a step, with their references."""
    step, path = node.step, node.path
    args, for_each = step.shared("args"), step.shared("for_each")
    when, on_error = step.shared("when"), step.shared("on_error")
    names = StepNames(places, node.place, node.spelling, has_item=False)
    with_item = names if for_each is None else StepNames(places, node.place, node.spelling, has_item=True)
    if when is not None:
        node.when = read_condition(when, with_item, f"{path}/when", problems)
    if step.use_previous:
        args = {key: value for key, value in args.items() if key != "previous"}
    fault = Problem(f"{path}/args", "type", "must be an object")
    node.args = _read_as(_OBJECT, args, with_item, fault, problems)
    if for_each is not None:
        fault = Problem(node.at("for_each"), "type", "must be an array, or a reference to one")
        node.items = _read_as(_ARRAY, for_each, names, fault, problems)
    if type(on_error) is dict:
        reason = "must be a plain value, without references"
        fault = Problem(f"{node.at('on_error')}/fallback", "$ref", reason)
        node.fallback = _read_as(_PLAIN, on_error["fallback"], names, fault, problems)


def _read_as(
    kinds: tuple[type, ...], value: Any, names: StepNames, fault: Problem, problems: list[Problem]
) -> Template:
    """Return the template of a value; the fault is added to the problems if it is not of these kinds."""
    known = len(problems)
    template = read_template(value, names, fault.path, problems)
    if len(problems) == known and not isinstance(template, kinds):
        problems.append(fault)
    return template
