"""Whether every value of one schema fits another: proofs, counterexamples, and no proof of what is wrong."""

from typing import Any

import pytest
from effort import at_most
from hypothesis import given
from hypothesis import strategies as st
from laws import law
from trust.made import Maker, objects

from toolcrib.errors import InvalidSchemaError
from toolcrib.model import DefaultValidator
from toolcrib.trust import Allowance, check_subset

TEXT = {"type": "string"}
WHOLE = {"type": "integer"}
NODE = {
    "type": "object",
    "properties": {"next": {"$ref": "#/$defs/node"}, "value": WHOLE},
    "required": ["value"],
}


def fits(schema: Any, value: Any) -> bool:
    return DefaultValidator().compile(schema).is_valid(value)


def tagged(kinds: str, member: Any, word: str = "anyOf") -> dict[str, Any]:
    return {word: [objects({"kind": {"const": kind}, "value": member}, "kind") for kind in kinds]}


def listed(value: Any) -> dict[str, Any]:
    return {
        "$ref": "#/$defs/node",
        "$defs": {"node": NODE | {"properties": NODE["properties"] | {"value": value}}},
    }


@pytest.mark.parametrize(
    ("part", "whole"),
    [
        (TEXT, TEXT),
        (TEXT, True),
        (False, TEXT),
        (WHOLE, {"type": "number"}),
        ({"type": ["string", "null"]}, {"anyOf": [{"type": "null"}, TEXT]}),
        ({"anyOf": [{"type": "null"}, TEXT]}, {"type": ["string", "null"]}),
        ({"oneOf": [{"type": "null"}, TEXT]}, {"type": ["string", "null"]}),
        ({"type": "boolean"}, {"enum": [False, True]}),
        ({"const": 1.0}, {"const": 1}),
        ({"enum": ["a", "b"]}, {"enum": ["b", "a", "c"]}),
        ({"enum": ["a", "bc"]}, {"type": "string", "maxLength": 2, "pattern": "^[a-c]+$"}),
        ({"type": "integer", "minimum": 1, "maximum": 3}, {"enum": [1, 2, 3]}),
        ({"type": "integer", "exclusiveMinimum": 0}, {"type": "number", "minimum": 1}),
        ({"type": "integer", "multipleOf": 6}, {"multipleOf": 3}),
        ({"minimum": 2, "maximum": 1, "type": "number"}, False),
        ({"type": "string", "minLength": 2, "maxLength": 4}, {"minLength": 1, "maxLength": 4}),
        ({"type": "string", "pattern": "^a", "minLength": 3}, {"pattern": "^a"}),
        ({"type": "string", "format": "email"}, TEXT),
        ({"type": "array", "items": WHOLE, "maxItems": 2}, {"items": {"type": "number"}, "maxItems": 3}),
        ({"prefixItems": [TEXT], "items": TEXT}, {"items": TEXT}),
        ({"type": "array", "prefixItems": [TEXT], "items": False}, {"maxItems": 1}),
        ({"items": False}, {"not": {"type": "array", "minItems": 1}}),
        ({"contains": TEXT}, {"not": {"type": "array", "maxItems": 0}}),
        ({"items": WHOLE}, {"not": {"type": "array", "contains": TEXT}}),
        ({"uniqueItems": True, "type": "array"}, {"type": "array"}),
        (objects({"a": TEXT}, "a"), objects({"a": TEXT})),
        (objects({"a": TEXT}, additionalProperties=False), {"propertyNames": {"const": "a"}}),
        (objects({"a": TEXT}, additionalProperties=False), objects({"a": TEXT, "b": WHOLE})),
        (objects({}, additionalProperties=TEXT), objects({"a": TEXT})),
        ({"patternProperties": {"^x": WHOLE}}, {"properties": {"x1": {"type": "number"}}}),
        (objects({}, "a", "b"), {"minProperties": 2, "type": "object"}),
        (objects({"a": False}), {"not": {"required": ["a"]}}),
        ({"dependentRequired": {"a": ["b"]}, "required": ["a"]}, {"required": ["a", "b"]}),
        ({"dependentSchemas": {"a": {"required": ["b"]}}}, {"dependentRequired": {"a": ["b"]}}),
        (
            {"if": {"type": "string"}, "then": {"minLength": 1}, "else": False},
            {"type": "string", "minLength": 1},
        ),
        ({"type": "string", "minLength": 1}, {"if": {"type": "string"}, "then": {"minLength": 1}}),
        ({"not": {"type": ["string", "null"]}}, {"not": {"type": "null"}}),
        (tagged("abcdefgh", TEXT), tagged("abcdefghi", {"type": ["string", "null"]})),
        (tagged("abcdefgh", TEXT, "oneOf"), tagged("abcdefghi", {"type": ["string", "null"]}, "oneOf")),
        (listed(WHOLE), listed({"type": "number"})),
        (listed(WHOLE), listed(WHOLE)["$defs"]["node"] | {"$defs": listed(WHOLE)["$defs"]}),
        (
            {"$schema": "http://json-schema.org/draft-07/schema#", "items": [TEXT], "additionalItems": WHOLE},
            {"prefixItems": [TEXT], "items": WHOLE},
        ),
        (objects({"a": TEXT}, unevaluatedProperties=False), objects({"a": TEXT}, additionalProperties=False)),
    ],
    ids=str,
)
def test_a_subset_is_proven(part: Any, whole: Any) -> None:
    assert check_subset(part, whole).holds == "yes"


@pytest.mark.parametrize(
    ("part", "whole"),
    [
        (True, False),
        (TEXT, WHOLE),
        ({"type": "number"}, WHOLE),
        ({"type": ["string", "null"]}, TEXT),
        ({"enum": ["a", "b"]}, {"enum": ["a"]}),
        ({"const": True}, {"const": 1}),
        (TEXT, {"type": "string", "maxLength": 3}),
        (TEXT, {"type": "string", "pattern": "^x"}),
        ({"type": "string", "pattern": "^[a-z]{3}-\\d+$"}, {"maxLength": 2}),
        ({"type": "integer"}, {"minimum": 10**6}),
        ({"type": "number", "minimum": 0, "maximum": 1}, {"exclusiveMaximum": 1}),
        ({"type": "integer", "multipleOf": 3}, {"multipleOf": 6}),
        ({"type": "array", "items": TEXT}, {"maxItems": 4}),
        ({"type": "array", "items": TEXT}, {"uniqueItems": True}),
        ({"type": "array"}, {"contains": TEXT}),
        (objects({"a": TEXT}), objects({"a": TEXT}, "a")),
        (objects({"a": TEXT}), objects({"a": TEXT}, additionalProperties=False)),
        (objects({"a": TEXT}), objects({"a": TEXT, "b": WHOLE})),
        (objects({"a": objects({"b": TEXT})}), objects({"a": objects({"b": WHOLE})})),
        (objects({}), {"propertyNames": {"maxLength": 3}}),
        (objects({}), {"patternProperties": {"^x-": TEXT}}),
        (objects({}), {"maxProperties": 3}),
        (objects({}), {"dependentRequired": {"a": ["b"]}}),
        ({"anyOf": [TEXT, WHOLE]}, {"oneOf": [TEXT, {"type": ["string", "integer"]}]}),
        ({}, {"if": TEXT, "then": {"const": "x"}}),
        (tagged("abcdefgh", {"type": ["string", "null"]}), tagged("abcdefghi", TEXT)),
        (tagged("abcdefghi", TEXT), tagged("abcdefgh", TEXT)),
        (listed({"type": "number"}), listed(WHOLE)),
    ],
    ids=str,
)
def test_a_counterexample_shows_what_is_no_subset(part: Any, whole: Any) -> None:
    verdict = check_subset(part, whole)
    assert verdict.holds == "no"
    assert fits(part, verdict.counterexample)
    assert not fits(whole, verdict.counterexample)


@pytest.mark.parametrize(
    ("part", "whole", "reason"),
    [
        (TEXT, {"type": "string", "format": "email"}, "no value that shows a difference was found"),
        ({"pattern": "^(?=a)"}, {"pattern": "^a(?!b)", "type": "string"}, ""),
        ({"$ref": "https://example.com/x"}, {}, "cannot be used"),
        ({"type": "strin"}, {}, "cannot be used"),
        ({"properties": {"a": {"$id": "https://example.com/x"}}}, {"not": TEXT}, ""),
        ({"unevaluatedProperties": False, "allOf": [{}]}, {"maxProperties": 0}, ""),
    ],
    ids=str,
)
def test_what_cannot_be_decided_is_unknown(part: Any, whole: Any, reason: str) -> None:
    verdict = check_subset(part, whole)
    assert verdict.holds != "yes"
    assert reason in verdict.reason


def test_an_optional_property_that_only_the_whole_declares_may_be_left_out() -> None:
    before, after = objects({"a": TEXT}), objects({"a": TEXT, "b": WHOLE})
    assert check_subset(before, after).holds == "no"
    assert check_subset(before, after, only_declared=True).holds == "yes"
    assert check_subset(before, after | {"required": ["b"]}, only_declared=True).holds == "no"
    assert check_subset(objects({}, additionalProperties=True), after, only_declared=True).holds == "no"
    assert check_subset({"type": "object"}, after, only_declared=True).holds == "no"
    assert check_subset(before, objects({"a": WHOLE}), only_declared=True).holds == "no"
    assert check_subset(before, before | {"additionalProperties": False}, only_declared=True).holds == "no"


@pytest.mark.parametrize(
    "bound",
    [
        {"maximum": 2**53 - 1},
        {"minimum": 1 - 2**53, "maximum": 2**53 - 1},
        {"exclusiveMinimum": -(2**53), "exclusiveMaximum": 2**63},
    ],
    ids=str,
)
def test_a_bound_that_no_exact_integer_reaches_takes_nothing_away(bound: Any) -> None:
    assert check_subset(WHOLE, WHOLE | bound).holds == "yes"
    assert check_subset(WHOLE | bound, WHOLE).holds == "yes"


@pytest.mark.parametrize(
    ("part", "bound"),
    [
        (WHOLE, {"maximum": 2**53 - 2}),
        (WHOLE, {"exclusiveMaximum": 2**53 - 1}),
        (WHOLE, {"minimum": 2**53 - 1}),
        ({"type": "number"}, {"type": "number", "maximum": 2**53 - 1}),
    ],
    ids=str,
)
def test_a_bound_that_exact_integers_or_fractions_reach_counts(part: Any, bound: Any) -> None:
    verdict = check_subset(part, part | bound)
    assert verdict.holds == "no"
    assert not fits(part | bound, verdict.counterexample)


SEEDS = st.integers(0, 2**32)


@law(600)
@given(SEEDS)
def test_no_value_contradicts_a_proof(seed: int) -> None:
    maker = Maker(seed)
    part, whole = maker.pair()
    try:
        fits_part, fits_whole = (DefaultValidator().compile(each).is_valid for each in (part, whole))
    except InvalidSchemaError:
        return
    verdict = check_subset(part, whole)
    if verdict.holds == "yes":
        values = [maker.value() for _ in range(50)]
        assert [value for value in values if fits_part(value) and not fits_whole(value)] == []
    if verdict.holds == "no":
        assert fits_part(verdict.counterexample)
        assert not fits_whole(verdict.counterexample)


@law(300)
@given(SEEDS)
def test_a_schema_is_a_subset_of_itself_in_another_order_and_with_other_words(seed: int) -> None:
    schema = Maker(seed).schema()
    try:
        DefaultValidator().compile(schema)
    except InvalidSchemaError:
        return
    other = {word: schema[word] for word in reversed(schema)} | {"title": "Other", "default": seed}
    assert check_subset(schema, other).holds == "yes"


def wide(count: int) -> dict[str, Any]:
    return {
        "anyOf": [
            {"anyOf": [{"minimum": n, "multipleOf": n + 2, "maximum": 3 * n}, TEXT]} for n in range(count)
        ]
    }


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"oneOf": [{"minLength": depth}, WHOLE]}
    for level in range(depth):
        schema = {
            "oneOf": [objects({"a": schema, "b": {"not": schema}}), {"const": level}, {"minItems": level}]
        }
    return schema


def mutual(count: int) -> dict[str, Any]:
    definitions = {
        f"d{n}": {
            "anyOf": [{"properties": {"a": {"$ref": f"#/$defs/d{(n * 7 + k) % count}"}}} for k in (1, 2, 3)],
            "maxProperties": n,
        }
        for n in range(count)
    }
    return {"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": definitions}


@pytest.mark.attack
@pytest.mark.parametrize(
    ("part", "whole"),
    [
        (wide(60), wide(61)),
        (nested(4), nested(5)),
        (mutual(40), mutual(41)),
        ({"allOf": [{"not": {"enum": [n]}} for n in range(3_000)]}, {"enum": [*range(3_000)]}),
        (objects({str(n): TEXT for n in range(2_000)}), objects({str(n): WHOLE for n in range(1, 2_001)})),
        ({"patternProperties": {f"^{n}.*x": TEXT for n in range(100)}}, {"additionalProperties": WHOLE}),
        ({"pattern": "^(a|aa)+$"}, {"pattern": "^(a+)+$", "minLength": 40}),
        (
            {"type": "array", "prefixItems": [TEXT] * 2_000},
            {"prefixItems": [WHOLE] * 2_000, "minItems": 10**9},
        ),
    ],
    ids=range(8),
)
def test_hostile_schemas_are_compared_in_bounded_time(part: Any, whole: Any) -> None:
    with at_most(3):
        assert check_subset(part, whole).holds in {"yes", "no", "unknown"}


def test_an_allowance_bounds_many_comparisons_together() -> None:
    allowance = Allowance(3_000)
    verdicts = [check_subset(wide(20), wide(21), allowance=allowance) for _ in range(50)]
    assert allowance.steps >= 0
    assert verdicts[-1].reason == "the schemas are too large to be compared"
