"""What a step can see of those before it."""

from typing import Any

import anyio
import pytest
from execution.chains.bench import Bench, faults
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.errors import ChainError, InputValidationError
from toolcrib.execution.chains import Chain
from toolcrib.model.plain import pointer

pytestmark = pytest.mark.anyio


def give(args: dict[str, Any]) -> Any:
    return args.get("give")


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("steps.later", "'steps.later' runs only after this step; refer to earlier ones"),
        ("steps.3", "'steps.3' runs only after this step; refer to earlier ones"),
        ("steps.me/x", "'steps.me' is this step itself"),
        ("steps.2", "'steps.2' is this step itself"),
        ("steps.fnd/x", "'steps.fnd' leads nowhere: no step has that id; did you mean 'find'?"),
        ("steps.9", "'steps.9' leads nowhere: there are 4 steps"),
        ("steps.0.0.name", "'steps.0.0.name' leads nowhere; write 'steps.0/0/name'"),
        ("steps.find.items[0].id", "'steps.find.items[0].id' leads nowhere; write 'steps.find/items/0/id'"),
        ("steps.find.items/0/id", "'steps.find.items/0/id' leads nowhere; write 'steps.find/items/0/id'"),
        ("steps[0].name", "'steps[0].name' is no reference; write 'steps.0/name'"),
        ("steps.a.b.c", "'steps.a.b.c' leads nowhere; write 'steps.a.b/c'"),
        ("steps.fnd.items", "'steps.fnd.items' leads nowhere: no step has that id"),
        ("previous.name", "'previous.name' is no reference; write 'previous/name'"),
        ("item", "'item' is known only to a step with forEach"),
        ("steps.find/a~2", "'steps.find/a~2' is no reference: in a JSON Pointer '~' is written '~0', and '/' in a key '~1'"),
        ("#/$defs/x", "'#/$defs/x' is no reference; write 'steps.<id or place>', 'previous', 'item' or 'index', and a JSON Pointer after it, as in {\"$ref\": \"previous\"}, or {'$literal': ...} around a plain value"),
        ("steps.", "'steps.' is no reference; write 'steps.<id or place>', 'previous', 'item' or 'index', and a JSON Pointer after it, as in {\"$ref\": \"previous\"}, or {'$literal': ...} around a plain value"),
    ],
)  # fmt: skip
def test_a_reference_that_cannot_lead_anywhere_is_told_of_before_anything_runs(
    reference: str, said: str
) -> None:
    steps = [
        {"toolId": "a", "id": "find"},
        {"parallel": [{"toolId": "a", "id": "a.b"}]},
        {"toolId": "a", "id": "me", "args": {"deep": [{"x": {"$ref": reference}}]}},
        {"toolId": "a", "id": "later"},
    ]
    assert faults(steps) == [f"/2/args/deep/0/x: {said}"]


@pytest.mark.parametrize(
    "text", [None, 5, ["steps.0"], "steps.\u0000", "previous\n", "steps.0\n", "x" * 100_000], ids=repr
)
def test_reference_must_be_a_text_with_a_name(text: Any) -> None:
    assert len(faults([{"toolId": "a"}, {"toolId": "a", "args": {"x": {"$ref": text}}}])) == 1


def test_steps_of_one_group_cannot_see_each_other() -> None:
    group = {
        "id": "all",
        "parallel": [{"toolId": "a", "id": "x"}, {"toolId": "a", "args": {"v": {"$ref": "steps.x"}}}],
    }
    outer = {"parallel": [{"toolId": "a", "args": {"v": {"$ref": "steps.all"}}}], "id": "all"}
    side = "is in the same group; steps that run side by side cannot refer to each other"
    assert faults([group]) == [f"/0/parallel/1/args/v: 'steps.x' {side}"]
    assert faults([outer]) == [f"/0/parallel/0/args/v: 'steps.all' {side}"]


def test_two_steps_cannot_have_one_id() -> None:
    steps = [{"toolId": "a", "id": "x"}, {"parallel": [{"toolId": "a", "id": "x"}]}]
    assert faults(steps) == ["/1/parallel/0/id: 'x' is the id of another step too"]


def test_a_reference_to_a_step_that_cannot_be_read_is_not_blamed() -> None:
    steps = [{"tool": "a"}, {"toolId": "b", "args": {"x": {"$ref": "steps.0"}}}]
    assert {fault.split(":")[0] for fault in faults(steps)} == {"/0/tool", "/0"}


def test_a_reference_and_a_literal_stand_alone() -> None:
    both = {"x": {"$ref": "previous", "more": 1}, "y": {"$literal": 1, "more": 1}}
    assert [fault.split(":")[0] for fault in faults([{"toolId": "a", "args": both}])] == [
        "/0/args/x",
        "/0/args/y",
    ]


async def test_references_lead_into_what_earlier_steps_gave() -> None:
    bench = Bench(give=give)
    found = {"items": [{"id": 7, "a/b": {"~": "odd"}}], "": "empty", "0": "zero"}
    seen = {
        "id": {"$ref": "steps.find/items/0/id"},
        "by_place": {"$ref": "steps.0/items"},
        "odd": [{"$ref": "previous/items/0/a~1b/~0"}, 1],
        "empty": {"$ref": "previous/"},
        "zero": {"$ref": "previous/0"},
        "whole": {"$ref": "previous"},
        "literal": {"$literal": {"$ref": "steps.find"}},
        "text": "{$ref: previous} {{steps.find}}",
    }
    result = await bench.run(
        {"toolId": "give", "id": "find", "args": {"give": {"$literal": found}}},
        {"toolId": "give", "args": seen},
    )
    assert (
        bench.calls[1][1]
        == result.results[1].args
        == {
            "id": 7,
            "by_place": found["items"],
            "odd": ["odd", 1],
            "empty": "empty",
            "zero": "zero",
            "whole": found,
            "literal": {"$ref": "steps.find"},
            "text": "{$ref: previous} {{steps.find}}",
        }
    )


async def test_all_arguments_may_come_from_one_reference() -> None:
    bench = Bench(give=give)
    steps = [
        {"toolId": "give", "args": {"give": {"a": 1, "give": 2}}},
        {"toolId": "give", "args": {"$ref": "previous"}},
    ]
    assert (await bench.run(*steps)).final == 2
    steps[1]["usePrevious"] = True
    await bench.run(*steps)
    assert bench.calls[-1][1] == {"a": 1, "give": 2, "previous": {"a": 1, "give": 2}}
    steps[0]["args"] = {"give": [1]}
    with pytest.raises(ChainError, match="the arguments must be an object, not \\[1\\]"):
        await bench.run(*steps)


async def test_steps_in_groups_are_seen_by_later_ones() -> None:
    bench = Bench(give=give)
    group = {
        "id": "both",
        "parallel": [
            {"toolId": "give", "id": "one", "args": {"give": 1}},
            {"toolId": "give", "args": {"give": [2]}},
        ],
    }
    seen = {"one": {"$ref": "steps.one"}, "two": {"$ref": "steps.both/1/0"}, "all": {"$ref": "steps.0"}}
    await bench.run(group, {"toolId": "give", "args": seen})
    assert bench.calls[-1][1] == {"one": 1, "two": 2, "all": [1, [2]]}


@pytest.mark.parametrize(
    ("given", "reference", "there"),
    [
        ({"itms": []}, "steps.find/items/0", "steps.find has no 'items', only 'itms'; did you mean 'itms'?"),
        ({"items": [1]}, "steps.find/items/1", "steps.find/items is an array of 1 item"),
        ({"items": [1, 2]}, "previous/items/01", "previous/items is an array of 2 items"),
        ({"items": []}, "steps.0/items/0", "steps.0/items is an empty array"),
        ({"items": {}}, "steps.find/items/x", "steps.find/items is an empty object"),
        (None, "steps.find/items", "steps.find is null"),
        ("text", "steps.find/0", "steps.find is 'text'"),
        (dict.fromkeys("abcdefghij"), "steps.find/y", "steps.find has no 'y', only 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', …"),
    ],
)  # fmt: skip
async def test_a_reference_that_leads_nowhere_says_what_is_there(
    given: Any, reference: str, there: str
) -> None:
    bench = Bench(give=give)
    steps = [
        {"toolId": "give", "id": "find", "args": {"give": given}},
        {"toolId": "give", "args": {"a": [{"$ref": reference}]}},
    ]
    with pytest.raises(ChainError) as caught:
        await bench.run(*steps)
    assert caught.value.reason == f"give: /a/0: {reference!r} leads nowhere: {there}"
    assert caught.value.step_index == 1
    assert isinstance(caught.value.__cause__, InputValidationError)
    assert [result.error is None for result in caught.value.results] == [True, False]
    assert len(bench.calls) == 1


async def test_a_step_that_was_skipped_gave_nothing() -> None:
    bench = Bench(give=give)
    steps = [
        {"toolId": "give", "id": "x", "when": False},
        {"toolId": "give", "args": {"v": {"$ref": "steps.x"}}},
    ]
    with pytest.raises(ChainError, match=r"'steps.x' leads nowhere: steps.x did not run"):
        await bench.run(*steps)
    steps[1]["args"] = {"v": {"$ref": "previous"}}
    with pytest.raises(ChainError, match="'previous' leads nowhere: no step before this one ran"):
        await bench.run(*steps)


async def test_tool_that_mutates_its_arguments_changes_nothing_else() -> None:
    def spoil(args: dict[str, Any]) -> Any:
        args["list"].append("spoilt")
        return args["list"]

    bench = Bench(give=give, spoil=spoil)
    shared = {"list": {"$ref": "steps.0"}}
    steps = [
        {"toolId": "give", "args": {"give": ["fresh"]}},
        {"toolId": "spoil", "args": shared},
        {"toolId": "spoil", "args": {"list": ["own"]}, "forEach": [1, 2]},
        {"toolId": "give", "args": {"give": {"$ref": "steps.0"}}},
    ]
    result = await bench.run(*steps)
    assert [step.structured for step in result.results] == [
        ["fresh"], ["fresh", "spoilt"], [["own", "spoilt"], ["own", "spoilt"]], ["fresh"],
    ]  # fmt: skip
    assert result.results[1].args == {"list": ["fresh"]}


KEYS = st.text(max_size=4) | st.sampled_from(["~", "/", "~1", "0", "-1", "$ref"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=10,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Any:
    yield path, value
    members = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, member in members:
        yield from places(member, (*path, key))


@st.composite
def parts_of_values(draw: st.DrawFn) -> tuple[Any, tuple[Any, ...], Any]:
    value = draw(VALUES)
    return value, *draw(st.sampled_from(list(places(value))))


@given(parts_of_values())
def test_every_part_of_a_result_can_be_referred_to(drawn: tuple[Any, tuple[Any, ...], Any]) -> None:
    value, path, part = drawn
    bench = Bench(give=give)
    steps = [
        {"toolId": "give", "id": "x.y-z", "args": {"give": {"$literal": value}}},
        {"toolId": "give", "args": {"give": {"$ref": f"steps.x.y-z{pointer(path)}"}}},
    ]
    assert anyio.run(bench.run, *steps).final == part
    assert (
        Chain.parse([step.to_json() for step in Chain.parse(steps).steps]).steps == Chain.parse(steps).steps
    )
