"""What a chain would do."""

import pytest
from execution.chains.bench import shelf, tool_of

from toolcrib.errors import ToolNotFoundError
from toolcrib.execution.chains import Chain, plan_chain
from toolcrib.model import ToolAnnotations

SHELF = shelf(
    tool_of("find", namespace="web", version="1.2.0", annotations=ToolAnnotations(read_only_hint=True)),
    tool_of("save", annotations=ToolAnnotations(destructive_hint=False, idempotent_hint=True)),
    tool_of("drop", annotations=ToolAnnotations(destructive_hint=True)),
    tool_of("unknown"),
)


def test_a_plan_tells_what_each_step_calls_and_waits_for() -> None:
    chain = Chain.parse(
        [
            {"toolId": "web:find:^1", "id": "found", "timeout": 5},
            {"toolId": "drop", "when": {"$ref": "steps.found/old"}, "onError": "continue"},
            {"toolId": "save", "forEach": {"$ref": "steps.found/items"}, "args": {"x": {"$ref": "item"}}, "usePrevious": True},
            {
                "parallel": [{"toolId": "save", "args": {"y": {"$ref": "steps.0"}}}, {"toolId": "unknown", "forEach": [1, {"$ref": "previous"}]}],
                "maxConcurrency": 2,
            },
        ]
    )  # fmt: skip
    plan = plan_chain(chain, SHELF)
    find, drop, save, group = plan.steps
    assert (find.tool_id, find.kind, find.calls, find.timeout) == ("web:find:1.2.0", "call", 1, 5)
    assert find.annotations == ToolAnnotations(read_only_hint=True)
    assert (find.depends_on, find.conditional, find.max_concurrency) == ((), False, None)
    assert (drop.conditional, drop.depends_on, drop.on_error) == (True, ("steps.found",), "continue")
    assert (save.kind, save.calls, save.max_concurrency) == ("for_each", None, 8)
    assert save.depends_on == ("steps.found", "steps.1")
    assert (group.kind, group.tool_id, group.calls, group.max_concurrency) == ("parallel", None, 3, 2)
    assert group.depends_on == ("steps.0", "steps.2")
    assert [(part.index, part.calls) for part in group.parts] == [(0, 1), (1, 2)]
    assert (plan.read_only, plan.calls) == (False, None)
    assert plan.destructive == ("drop", "unknown")
    assert plan.to_json()["steps"][0]["annotations"] == {"readOnlyHint": True}


def test_a_chain_that_only_reads_is_known_to() -> None:
    group = {"parallel": [{"toolId": "web:find"}, {"toolId": "web:find", "forEach": [1, 2, 3]}]}
    plan = plan_chain(Chain.parse([group, {"toolId": "web:find"}]), SHELF)
    assert (plan.read_only, plan.calls, plan.destructive) == (True, 5, ())


def test_a_step_may_depend_on_any_that_may_be_the_last_to_run() -> None:
    maybe = {"toolId": "save", "when": True}
    plan = plan_chain(Chain.parse([maybe, maybe, {"toolId": "save", "usePrevious": True}]), SHELF)
    assert plan.steps[2].depends_on == ("steps.1", "steps.0")


def test_a_plan_needs_its_tools() -> None:
    with pytest.raises(ToolNotFoundError):
        plan_chain(Chain.parse([{"toolId": "nothing"}]), SHELF)


def test_changes_to_a_plan_do_not_affect_the_chain() -> None:
    chain = Chain.parse([{"toolId": "look", "onError": {"fallback": []}}])
    index = shelf(tool_of("look"))
    plan_chain(chain, index).steps[0].on_error["fallback"].append("spoilt")  # type: ignore[index]
    assert plan_chain(chain, index).steps[0].on_error == {"fallback": []}
