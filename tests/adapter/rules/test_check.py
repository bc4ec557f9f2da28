"""Schemas that each provider's rules refuse and accept, without rewriting."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from adapter.oracles import load_real_tools
from effort import at_most
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.adapter.rules import (
    ANTHROPIC,
    ANTHROPIC_STRICT,
    GEMINI_JSON_SCHEMA,
    GEMINI_OPENAPI,
    MCP,
    OPENAI,
    OPENAI_STRICT,
    RULES,
    SchemaRules,
    StrictLimits,
    violations,
)
from toolcrib.errors.base import MAX_PROBLEMS

MAX_CPU = 5.0
"""Seconds, for schemas that are as large as the walk goes, on a busy machine."""

TEXT = {"type": "string"}
STRICT = (OPENAI_STRICT, ANTHROPIC_STRICT)
NOT_MCP = (OPENAI, OPENAI_STRICT, ANTHROPIC, ANTHROPIC_STRICT, GEMINI_JSON_SCHEMA, GEMINI_OPENAPI)
ALL = (MCP, *NOT_MCP)


def root(properties: dict[str, Any] | None = None, **words: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties or {}, **words}


def closed(properties: dict[str, Any] | None = None, **words: Any) -> dict[str, Any]:
    """Return an object that every strict mode takes."""
    required = list(properties or {})
    return root(properties, **{"required": required, "additionalProperties": False, **words})


def holding(value: Any, rules: SchemaRules, **words: Any) -> dict[str, Any]:
    """Return a root schema that is valid except for its only property."""
    return closed({"a": value}, **words) if rules.closed else root({"a": value}, **words)


def found(schema: Any, rules: SchemaRules) -> list[tuple[str, str]]:
    return [(problem.path, problem.keyword) for problem in violations(schema, rules)]


def cases(*rows: tuple[tuple[SchemaRules, ...], Any]) -> list[Any]:
    return [
        pytest.param(rules, value, id=f"{rules.title}-{value}"[:80]) for many, value in rows for rules in many
    ]


# One property, which the rules take or refuse for one keyword

REFUSED: list[tuple[tuple[SchemaRules, ...], Any, list[tuple[str, str]]]] = [
    # keywords
    ((*STRICT, GEMINI_JSON_SCHEMA, GEMINI_OPENAPI), {**TEXT, "x-order": 1}, [("", "x-order")]),
    ((*STRICT, GEMINI_JSON_SCHEMA, GEMINI_OPENAPI), {**TEXT, "examples": []}, [("", "examples")]),
    (STRICT, {**TEXT, "default": "x"}, [("", "default")]),
    ((OPENAI_STRICT,), {**TEXT, "title": "A"}, [("", "title")]),
    ((ANTHROPIC_STRICT,), {"type": "integer", "minimum": 0}, [("", "minimum")]),
    (
        (GEMINI_JSON_SCHEMA, GEMINI_OPENAPI),
        {"type": "integer", "exclusiveMinimum": 0},
        [("", "exclusiveMinimum")],
    ),
    ((GEMINI_OPENAPI,), {"anyOf": [TEXT], "oneOf": [TEXT]}, [("", "oneOf")]),
    ((OPENAI,), {"$schema": "https://json-schema.org/draft/2020-12/schema"}, [("", "$schema")]),
    # formats, minItems and patterns
    ((OPENAI_STRICT, GEMINI_JSON_SCHEMA, GEMINI_OPENAPI), {**TEXT, "format": "uri"}, [("", "format")]),
    ((ANTHROPIC_STRICT,), {**TEXT, "format": "regex"}, [("", "format")]),
    ((ANTHROPIC_STRICT,), {"type": "array", "items": TEXT, "minItems": 2}, [("", "minItems")]),
    ((OPENAI_STRICT,), {**TEXT, "pattern": "a(?=b)"}, [("", "pattern")]),
    ((OPENAI_STRICT,), {**TEXT, "pattern": "a(?!b)"}, [("", "pattern")]),
    ((OPENAI_STRICT,), {**TEXT, "pattern": r"[(](?<=b)"}, [("", "pattern")]),
    ((OPENAI_STRICT,), {**TEXT, "pattern": r"\\(?<!b)"}, [("", "pattern")]),
    ((OPENAI_STRICT,), {**TEXT, "pattern": r"(a)\1"}, [("", "pattern")]),
    ((OPENAI_STRICT,), {**TEXT, "pattern": r"(?<n>a)\k<n>"}, [("", "pattern")]),
    # objects
    (STRICT, root(), [("", "additionalProperties")]),
    (STRICT, {**root(), "type": ["object", "null"]}, [("", "additionalProperties")]),
    (STRICT, closed(additionalProperties=True), [("", "additionalProperties")]),
    (
        STRICT,
        closed(additionalProperties={}),
        [("", "additionalProperties"), ("/additionalProperties", "type")],
    ),
    (
        (OPENAI_STRICT,),
        closed({"b": TEXT, "c": TEXT}, required=["b"]),
        [("", "required")],
    ),
    (
        (OPENAI_STRICT,),
        {"type": "object", "properties": {"b": TEXT}, "additionalProperties": False},
        [("", "required")],
    ),
    (STRICT, closed(required=["b"]), [("", "required")]),
    ((GEMINI_OPENAPI,), root({"b": TEXT}, required=["c"]), [("", "required")]),
    ((OPENAI,), {"type": "object"}, [("", "properties")]),
    ((OPENAI_STRICT,), {"type": "object", "additionalProperties": False}, [("", "properties")]),
    ((GEMINI_OPENAPI,), {"type": "object"}, [("", "properties")]),
    ((GEMINI_OPENAPI,), root(), [("", "properties")]),
    ((GEMINI_OPENAPI,), root({"b": TEXT}, additionalProperties=False), [("", "additionalProperties")]),
    # arrays
    ((OPENAI, *STRICT, GEMINI_JSON_SCHEMA, GEMINI_OPENAPI), {"type": "array"}, [("", "items")]),
    ((OPENAI, GEMINI_JSON_SCHEMA), {"type": ["array", "null"]}, [("", "items")]),
    ((OPENAI, GEMINI_JSON_SCHEMA), {"type": "array", "items": True}, [("", "items")]),
    (STRICT, {"type": "array", "items": True}, [("", "items"), ("/items", "type")]),
    ((*STRICT, GEMINI_OPENAPI), {"type": "array", "items": {}}, [("/items", "type")]),
    ((*STRICT,), {"type": "array", "prefixItems": [TEXT]}, [("", "prefixItems"), ("", "items")]),
    # untyped
    ((*STRICT, GEMINI_OPENAPI), {}, [("", "type")]),
    ((*STRICT, GEMINI_OPENAPI), True, [("", "type")]),
    ((*STRICT, GEMINI_OPENAPI), {"description": "anything"}, [("", "type")]),
    ((*STRICT, GEMINI_OPENAPI), {"anyOf": [TEXT, {}]}, [("/anyOf/1", "type")]),
    # types
    (ALL, {"type": "String"}, [("", "type")]),
    (ALL, {"type": "dict"}, [("", "type")]),
    ((MCP, OPENAI, *STRICT), {"type": ["string", "float"]}, [("", "type")]),
    ((GEMINI_OPENAPI,), {"type": ["string", "integer"]}, [("", "type")]),
    ((GEMINI_OPENAPI,), {"anyOf": [TEXT, {"type": "null"}]}, [("/anyOf/1", "type")]),
    # choices
    (STRICT, {"enum": ["a", [1]]}, [("", "enum")]),
    (STRICT, {"const": {}}, [("", "const")]),
    ((*STRICT, GEMINI_OPENAPI), {**TEXT, "enum": []}, [("", "enum")]),
    ((GEMINI_OPENAPI,), {**TEXT, "enum": ["a", 1]}, [("", "enum")]),
    ((GEMINI_OPENAPI,), {**TEXT, "enum": ["a", None]}, [("", "enum")]),
    ((GEMINI_OPENAPI,), {"type": "integer", "enum": ["1"]}, [("", "enum")]),
    ((GEMINI_OPENAPI,), {"enum": ["a"]}, [("", "enum")]),
    ((GEMINI_JSON_SCHEMA, GEMINI_OPENAPI), {**TEXT, "const": "a"}, [("", "const")]),
    # values of the wrong type
    (NOT_MCP, {**TEXT, "description": None}, [("", "description")]),
    (
        (OPENAI, *STRICT, GEMINI_JSON_SCHEMA, GEMINI_OPENAPI),
        {"type": "array", "items": None},
        [("", "items")],
    ),
    ((ANTHROPIC, OPENAI), {"type": "array", "items": [TEXT]}, [("", "items")]),
    (NOT_MCP, {**TEXT, "enum": None}, [("", "enum")]),
    ((OPENAI, ANTHROPIC, GEMINI_JSON_SCHEMA), root(required=True), [("", "required")]),
    (
        (OPENAI, ANTHROPIC, OPENAI_STRICT),
        {"type": "number", "exclusiveMinimum": True},
        [("", "exclusiveMinimum")],
    ),
    ((OPENAI, ANTHROPIC, GEMINI_JSON_SCHEMA), {"type": "object", "properties": []}, [("", "properties")]),
    (NOT_MCP, {"type": 7}, [("", "type")]),
    (NOT_MCP, {"type": []}, [("", "type")]),
    (NOT_MCP, {**TEXT, "format": 7}, [("", "format")]),
    (NOT_MCP, {**TEXT, "anyOf": []}, [("", "anyOf")]),
    (NOT_MCP, {**TEXT, "anyOf": {}}, [("", "anyOf")]),
    (NOT_MCP, {**TEXT, "anyOf": ["string"]}, [("/anyOf/0", "anyOf")]),
    ((OPENAI, ANTHROPIC), {**TEXT, "minLength": -1}, [("", "minLength")]),
    ((OPENAI, ANTHROPIC), {**TEXT, "minLength": 1.5}, [("", "minLength")]),
    ((OPENAI, ANTHROPIC), {"dependencies": {"b": "c"}}, [("/dependencies/b", "dependencies")]),
    (NOT_MCP, "string", [("", "properties")]),
    (NOT_MCP, None, [("", "properties")]),
]


@pytest.mark.parametrize(
    ("rules", "value", "expected"),
    [
        pytest.param(rules, value, expected, id=f"{rules.title}-{value}"[:90])
        for many, value, expected in REFUSED
        for rules in many
    ],
)
def test_a_property_that_the_provider_refuses_is_named_with_its_keyword(
    rules: SchemaRules, value: Any, expected: list[tuple[str, str]]
) -> None:
    inside = [(f"/properties/a{path}", keyword) for path, keyword in expected]
    assert found(holding(value, rules), rules) == inside


@pytest.mark.parametrize(
    ("rules", "value"),
    cases(
        ((MCP, OPENAI, ANTHROPIC), {**TEXT, "x-order": 1, "examples": [], "default": 1, "title": "A"}),
        ((ANTHROPIC_STRICT, GEMINI_JSON_SCHEMA, GEMINI_OPENAPI), {**TEXT, "title": "A"}),
        ((MCP, ANTHROPIC), {**TEXT, "$schema": "https://json-schema.org/draft/2020-12/schema"}),
        (STRICT, {**TEXT, "format": "date-time"}),
        ((ANTHROPIC_STRICT, MCP, OPENAI, ANTHROPIC), {**TEXT, "format": "uri"}),
        ((GEMINI_JSON_SCHEMA, GEMINI_OPENAPI), {"type": "integer", "format": "int64"}),
        ((ANTHROPIC_STRICT,), {"type": "array", "items": TEXT, "minItems": 1}),
        ((OPENAI_STRICT, GEMINI_OPENAPI), {"type": "array", "items": TEXT, "minItems": 2}),
        ((OPENAI_STRICT,), {**TEXT, "pattern": r"^\(?=[(?=](?:a)\\1[\]\1]$"}),
        ((OPENAI_STRICT,), {**TEXT, "pattern": "[" * 9}),
        ((OPENAI, ANTHROPIC, GEMINI_JSON_SCHEMA), {**TEXT, "pattern": r"(a)(?=b)\1"}),
        (STRICT, closed({"type": TEXT, "properties": TEXT, "$ref": TEXT, "items": TEXT, "enum": TEXT})),
        ((ANTHROPIC_STRICT,), closed({"b": TEXT}, required=[])),
        (
            (MCP, OPENAI, ANTHROPIC, GEMINI_JSON_SCHEMA),
            root({"b": TEXT}, required=["c"], additionalProperties=True),
        ),
        ((MCP, ANTHROPIC, GEMINI_JSON_SCHEMA), {"type": "object"}),
        ((OPENAI, GEMINI_JSON_SCHEMA), root(additionalProperties=TEXT)),
        (STRICT, closed()),
        ((GEMINI_OPENAPI,), root({"b": TEXT}, nullable=True)),
        ((MCP, ANTHROPIC), {"type": "array"}),
        ((OPENAI, GEMINI_JSON_SCHEMA), {"type": "array", "prefixItems": [TEXT]}),
        ((OPENAI, GEMINI_JSON_SCHEMA), {"type": "array", "items": {}}),
        ((MCP, OPENAI, ANTHROPIC, GEMINI_JSON_SCHEMA), {}),
        ((MCP, OPENAI, ANTHROPIC, GEMINI_JSON_SCHEMA), False),
        (STRICT, {"anyOf": [TEXT, {"type": "null"}]}),
        (STRICT, {"enum": ["a", 1, None, True]}),
        (STRICT, {"const": None}),
        ((*STRICT, GEMINI_JSON_SCHEMA), {"type": ["string", "null"]}),
        ((GEMINI_OPENAPI,), {**TEXT, "enum": ["a"], "nullable": True}),
        ((OPENAI, ANTHROPIC, GEMINI_JSON_SCHEMA), {"enum": [[1], {}]}),
        ((MCP, OPENAI, ANTHROPIC), {"const": []}),
        ((OPENAI, ANTHROPIC), {"dependencies": {"b": ["c"]}, "minLength": 2.0, "enum": []}),
        ((OPENAI, ANTHROPIC), {"if": True, "then": {"not": {}}, "allOf": [True], "oneOf": [TEXT]}),
    ),
)
def test_a_property_that_the_provider_takes_is_no_violation(rules: SchemaRules, value: Any) -> None:
    assert found(holding(value, rules), rules) == []


@pytest.mark.parametrize(
    "wrong", [None, 7, "x", [], [7], {"type": 7}, {"enum": None}, {"items": [TEXT, None]}]
)
def test_mcp_lets_malformed_values_pass(wrong: Any) -> None:
    assert found({"type": "object", "properties": {"a": wrong}, "required": wrong, "enum": wrong}, MCP) == []


def test_a_message_says_what_is_not_taken_and_what_to_do() -> None:
    schema = root({"a": {"type": "array"}, "b": {**TEXT, "format": "uri"}})
    assert [str(problem) for problem in violations(schema, GEMINI_JSON_SCHEMA)] == [
        "/properties/a: Gemini does not accept an array without items; describe them",
        "/properties/b: Gemini does not accept the format 'uri'; use 'double', 'float', 'int32' or 'int64', or put it into the description",
    ]


# The root


@pytest.mark.parametrize("rules", ALL, ids=lambda rules: rules.title)
@pytest.mark.parametrize("kind", ["string", ["object"], "OBJECT", None, 7])
def test_the_root_says_that_it_is_an_object(rules: SchemaRules, kind: Any) -> None:
    assert found({**closed(), "type": kind}, rules)[0] == ("", "type")
    assert found({**closed(), "type": kind}, rules).count(("", "type")) == 1


@pytest.mark.parametrize("rules", ALL, ids=lambda rules: rules.title)
@pytest.mark.parametrize("value", [None, True, [], "x", 7])
def test_root_must_be_an_object(rules: SchemaRules, value: Any) -> None:
    assert found(value, rules) == [("", "type")]


@pytest.mark.parametrize("word", ["anyOf", "oneOf", "allOf", "not", "enum", "if", "$ref"])
def test_only_mcp_takes_a_root_that_is_a_combination(word: str) -> None:
    value: Any = {"not": {}, "if": {}, "$ref": "#/$defs/a", "enum": []}.get(word, [{}])
    schema = root(**{word: value, "$defs": {"a": {"type": "object"}}})
    assert found(schema, MCP) == []
    assert found(schema, ANTHROPIC) == [("", word)]
    for rules in NOT_MCP:
        assert ("", word) in found(schema, rules)


@pytest.mark.parametrize("name", ["$top", "filter[id]", "@microsoft.graph", "a" * 65, "", "a\n", "é"])
def test_names_are_checked_at_the_root_or_everywhere(name: str) -> None:
    schema = root({name: TEXT, "b": root({name: TEXT})})
    at_root, nested = (
        (f"/properties/{name}", "properties"),
        (f"/properties/b/properties/{name}", "properties"),
    )
    assert found(schema, ANTHROPIC) == [at_root]
    assert found(schema, GEMINI_OPENAPI) == [at_root, nested]
    assert found(schema, OPENAI) == found(schema, GEMINI_JSON_SCHEMA) == []


def test_a_dot_or_a_dash_in_a_name_is_refused_by_gemini_openapi_alone() -> None:
    schema = closed({"a.b-c": TEXT})
    assert found(schema, ANTHROPIC_STRICT) == []
    assert ("/properties/a.b-c", "properties") in found(schema, GEMINI_OPENAPI)


# References


@pytest.mark.parametrize(
    ("rules", "reference", "refused"),
    [
        (MCP, "#/properties/b", False),
        (OPENAI, "#/properties/b", False),
        (OPENAI, "#/%24defs/x", False),
        (OPENAI, "#/$defs/x/anyOf/1", False),
        (OPENAI, "#/$defs/a~1b~0", False),
        (OPENAI, "#here", False),
        (OPENAI, "#nowhere", True),
        (OPENAI, "#/$defs/x/anyOf/2", True),
        (OPENAI, "#/$defs/x/anyOf/" + "9" * 5_000, True),
        (OPENAI, "#/$defs/y", True),
        (OPENAI, "#/type", True),
        (MCP, "#/$defs/y", True),
        (MCP, "other.json#/$defs/x", True),
        (ANTHROPIC, "https://example.com/schema", True),
        (ANTHROPIC, "", True),
        (OPENAI_STRICT, "#", False),
        (OPENAI_STRICT, "#/$defs/x", False),
        (OPENAI_STRICT, "#/$defs/y", True),
        (OPENAI_STRICT, "#/$defs/x/anyOf/1", True),
        (OPENAI_STRICT, "#/properties/b", True),
        (OPENAI_STRICT, "#here", True),
        (ANTHROPIC_STRICT, "#/$defs/x", False),
        (GEMINI_JSON_SCHEMA, "#/$defs/x", False),
    ],
)
def test_a_reference_leads_somewhere_that_the_provider_looks(
    rules: SchemaRules, reference: str, refused: bool
) -> None:
    definitions = {
        "x": {"anyOf": [TEXT, {"type": "integer"}]},
        "a/b~": TEXT,
        "h": {**TEXT, "$anchor": "here"},
    }
    properties = {"a": {"$ref": reference}, "b": TEXT}
    schema = closed(properties, **{"$defs": definitions})
    hits = [hit for hit in found(schema, rules) if hit[1] != "$anchor"]
    assert hits == ([("/properties/a", "$ref")] if refused else [])


def test_definitions_of_draft_7_are_led_to_where_the_keyword_is_taken() -> None:
    schema = closed({"a": {"$ref": "#/definitions/x"}}, definitions={"x": TEXT})
    assert found(schema, OPENAI_STRICT) == [("", "definitions")]
    assert found(schema, OPENAI) == []


def test_gemini_openapi_takes_no_reference() -> None:
    schema = root({"a": {"$ref": "#/$defs/x"}}, **{"$defs": {"x": TEXT}})
    assert found(schema, GEMINI_OPENAPI) == [("", "$defs"), ("/properties/a", "$ref")]


@pytest.mark.parametrize(
    ("rules", "sibling", "refused"),
    [
        (OPENAI_STRICT, "description", True),
        (ANTHROPIC_STRICT, "description", True),
        (GEMINI_JSON_SCHEMA, "description", False),
        (GEMINI_JSON_SCHEMA, "title", True),
        (OPENAI, "title", False),
        (ANTHROPIC, "title", False),
    ],
)
def test_beside_a_reference_stands_only_what_the_provider_takes_there(
    rules: SchemaRules, sibling: str, refused: bool
) -> None:
    schema = closed({"a": {"$ref": "#/$defs/x", sibling: "text"}}, **{"$defs": {"x": TEXT}})
    assert (("/properties/a", "$ref") in found(schema, rules)) is refused


def recursive(word: str) -> dict[str, Any]:
    node = closed({"next": {"anyOf": [{"$ref": "#/$defs/other"}, {"type": "null"}]}})
    return closed({"a": {"$ref": "#/$defs/node"}}, **{"$defs": {"node": node, "other": {"$ref": word}}})


@pytest.mark.parametrize("rules", ALL, ids=lambda rules: rules.title)
def test_a_schema_may_come_back_to_itself_where_recursion_is_taken(rules: SchemaRules) -> None:
    hits = found(recursive("#/$defs/node"), rules)
    circle = [("/$defs/node/properties/next/anyOf/0", "$ref"), ("/$defs/other", "$ref")]
    if rules is ANTHROPIC_STRICT:
        assert hits == circle
    elif rules is not GEMINI_OPENAPI:
        assert hits == []


def test_a_reference_to_the_root_is_a_circle_where_the_root_leads_to_it() -> None:
    assert found(recursive("#"), ANTHROPIC_STRICT) == [
        ("/properties/a", "$ref"),
        ("/$defs/node/properties/next/anyOf/0", "$ref"),
        ("/$defs/other", "$ref"),
    ]
    unused = closed(**{"$defs": {"x": {"$ref": "#"}}})
    assert found(unused, ANTHROPIC_STRICT) == []


def test_definitions_used_twice_are_no_circle() -> None:
    links = {f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(40)}
    schema = closed({"a": {"$ref": "#/$defs/d0"}}, **{"$defs": {**links, "d40": TEXT}})
    rules = replace(ANTHROPIC_STRICT, limits=StrictLimits())
    assert found(schema, rules) == []


def test_targets_of_references_are_checked() -> None:
    schema = root(
        {"a": {"$ref": "#/components/x"}, "b": {"$ref": "#/components/x"}},
        components={"x": {"type": "array"}},
    )
    assert found(schema, OPENAI) == [("/components/x", "items")]


# Names that look like keywords


@pytest.mark.parametrize("rules", ALL, ids=lambda rules: rules.title)
def test_properties_may_be_named_like_keywords(rules: SchemaRules) -> None:
    names = [
        "type",
        "properties",
        "items",
        "required",
        "format",
        "enum",
        "anyOf",
        "pattern",
        "nullable",
        "const",
    ]
    properties: dict[str, Any] = dict.fromkeys(names, TEXT)
    assert found(holding(closed(properties) if rules.closed else root(properties), rules), rules) == []


@pytest.mark.parametrize("word", ["default", "const", "enum", "examples"])
def test_data_is_not_read_as_a_schema(word: str) -> None:
    data = {"type": "dict", "properties": None, "$ref": "nowhere", "items": 7}
    held = [data] if word in {"enum", "examples"} else data
    assert found(root({"a": {word: held}}), OPENAI) == []


# Limits


def deep(levels: int, between: Callable[[Any], Any] = lambda schema: schema) -> dict[str, Any]:
    schema = closed()
    for _ in range(levels - 1):
        schema = closed({"a": between(schema)})
    return schema


def limited(**limits: int) -> SchemaRules:
    return replace(OPENAI_STRICT, limits=StrictLimits(**limits))


def test_properties_are_counted_in_each_definition() -> None:
    three = closed({"a": TEXT, "b": closed({"c": TEXT})})
    schema = closed({"x": {"$ref": "#/$defs/three"}, "y": TEXT}, **{"$defs": {"three": three}})
    assert found(schema, limited(properties=3)) == []
    assert found(schema, limited(properties=2)) == [("/$defs/three", "properties")]
    assert found(closed({"x": three}), limited(properties=3)) == [("", "properties")]


@pytest.mark.parametrize(
    ("between", "way"),
    [
        (lambda schema: schema, "/properties/a"),
        (lambda schema: {"type": "array", "items": schema}, "/properties/a/items"),
        (lambda schema: {"anyOf": [schema, {"type": "null"}]}, "/properties/a/anyOf/0"),
    ],
)
def test_depth_counts_the_objects_inside_objects(between: Callable[[Any], Any], way: str) -> None:
    assert found(deep(10, between), OPENAI_STRICT) == []
    assert found(deep(11, between), OPENAI_STRICT) == [(way * 10, "depth")]


def test_depth_starts_anew_in_each_definition() -> None:
    schema = closed({"a": {"$ref": "#/$defs/x"}}, **{"$defs": {"x": deep(10), "y": deep(11)}})
    assert found(schema, OPENAI_STRICT) == [("/$defs/y" + "/properties/a" * 10, "depth")]


def test_enum_values_are_counted_in_all() -> None:
    many = {"enum": list(range(600))}
    assert found(closed({"a": many}), OPENAI_STRICT) == []
    assert found(closed({"a": many, "b": many}), OPENAI_STRICT) == [("", "enum_values")]


def test_one_long_enum_has_a_limit_of_its_own() -> None:
    assert found(closed({"a": {"enum": [f"{i:060}" for i in range(250)]}}), OPENAI_STRICT) == []
    assert found(closed({"a": {"enum": [f"{i:060}" for i in range(251)]}}), OPENAI_STRICT) == [
        ("/properties/a", "enum_values")
    ]


def test_the_characters_of_names_and_choices_are_counted_together() -> None:
    schema = closed({"abc": {"enum": ["de", 7]}, "f": {"const": "g"}}, **{"$defs": {"hij": TEXT}})
    assert found(schema, limited(name_chars=10)) == []
    assert found(schema, limited(name_chars=9)) == [("", "name_chars")]


def test_optional_properties_are_counted_in_the_whole_schema() -> None:
    def schema(count: int) -> dict[str, Any]:
        some: dict[str, Any] = {f"p{i}": TEXT for i in range(count)}
        return closed({"a": closed(some, required=[])}, **{"$defs": {"x": closed({"b": TEXT}, required=[])}})

    assert found(schema(23), ANTHROPIC_STRICT) == []
    assert found(schema(24), ANTHROPIC_STRICT) == [("", "optional")]


def test_unions_are_counted_in_the_whole_schema() -> None:
    def schema(count: int) -> dict[str, Any]:
        listed: dict[str, Any] = {f"p{i}": {"type": ["string", "null"]} for i in range(count)}
        return closed({**listed, "a": {"anyOf": [TEXT]}, "b": {"type": ["string"]}})

    assert found(schema(15), ANTHROPIC_STRICT) == []
    assert found(schema(16), ANTHROPIC_STRICT) == [("", "unions")]


# All at once, in order, whatever comes


def test_problems_come_in_the_order_of_the_schema_and_limits_last() -> None:
    schema = {
        "properties": {"z": {"type": "array"}, "a": {"type": "float", "items": {}}},
        "$schema": "x",
        "type": "object",
    }
    assert found(schema, replace(OPENAI, limits=StrictLimits(properties=1))) == [
        ("", "$schema"),
        ("/properties/z", "items"),
        ("/properties/a", "type"),
        ("", "properties"),
    ]


def test_no_more_problems_are_told_than_an_error_lists() -> None:
    assert len(found(root({f"p{i}": {} for i in range(100)}), OPENAI_STRICT)) == MAX_PROBLEMS


def test_a_pointer_is_escaped() -> None:
    assert found(root({"a/b~c": {"type": "any"}}), MCP) == [("/properties/a~1b~0c", "type")]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)
WORDS = st.sampled_from(
    sorted(
        {"type", "properties", "items", "required", "anyOf", "oneOf", "not", "enum", "const", "$ref", "$defs"}
        | {"format", "pattern", "minItems", "additionalProperties", "prefixItems", "dependencies", "$anchor"}
        | {"$dynamicRef", "x-y"}
    )
)
VALUES = st.sampled_from(
    ["object", "array", "null", "#", "#/$defs/a", "#/properties/type", "#a", "#/%", "(?=", "\\1"]
)
SCHEMAS = st.recursive(
    VALUES | JSON,
    lambda inner: (
        st.dictionaries(WORDS, inner, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "type", "$ref"]), inner, max_size=3)
        | st.lists(inner, max_size=3)
    ),
    max_leaves=20,
)


@given(schema=st.dictionaries(WORDS | st.text(max_size=3), SCHEMAS, max_size=6), rules=st.sampled_from(ALL))
def test_any_json_gets_an_answer_and_the_same_twice(schema: dict[str, Any], rules: SchemaRules) -> None:
    problems = violations(schema, rules)
    assert problems == violations(schema, rules)
    assert len(problems) <= MAX_PROBLEMS
    assert all(problem.message and len(problem.message) <= 500 for problem in problems)


def chain(levels: int, word: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "array"}
    for _ in range(levels):
        schema = {word: schema}
    return root({"a": schema})


def shared(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "array"}
    for _ in range(levels):
        schema = {"anyOf": [schema, schema], "enum": [schema]}
    return root({"a": schema})


def ladder(rungs: int) -> dict[str, Any]:
    links = {f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(rungs)}
    return root({"a": {"$ref": "#/$defs/d0"}}, **{"$defs": {**links, f"d{rungs}": {"$ref": "#/$defs/d0"}}})


@pytest.mark.attack
@pytest.mark.parametrize("rules", ALL, ids=lambda rules: rules.title)
@pytest.mark.parametrize(
    "schema",
    [
        pytest.param(chain(15_000, "not"), id="deep"),
        pytest.param(chain(30_000, "items"), id="deep arrays"),
        pytest.param(shared(40), id="shared"),
        pytest.param(ladder(5_000), id="ladder of references"),
        pytest.param(root({f"p{i}": {"$ref": "#/properties/p0"} for i in range(10_000)}), id="wide"),
        pytest.param(root({"a": {**TEXT, "pattern": "[" * 100_000}}), id="pattern"),
        pytest.param(
            root({"a": {"minItems": 10**5_000, "maximum": 10**5_000, "enum": [10**5_000]}}), id="integers"
        ),
        pytest.param(root({"a": {"type": "array", "items": {}, "minItems": 10**5_000}}), id="wide minItems"),
    ],
)
def test_no_schema_takes_long(schema: dict[str, Any], rules: SchemaRules) -> None:
    with at_most(MAX_CPU):
        violations(schema, rules)


def test_a_schema_that_holds_itself_is_cut_short() -> None:
    schema = root()
    schema["properties"]["a"] = schema
    assert found(schema, MCP) == [("", "size")]


# Real schemas that providers refused: facts 4.3


@pytest.mark.parametrize(
    ("rules", "schema", "expected"),
    [
        (ANTHROPIC, root({"a": TEXT}, anyOf=[{"required": ["a"]}, {"required": ["b"]}]), ("", "anyOf")),
        (OPENAI, root({"a": TEXT}, anyOf=[{"required": ["a"]}, {"required": ["b"]}]), ("", "anyOf")),
        (ANTHROPIC, root({"filter[id]": TEXT}), ("/properties/filter[id]", "properties")),
        (
            ANTHROPIC,
            root({"@microsoft.graph.conflict": TEXT}),
            ("/properties/@microsoft.graph.conflict", "properties"),
        ),
        (GEMINI_OPENAPI, root({"$top": TEXT}), ("/properties/$top", "properties")),
        (OPENAI, {"type": "object"}, ("", "properties")),
        (
            OPENAI_STRICT,
            closed({"a": {"$ref": "#/properties/headers"}, "headers": TEXT}),
            ("/properties/a", "$ref"),
        ),
        (
            GEMINI_JSON_SCHEMA,
            root({"a": {"$ref": "#/$defs/x", "title": "A"}}, **{"$defs": {"x": TEXT}}),
            ("/properties/a", "$ref"),
        ),
        (GEMINI_OPENAPI, root({"a": {"anyOf": [TEXT], "$defs": {}}}), ("/properties/a", "$defs")),
        (
            OPENAI,
            root({"a": {"type": "array", "items": {"anyOf": [TEXT, {"type": "array"}]}}}),
            ("/properties/a/items/anyOf/1", "items"),
        ),
        (OPENAI, root({"a": {"type": "array"}}), ("/properties/a", "items")),
        (GEMINI_OPENAPI, root(additionalProperties=False), ("", "additionalProperties")),
        (
            GEMINI_OPENAPI,
            root({"a": root(additionalProperties={})}),
            ("/properties/a", "additionalProperties"),
        ),
        (OPENAI_STRICT, closed({"a": {**TEXT, "format": "uri"}}), ("/properties/a", "format")),
        (OPENAI, root({"a": {"type": "array", "items": None}}), ("/properties/a", "items")),
        (GEMINI_JSON_SCHEMA, root({"a": {**TEXT, "enum": None}}), ("/properties/a", "enum")),
        (ANTHROPIC_STRICT, recursive("#/$defs/node"), ("/$defs/other", "$ref")),
        (GEMINI_OPENAPI, recursive("#/$defs/node"), ("/properties/a", "$ref")),
        (GEMINI_OPENAPI, root({"2nd": TEXT, "a b": TEXT}), ("/properties/a b", "properties")),
    ],
)
def test_schemas_that_providers_refused_have_violations(
    rules: SchemaRules, schema: dict[str, Any], expected: tuple[str, str]
) -> None:
    assert expected in found(schema, rules)


@pytest.mark.parametrize(
    "schema", [root({"properties": TEXT, "type": TEXT}), root({"a": root({"type": TEXT})})]
)
def test_schemas_that_only_converters_failed_on_have_no_violation(schema: dict[str, Any]) -> None:
    assert [
        found(schema, rules) for rules in (MCP, OPENAI, ANTHROPIC, GEMINI_JSON_SCHEMA, GEMINI_OPENAPI)
    ] == [[]] * 5


# Real tools

AS_THEY_ARE = {
    "tests": {
        "mcp": 39,
        "openai": 19,
        "openai-strict": 5,
        "anthropic": 37,
        "anthropic-strict": 4,
        "gemini": 13,
        "gemini-openapi": 3,
    },
    "shared": {
        "mcp": 1_163,
        "openai": 438,
        "openai-strict": 0,
        "anthropic": 1_163,
        "anthropic-strict": 0,
        "gemini": 457,
        "gemini-openapi": 381,
    },
}
"""The number of schemas that keep the rules of each target, by the folder that holds the data."""
WITHOUT_DIALECT = {
    "tests": {
        "mcp": 39,
        "openai": 33,
        "openai-strict": 7,
        "anthropic": 37,
        "anthropic-strict": 7,
        "gemini": 22,
        "gemini-openapi": 4,
    },
    "shared": {
        "mcp": 1_163,
        "openai": 1_108,
        "openai-strict": 126,
        "anthropic": 1_163,
        "anthropic-strict": 187,
        "gemini": 1_014,
        "gemini-openapi": 440,
    },
}
"""The same, of the schemas without `$schema`."""
REFUSED_FOR = {
    "tests": [("required", 29), ("additionalProperties", 20), ("$schema", 18), ("default", 14)],
    "shared": [("additionalProperties", 900), ("required", 810), ("$schema", 678), ("default", 254)],
}
"""For which keywords a strict target refuses most schemas, and how many."""


@pytest.fixture(scope="module")
def real_schemas(data: Path) -> list[dict[str, Any]]:
    return [tool["inputSchema"] for tool in load_real_tools(data)]


def count_accepted(schemas: list[dict[str, Any]]) -> dict[str, int]:
    return {name: sum(not violations(schema, rules) for schema in schemas) for name, rules in RULES.items()}


def test_as_many_real_tools_are_taken_as_they_are(data: Path, real_schemas: list[dict[str, Any]]) -> None:
    assert len(real_schemas) == {"tests": 39, "shared": 1_163}[data.parent.name]
    assert count_accepted(real_schemas) == AS_THEY_ARE[data.parent.name]


def test_most_refusals_of_real_tools_are_for_naming_their_dialect(
    data: Path, real_schemas: list[dict[str, Any]]
) -> None:
    bare = [{word: value for word, value in schema.items() if word != "$schema"} for schema in real_schemas]
    assert count_accepted(bare) == WITHOUT_DIALECT[data.parent.name]


def test_real_tools_are_refused_in_strict_mode_for_being_open(
    data: Path, real_schemas: list[dict[str, Any]]
) -> None:
    reasons = Counter(
        keyword
        for schema in real_schemas
        for keyword in {problem.keyword for problem in violations(schema, OPENAI_STRICT)}
    )
    assert reasons.most_common(4) == REFUSED_FOR[data.parent.name]
