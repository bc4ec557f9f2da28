"""Results of a chain and of its steps."""

from collections.abc import Container
from math import inf
from typing import Any

from pydantic import Field

from toolcrib.errors.base import counted
from toolcrib.execution.chains.steps import ChainStep
from toolcrib.model.backend import AnyBackend
from toolcrib.model.display import brief
from toolcrib.model.plain import copy_json
from toolcrib.model.record import Record


class StepResult(Record):
    """What one step gave, or why it gave nothing."""

    index: int
    """The place of the step in the chain, in its group, or of the item that it ran for."""
    tool_id: str | None = None
    """The id of the tool; None for a group."""
    ref: str | None = None
    """What the step asks for, where that is not the id: an id without its version, or with a constraint."""
    structured: Any = None
    """The value: of a group, and of a step that ran for each item, the list of theirs."""
    backend: AnyBackend | None = None
    """Where it ran, where that is one place."""
    error: dict[str, Any] | None = None
    """What went wrong, as `toolcrib.errors.explain` says it, also where the chain went on."""
    duration: float = 0.0
    """Seconds."""
    id: str | None = None
    """The id of the step, where it has one."""
    args: dict[str, Any] | None = None
    """What the tool was given, references replaced; None where it was not called."""
    skipped: bool = False
    """Whether its condition was not met."""
    notes: tuple[str, ...] = ()
    """What there is to know of how the result came about."""
    parts: tuple["StepResult", ...] = ()
    """The steps of a group, or one result for each item: those that were begun."""

    def to_json(self, *, without: Container[str] = ()) -> dict[str, Any]:
        """Return the JSON form; the values of parts stand in the whole alone, unless that has none."""
        hidden = {name for name in type(self).model_fields if name in without}
        without = hidden | {"parts", "structured"} | (set() if self.skipped else {"skipped"})
        payload = super().to_json(without=without)
        has_value = self.structured is not None or (self.error is None and not self.skipped)
        if has_value and "structured" not in hidden:
            payload["structured"] = _copied(self.structured)
        if self.parts and "parts" not in hidden:
            if self.error is None:
                hidden |= {"structured"}
            payload["parts"] = [part.to_json(without=hidden) for part in self.parts]
        return payload


class ChainResult(Record):
    """What a chain gave in the end, and each of its steps."""

    final: Any = None
    """The value of the last step that ran."""
    results: tuple[StepResult, ...] = ()
    """What each step gave, in order."""
    run_id: str | None = None
    """The durable run that this was, which `resume` takes."""
    steps: tuple[ChainStep, ...] = Field(default=(), repr=False)
    """The steps themselves; not part of the JSON form."""

    def __repr__(self) -> str:
        return f"<ChainResult {brief(self.final)}, {counted(len(self.results), 'step')}>"

    __str__ = __repr__

    def to_json(self, *, without: Container[str] = ()) -> dict[str, Any]:
        """Return the JSON form; `without` names fields of the steps that are not wanted, such as `args`."""
        known = {} if self.run_id is None else {"runId": self.run_id}
        return {
            "final": _copied(self.final),
            "results": [each.to_json(without=without) for each in self.results],
            **known,
        }


def _copied(value: Any) -> Any:
    """Return a copy of what steps gave; together they may hold more than a tool may give at once."""
    return copy_json(value, max_nodes=inf)
