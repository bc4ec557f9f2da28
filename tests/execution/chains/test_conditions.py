"""Which steps run, and which are left out."""

from typing import Any

import pytest
from execution.chains.bench import Bench, faults

pytestmark = pytest.mark.anyio

GIVEN = {"yes": True, "zero": 0, "none": None, "text": "x", "empty": [], "list": [1, {"a": 1.0}], "one": 1}


def ref(name: str) -> dict[str, str]:
    return {"$ref": f"steps.given/{name}"}


@pytest.mark.parametrize(
    ("condition", "met"),
    [
        (True, True),
        (False, False),
        (ref("yes"), True),
        (ref("text"), True),
        (ref("zero"), False),
        (ref("none"), False),
        (ref("empty"), False),
        (ref("absent"), False),
        ({"exists": ref("none")}, True),
        ({"exists": ref("absent/deep")}, False),
        ({"equals": [ref("text"), "x"]}, True),
        ({"equals": [ref("one"), 1.0]}, True),
        ({"equals": [ref("one"), True]}, False),
        ({"equals": [ref("list"), [1.0, {"a": 1}]]}, True),
        ({"equals": [ref("list"), [1, {"b": 1}]]}, False),
        ({"equals": [ref("list"), [1]]}, False),
        ({"equals": [[ref("text")], ["x"]]}, True),
        ({"equals": [ref("absent"), None]}, True),
        ({"not": ref("zero")}, True),
        ({"all": []}, True),
        ({"any": []}, False),
        ({"all": [True, ref("yes"), {"not": {"any": [ref("zero"), False]}}]}, True),
        ({"any": [ref("zero"), {"equals": [1, 2]}]}, False),
    ],
    ids=str,
)
async def test_a_condition_decides_whether_a_step_runs(condition: Any, met: bool) -> None:
    bench = Bench(give=lambda args: args["give"])
    steps = [
        {"toolId": "give", "id": "given", "args": {"give": {"$literal": GIVEN}}},
        {"toolId": "give", "args": {"give": "ran"}, "when": condition},
    ]
    result = await bench.run(*steps)
    assert result.results[1].skipped is not met
    assert result.results[1].structured == ("ran" if met else None)
    assert result.final == ("ran" if met else GIVEN)


async def test_the_step_after_two_ways_gets_what_the_one_that_ran_gave() -> None:
    bench = Bench(give=lambda args: args.get("give") or args["previous"])
    for which in ("left", "right"):
        asked = {"$ref": "steps.0"}
        result = await bench.run(
            {"toolId": "give", "args": {"give": which}},
            {"toolId": "give", "args": {"give": "L"}, "when": {"equals": [asked, "left"]}},
            {"toolId": "give", "args": {"give": "R"}, "when": {"not": {"equals": [asked, "left"]}}},
            {"toolId": "give", "usePrevious": True},
        )
        assert result.final == which[0].upper()


async def test_where_nothing_ran_before_previous_is_null() -> None:
    bench = Bench(give=dict)
    result = await bench.run({"toolId": "give", "when": False}, {"toolId": "give", "usePrevious": True})
    assert result.final == {"previous": None}


async def test_a_condition_about_the_item_is_asked_of_each() -> None:
    bench = Bench(give=lambda args: args["n"])
    items = [{"n": 1, "go": True}, {"n": 2}, {"n": 3, "go": True}]
    step = {
        "toolId": "give",
        "forEach": items,
        "args": {"n": {"$ref": "item/n"}},
        "when": {"$ref": "item/go"},
    }
    result = await bench.run(step)
    assert result.final == [1, None, 3]
    assert [part.skipped for part in result.results[0].parts] == [False, True, False]
    result = await bench.run({**step, "when": {"equals": [{"$ref": "index"}, 1]}})
    assert result.final == [None, 2, None]


async def test_a_condition_about_something_else_is_asked_once_and_before_the_items() -> None:
    bench = Bench(give=lambda args: args["give"])
    step = {
        "toolId": "give",
        "forEach": {"$ref": "steps.0/items"},
        "args": {"give": 1},
        "when": {"exists": {"$ref": "steps.0/items"}},
    }
    result = await bench.run({"toolId": "give", "args": {"give": {}}}, step)
    assert result.results[1].skipped


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("steps.0", "/1/when: a condition is a boolean, or an object with one of '$ref', 'all', 'any', 'equals', 'exists' or 'not', not 'steps.0'"),
        ({"eq": [1, 1]}, "/1/when: there is no condition 'eq'; a condition is a boolean, or an object with one of '$ref', 'all', 'any', 'equals', 'exists' or 'not'"),
        ({"equal": [1, 1]}, "/1/when: there is no condition 'equal'; did you mean 'equals'?; a condition is a boolean, or an object with one of '$ref', 'all', 'any', 'equals', 'exists' or 'not'"),
        ({"equals": [1]}, "/1/when/equals: must be an array of the two values to compare"),
        ({"equals": [1, {"$ref": "steps.x"}]}, "/1/when/equals/1: 'steps.x' leads nowhere: no step has that id"),
        ({"exists": "steps.0"}, "/1/when/exists: must be a reference, such as {'$ref': 'steps.find/items'}"),
        ({"all": {"not": True}}, "/1/when/all: must be an array of conditions"),
        ({"any": [True, {"not": 1}]}, "/1/when/any/1/not: a condition is a boolean, or an object with one of '$ref', 'all', 'any', 'equals', 'exists' or 'not', not 1"),
        ({"$ref": "item"}, "/1/when: 'item' is known only to a step with forEach"),
        ({}, "/1/when: a condition is a boolean, or an object with one of '$ref', 'all', 'any', 'equals', 'exists' or 'not', not {}"),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_invalid_condition_is_reported(condition: Any, said: str) -> None:
    assert faults([{"toolId": "a"}, {"toolId": "a", "when": condition}]) == [said]


@pytest.mark.attack
def test_conditions_in_conditions_have_a_limit() -> None:
    deep: Any = True
    for _ in range(100):
        deep = {"not": deep}
    [said] = faults([{"toolId": "a", "when": deep}])
    assert "nested more than 32 deep" in said
