"""The plan of a chain, without running it."""

from typing import Any, Literal

from toolcrib.execution.chains.parse import Chain, StepNode
from toolcrib.model.plain import copy_json
from toolcrib.model.protocols import Resolver
from toolcrib.model.record import Record
from toolcrib.model.tool import ToolAnnotations


class PlannedStep(Record):
    """What one step would do."""

    index: int
    """Its place in the chain, or in its group."""
    id: str | None = None
    """The id of the step, where it has one."""
    kind: Literal["call", "for_each", "parallel"]
    """Whether it calls a tool once, once for each item, or runs its parts side by side."""
    tool_id: str | None = None
    """The tool that the step means, with its version where it has one; None for a group."""
    annotations: ToolAnnotations | None = None
    """What the tool says of itself."""
    conditional: bool = False
    """Whether it runs only if a condition is met."""
    depends_on: tuple[str, ...] = ()
    """The steps whose results it uses, as references call them."""
    calls: int | None = None
    """How many calls it makes if it runs; None where that depends on a result."""
    max_concurrency: int | None = None
    """How many of its items or parts run at a time."""
    timeout: float | None = None
    """Seconds that each call may take, where the step says so."""
    on_error: Any = "stop"
    """What happens when it fails, as in `ChainStep`."""
    parts: tuple["PlannedStep", ...] = ()
    """The steps of a group."""

    @property
    def changes_nothing(self) -> bool:
        """Return whether every tool in it says that it only reads."""
        if self.kind == "parallel":
            return all(part.changes_nothing for part in self.parts)
        return self.annotations is not None and self.annotations.read_only_hint is True


class Plan(Record):
    """The steps of a chain in the order in which they would run."""

    steps: tuple[PlannedStep, ...] = ()
    """The steps."""

    @property
    def read_only(self) -> bool:
        """Return whether every tool says that it changes nothing."""
        return all(step.changes_nothing for step in self.steps)

    @property
    def calls(self) -> int | None:
        """Return how many calls there are at most; None where that depends on a result."""
        counts = [step.calls for step in self.steps]
        return None if None in counts else sum(count or 0 for count in counts)

    @property
    def destructive(self) -> tuple[str, ...]:
        """Return the tools that may destroy something: those that say so, and those that do not deny it."""
        found = (step for top in self.steps for step in _flat(top))
        return tuple(
            dict.fromkeys(step.tool_id for step in found if step.tool_id and _may_destroy(step.annotations))
        )


def plan_chain(chain: Chain, resolver: Resolver) -> Plan:
    """Return what a chain would do.

    Raises:
        ToolNotFoundError: no tool answers to a step's; `check_chain` says so for all of them at once.
    """
    return Plan(steps=tuple(_planned(node, chain, resolver) for node in chain.nodes))


def _planned(node: StepNode, chain: Chain, resolver: Resolver) -> PlannedStep:
    step = node.step
    tool = None if step.tool_id is None else resolver.resolve(step.tool_id)
    parts = tuple(_planned(part, chain, resolver) for part in node.parts)
    return PlannedStep(
        index=node.index,
        id=step.id,
        kind="parallel" if node.is_group else "for_each" if node.repeats else "call",
        tool_id=None if tool is None else str(tool.id),
        annotations=None if tool is None else tool.annotations,
        conditional=node.when is not None,
        depends_on=_depends_on(node, chain),
        calls=_calls(node, parts),
        max_concurrency=node.width if node.is_group or node.repeats else None,
        timeout=step.timeout,
        on_error=copy_json(step.shared("on_error")),
        parts=parts,
    )


def _depends_on(node: StepNode, chain: Chain) -> tuple[str, ...]:
    """Return the steps that a step, and what is in it, refers to."""
    found: dict[str, None] = {}
    before = [each for each in chain.nodes if each.top < node.top]
    for each in node.walk():
        names = [reference.name for reference in each.references if not reference.of_item]
        if each.step.use_previous and before:
            names.append("previous")
        for name in names:
            for meant in _previous(before) if name == "previous" else (name,):
                found[meant] = None
    return tuple(found)


def _previous(before: list[StepNode]) -> list[str]:
    """Return the steps that may be the last one that ran."""
    found = []
    for earlier in reversed(before):
        found.append(earlier.name)
        if earlier.when is None:
            break
    return found


def _calls(node: StepNode, parts: tuple[PlannedStep, ...]) -> int | None:
    if node.is_group:
        counts = [part.calls for part in parts]
        return None if None in counts else sum(count or 0 for count in counts)
    if not node.repeats:
        return 1
    listed = getattr(node.items, "base", node.items)
    return len(listed) if isinstance(listed, list) else None


def _flat(step: PlannedStep) -> list[PlannedStep]:
    return [step, *(each for part in step.parts for each in _flat(part))]


def _may_destroy(hints: ToolAnnotations | None) -> bool:
    if hints is None:
        return True
    return hints.read_only_hint is not True and hints.destructive_hint is not False
