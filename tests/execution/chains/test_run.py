"""How chains run: in order, side by side, to the end or until a step fails."""

import json
from typing import Any

import anyio
import pytest
from contracts.executor import DEADLINES
from execution.chains.bench import Bench
from execution.toolbox import runner_of
from waiting import PATIENCE, until

from toolcrib.errors import (
    ChainError,
    LimitExceededError,
    ToolExecutionError,
    ToolTimeoutError,
    ValidationError,
    explain,
)
from toolcrib.execution import ChainLimits
from toolcrib.execution.chains import Chain, run_chain
from toolcrib.model import LocalBackend, tool

pytestmark = pytest.mark.anyio


def echo(args: dict[str, Any]) -> Any:
    return args


def fail(args: dict[str, Any]) -> Any:
    raise RuntimeError(args.get("why", "no"))


class Gate:
    """A tool that says when it is reached, and waits until it is let go."""

    def __init__(self) -> None:
        self.waiting = 0
        self.most = 0
        self.cancelled: list[Any] = []
        self.reached = anyio.Event()
        self.open = anyio.Event()

    async def pass_through(self, args: dict[str, Any]) -> Any:
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        self.reached.set()
        try:
            await self.open.wait()
        except anyio.get_cancelled_exc_class():
            self.cancelled.append(args.get("n"))
            raise
        finally:
            self.waiting -= 1
        return args.get("n")


async def test_an_empty_chain_gives_nothing_and_fails_in_nothing() -> None:
    told: list[Any] = []
    result = await Bench().run(progress=lambda *event: told.append(event))
    assert (result.final, result.results, told) == (None, (), [(0, 0, "started")])


async def test_steps_run_in_order_and_hand_on_what_they_gave() -> None:
    bench = Bench(echo=echo)
    args = {"a": 1, "previous": "overwritten"}
    result = await bench.run(
        {"toolId": "echo", "args": args, "usePrevious": True},
        {"toolId": "echo", "id": "two", "usePrevious": True},
    )
    first, second = result.results
    assert args == {"a": 1, "previous": "overwritten"}
    assert first.structured == first.args == {"a": 1, "previous": None}
    assert result.final == second.structured == second.args == {"previous": {"a": 1, "previous": None}}
    assert (first.index, first.tool_id, first.backend, first.error) == (
        0,
        "echo",
        LocalBackend(name="echo"),
        None,
    )
    assert (second.index, second.id, second.skipped, second.parts) == (1, "two", False, ())
    assert first.duration > 0


async def test_a_step_that_fails_ends_the_chain_and_what_was_done_is_kept() -> None:
    bench = Bench(echo=echo, fail=fail)
    told: list[Any] = []

    async def tell(*event: Any) -> None:
        told.append(event)

    with pytest.raises(ChainError) as caught:
        await bench.run(
            {"toolId": "echo", "args": {"a": 1}},
            {"toolId": "echo", "when": False},
            {"toolId": "fail"},
            {"toolId": "echo"},
            progress=tell,
        )
    error = caught.value
    assert isinstance(error.__cause__, ToolExecutionError)
    assert (error.step_index, str(error)) == (2, f"step /2 failed: {error.__cause__}")
    done, skipped, failed = error.results
    assert (done.structured, skipped.skipped, failed.structured) == ({"a": 1}, True, None)
    assert failed.error == explain(error.__cause__)
    assert failed.error["code"] == "execution_failed"
    assert failed.args == {}
    assert told == [
        (0, 4, "started"), (1, 4, "step_completed"), (2, 4, "step_skipped"), (3, 4, "step_error"),
    ]  # fmt: skip
    assert [name for name, _ in bench.calls] == ["echo", "fail"]
    assert json.loads(json.dumps(explain(error)))["details"]["cause"]["code"] == "execution_failed"


async def test_a_step_may_fail_without_ending_the_chain() -> None:
    bench = Bench(echo=echo, fail=fail)
    result = await bench.run(
        {"toolId": "fail", "onError": "continue"},
        {"toolId": "echo", "usePrevious": True},
        {"toolId": "fail", "id": "x", "onError": {"fallback": {"$literal": [1]}}},
        {"toolId": "echo", "args": {"x": {"$ref": "steps.x/0"}}},
        {"toolId": "echo", "args": {"x": {"$ref": "steps.x/9"}}, "onError": {"fallback": "none"}},
    )
    assert [step.structured for step in result.results] == [None, {"previous": None}, [1], {"x": 1}, "none"]
    assert [step.error and step.error["code"] for step in result.results] == [
        "execution_failed", None, "execution_failed", None, "validation_input",
    ]  # fmt: skip
    assert result.final == "none"


async def test_a_step_runs_for_each_item_in_order() -> None:
    bench = Bench(echo=echo)
    result = await bench.run(
        {"toolId": "echo", "args": {"items": [{"id": "a"}, {"id": "b"}]}},
        {
            "toolId": "echo",
            "id": "each",
            "forEach": {"$ref": "previous/items"},
            "args": {"id": {"$ref": "item/id"}, "at": {"$ref": "index"}, "all": {"$ref": "previous/items"}},
            "usePrevious": True,
        },
        {"toolId": "echo", "args": {"second": {"$ref": "steps.each/1/id"}}},
    )
    each = result.results[1]
    assert [value["id"] for value in each.structured] == ["a", "b"]
    assert [part.args and part.args["at"] for part in each.parts] == [0, 1]
    assert [part.index for part in each.parts] == [0, 1]
    assert each.args is None
    assert result.final == {"second": "b"}


async def test_no_items_are_no_calls() -> None:
    bench = Bench(echo=echo)
    result = await bench.run({"toolId": "echo", "forEach": []}, {"parallel": []})
    assert ([step.structured for step in result.results], bench.calls) == ([[], []], [])


@pytest.mark.parametrize(("width", "most"), [({}, 8), ({"maxConcurrency": 3}, 3), ({"maxConcurrency": 1}, 1)])
@pytest.mark.parametrize("kind", ["for_each", "parallel"])
async def test_no_more_run_at_a_time_than_are_allowed(kind: str, width: dict[str, int], most: int) -> None:
    gate = Gate()
    bench = Bench(gate=gate.pass_through)
    step: dict[str, Any] = {"toolId": "gate", "args": {"n": {"$ref": "item"}}, "forEach": list(range(20))}
    if kind == "parallel":
        step = {"parallel": [{"toolId": "gate", "args": {"n": place}} for place in range(20)]}
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:

            async def open_when_full() -> None:
                await until(lambda: gate.waiting >= most)
                gate.open.set()

            group.start_soon(open_when_full)
            result = await bench.run({**step, **width})
    assert (result.final, gate.most) == (list(range(20)), most)


async def test_items_fail_one_by_one_where_that_is_allowed() -> None:
    def odd(args: dict[str, Any]) -> Any:
        if args["n"] % 2:
            raise ValueError
        return args["n"]

    bench = Bench(odd=odd)
    step = {"toolId": "odd", "forEach": [0, 1, 2, 3], "args": {"n": {"$ref": "item"}}}
    result = await bench.run({**step, "onError": "continue"}, {**step, "onError": {"fallback": -1}})
    assert [each.structured for each in result.results] == [[0, None, 2, None], [0, -1, 2, -1]]
    assert [part.error is not None for part in result.results[0].parts] == [False, True, False, True]
    assert result.results[0].error is None


async def test_the_first_item_to_fail_ends_the_others() -> None:
    gate = Gate()

    async def work(args: dict[str, Any]) -> Any:
        if args["n"] == 1:
            await gate.reached.wait()
            raise ValueError("bad item")
        return args["n"] if args["n"] == 0 else await gate.pass_through(args)

    bench = Bench(work=work)
    step = {
        "toolId": "work",
        "forEach": [0, 1, 2, 3, 4],
        "args": {"n": {"$ref": "item"}},
        "maxConcurrency": 3,
    }
    with (
        anyio.fail_after(PATIENCE),
        pytest.raises(ChainError, match="item 1: work failed") as caught,
    ):
        await bench.run({"toolId": "work", "args": {"n": 0}}, step)
    assert sorted(gate.cancelled) in ([2], [2, 3])
    done, failed = caught.value.results
    assert (done.structured, failed.structured) == (0, None)
    codes = {part.index: part.error and part.error["code"] for part in failed.parts}
    assert codes[0] is None
    assert codes[1] == "execution_failed"
    assert codes[2] == "cancelled"
    assert 4 not in codes
    assert failed.error is not None
    assert failed.error["code"] == "execution_failed"


async def test_a_group_ends_with_its_first_failure_and_says_which() -> None:
    gate = Gate()

    async def fail_late(_args: dict[str, Any]) -> Any:
        await gate.reached.wait()
        await said.wait()
        raise ValueError

    async def say(args: dict[str, Any]) -> Any:
        said.set()
        return args

    said = anyio.Event()
    bench = Bench(gate=gate.pass_through, fail_late=fail_late, say=say)
    inner = {"parallel": [{"toolId": "gate", "args": {"n": 1}}, {"toolId": "say", "id": "done"}]}
    group = {"parallel": [inner, {"toolId": "fail_late"}]}
    with (
        anyio.fail_after(PATIENCE),
        pytest.raises(ChainError, match="step /0 failed: /0/parallel/1: fail_late") as caught,
    ):
        await bench.run(group)
    [failed] = caught.value.results
    assert failed.tool_id is None
    assert [part.error and part.error["code"] for part in failed.parts] == ["cancelled", "execution_failed"]
    broken = failed.parts[0]
    assert [part.error and part.error["code"] for part in broken.parts] == ["cancelled", None]
    assert broken.error is not None
    assert broken.error["tool_id"] == "gate"
    assert gate.cancelled == [1]


@pytest.mark.parametrize(("on_error", "value"), [("continue", None), ({"fallback": 5}, 5)])
async def test_a_group_may_fail_as_a_whole_without_ending_the_chain(on_error: Any, value: Any) -> None:
    bench = Bench(echo=echo, fail=fail)
    group = {"id": "g", "parallel": [{"toolId": "fail"}, {"toolId": "echo"}], "onError": on_error}
    result = await bench.run(group, {"toolId": "echo", "usePrevious": True})
    assert result.final == {"previous": value}
    assert result.results[0].error is not None


async def test_steps_in_a_group_see_what_was_before_it() -> None:
    bench = Bench(echo=echo)
    each = {"toolId": "echo", "usePrevious": True}
    result = await bench.run(
        {"toolId": "echo", "args": {"a": 1}}, {"parallel": [each, each, {**each, "when": False}]}
    )
    assert result.final == [{"previous": {"a": 1}}, {"previous": {"a": 1}}, None]


async def test_a_step_has_its_own_deadline() -> None:
    gate = Gate()
    bench = Bench(gate=gate.pass_through)
    with anyio.fail_after(PATIENCE), pytest.raises(ChainError) as caught:
        await bench.run({"toolId": "gate", "timeout": 0.01})
    assert isinstance(caught.value.__cause__, ToolTimeoutError)
    assert caught.value.results[0].error == explain(caught.value.__cause__)


@pytest.mark.parametrize(
    "step",
    [
        {"toolId": "gate", "args": {"n": 1}},
        {"parallel": [{"toolId": "echo"}, {"toolId": "gate", "args": {"n": 1}}]},
        {"parallel": [{"parallel": [{"toolId": "gate", "args": {"n": 1}}]}]},
        {"toolId": "gate", "forEach": [1], "args": {"n": {"$ref": "item"}}},
    ],
    ids=["call", "group", "nested group", "items"],
)
async def test_the_chain_has_a_deadline_and_says_what_was_running(step: Any) -> None:
    async def at_once(args: dict[str, Any]) -> Any:
        return args

    for seconds in DEADLINES:
        gate = Gate()
        bench = Bench(gate=gate.pass_through, echo=at_once)
        with anyio.fail_after(PATIENCE), pytest.raises(ChainError) as caught:
            await bench.run({"toolId": "echo"}, step, {"toolId": "echo"}, timeout=seconds)
        if gate.reached.is_set():
            break
    error = caught.value
    assert (error.step_index, len(error.results), gate.cancelled) == (1, 2, [1])
    assert error.reason == f"the chain did not finish within {seconds:g} s, and gate was running"
    assert isinstance(error.__cause__, ToolTimeoutError)
    assert error.results[1].error == explain(error.__cause__)


@pytest.mark.parametrize(
    "steps",
    [[{"toolId": "echo", "forEach": [0] * 9_999}], [{"toolId": "echo"}] * 1_000],
    ids=["items", "steps"],
)
async def test_a_deadline_is_met_also_by_tools_that_never_wait(steps: Any) -> None:
    bench = Bench(echo=echo)
    ready = await bench.runner.run("echo", {})

    async def at_once(*_call: Any) -> Any:
        return ready

    with pytest.raises(ChainError, match=r"did not finish within 0\.001 s, and echo was running"):
        await run_chain(Chain.parse(steps), at_once, timeout=0.001)


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), "1", True], ids=repr)
async def test_a_deadline_that_is_none_is_refused_and_nothing_runs(timeout: Any) -> None:  # noqa: ASYNC109 - what is tested
    bench = Bench(echo=echo)
    for steps in ([{"toolId": "echo"}], []):
        with pytest.raises(ValidationError, match="/timeout: must be a positive number of seconds"):
            await bench.run(*steps, timeout=timeout)
    assert bench.calls == []


@pytest.mark.parametrize("timeout", [float("inf"), 10**400], ids=["infinity", "a very large number"])
async def test_a_deadline_may_be_as_far_away_as_can_be(timeout: Any) -> None:  # noqa: ASYNC109 - what is tested
    assert (await Bench(echo=echo).run({"toolId": "echo"}, timeout=timeout)).final == {}


async def test_an_empty_chain_is_never_too_late() -> None:
    async def slow(*_event: Any) -> None:
        await anyio.lowlevel.checkpoint()

    assert (await Bench().run(timeout=1e-9, progress=slow)).results == ()


async def test_a_deadline_that_passes_while_the_end_is_told_of_takes_nothing_back() -> None:
    async def slow(done: int, total: int, _message: str) -> None:
        if done == total:
            await anyio.sleep_forever()

    bench = Bench(echo=echo)
    with anyio.fail_after(PATIENCE):
        result = await bench.run({"toolId": "echo", "args": {"a": 1}}, timeout=0.2, progress=slow)
    assert (result.final, len(result.results)) == ({"a": 1}, 1)


async def test_cancelling_the_chain_cancels_what_runs_and_is_no_error_of_it() -> None:
    gate = Gate()
    bench = Bench(gate=gate.pass_through)
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            group.start_soon(
                bench.run, {"toolId": "gate", "forEach": [1, 2], "args": {"n": {"$ref": "item"}}}
            )
            await until(lambda: gate.waiting == 2)
            group.cancel_scope.cancel()
    assert sorted(gate.cancelled) == [1, 2]


async def test_for_each_needs_a_list() -> None:
    bench = Bench(echo=echo)
    step = {"toolId": "echo", "forEach": {"$ref": "steps.0/x"}}
    with pytest.raises(ChainError, match="step /1 failed: echo: forEach must be an array, not 5"):
        await bench.run({"toolId": "echo", "args": {"x": 5}}, step)
    with pytest.raises(ChainError, match=r"steps\.0 is an empty object"):
        await bench.run({"toolId": "echo"}, step)
    result = await bench.run({"toolId": "echo"}, {**step, "onError": {"fallback": []}})
    assert result.final == []


async def test_a_step_with_an_id_is_called_by_it_and_by_its_place() -> None:
    bench = Bench(echo=echo, fail=fail)
    group = {"id": "all", "parallel": [{"toolId": "echo"}, {"id": "bad", "toolId": "fail", "forEach": [1]}]}
    said = r"^step 'all' \(/1\) failed: 'bad' \(/1/parallel/1\): item 0: fail failed"
    with pytest.raises(ChainError, match=said) as caught:
        await bench.run({"toolId": "echo"}, group)
    assert (caught.value.step_index, caught.value.step_id) == (1, "all")
    with pytest.raises(ChainError, match=r"^step 'slow' \(/0\) failed: the chain did not finish") as caught:
        await run_chain(Chain.parse([{"id": "slow", "toolId": "a"}]), never, timeout=0.01)
    assert caught.value.step_id == "slow"


async def never(*_call: Any) -> Any:
    await anyio.sleep_forever()


async def test_there_is_a_limit_to_the_calls_of_a_chain() -> None:
    bench = Bench(echo=echo)
    limits = ChainLimits(max_calls=3)
    with pytest.raises(ChainError) as caught:
        await bench.run({"toolId": "echo"}, {"toolId": "echo", "forEach": [1, 2, 3]}, limits=limits)
    assert isinstance(caught.value.__cause__, LimitExceededError)
    assert caught.value.__cause__.limit == "max_calls"
    assert len(bench.calls) == 1
    with pytest.raises(ChainError):
        await bench.run(*[{"toolId": "echo"}] * 4, limits=limits)
    with pytest.raises(ChainError, match="at most 10,000 tool calls; this step would bring it to 10,002"):
        await bench.run(
            {"toolId": "echo", "args": {"all": [0] * 10_001}},
            {"toolId": "echo", "forEach": {"$ref": "previous/all"}},
        )


@pytest.mark.parametrize("step", [{"toolId": "x"}, {"toolId": "x", "forEach": [1, 2]}], ids=["call", "items"])
async def test_an_error_that_is_none_of_ours_comes_as_it_is(step: Any) -> None:
    async def broken(*_call: Any) -> Any:
        raise KeyError("bug")

    with pytest.raises(KeyError, match="bug"):
        await run_chain(Chain.parse([step]), broken)


async def test_a_chain_can_be_run_again() -> None:
    bench = Bench(echo=echo)
    chain = Chain.parse(
        [{"toolId": "echo", "args": {"a": 1}}, {"toolId": "echo", "args": {"x": {"$ref": "steps.0/a"}}}]
    )
    for _ in range(2):
        assert (await run_chain(chain, bench.run_tool)).final == {"x": 1}


async def test_tool_that_mutates_its_arguments_changes_neither_the_chain_nor_another_result() -> None:
    def spoil(args: dict[str, Any]) -> Any:
        for value in args.values():
            value.append("spoilt")

    bench = Bench(echo=echo, spoil=spoil)
    chain = Chain.parse(
        [
            {"toolId": "echo", "args": {"x": ["fresh"]}},
            {"toolId": "spoil", "args": {"x": {"$ref": "steps.0/x"}, "y": ["fresh"]}},
            {"toolId": "spoil", "args": {"item": {"$ref": "item"}}, "forEach": [["a"], ["b"]]},
            {"toolId": "spoil", "args": {"$ref": "steps.0"}},
            {"toolId": "echo", "args": {"x": {"$ref": "steps.0/x"}}},
        ]
    )
    for _ in range(2):
        result = await run_chain(chain, bench.run_tool)
        assert result.final == result.results[0].structured == {"x": ["fresh"]}
        assert result.results[1].args == {"x": ["fresh"], "y": ["fresh"]}
        assert [part.args for part in result.results[2].parts] == [{"item": ["a"]}, {"item": ["b"]}]


async def test_changes_to_the_json_of_results_do_not_affect_them() -> None:
    result = await Bench(echo=echo).run({"toolId": "echo", "args": {"x": ["fresh"]}})
    written = result.to_json()
    for value in (written["final"], written["results"][0]["structured"], written["results"][0]["args"]):
        value["x"].append("spoilt")
    assert result.final == result.results[0].args == {"x": ["fresh"]}


@pytest.mark.parametrize("calls", [{"forEach": [1, 2]}, {}], ids=["items", "a call"])
async def test_each_failure_has_a_fallback_of_its_own(calls: Any) -> None:
    def fails(_args: dict[str, Any]) -> Any:
        raise ValueError("no")

    step = {"toolId": "fails", "onError": {"fallback": {"found": []}}, **calls}
    bench = Bench(fails=fails)
    chain = Chain.parse([step, step])
    for _ in range(2):
        result = await run_chain(chain, bench.run_tool)
        values = [
            value
            for each in result.results
            for value in ([each.structured] if not calls else each.structured)
        ]
        for value in values:
            assert value == {"found": []}
            value["found"].append("spoilt")


async def test_arguments_too_large_to_hand_over_are_refused() -> None:
    big = [[0] * 1_000] * 300
    bench = Bench(echo=echo, big=lambda _args: big)
    args = {"a": {"$ref": "steps.0"}, "b": {"$ref": "steps.0"}}
    with pytest.raises(ChainError, match="500,000 values"):
        await bench.run({"toolId": "big"}, {"toolId": "echo", "args": args})


async def test_every_result_names_its_tool_by_the_id_and_what_was_asked_for() -> None:
    @tool(namespace="shop", version="1.2.0")
    def count() -> int:
        return 2

    steps = [
        {"toolId": "shop:count"},
        {"toolId": "shop:count:1.2.0", "when": {"equals": [1, 2]}},
        {"parallel": [{"toolId": "shop:count:^1"}]},
    ]
    first, skipped, group = (await runner_of(count).run_chain(steps)).results
    assert (first.tool_id, first.ref) == ("shop:count:1.2.0", "shop:count")
    assert (skipped.skipped, skipped.tool_id, skipped.ref) == (True, "shop:count:1.2.0", None)
    assert (group.tool_id, group.parts[0].tool_id, group.parts[0].ref) == (
        None,
        "shop:count:1.2.0",
        "shop:count:^1",
    )
    assert first.to_json()["toolId"] == "shop:count:1.2.0"
