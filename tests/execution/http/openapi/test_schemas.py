"""The schemas of a document as JSON Schema 2020-12."""

import re
from typing import Any

import pytest
from effort import at_most
from execution.http.support import document_of, tool_of

from toolcrib.errors import ValidationError
from toolcrib.execution.http import OpenApiProvider
from toolcrib.model import DefaultValidator, Tool

BASE = "https://api.example"


def tool_with(schema: Any, version: str = "3.1.0", **schemas: Any) -> Tool:
    """Return a tool whose one argument, and whose result, have this schema."""
    media = {"content": {"application/json": {"schema": schema}}}
    operation = {
        "parameters": [{"name": "p", "in": "query", "schema": schema}],
        "responses": {"200": {"description": "", **media}},
    }
    document = document_of(operation, openapi=version, components={"schemas": schemas})
    made = OpenApiProvider.from_document(document, id="t", base_url=BASE)
    assert made.skipped == ()
    return made.tools()[0]


def skip_reason(schema: Any, version: str = "3.1.0", **schemas: Any) -> str:
    """Return why an operation with this schema is skipped."""
    operation = {"parameters": [{"name": "p", "in": "query", "schema": schema}]}
    document = document_of(operation, openapi=version, components={"schemas": schemas})
    made = OpenApiProvider.from_document(document, id="t", base_url=BASE)
    (only,) = made.skipped
    assert only.operation == "GET /echo/x"
    return only.reason


@pytest.mark.parametrize(
    ("old", "plain"),
    [
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "string", "nullable": False}, {"type": "string"}),
        ({"type": "string", "nullable": True, "enum": ["a"]}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"type": "string", "nullable": True, "enum": [None]}, {"type": ["string", "null"], "enum": [None]}),
        (
            {"allOf": [{"type": "string"}], "nullable": True},
            {"anyOf": [{"allOf": [{"type": "string"}]}, {"type": "null"}]},
        ),
        ({"nullable": True}, {}),
        ({"type": "number", "minimum": 1, "exclusiveMinimum": True}, {"type": "number", "exclusiveMinimum": 1}),
        ({"type": "number", "maximum": 1, "exclusiveMaximum": False}, {"type": "number", "maximum": 1}),
        ({"type": "number", "exclusiveMaximum": True}, {"type": "number"}),
        ({"type": "string", "example": "a"}, {"type": "string", "examples": ["a"]}),
        ({"type": "object", "xml": {}, "externalDocs": {}, "discriminator": {}, "x-a": 1}, {"type": "object"}),
        ({"type": "array", "items": {"nullable": True, "type": "integer"}}, {"type": "array", "items": {"type": ["integer", "null"]}}),
        (
            {"properties": {"nullable": {"type": "boolean", "nullable": True}}},
            {"properties": {"nullable": {"type": ["boolean", "null"]}}},
        ),
        ({"enum": [{"nullable": True}]}, {"enum": [{"nullable": True}]}),
    ],
)  # fmt: skip
def test_the_words_of_3_0_become_those_of_json_schema(old: Any, plain: Any) -> None:
    assert tool_with(old, "3.0.3").input_schema["properties"]["p"] == plain


@pytest.mark.parametrize(
    ("schema", "plain"),
    [
        (True, True),
        ({"type": ["string", "null"]}, {"type": ["string", "null"]}),
        ({"exclusiveMinimum": 3}, {"exclusiveMinimum": 3}),
        ({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "string"}, {"type": "string"}),
        ({"$id": "x", "$anchor": "y", "$comment": "z", "type": "string"}, {"type": "string"}),
        ({"const": {"$ref": "#/nowhere"}}, {"const": {"$ref": "#/nowhere"}}),
        ({"patternProperties": {"^a": {"type": "string", "xml": {}}}}, {"patternProperties": {"^a": {"type": "string"}}}),
    ],
)  # fmt: skip
def test_a_schema_of_3_1_is_one_already(schema: Any, plain: Any) -> None:
    assert tool_with(schema).input_schema["properties"]["p"] == plain


@pytest.mark.parametrize("version", ["3.0.0", "3.1.1"])
def test_shared_schemas_become_definitions_and_recursion_is_kept(version: str) -> None:
    node = {
        "type": "object",
        "required": ["value"],
        "properties": {
            "value": {"$ref": "#/components/schemas/Value"},
            "next": {"$ref": "#/components/schemas/Node"},
        },
    }
    tool = tool_with(
        {"$ref": "#/components/schemas/Node"}, version, Node=node, Value={"type": "integer"}, Unused={}
    )
    assert tool.input_schema["properties"]["p"] == {"$ref": "#/$defs/Node"}
    assert set(tool.input_schema["$defs"]) == {"Node", "Value"}
    assert tool.output_schema is not None
    assert set(tool.output_schema["$defs"]) == {"Node", "Value"}
    validator = DefaultValidator()
    validator.validate_input(tool, {"p": {"value": 1, "next": {"value": 2}}})
    with pytest.raises(ValidationError, match="/p/next/value"):
        validator.validate_input(tool, {"p": {"value": 1, "next": {"value": "x"}}})


def test_references_with_one_name_in_two_places_stay_apart() -> None:
    schema = {
        "anyOf": [
            {"$ref": "#/components/schemas/A/properties/x"},
            {"$ref": "#/components/schemas/B/properties/x"},
            {"$ref": "#/components/schemas/B/properties/x"},
            {"$ref": "#/components/schemas/a~1b%20c"},
        ]
    }
    tool = tool_with(
        schema,
        A={"properties": {"x": {"type": "string"}}},
        B={"properties": {"x": {"type": "integer"}}},
        **{"a/b c": {}},
    )
    assert tool.input_schema["properties"]["p"]["anyOf"] == [
        {"$ref": "#/$defs/x"}, {"$ref": "#/$defs/x_2"}, {"$ref": "#/$defs/x_2"}, {"$ref": "#/$defs/a_1b_20c"},
    ]  # fmt: skip
    assert tool.input_schema["$defs"] == {"x": {"type": "string"}, "x_2": {"type": "integer"}, "a_1b_20c": {}}


def test_beside_a_reference_nothing_counts_in_3_0_and_everything_in_3_1() -> None:
    schema = {"$ref": "#/components/schemas/A", "maxLength": 3}
    assert tool_with(schema, "3.0.3", A={}).input_schema["properties"]["p"] == {"$ref": "#/$defs/A"}
    assert tool_with(schema, "3.1.0", A={}).input_schema["properties"]["p"] == {
        "$ref": "#/$defs/A",
        "maxLength": 3,
    }


def test_read_only_properties_are_no_inputs_and_write_only_ones_no_outputs() -> None:
    schema = {
        "type": "object",
        "required": ["id", "name", "password", "shared"],
        "properties": {
            "id": {"type": "integer", "readOnly": True},
            "name": {"type": "string"},
            "password": {"type": "string", "writeOnly": True},
            "shared": {"$ref": "#/components/schemas/Stamp"},
        },
    }
    stamp = {"type": "string", "readOnly": True}
    tool = tool_with({"$ref": "#/components/schemas/User"}, "3.0.3", User=schema, Stamp=stamp)
    assert tool.output_schema is not None
    given, got = tool.input_schema["$defs"]["User"], tool.output_schema
    assert (set(given["properties"]), given["required"]) == ({"name", "password"}, ["name", "password"])
    assert (set(got["properties"]), got["required"]) == ({"id", "name", "shared"}, ["id", "name", "shared"])


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"$ref": "https://evil.example/schema.json"}, "leaves the document, and nothing is ever fetched"),
        ({"$ref": "other.yaml#/A"}, "leaves the document"),
        ({"$ref": "#/components/schemas/Nobody"}, "points at nothing"),
        ({"$ref": "#anchor"}, "is not a JSON pointer"),
        ({"items": {"$ref": "#/components/schemas/Nobody/0"}}, "points at nothing"),
        ({"type": "strin"}, "invalid schema"),
        ({"pattern": "("}, "invalid schema"),
        ([], "a schema must be an object"),
        ({"$schema": "http://json-schema.org/draft-04/schema#"}, "dialect"),
        ({"$dynamicRef": "#a"}, r"\$dynamicRef"),
        ({"enum": list(range(30_000))}, "more than 20,000 values"),
    ],
)
def test_an_operation_whose_schema_cannot_be_used_is_skipped(schema: Any, reason: str) -> None:
    assert re.search(reason, skip_reason(schema))


def test_a_reference_may_lead_anywhere_in_the_document() -> None:
    assert tool_with({"$ref": "#/components/schemas/A/allOf/1"}, A={"allOf": [{}, {"type": "string"}]})
    assert "references refer to one another endlessly" in skip_reason(
        {"properties": {"a": {"$ref": "#/components/schemas/A"}}}, A={"$ref": "#/components/schemas/A"}
    )


def test_an_output_schema_that_cannot_be_used_is_left_out() -> None:
    media = {"content": {"application/json": {"schema": {"$ref": "https://evil.example/"}}}}
    document = document_of({"responses": {"200": {"description": "", **media}}})
    made = OpenApiProvider.from_document(document, id="t", base_url=BASE)
    assert made.tools()[0].output_schema is None


@pytest.mark.parametrize(
    ("responses", "schema"),
    [
        (None, None),
        ({}, None),
        ({"204": {}}, None),
        ({"200": {"content": {"application/json": {"schema": {"type": "string"}}}}}, {"type": "string"}),
        ({200: {"content": {"application/hal+json": {"schema": {"type": "string"}}}}}, {"type": "string"}),
        (
            {"2XX": {"content": {"application/json": {"schema": {"type": "string"}}}}, "default": {}},
            {"type": "string"},
        ),
        (
            {"200": {"content": {"application/json": {"schema": {"type": "string"}}}}, "202": {}},
            {"anyOf": [{"type": "string"}, {"type": "null"}]},
        ),
        (
            {
                "200": {"content": {"application/json": {"schema": {"type": "string"}}}},
                "201": {"$ref": "#/components/responses/Same"},
            },
            {"type": "string"},
        ),
        ({"200": {"content": {"text/plain": {"schema": {"type": "string"}}}}}, None),
        ({"200": {"content": {"application/json": {}}}}, None),
        ({"200": {"content": {"application/json": {"schema": {}}, "text/event-stream": {}}}}, None),
        ({"400": {"content": {"application/json": {"schema": {}}}}}, None),
        ({"200": {"content": {"application/json": {"schema": True}}}}, None),
    ],
)
def test_the_output_schema_is_that_of_success(responses: Any, schema: Any) -> None:
    same = {"Same": {"content": {"application/json": {"schema": {"type": "string"}}}}}
    document = document_of({"responses": responses}, components={"responses": same})
    made = OpenApiProvider.from_document(document, id="t", base_url=BASE)
    assert tool_of(made, "op").output_schema == schema


@pytest.mark.proof
@pytest.mark.attack
def test_references_that_multiply_are_bounded() -> None:
    schemas = {f"S{n}": {"allOf": [{"$ref": f"#/components/schemas/S{n + 1}"}] * 10} for n in range(60)}
    schemas["S60"] = {"type": "string"}
    paths = {
        f"/{n}": {
            "get": {
                "parameters": [{"name": "p", "in": "query", "schema": {"$ref": "#/components/schemas/S0"}}]
            }
        }
        for n in range(50)
    }
    document = {"openapi": "3.1.0", "paths": paths, "components": {"schemas": schemas}}
    with at_most(5):
        made = OpenApiProvider.from_document(document, id="t", base_url=BASE)
    assert len(made.tools()) + len(made.skipped) == 50


@pytest.mark.attack
def test_operations_are_skipped_once_the_schemas_are_too_large_together() -> None:
    wide = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(9_000)}}
    both = {"allOf": [{"$ref": "#/components/schemas/A"}, {"$ref": "#/components/schemas/B"}]}
    item = {"get": {"parameters": [{"name": "p", "in": "query", "schema": both}]}}
    document = {
        "openapi": "3.1.0",
        "components": {"schemas": {"A": wide, "B": wide}, "pathItems": {"I": item}},
        "paths": {f"/{n}": {"$ref": "#/components/pathItems/I"} for n in range(5_000)},
    }
    with at_most(5):
        made = OpenApiProvider.from_document(document, id="t", base_url=BASE)
    assert "holds more than 20,000 values" in made.skipped[0].reason
    assert "too large together" in made.skipped[-1].reason


@pytest.mark.proof
@pytest.mark.attack
def test_many_references_with_one_name_take_no_time() -> None:
    schemas = {f"S{n}": {"properties": {"x": {}}} for n in range(3_000)}
    refs = [{"$ref": f"#/components/schemas/S{n}/properties/x"} for n in range(3_000)]
    tool = tool_with({"anyOf": refs}, **schemas)
    assert len(tool.input_schema["$defs"]) == 3_000


@pytest.mark.attack
@pytest.mark.parametrize("media_type", ["multipart/form-data", "application/x-www-form-urlencoded"])
def test_a_form_of_references_that_fan_out_is_read_in_no_time(media_type: str) -> None:
    schemas: dict[str, Any] = {
        f"S{level}": {"anyOf": [{"$ref": f"#/components/schemas/S{level + 1}"}] * 200} for level in range(4)
    }
    schemas["S4"] = {"type": "string"}
    properties = {f"p{number}": {"$ref": "#/components/schemas/S0"} for number in range(200)}
    body = {"content": {media_type: {"schema": {"type": "object", "properties": properties}}}}
    document = document_of({"requestBody": body}, method="post", components={"schemas": schemas})
    with at_most(5):
        made = OpenApiProvider.from_document(document, id="t", base_url="https://api.example")
    assert [skipped.reason[:22] for skipped in made.skipped] == ["the schema multiplies "]


def _with_successes(count: int, kinds: int) -> OpenApiProvider:
    media = [{"application/json": {"schema": {"const": number % kinds}}} for number in range(count)]
    responses = {f"2{number}": {"content": content} for number, content in enumerate(media)}
    return OpenApiProvider.from_document(document_of({"responses": responses}), id="t", base_url=BASE)


@pytest.mark.proof
@pytest.mark.attack
def test_many_kinds_of_success_are_read_in_no_time() -> None:
    with at_most(5):
        made = _with_successes(30_000, 30_000)
    assert tool_of(made, "op").output_schema is None


def test_kinds_of_success_that_are_the_same_are_told_once() -> None:
    assert tool_of(_with_successes(9, 3), "op").output_schema == {"anyOf": [{"const": n} for n in range(3)]}
