"""Reshaped schemas for callers with other parameters: they accept exactly what the original schema accepts."""

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from laws import law

from toolcrib.errors import InvalidToolError, ValidationError
from toolcrib.model import DefaultValidator, Tool
from toolcrib.model.schema.reshape import Parameters, ReshapeError, reshape
from toolcrib.model.shape import ShapedTool, ToolShape

VALIDATOR = DefaultValidator()
NAMES = ("alpha", "beta", "gamma", "delta")
VALUES = st.sampled_from([0, 1, "x", "y", None, [1], {"inner": 1}])
MEMBERS = st.sampled_from(
    [
        True,
        {},
        {"type": "string"},
        {"type": "integer"},
        {"const": 1},
        {"enum": ["x", 0]},
        {"$ref": "#/$defs/text"},
        {"$ref": "#/$defs/tree"},
        {"type": ["string", "null"], "description": "A text."},
    ]
)
DEFINITIONS = {
    "text": {"type": "string"},
    "tree": {"type": "object", "properties": {"alpha": {"$ref": "#/$defs/tree"}, "beta": {"type": "string"}}},
    "whole": {"properties": {"alpha": {"type": "integer"}, "beta": {"type": "string"}}, "required": ["beta"]},
}


KEYWORDS = (
    "properties",
    "required",
    "additionalProperties",
    "dependentRequired",
    "dependentSchemas",
    "allOf",
)
KEYWORDS += ("anyOf", "oneOf", "not", "if", "then", "else", "$ref", "type")


@st.composite
def _nodes(draw: st.DrawFn, depth: int = 2) -> Any:  # noqa: C901 - a case for each keyword
    """Draw a subschema that constrains the arguments as a whole."""

    def inner() -> Any:
        return draw(_nodes(depth - 1)) if depth else draw(st.booleans())

    def names() -> list[str]:
        return draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=2))

    made: dict[str, Any] = {}
    for word in draw(st.lists(st.sampled_from(KEYWORDS), unique=True, max_size=3)):
        if word == "properties":
            made[word] = draw(st.dictionaries(st.sampled_from(NAMES), MEMBERS, max_size=3))
        elif word == "required":
            made[word] = names()
        elif word == "additionalProperties":
            made[word] = draw(st.sampled_from([True, False, {"type": "string"}, {"type": "integer"}]))
        elif word == "dependentRequired":
            made[word] = {name: names() for name in names()}
        elif word == "dependentSchemas":
            made[word] = {name: inner() for name in names()[:1]}
        elif word in {"allOf", "anyOf", "oneOf"}:
            made[word] = [inner() for _ in range(draw(st.integers(1, 2)))]
        elif word in {"$ref", "type"}:
            made[word] = {"$ref": "#/$defs/whole", "type": "object"}[word]
        else:
            made[word] = inner()
    return made


@st.composite
def _shapes(draw: st.DrawFn) -> ToolShape:
    fates = {
        name: draw(st.sampled_from(["same", "same", "rename", "fix", "hide", "default", "hidden value"]))
        for name in NAMES
    }
    given = {name: draw(VALUES) for name in NAMES}
    return ToolShape(
        rename={name: f"new_{name}" for name in NAMES if fates[name] == "rename"},
        fix={name: given[name] for name in NAMES if fates[name] == "fix"},
        hide=tuple(name for name in NAMES if fates[name] in {"hide", "hidden value"}),
        defaults={name: given[name] for name in NAMES if fates[name] in {"default", "hidden value"}},
    )


def _accepts(tool: Tool, args: dict[str, Any]) -> bool:
    try:
        VALIDATOR.validate_input(tool, args)
    except ValidationError:
        return False
    return True


def _without(value: Any, words: set[str]) -> bool:
    """Return whether no name of a property, and no required name, is one of some words."""
    if isinstance(value, dict):
        return all(_without(each, words) and key not in words for key, each in value.items())
    if isinstance(value, list):
        return all(_without(each, words) for each in value)
    return not isinstance(value, str) or value not in words


@given(schema=_nodes(), shape=_shapes(), data=st.data())
@law(400)
def test_a_reshaped_schema_accepts_exactly_what_the_original_accepts_when_it_is_mapped(
    schema: dict[str, Any], shape: ToolShape, data: st.DataObject
) -> None:
    declared = {"properties": dict.fromkeys(NAMES, True)}
    original = Tool(name="do", input_schema={"$defs": DEFINITIONS, "allOf": [declared, schema]})
    try:
        shaped = ShapedTool.of(original, shape, VALIDATOR)
    except InvalidToolError:
        assume(False)
    words = [*NAMES, *(f"new_{name}" for name in NAMES)]
    args = data.draw(st.dictionaries(st.sampled_from(words), VALUES, max_size=5))
    seen = True
    try:
        shaped.check_names(args)
    except ValidationError:
        seen = False
    expected = seen and _accepts(original, shaped.original_args(args))
    assert _accepts(shaped, args) == expected


@given(schema=_nodes(), shape=_shapes())
@law(200)
def test_parameters_that_callers_do_not_see_are_nowhere_in_a_reshaped_schema(
    schema: dict[str, Any], shape: ToolShape
) -> None:
    declared = {"properties": dict.fromkeys(NAMES, True)}
    original = Tool(
        name="do",
        input_schema={
            "allOf": [declared, schema],
            "$defs": {"text": {}, "tree": {}} | {"whole": DEFINITIONS["whole"]},
        },
    )
    try:
        shaped = ShapedTool.of(original, shape, VALIDATOR)
    except InvalidToolError:
        assume(False)
    assert _without(shaped.input_schema, {*shape.hide, *shape.fix, *shape.rename})


def _tool(schema: dict[str, Any]) -> Tool:
    return Tool(name="do", namespace="shop", input_schema=schema)


TWO = {"properties": {"a": {"type": "string"}, "b": {"type": "string"}}}


@pytest.mark.parametrize(
    ("schema", "shape", "reason"),
    [
        (TWO | {"patternProperties": {"^a": True}}, {"hide": ["a"]}, "has 'patternProperties'"),
        (TWO | {"propertyNames": {"maxLength": 3}}, {"hide": ["a"]}, "has 'propertyNames'"),
        (TWO | {"minProperties": 1}, {"rename": {"a": "c"}}, "has 'minProperties'"),
        (TWO | {"required": ["a"]}, {"hide": ["a"]}, "no arguments could fit"),
        (TWO, {"fix": {"a": 1}}, "/fix/a: must be a string, not 1"),
        (TWO, {"hide": ["c"]}, "'c' is not a parameter; there are a, b"),
        (TWO, {"rename": {"a": "b"}}, "two parameters would be called 'b'"),
        (TWO | {"$ref": "#"}, {"hide": ["a"]}, "only references to '#/$defs/...'"),
        ({"$ref": "#/$defs/a", "$defs": {"a": TWO | {"$ref": "#/$defs/a"}}}, {"hide": ["a"]}, "to itself"),
        (TWO | {"$dynamicRef": "#x", "$dynamicAnchor": "x"}, {"hide": ["a"]}, "has '$dynamic"),
        (
            {"anyOf": [TWO | {"unevaluatedProperties": False}]},
            {"hide": ["a"]},
            "'unevaluatedProperties' in a branch",
        ),
    ],
)
def test_a_schema_that_cannot_be_rewritten_is_refused_with_the_reason(
    schema: dict[str, Any], shape: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InvalidToolError) as caught:
        ShapedTool.of(_tool(schema), ToolShape(**shape), VALIDATOR)
    assert reason in str(caught.value)


def test_a_branch_for_another_value_of_a_fixed_parameter_cannot_be_met() -> None:
    branches = [
        {"properties": {"mode": {"const": "a"}, "left": {"type": "string"}}, "required": ["left"]},
        {"properties": {"mode": {"const": "b"}, "right": {"type": "string"}}, "required": ["right"]},
    ]
    shaped = ShapedTool.of(_tool({"oneOf": branches}), ToolShape(fix={"mode": "b"}), VALIDATOR)
    assert shaped.input_schema["oneOf"] == [
        False,
        {"properties": {"right": {"type": "string"}}, "required": ["right"]},
    ]


def fits(schema: Any, value: Any) -> bool:
    try:
        VALIDATOR.validate(schema, value)
    except ValidationError:
        return False
    return True


A_OR_B = [{"required": ["a"]}, {"required": ["b"]}]
AB = {"a": {"type": "string"}, "b": {"type": "string"}, "c": {}}


@pytest.mark.parametrize(
    ("schema", "parameters"),
    [
        ({"properties": AB, "anyOf": A_OR_B}, Parameters(hidden=frozenset("ab"))),
        ({"properties": AB, "oneOf": A_OR_B}, Parameters(hidden=frozenset("ab"))),
        ({"properties": AB, "oneOf": A_OR_B}, Parameters(fixed={"a": "x", "b": "y"})),
        ({"properties": AB, "allOf": [{"anyOf": A_OR_B}]}, Parameters(hidden=frozenset("ab"))),
        ({"properties": AB, "not": {"required": ["a"]}}, Parameters(fixed={"a": "x"})),
        ({"properties": AB, "if": {"required": ["a"]}, "then": {"required": ["b"]}}, {"a": "x"}),
        ({"properties": AB, "if": {"required": ["a"]}, "else": {"required": ["b"]}}, None),
        (
            {"properties": AB, "required": ["z"], "additionalProperties": False},
            Parameters(renamed={"a": "x"}),
        ),
        ({"properties": {**AB, "b": False}, "required": ["b"]}, Parameters(renamed={"a": "x"})),
    ],
)
def test_shape_that_no_call_can_meet_is_refused(schema: dict[str, Any], parameters: Any) -> None:
    if isinstance(parameters, dict):
        parameters = Parameters(fixed=parameters, hidden=frozenset("b"))
    with pytest.raises(ReshapeError, match="no arguments could fit"):
        reshape(schema, parameters or Parameters(hidden=frozenset("ab")), fits)


def test_alternatives_that_are_left_can_still_be_met() -> None:
    for schema, parameters in (
        ({"properties": AB, "anyOf": A_OR_B}, Parameters(hidden=frozenset("a"))),
        ({"properties": AB, "oneOf": A_OR_B}, Parameters(fixed={"a": "x"})),
    ):
        made = reshape(schema, parameters, fits)
        given = {"b": "y"} if "a" in parameters.hidden else {}
        assert fits(made, given)


def test_required_parameter_without_a_schema_can_be_given_and_renamed() -> None:
    schema = {"properties": {"a": {}}, "required": ["z"]}
    made = reshape(schema, Parameters(renamed={"a": "x"}), fits)
    assert fits(made, {"z": 1})
    assert not fits(made, {})
    made = reshape(schema, Parameters(renamed={"z": "last"}), fits)
    assert fits(made, {"last": 1})


def test_definition_of_the_arguments_is_not_kept_for_a_part_of_it() -> None:
    whole = {
        "properties": {
            "secret": {"type": "string"},
            "shown": {"$ref": "#/$defs/A/properties/secret"},
            "again": {"items": {"$ref": "#/$defs/A/properties/secret"}},
        }
    }
    made = reshape(
        {"$ref": "#/$defs/A", "$defs": {"A": whole}}, Parameters(hidden=frozenset(["secret"])), fits
    )
    assert "secret" not in json.dumps(made)
    assert fits(made, {"shown": "x", "again": ["y"]})
    assert not fits(made, {"shown": 1})
    assert not fits(made, {"again": [1]})


def test_draft_07_dependencies_are_rewritten() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "properties": {"a": {}, "b": {}, "c": {}},
        "dependencies": {"a": ["b"], "c": {"required": ["a"]}},
    }
    shaped = ShapedTool.of(_tool(schema), ToolShape(rename={"a": "x"}, fix={"c": 1}), VALIDATOR)
    assert _accepts(shaped, {"x": 1, "b": 2})
    assert not _accepts(shaped, {"x": 1})
    assert not _accepts(shaped, {"b": 2})


def test_only_descriptions_leave_the_rest_of_a_schema_as_it_is() -> None:
    schema = TWO | {"patternProperties": {"^x": {"type": "integer"}}, "$comment": "kept"}
    shaped = ShapedTool.of(_tool(schema), ToolShape(describe={"a": "The first."}), VALIDATOR)
    assert shaped.input_schema["properties"]["a"] == {"type": "string", "description": "The first."}
    assert shaped.input_schema["patternProperties"] == {"^x": {"type": "integer"}}
