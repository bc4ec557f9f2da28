"""The plan of a chain: its calls and tools, without running it."""

from typing import Any, Literal

from toolcrib.execution.chains.parse import Chain, StepNode
from toolcrib.model.plain import copy_json
from toolcrib.model.protocols import Resolver
from toolcrib.model.record import Record
from toolcrib.model.tool import ToolAnnotations


class PlannedStep(Record):
    """The plan of one step."""

    index: int
    """Its index in the chain, or in its group."""
    id: str | None = None
    """The id of the step, if it has one."""
    kind: Literal["call", "for_each", "parallel"]
    """A single call, one call for each item, or a group in parallel."""
    tool_id: str | None = None
    """The id of the resolved tool, with its version if it has one; None for a group."""
    annotations: ToolAnnotations | None = None
    """The annotations of the tool."""
    conditional: bool = False
    """Whether it has a condition."""
    depends_on: tuple[str, ...] = ()
    """The steps whose results it uses, by their names in references."""
    calls: int | None = None
    """The number of its calls if it runs; None if that depends on a result."""
    max_concurrency: int | None = None
    """The number of its items or parts that run in parallel."""
    timeout: float | None = None
    """The timeout of each call in seconds, if the step has one."""
    on_error: Any = "stop"
    """The handling of failures, as in `ChainStep`."""
    parts: tuple["PlannedStep", ...] = ()
    """The steps of a group."""

    @property
    def changes_nothing(self) -> bool:
        """Whether every tool in it is annotated as read-only."""
        if self.kind == "parallel":
            return all(part.changes_nothing for part in self.parts)
        return self.annotations is not None and self.annotations.read_only_hint is True


class Plan(Record):
    """The steps of a chain in the order in which they would run."""

    steps: tuple[PlannedStep, ...] = ()
    """The steps."""

    @property
    def read_only(self) -> bool:
        """Whether every tool is annotated as read-only."""
        return all(step.changes_nothing for step in self.steps)

    @property
    def calls(self) -> int | None:
        """The maximum number of calls in the chain; None if that depends on a result."""
        counts = [step.calls for step in self.steps]
        return None if None in counts else sum(count or 0 for count in counts)

    @property
    def destructive(self) -> tuple[str, ...]:
        """The tools that may be destructive: those annotated as such, and those not annotated otherwise."""
        found = (step for top in self.steps for step in _flatten(top))
        return tuple(
            dict.fromkeys(step.tool_id for step in found if step.tool_id and _may_destroy(step.annotations))
        )


def plan_chain(chain: Chain, resolver: Resolver) -> Plan:
    """Return the plan of a chain.

    Raises:
        ToolNotFoundError: the tool of a step is unknown; `check_chain` reports all of them.
    """
    return Plan(steps=tuple(_plan_step(node, chain, resolver) for node in chain.nodes))


def _plan_step(node: StepNode, chain: Chain, resolver: Resolver) -> PlannedStep:
    step = node.step
    tool = None if step.tool_id is None else resolver.resolve(step.tool_id)
    parts = tuple(_plan_step(part, chain, resolver) for part in node.parts)
    return PlannedStep(
        index=node.index,
        id=step.id,
        kind="parallel" if node.is_group else "for_each" if node.repeats else "call",
        tool_id=None if tool is None else str(tool.id),
        annotations=None if tool is None else tool.annotations,
        conditional=node.when is not None,
        depends_on=_find_dependencies(node, chain),
        calls=_count_calls(node, parts),
        max_concurrency=node.width if node.is_group or node.repeats else None,
        timeout=step.timeout,
        on_error=copy_json(step.shared("on_error")),
        parts=parts,
    )


def _find_dependencies(node: StepNode, chain: Chain) -> tuple[str, ...]:
    """Return the names of the steps that a step, or a step in it, refers to."""
    found: dict[str, None] = {}
    before = [each for each in chain.nodes if each.top < node.top]
    for each in node.walk():
        names = [reference.name for reference in each.references if not reference.uses_item]
        if each.step.use_previous and before:
            names.append("previous")
        for name in names:
            for meant in _list_possible_previous(before) if name == "previous" else (name,):
                found[meant] = None
    return tuple(found)


def _list_possible_previous(before: list[StepNode]) -> list[str]:
    """Return the steps that may be the last one that ran, back to one that is unconditional."""
    found = []
    for earlier in reversed(before):
        found.append(earlier.name)
        if earlier.when is None:
            break
    return found


def _count_calls(node: StepNode, parts: tuple[PlannedStep, ...]) -> int | None:
    if node.is_group:
        counts = [part.calls for part in parts]
        return None if None in counts else sum(count or 0 for count in counts)
    if not node.repeats:
        return 1
    listed = getattr(node.items, "base", node.items)
    return len(listed) if isinstance(listed, list) else None


def _flatten(step: PlannedStep) -> list[PlannedStep]:
    return [step, *(each for part in step.parts for each in _flatten(part))]


def _may_destroy(hints: ToolAnnotations | None) -> bool:
    if hints is None:
        return True
    return hints.read_only_hint is not True and hints.destructive_hint is not False
