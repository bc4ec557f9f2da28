"""A chain says which calls come next, from the results of those that were made."""

from typing import Any

import pytest

from toolcrib.errors import ChainError, ToolcribError, ToolExecutionError, ToolTimeoutError
from toolcrib.execution.chains.advance import ChainAdvance, ChainCall, advance_chain
from toolcrib.execution.chains.parse import read_chain
from toolcrib.model import RunResult, Tool
from toolcrib.model.backend import LocalBackend


def _result(value: Any) -> RunResult:
    tool = Tool(name="t", input_schema={"type": "object"})
    return RunResult(tool=tool, backend=LocalBackend(name="t"), structured=value, duration=2.0)


def advance(
    steps: list[dict[str, Any]], known: dict[str, Any], *, expired: float | None = None
) -> ChainAdvance:
    """Advance a chain whose calls have these results, or errors, by key."""
    chain, problems = read_chain(steps, None)
    assert not problems

    def find(call: ChainCall) -> RunResult | None:
        found = known.get(call.key)
        if isinstance(found, ToolcribError):
            raise found
        return None if found is None else _result(found)

    return advance_chain(chain, find, expired=expired)


def keys(advanced: ChainAdvance) -> list[str]:
    """Return the keys of the calls that come next."""
    return [call.key for call in advanced.calls]


TWO: list[dict[str, Any]] = [
    {"toolId": "a", "args": {"n": 1}},
    {"toolId": "b", "args": {"n": {"$ref": "previous"}}, "timeout": 7},
]


def test_a_chain_asks_for_one_step_after_the_other_and_then_ends() -> None:
    first = advance(TWO, {})
    assert [(call.tool_id, call.args, call.timeout) for call in first.calls] == [("a", {"n": 1}, None)]
    [second] = advance(TWO, {first.calls[0].key: 5}).calls
    assert (second.tool_id, second.args, second.timeout) == ("b", {"n": 5}, 7)
    done = advance(TWO, {first.calls[0].key: 5, second.key: 6})
    assert done.calls == ()
    assert done.result is not None
    assert done.result.final == 6
    assert [step.duration for step in done.result.results] == [pytest.approx(2.0, abs=0.5)] * 2
    assert [event for *_, event in done.events] == ["started", "step_completed", "step_completed"]


def test_parts_are_asked_for_together_and_no_more_of_them_than_may_run_at_once() -> None:
    group = [{"parallel": [{"toolId": "a"}, {"toolId": "b"}, {"toolId": "c"}]}]
    assert len(keys(advance(group, {}))) == 3
    items = [{"toolId": "a", "forEach": [*range(1000)], "args": {"n": {"$ref": "item"}}, "maxConcurrency": 2}]
    assert keys(advance(items, {})) == ["0.0", "0.1"]
    assert keys(advance(items, {"0.1": 1})) == ["0.0", "0.2"]
    assert keys(advance(items, {f"0.{n}": 1 for n in range(998)})) == ["0.998", "0.999"]


def test_the_error_of_a_step_ends_the_chain_with_the_results_so_far() -> None:
    failed = advance(TWO, {"0.0": 5, "1.1": ToolExecutionError(tool_id="b", reason="no")})
    assert isinstance(failed.error, ChainError)
    assert failed.error.step_index == 1
    assert [step.structured for step in failed.error.results] == [5, None]


def test_a_chain_whose_time_is_over_fails_as_it_does_in_process() -> None:
    late = advance(TWO, {"0.0": 5}, expired=60)
    assert isinstance(late.error, ChainError)
    assert isinstance(late.error.__cause__, ToolTimeoutError)
    assert "did not finish within 60 s, and b was running" in str(late.error)
    assert late.error.results[0].structured == 5
