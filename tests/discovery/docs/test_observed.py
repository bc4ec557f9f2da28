"""Shapes are learnt from results: in any order, without their values, and true of each of them."""

import json
import random
from functools import reduce
from typing import Any

import pytest
from effort import at_most
from hypothesis import given
from hypothesis import strategies as st
from laws import law
from naming import named

from toolcrib.discovery.docs import ObservedShape
from toolcrib.errors import InvalidToolError, ValidationError
from toolcrib.model import DefaultValidator

VALIDATOR = DefaultValidator()
KEYS = st.sampled_from(["a", "b", "id", "x1", "12", "a@b.c", "main.py", "user 7", ""]) | st.text(max_size=3)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=25,
)


def learn(*values: Any) -> ObservedShape:
    return reduce(ObservedShape.merge, map(ObservedShape.of, values), ObservedShape())


def schema_of(*values: Any) -> dict[str, Any]:
    return learn(*values).json_schema()


def in_groups(values: list[Any], chance: random.Random) -> ObservedShape:
    """Return the shape of values that were shuffled, learnt apart and put together at random."""
    parts = [ObservedShape.of(value) for value in chance.sample(values, len(values))]
    while len(parts) > 1:
        at = chance.randrange(len(parts) - 1)
        parts[at : at + 2] = [parts[at].merge(parts[at + 1])]
    return parts[0]


@pytest.mark.parametrize(
    ("values", "schema"),
    [
        ([], {}),
        ([1], {"type": "integer"}),
        ([1, 2.5], {"type": "number"}),
        ([1.0], {"type": "number"}),
        ([True, 1], {"type": ["integer", "boolean"]}),
        (["a", None], {"type": ["string", "null"]}),
        ([[]], {"type": "array"}),
        ([[1], ["a"], []], {"type": "array", "items": {"type": ["string", "integer"]}}),
        ([{}], {"type": "object"}),
        (
            [{"b": 1, "a": "x"}, {"a": None}],
            {
                "type": "object",
                "properties": {"a": {"type": ["string", "null"]}, "b": {"type": "integer"}},
                "required": ["a"],
            },
        ),
        (
            [{"rows": [{"id": 1}, {"id": 2, "x": 1}]}, {"rows": []}],
            {
                "type": "object",
                "properties": {
                    "rows": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {"id": {"type": "integer"}, "x": {"type": "integer"}},
                            "required": ["id"],
                        },
                    }
                },
                "required": ["rows"],
            },
        ),
        (
            [{"a": 1}, [2], "x"],
            {
                "type": ["object", "array", "string"],
                "properties": {"a": {"type": "integer"}},
                "required": ["a"],
                "items": {"type": "integer"},
            },
        ),
        (
            [{"2024-01-01": 1.5, "me@x.test": 2, "total": 7}],
            {
                "type": "object",
                "properties": {"total": {"type": "integer"}},
                "required": ["total"],
                "additionalProperties": {"type": "number"},
            },
        ),
    ],
)
def test_a_schema_says_what_was_seen(values: list[Any], schema: dict[str, Any]) -> None:
    assert schema_of(*values) == schema
    assert learn(*values).observed == len(values)


@law(20)
@given(st.lists(JSON, min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_the_order_and_the_grouping_of_results_do_not_matter(
    values: list[Any], chance: random.Random
) -> None:
    learnt, other = learn(*values), in_groups(values, chance)
    assert other.to_json() == learnt.to_json()
    assert other.json_schema() == learnt.json_schema()


@law(20)
@given(st.lists(JSON, min_size=1, max_size=6))
def test_every_result_fits_what_was_learnt(values: list[Any]) -> None:
    schema = schema_of(*values)
    for value in values:
        VALIDATOR.validate(schema, value)


@law(20)
@given(st.lists(JSON, max_size=4), st.lists(JSON, max_size=4))
def test_learning_goes_on_from_what_was_written(first: list[Any], then: list[Any]) -> None:
    learnt = learn(*first)
    read = ObservedShape.from_json(json.dumps(learnt.to_json()))
    assert read.to_json() == learnt.to_json()
    assert read.merge(learn(*then)).to_json() == learn(*first, *then).to_json()


@law(20)
@given(st.lists(JSON, max_size=4), st.lists(JSON, max_size=4))
def test_merging_changes_neither_side(first: list[Any], then: list[Any]) -> None:
    one, other = learn(*first), learn(*then)
    before = one.to_json(), other.to_json()
    one.merge(other)
    assert (one.to_json(), other.to_json()) == before


def grown(chance: random.Random, depth: int) -> Any:
    """Return a value that overflows names, nodes or levels sooner or later."""
    if depth == 0 or chance.random() < 0.2:
        return chance.choice([1, "a", None, 2.5])
    if chance.random() < 0.3:
        return [grown(chance, depth - 1) for _ in range(chance.randrange(4))]
    letters = "abcdefghijklmnopqrstuvwxyz"
    names = ("".join(chance.choices(letters, k=2)) for _ in range(chance.randrange(22)))
    return {name: grown(chance, depth - 1) for name in names}


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.proof) for seed in range(1, 8))])
def test_neither_matters_when_the_bounds_are_met(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - no secret
    values = [grown(chance, 4 - seed % 2) for _ in range(8)]
    learnt = learn(*values)
    for _ in range(2):
        assert in_groups(values, chance).to_json() == learnt.to_json()
    schema = learnt.json_schema()
    for value in values:
        VALIDATOR.validate(schema, value)


def count(schema: Any) -> int:
    if not isinstance(schema, dict):
        return 0
    inner = [*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")]
    return 1 + sum(map(count, inner))


def depth_of(schema: Any) -> int:
    if not isinstance(schema, dict):
        return 0
    inner = [*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")]
    return 1 + max(map(depth_of, inner))


def test_six_levels_are_told() -> None:
    value: Any = 1
    for _ in range(10):
        value = {"a": value}
    schema = schema_of(value)
    assert depth_of(schema) == 7
    VALIDATOR.validate(schema, value)


def letters(number: int) -> str:
    return "n" + "".join(chr(97 + int(digit)) for digit in str(number))


def test_an_object_with_other_names_each_time_is_a_map() -> None:
    schema = schema_of(*({letters(number): number} for number in range(60)))
    assert schema == {"type": "object", "additionalProperties": {"type": "integer"}}


def test_an_object_with_too_many_names_is_a_map() -> None:
    value = {letters(number): [number] for number in range(150)}
    integers = {"type": "array", "items": {"type": "integer"}}
    assert schema_of(value) == {"type": "object", "additionalProperties": integers}
    assert schema_of(value, {"other": "x"}) == {
        "type": "object",
        "additionalProperties": integers | {"type": ["array", "string"]},
    }
    assert "named" not in json.dumps(learn(value).to_json())


def test_a_wide_object_lists_the_names_that_most_objects_have() -> None:
    wide = {letters(number): number for number in range(70)}
    schema = schema_of(wide, wide, {name: wide[name] for name in list(wide)[:60]} | {"extra": "x"})
    assert len(schema["properties"]) == 50
    assert schema["required"] == sorted(schema["properties"])
    assert schema["additionalProperties"] == {"type": ["string", "integer"]}


def test_a_schema_has_a_bounded_size_whatever_was_seen() -> None:
    def tree(depth: int) -> Any:
        return {letters(number): tree(depth - 1) for number in range(30)} if depth else 1

    schema = schema_of(tree(3))
    assert count(schema) <= 1_000
    VALIDATOR.validate(schema, tree(3))
    assert count(schema_of([[tree(2)] * 10])) > 900


def test_no_value_is_kept() -> None:
    secrets = [
        "hunter2",
        4711,
        0.8154,
        "me@x.test",
        "cafe-1234-5678",
        "/etc/passwd",
        "report.pdf",
        "2024-01-01",
    ]
    results = [{"value": secret, str(secret): {"x": [secret]}} for secret in secrets[1:]]
    written = json.dumps([learn(*results).to_json(), schema_of(*results)])
    assert [secret for secret in secrets if str(secret) in written] == []


@pytest.mark.parametrize("value", [{1}, float("nan"), {"a": (1,)}, {5: 1}, "\ud800", object()], ids=named)
def test_non_json_value_is_refused(value: Any) -> None:
    with pytest.raises(ValidationError):
        ObservedShape.of(value)


def test_too_large_value_is_refused() -> None:
    ObservedShape.of([0] * 49_999)
    with pytest.raises(
        ValidationError, match="the value holds 50,001 values, and at most 50,000 are looked at"
    ):
        ObservedShape.of([0] * 50_000)


@pytest.mark.attack
def test_the_largest_results_are_looked_at_in_a_moment() -> None:
    row = {"id": 1, "name": "x", "tags": ["a", "b"], "owner": {"login": "a", "id": 3}, "url": None}
    names = [letters(number) for number in range(49_000)]
    with at_most(10):
        for value in ([row] * 4_500, dict.fromkeys(names, 1), [{name: 1} for name in names[:24_000]]):
            ObservedShape.of(value).json_schema()


@pytest.mark.parametrize(
    "source",
    [
        "{",
        "[]",
        "{}",
        {"observed": -1, "depth": 6, "shape": {}},
        {"observed": 1, "depth": 7, "shape": {}},
        {"observed": 1, "depth": 6, "shape": {"kinds": ["text"]}},
        {"observed": 1, "depth": 6, "shape": {"named": {"a": {}}}},
        {"observed": 1, "depth": 6, "shape": {"values": ["hunter2"]}},
    ],
    ids=str,
)
def test_malformed_json_form_is_refused(source: Any) -> None:
    with pytest.raises(InvalidToolError):
        ObservedShape.from_json(source)


def test_json_form_is_read_down_to_its_depth() -> None:
    written = learn({"a": {"b": {"c": 1}}}).to_json() | {"depth": 1}
    assert ObservedShape.from_json(written).json_schema() == {
        "type": "object",
        "properties": {"a": {"type": "object"}},
        "required": ["a"],
    }


def test_a_shape_shows_how_much_it_has_seen() -> None:
    assert repr(learn(1, 2)) == "ObservedShape(observed=2, depth=6)"
