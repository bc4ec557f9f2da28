"""Results of a chain and of its steps."""

from collections.abc import Container
from math import inf
from typing import Any

from pydantic import Field

from toolcrib.errors.base import count_noun
from toolcrib.execution.chains.steps import ChainStep
from toolcrib.model.backend import AnyBackend
from toolcrib.model.display import brief
from toolcrib.model.findings import ResultFinding
from toolcrib.model.plain import copy_json
from toolcrib.model.record import Record


class StepResult(Record):
    """The result of one step, or its error."""

    index: int
    """The index of the step in the chain or group, or of the item that it ran for."""
    tool_id: str | None = None
    """The id of the tool; None for a group."""
    ref: str | None = None
    """The reference in the step if it is not the id: without a version, or with a constraint."""
    structured: Any = None
    """The value; for a group or a step with `for_each`, the list of the values of its parts."""
    backend: AnyBackend | None = None
    """The backend of a single call."""
    error: dict[str, Any] | None = None
    """The error in the form of `toolcrib.errors.explain`, even if the chain continued."""
    duration: float = 0.0
    """Seconds."""
    id: str | None = None
    """The id of the step, if it has one."""
    args: dict[str, Any] | None = None
    """The arguments of the call, with references replaced; None if there was no call."""
    skipped: bool = False
    """Whether its condition was false."""
    notes: tuple[str, ...] = ()
    """Notes about the call, such as retries."""
    findings: tuple[ResultFinding, ...] = ()
    """Findings of the result check."""
    parts: tuple["StepResult", ...] = ()
    """The results of those steps of a group, or of those items, that have begun."""

    def to_json(self, *, without: Container[str] = ()) -> dict[str, Any]:
        """Return the JSON form; values of parts are omitted if the step itself has a value."""
        hidden = {name for name in type(self).model_fields if name in without}
        without = hidden | {"parts", "structured"} | (set() if self.skipped else {"skipped"})
        payload = super().to_json(without=without)
        has_value = self.structured is not None or (self.error is None and not self.skipped)
        if has_value and "structured" not in hidden:
            payload["structured"] = _copy_results(self.structured)
        if self.parts and "parts" not in hidden:
            if self.error is None:
                hidden |= {"structured"}
            payload["parts"] = [part.to_json(without=hidden) for part in self.parts]
        return payload


class ChainResult(Record):
    """The result of a chain, and of each of its steps."""

    final: Any = None
    """The value of the last step that ran."""
    results: tuple[StepResult, ...] = ()
    """The result of each step, in order."""
    run_id: str | None = None
    """The id of a durable run, for `resume`."""
    steps: tuple[ChainStep, ...] = Field(default=(), repr=False)
    """The steps themselves; not part of the JSON form."""

    def __repr__(self) -> str:
        return f"<ChainResult {brief(self.final)}, {count_noun(len(self.results), 'step')}>"

    __str__ = __repr__

    def to_json(self, *, without: Container[str] = ()) -> dict[str, Any]:
        """Return the JSON form; `without` names fields of the steps to leave out, such as `args`."""
        known = {} if self.run_id is None else {"runId": self.run_id}
        return {
            "final": _copy_results(self.final),
            "results": [each.to_json(without=without) for each in self.results],
            **known,
        }


def _copy_results(value: Any) -> Any:
    """Return a copy of the results of steps, which together may exceed the limit of a single result."""
    return copy_json(value, max_nodes=inf)
