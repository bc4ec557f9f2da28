"""What may be written as a step, and what is said of what may not."""

from typing import Any

import pytest
from execution.chains.bench import faults
from naming import named

from toolcrib.errors import ChainError, InvalidChainError, ValidationError
from toolcrib.execution import ChainLimits, ChainResult, ChainStep, StepResult
from toolcrib.execution.chains import Chain
from toolcrib.model import ToolId


@pytest.mark.parametrize(
    "written",
    [
        {"toolId": "a:b", "args": {"x": 1}, "usePrevious": True, "forEach": [1], "maxConcurrency": 2},
        {"tool_id": "a:b", "args": {"x": 1}, "use_previous": True, "for_each": [1], "max_concurrency": 2},
        '{"toolId": "a:b", "args": "{\\"x\\": 1}", "use_previous": true, "forEach": [1], "max_concurrency": 2}',
    ],
    ids=["camel", "snake", "text, mixed, with arguments as text"],
)
def test_a_step_is_read_in_either_spelling(written: Any) -> None:
    step = ChainStep.from_json(written)
    assert step == ChainStep(tool_id="a:b", args={"x": 1}, use_previous=True, for_each=[1], max_concurrency=2)
    assert ChainStep.from_json(step.to_json()) == step


def test_a_step_says_in_json_only_what_is_not_as_usual() -> None:
    assert ChainStep(tool_id=ToolId.parse("a:b"), timeout=3).to_json() == {"toolId": "a:b", "timeout": 3}
    group = ChainStep(parallel=[{"toolId": "a"}, ChainStep(tool_id="b", on_error={"fallback": [1]})])
    assert group.to_json() == {"parallel": [{"toolId": "a"}, {"toolId": "b", "onError": {"fallback": [1]}}]}


def test_the_arguments_of_a_step_are_its_own() -> None:
    args: dict[str, Any] = {"tags": ["a"]}
    step = ChainStep(tool_id="a", args=args)
    args["tags"].append("b")
    assert step.args == {"tags": ["a"]}


@pytest.mark.parametrize("empty", [None, "", " "])
def test_no_arguments_may_be_written_in_many_ways(empty: Any) -> None:
    assert ChainStep.from_json({"toolId": "a", "args": empty}).args == {}


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ({"toolID": "a"}, ["/0/toolID: is not a field of a step; did you mean 'toolId'?", "/0: needs a toolId, or a parallel group of steps"]),
        ({"toolId": "a", "tool_id": "b"}, ["/0/tool_id: is given under both its names"]),
        ({"toolId": ""}, ["/0/toolId: must not be empty"]),
        ({"toolId": 5, "args": [1]}, ["/0/toolId: must be a string", "/0/args: must be an object"]),
        ({"toolId": "a", "args": "[1]"}, ["/0/args: must be an object"]),
        ({"toolId": "a", "args": "{x}"}, ["/0/args: is text that is not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"]),
        ({"toolId": "a", "usePrevious": "yes"}, ["/0/usePrevious: must be a boolean"]),
        ({"toolId": "a", "id": "x/y"}, ["/0/id: may contain only letters, digits, '_', '.' and '-', not '/'"]),
        ({"toolId": "a", "id": "12"}, ["/0/id: must not be a number, which would be read as the place of a step"]),
        ({"toolId": "a", "timeout": 0}, ["/0/timeout: must be greater than 0"]),
        ({"toolId": "a", "timeout": True}, ["/0/timeout: must be a number"]),
        ({"toolId": "a", "forEach": [], "maxConcurrency": 65}, ["/0/maxConcurrency: must be less than or equal to 64"]),
        ({"toolId": "a", "maxConcurrency": 3}, ["/0: maxConcurrency is for steps with forEach, and for groups"]),
        ({"toolId": "a", "onError": "retry"}, ["/0/onError: must be 'stop', 'continue' or {'fallback': value}, not 'retry'"]),
        ({"parallel": [], "args": {"x": 1}, "timeout": 2}, ["/0: a parallel group has no args; give it to the steps in it; a parallel group has no timeout; give it to the steps in it"]),
        ({"parallel": [{"toolId": "a"}, 7, {"tool": "b"}]}, ["/0/parallel/1: a step must be an object, not 7", "/0/parallel/2/tool: is not a field of a step; did you mean 'toolId'?", "/0/parallel/2: needs a toolId, or a parallel group of steps"]),
        ({"toolId": "a", "forEach": 3}, ["/0/forEach: must be an array, or a reference to one"]),
        ({"toolId": "a", "forEach": {"x": {"$ref": "previous"}}}, ["/0/forEach/x: 'previous' leads nowhere: this is the first step"]),
        ({"toolId": "a", "args": {"$literal": [1]}}, ["/0/args: must be an object"]),
        ({"toolId": "a", "onError": {"fallback": [{"$ref": "item"}]}, "forEach": [1]}, ["/0/onError/fallback/0: 'item' is known only to a step with forEach"]),
        ({"name": "a", "arguments": {}}, ["/0/name: is not a field of a step; did you mean 'toolId'?", "/0/arguments: is not a field of a step; did you mean 'args'?", "/0: needs a toolId, or a parallel group of steps"]),
        ({"tool_id": "a", "input": {}}, ["/0/input: is not a field of a step; did you mean 'args'?"]),
        ({"toolId": "a", "params": {}}, ["/0/params: is not a field of a step; did you mean 'args'?"]),
        ({"toolId": "a", "parameters": {}}, ["/0/parameters: is not a field of a step; did you mean 'args'?"]),
        ({"tool_name": "a"}, ["/0/tool_name: is not a field of a step; did you mean 'tool_id'?", "/0: needs a tool_id, or a parallel group of steps"]),
        ({"tool_id": "", "on_error": "retry"}, ["/0/tool_id: must not be empty", "/0/on_error: must be 'stop', 'continue' or {'fallback': value}, not 'retry'"]),
        ({"tool_id": "a", "for_each": 3}, ["/0/for_each: must be an array, or a reference to one"]),
        ({"parallel": [{"tool_id": "a", "use_previous": 1}, {"toolId": "a", "usePrevious": 1}]}, ["/0/parallel/0/use_previous: must be a boolean", "/0/parallel/1/usePrevious: must be a boolean"]),
        ({"parallel": [{"tool_id": "a", "args": {"x": {"$ref": "item"}}}, {"toolId": "a", "forEach": 1}]}, ["/0/parallel/0/args/x: 'item' is known only to a step with for_each", "/0/parallel/1/forEach: must be an array, or a reference to one"]),
        ({"parallel": {}}, ["/0/parallel: must be an array"]),
        ({"parallel": [], "forEach": [1]}, ["/0: a parallel group has no forEach; give it to the steps in it"]),
        ("a", ["/0: a step must be an object, not 'a'"]),
        ({"toolId": "a", "args": {"when": {1, 2}}}, ["/0/args/when: the value is a Python set, which is not plain JSON"]),
    ],
    ids=lambda value: str(value)[:50],
)  # fmt: skip
def test_problem_of_a_step_is_reported_with_its_place(step: Any, said: list[str]) -> None:
    assert faults([step]) == said


def test_a_fallback_is_a_plain_value() -> None:
    step = {"toolId": "b", "onError": {"fallback": {"$ref": "steps.0"}}}
    assert faults([{"toolId": "a"}, step]) == [
        "/1/onError/fallback: must be a plain value, without references"
    ]
    assert faults([{"toolId": "a", "onError": {"fallback": {"$literal": {"$ref": "x"}}}}]) == []


def test_a_record_made_in_python_is_spelt_as_python_is() -> None:
    step = ChainStep(tool_id="a", for_each=3, args={"x": {"$ref": "previous"}})
    assert faults([step, ChainStep(parallel=(step,))])[:1] == [
        "/0/args/x: 'previous' leads nowhere: this is the first step"
    ]
    assert faults([{"toolId": "a"}, ChainStep(parallel=(step,))]) == [
        "/1/parallel/0/for_each: must be an array, or a reference to one"
    ]
    with pytest.raises(InvalidChainError, match="/tool: is not a field of a step; did you mean 'tool_id'"):
        ChainStep(tool="a")  # type: ignore[call-arg]  # that is the test


def test_a_record_made_in_python_is_refused_like_one_in_json() -> None:
    with pytest.raises(InvalidChainError, match=r"/arg: is not a field of a step; did you mean 'args'\?"):
        ChainStep(tool_id="a", arg={})  # type: ignore[call-arg]  # that is the test
    with pytest.raises(InvalidChainError, match="it is not JSON"):
        ChainStep.from_json("{")
    with pytest.raises(InvalidChainError, match="must be an object, not 3"):
        ChainStep.from_json("3")


def test_the_error_is_of_every_kind_a_caller_may_expect() -> None:
    with pytest.raises(ValueError, match="the chain cannot run") as caught:
        Chain.parse([{"toolId": "a"}, {"toolId": "b", "argz": {}}, {"args": {}}])
    error = caught.value
    assert isinstance(error, ChainError)
    assert isinstance(error, ValidationError)
    assert (error.step_index, error.results) == (1, ())
    assert [problem.path for problem in error.problems] == ["/1/argz", "/2"]


@pytest.mark.parametrize(
    ("written", "count"),
    [([], 0), ((), 0), ("[]", 0), (b'{"steps": [{"toolId": "a"}]}', 1), ({"steps": []}, 0)],
    ids=str,
)
def test_a_chain_is_a_list_or_the_text_of_one(written: Any, count: int) -> None:
    assert len(Chain.parse(written).steps) == count


@pytest.mark.parametrize("written", ["[", "3", None, {"steps": 1}, {"toolId": "a"}, iter([])], ids=named)
def test_anything_else_is_no_chain(written: Any) -> None:
    assert len(faults(written)) == 1


def test_a_chain_that_was_read_is_not_read_again() -> None:
    chain = Chain.parse([ChainStep(tool_id="a")])
    assert Chain.parse(chain) is chain


def test_there_is_a_limit_to_the_steps_those_in_groups_included() -> None:
    limits = ChainLimits(max_steps=3)
    group = {"parallel": [{"toolId": "a"}] * 3}
    for steps in ([{"toolId": "a"}] * 4, [group], Chain.parse([group])):
        with pytest.raises(InvalidChainError, match="more than 3 steps"):
            Chain.parse(steps, limits=limits)


def nested(depth: int) -> Any:
    step: Any = {"toolId": "a"}
    for _ in range(depth):
        step = {"parallel": [step]}
    return step


@pytest.mark.parametrize("depth", [9, 100, 5_000])
def test_groups_in_groups_have_a_limit(depth: int) -> None:
    assert "deep" in faults([nested(depth)])[0]
    assert faults([nested(8)]) == []


def test_groups_of_records_have_the_same_limit() -> None:
    step = ChainStep(tool_id="a")
    for _ in range(9):
        step = ChainStep(parallel=(step,))
    assert "nested more than 8 deep" in faults([step])[0]


@pytest.mark.attack
def test_a_step_that_holds_itself_is_refused() -> None:
    args: dict[str, Any] = {}
    args["self"] = [args, args]
    assert "the value" in faults([{"toolId": "a", "args": args}])[0]
    step: dict[str, Any] = {}
    step["parallel"] = [step, step]
    assert "the value" in faults([step])[0]


@pytest.mark.attack
def test_large_arguments_are_read_once_and_soon() -> None:
    args = {f"key{place}": {"text": "x" * 100} for place in range(10_000)}
    assert faults([{"toolId": "a", "args": args}]) == []


def test_at_most_32_problems_are_listed() -> None:
    assert len(faults([{}] * 100)) == 32


def test_results_tell_in_json_what_they_know() -> None:
    part = StepResult(index=0, tool_id="b", structured=1, args={"x": 1})
    results = (StepResult(index=0, structured=[1], parts=(part,)), StepResult(index=1, skipped=True))
    told = ChainResult(final=None, results=results).to_json(without={"args"})
    assert told == {
        "final": None,
        "results": [
            {
                "index": 0,
                "structured": [1],
                "duration": 0.0,
                "parts": [{"index": 0, "toolId": "b", "duration": 0.0}],
            },
            {"index": 1, "duration": 0.0, "skipped": True},
        ],
    }
    assert StepResult(index=0, tool_id="a").to_json() == {
        "index": 0, "toolId": "a", "duration": 0.0, "structured": None,
    }  # fmt: skip
