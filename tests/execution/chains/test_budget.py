"""What all results of a chain may take together."""

import gc
import json
import sys
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from execution.chains.bench import Bench
from pydantic_core import to_json

from toolcrib.errors import ChainError, LimitExceededError, explain
from toolcrib.execution import ChainLimits
from toolcrib.execution.chains import Chain, ChainStep, StepResult, run_chain
from toolcrib.execution.chains.budget import json_size

pytestmark = pytest.mark.anyio
UNBOUND = {"max_values": sys.maxsize, "max_bytes": sys.maxsize}


def echo(args: dict[str, Any]) -> Any:
    return args


async def broken(bench: Bench, *steps: Any, **limits: Any) -> ChainError:
    with pytest.raises(ChainError) as caught:
        await bench.run(*steps, limits=ChainLimits(**limits))
    return caught.value


@pytest.mark.parametrize(
    "value",
    [
        None,
        -1.5,
        "naïve \x01 \U0001f600",
        {"a": [1, 22, True, {"b": "\n" * 100}], "": {}},
        ["x" * 1_000_000] * 3,
        [[0] * 1_000] * 50,
    ],
    ids=["null", "number", "text", "object", "long texts", "many values"],
)
async def test_the_size_of_a_value_is_that_of_its_json(value: Any) -> None:
    values, size = await json_size(value, **UNBOUND)
    written = len(to_json(value))
    assert written <= size <= written * 1.5 + 2
    assert values >= 1


async def test_counting_a_large_value_ends_where_it_is_too_large_and_lets_others_run() -> None:
    endless: list[Any] = []
    endless += [endless, endless]
    values, _ = await json_size(endless, max_values=10_000, max_bytes=sys.maxsize)
    assert 10_000 < values < 50_000
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += 1

    async with anyio.create_task_group() as group:
        group.start_soon(turn)
        await json_size(["x" * 10_000_000, [0] * 100_000], **UNBOUND)
        group.cancel_scope.cancel()
    assert turns > 50


@pytest.mark.parametrize(("limit", "most"), [("max_bytes", 250), ("max_values", 150)])
async def test_results_that_are_too_much_together_end_the_chain_and_those_before_are_kept(
    limit: str, most: int
) -> None:
    bench = Bench(echo=echo)
    steps = [{"toolId": "echo", "args": {"n": [0] * 100}}, {"toolId": "echo", "args": {"n": 2}}] * 5
    error = await broken(bench, *steps, **{limit: most})
    cause = error.__cause__
    assert isinstance(cause, LimitExceededError)
    assert (cause.limit, error.step_index) == (limit, 2)
    assert str(most) in str(cause)
    assert "the tool ran" in str(cause)
    assert "split the chain" in str(cause)
    assert [each.structured for each in error.results] == [{"n": [0] * 100}, {"n": 2}, None]
    assert error.results[2].error is not None
    assert error.results[2].error["code"] == "limit_exceeded"
    assert explain(error)["retryable"] is False
    assert len(bench.calls) == 3


@pytest.mark.parametrize("on_error", ["continue", {"fallback": 1}], ids=["continue", "fallback"])
@pytest.mark.parametrize("kind", ["item", "group"])
async def test_nothing_runs_once_the_results_are_too_much_whatever_a_step_does_on_errors(
    on_error: Any, kind: str
) -> None:
    bench = Bench(echo=echo)
    step: dict[str, Any] = {"toolId": "echo", "args": {"n": "x" * 100}, "onError": on_error}
    one = {"forEach": [0] * 50, "maxConcurrency": 1}
    chain = {**step, **one} if kind == "item" else {"parallel": [step] * 50, "maxConcurrency": 1}
    error = await broken(bench, {**chain, "onError": on_error}, step, max_bytes=500)
    assert isinstance(error.__cause__, LimitExceededError)
    assert len(bench.calls) == 5
    assert len(error.results) == 1


async def test_placeholders_of_failed_results_count_towards_the_budget() -> None:
    def fails(args: dict[str, Any]) -> Any:
        raise ValueError(args)

    bench = Bench(fails=fails)
    step = {"toolId": "fails", "forEach": [0] * 1_000, "onError": {"fallback": [0] * 1_000}}
    error = await broken(bench, step, max_values=10_000)
    assert isinstance(error.__cause__, LimitExceededError)
    assert len(bench.calls) < 30


async def test_arguments_count_with_what_filling_them_makes_and_share_the_rest() -> None:
    bench = Bench(big=lambda _args: [0] * 10_000, count=lambda args: len(args["all"]))
    limits = ChainLimits(max_values=15_000)
    shared = {"toolId": "count", "args": {"all": {"$ref": "steps.0"}}, "forEach": [0] * 20}
    result = await bench.run({"toolId": "big"}, shared, limits=limits)
    assert result.final == [10_000] * 20
    assert all(
        part.shared("args")["all"] is result.results[0].structured
        for part in result.results[1].parts
        if part.args
    )
    filled = {"toolId": "echo", "args": {"all": [{"$ref": "item"}, *[0] * 1_000]}, "forEach": [0] * 20}
    error = await broken(Bench(echo=lambda _args: 0), filled, max_values=10_000)
    assert isinstance(error.__cause__, LimitExceededError)
    assert "the tool ran" not in str(error)


async def test_calls_with_large_arguments_run_one_at_a_time() -> None:
    now, most = 0, {"small": 0, "large": 0}

    async def run_tool(tool_id: str, _args: Any, _timeout: Any, _step: str) -> Any:
        nonlocal now
        now += 1
        most[tool_id] = max(most[tool_id], now)
        await anyio.wait_all_tasks_blocked()
        now -= 1
        return await Bench(echo=lambda _args: tool_id).runner.run("echo")

    for name, size in (("small", 1_000), ("large", 200_000)):
        step = {"toolId": name, "args": {"all": [{"$ref": "item"}] * 10}, "forEach": ["x" * size] * 6}
        await run_chain(Chain.parse([step]), run_tool)
    assert most == {"small": 6, "large": 1}


async def test_a_condition_compares_so_many_values_and_no_more() -> None:
    bench = Bench(big=lambda _args: [[1] for _ in range(20_000)], echo=echo)
    same = {"equals": [{"$ref": "steps.0"}, {"$ref": "steps.1"}]}
    two = [{"toolId": "big"}, {"toolId": "big"}]
    error = await broken(bench, *two, {"toolId": "echo", "when": {"all": [same] * 50}})
    assert isinstance(error.__cause__, LimitExceededError)
    assert error.__cause__.limit == "condition"
    itself = {"equals": [{"$ref": "steps.0"}, {"$ref": "steps.0"}]}
    result = await bench.run(*two, {"toolId": "echo", "when": {"all": [itself] * 50}})
    assert not result.results[2].skipped
    texts = Bench(big=lambda _args: "x" * 4_000_000 + "y", echo=echo)
    error = await broken(texts, *two, {"toolId": "echo", "when": {"all": [same] * 500}})
    assert isinstance(error.__cause__, LimitExceededError)


@pytest.mark.parametrize("written", ["objects", "records", "text", "chain"])
async def test_other_tasks_run_while_a_large_chain_is_parsed_and_checked(written: str) -> None:
    step: dict[str, Any] = {
        "toolId": "echo",
        "args": {"all": [{"$ref": "item"}, *range(20_000)]},
        "forEach": [1],
    }
    steps: Any = [{"parallel": [step]}]
    if written == "records":
        steps = [ChainStep.from_json(step)]
    elif written == "text":
        steps = json.dumps(steps)
    elif written == "chain":
        steps = Chain.parse(steps)
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += 1

    async with anyio.create_task_group() as group:
        group.start_soon(turn)
        plan = await Bench(echo=echo).runner.run_chain(steps, dry_run=True)
        group.cancel_scope.cancel()
    assert len(plan.steps) == 1
    assert turns > 0


async def test_a_chain_that_ends_for_its_size_leaves_no_result_behind_in_circles() -> None:
    """Such circles hold megabytes until the collector next looks at everything."""
    bench = Bench(echo=echo)
    steps = [
        {"toolId": "echo", "args": {"text": "x" * 1000}},
        {
            "toolId": "echo",
            "args": {"text": {"$ref": "steps.0"}},
            "forEach": [*range(200)],
            "maxConcurrency": 8,
        },
    ]
    gc.collect()
    gc.disable()
    try:
        counts: list[int] = []
        try:  # what pytest keeps of an error is a circle, too
            await bench.run(*steps, limits=ChainLimits(max_bytes=50_000))
        except ChainError as error:
            counts.append(len(error.results))
        assert counts == [2]
        await anyio.lowlevel.checkpoint()
        assert [each for each in gc.get_objects() if isinstance(each, StepResult)] == []
    finally:
        gc.enable()
