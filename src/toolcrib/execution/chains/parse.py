"""Parses a chain: its steps in order, with their references, conditions and places."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from anyio import to_thread

from toolcrib.errors import InvalidChainError, Problem
from toolcrib.errors.base import MAX_PROBLEMS, short_repr
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
_LARGE_VALUES = 5_000
"""Chains with more values are parsed and checked in a thread, so that they do not block the event loop."""
_SCALARS = frozenset({int, float, bool, type(None)})
_SIZED = frozenset({dict, list, tuple, str, bytes})
_VALUE_FIELDS = ("args", "for_each", "when", "on_error", "parallel")
"""The fields of a step whose values are JSON or steps."""
_OBJECT_TYPES = (dict, ObjectTemplate, Reference)
_ARRAY_TYPES = (list, ArrayTemplate, Reference)
_PLAIN_TYPES = (dict, list, str, int, float, bool, type(None))
_Read = TypeVar("_Read")


@dataclass(slots=True, eq=False)
class StepNode:
    """A parsed step with its place in the chain."""

    step: ChainStep
    index: int
    """Its index in the chain, or in its group."""
    path: str
    """Its JSON Pointer in the chain."""
    place: StepPlace
    """Its place for references."""
    spelling: Spelling
    parts: list["StepNode"] = field(default_factory=list)
    args: Template = None
    when: Condition | None = None
    items: Template = None
    fallback: Any = None

    @property
    def slot(self) -> int:
        """Its number among all steps of the chain; a group comes before its steps."""
        return self.place.slot

    @property
    def top(self) -> int:
        """The index in the chain of the step, or of the outermost group that it is in."""
        return self.place.top

    @property
    def name(self) -> str:
        """Its name in references; a step in a group has one only with an id."""
        return f"steps.{self.step.id or self.top}"

    @property
    def title(self) -> str:
        """Its name in errors: its JSON Pointer, and its id if it has one."""
        return self.path if self.step.id is None else f"{self.step.id!r} ({self.path})"

    def pointer_to(self, name: str) -> str:
        """Return the JSON Pointer of one of its fields, spelt as in the source."""
        return f"{self.path}/{self.spelling[name]}"

    @property
    def repeats(self) -> bool:
        """Whether it runs once for each of many items."""
        return self.step.shared("for_each") is not None

    @property
    def is_group(self) -> bool:
        """Whether it is a group of steps, not a call."""
        return self.step.parallel is not None

    @property
    def width(self) -> int:
        """The number of its parts that run in parallel."""
        return self.step.max_concurrency or _DEFAULT_CONCURRENCY

    @property
    def references(self) -> tuple[Reference, ...]:
        """All references of the step itself."""
        asked = self.when.references if self.when else ()
        return (*references_in(self.args), *references_in(self.items), *asked)

    def walk(self) -> Iterator["StepNode"]:
        """Yield the step, and the steps in it."""
        yield self
        for part in self.parts:
            yield from part.walk()


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """A parsed chain; its tools are not resolved yet.

    >>> Chain.parse([{"toolId": "fetch"}, {"toolId": "parse", "args": {"page": {"$ref": "steps.1/body"}}}])
    Traceback (most recent call last):
    toolcrib.errors.InvalidChainError: the chain cannot run: /1/args/page: 'steps.1' is this step itself
    """

    steps: tuple[ChainStep, ...]
    """The steps as records."""
    nodes: tuple[StepNode, ...] = field(repr=False)
    """The steps with their places, conditions and references."""
    by_slot: tuple[StepNode, ...] = field(repr=False)
    """All nodes, including those in groups; a group comes before its steps."""
    tool_ids: Mapping[int, str] = field(default_factory=dict, repr=False)
    """The ids of the resolved tools, by slot; empty before `check_chain`."""

    @classmethod
    def parse(cls, steps: "Steps", *, limits: ChainLimits | None = None) -> "Chain":
        """Return the chain for steps: records, JSON objects, or the JSON text of a list of them.

        Raises:
            InvalidChainError: with every problem found; paths begin with the index of the step.
        """
        chain, problems = read_chain(steps, limits)
        if problems:
            raise invalid_chain_error(problems)
        return chain

    def walk(self) -> Iterator[StepNode]:
        """Yield every step; a group comes before its steps."""
        return iter(self.by_slot)


Steps = Chain | Sequence[ChainStep | Mapping[str, Any]] | str | bytes
"""The accepted forms of a chain."""


async def run_in_thread_if_large(steps: Steps, work: Callable[[], _Read]) -> _Read:
    """Return the result of some work on steps, done in a thread if there are many values."""
    return await to_thread.run_sync(work) if _is_large(steps) else work()


def _is_large(steps: Any) -> bool:
    pending: list[Any] = [steps.steps if isinstance(steps, Chain) else steps]
    count = 0
    for value in pending:
        kind = type(value)
        if kind is dict:
            pending += [member for member in value.values() if type(member) not in _SCALARS]
        elif kind is list or kind is tuple:
            pending += value
        elif kind is ChainStep:
            pending += [value.shared(name) for name in _VALUE_FIELDS]
        count += len(value) if kind in _SIZED else 0
        if count > _LARGE_VALUES:
            return True
    return False


def invalid_chain_error(problems: Sequence[Problem]) -> InvalidChainError:
    """Return the error for a chain with these problems."""
    ordered = sorted(problems, key=_step_index)[:MAX_PROBLEMS]
    first = _step_index(ordered[0])
    return InvalidChainError(problems=tuple(ordered), step_index=first, reason=str(ordered[0]))


def _step_index(problem: Problem) -> int:
    top = problem.path.split("/", 2)[1:2]
    return int(top[0]) if top and top[0].isdecimal() else 0


def read_chain(steps: Any, limits: ChainLimits | None = None) -> tuple[Chain, list[Problem]]:
    """Return a chain of the valid steps, and the problems of all."""
    problems: list[Problem] = []
    most = (limits or ChainLimits()).max_steps
    if isinstance(steps, Chain):
        return steps, [] if len(steps.by_slot) <= most else [_too_many_steps(most)]
    listed = _list_steps(steps, problems)
    if len(listed) > most:
        return Chain((), (), ()), [_too_many_steps(most)]
    nodes: list[StepNode] = []
    placer = _StepPlacer(problems)
    for place, written in enumerate(listed):
        if (step := read_step(written, f"/{place}", problems)) is not None:
            nodes.append(placer.place(step, written, f"/{place}", place))
    by_slot = tuple(placer.by_slot)
    if len(by_slot) > most:
        return Chain((), (), ()), [_too_many_steps(most)]
    places = _name_places(nodes, by_slot, len(listed), problems)
    for node in by_slot:
        if len(problems) >= MAX_PROBLEMS:
            break  # the error shows no more problems
        _read_values(node, places, problems)
    return Chain(tuple(node.step for node in nodes), tuple(nodes), by_slot), problems


def _too_many_steps(most: int) -> Problem:
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
        problems.append(Problem("", "type", f"a chain must be a list of steps, not {short_repr(steps)}"))
        return ()
    return steps


class _StepPlacer:
    """Makes the nodes of steps and assigns their places."""

    def __init__(self, problems: list[Problem]) -> None:
        self._problems = problems
        self.by_slot: list[StepNode] = []

    def place(self, step: ChainStep, written: Any, path: str, top: int, depth: int = 0) -> StepNode:
        """Return the node of a step, with the nodes of the steps in it."""
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
    """Return the places of steps by index and id; invalid steps count, so that others keep theirs."""
    places = {str(number): StepPlace(-1 - number, number) for number in range(count)}
    places |= {str(node.index): node.place for node in nodes}
    for node in by_slot:
        name = node.step.id
        if name is not None and name in places:
            problems.append(
                Problem(f"{node.path}/id", "id", f"{short_repr(name)} is the id of another step too")
            )
        elif name is not None:
            places[name] = node.place
    return places


def _read_values(node: StepNode, places: Mapping[str, StepPlace], problems: list[Problem]) -> None:
    """Parse the arguments, the condition, the items and the fallback of a step, with their references."""
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
    node.args = _read_typed(_OBJECT_TYPES, args, with_item, fault, problems)
    if for_each is not None:
        fault = Problem(node.pointer_to("for_each"), "type", "must be an array, or a reference to one")
        node.items = _read_typed(_ARRAY_TYPES, for_each, names, fault, problems)
    if type(on_error) is dict:
        reason = "must be a plain value, without references"
        fault = Problem(f"{node.pointer_to('on_error')}/fallback", "$ref", reason)
        node.fallback = _read_typed(_PLAIN_TYPES, on_error["fallback"], names, fault, problems)


def _read_typed(
    kinds: tuple[type, ...], value: Any, names: StepNames, fault: Problem, problems: list[Problem]
) -> Template:
    """Return the template of a value; add the fault to the problems if it is not of these types."""
    known = len(problems)
    template = read_template(value, names, fault.path, problems)
    if len(problems) == known and not isinstance(template, kinds):
        problems.append(fault)
    return template
