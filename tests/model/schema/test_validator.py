"""Dialects, documents, problems and messages of the default validator."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import mcp_types
import pytest
from contracts.schema_validator import SchemaValidatorContract
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from hypothesis_jsonschema import from_schema
from laws import law

from toolcrib.errors import (
    ExternalRefError,
    InvalidSchemaError,
    InvalidToolError,
    Problem,
    SchemaTooComplexError,
    UnsupportedDialectError,
    ValidationError,
)
from toolcrib.model import CanonicalTool, DefaultValidator, SchemaValidator, Tool, ToolDoc, schema_of, tool

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_2020_12 = "https://json-schema.org/draft/2020-12/schema"


class TestDefaultValidator(SchemaValidatorContract):
    @pytest.fixture
    def validator(self) -> SchemaValidator:
        return DefaultValidator()


def problems(schema: Any, value: Any) -> tuple[Problem, ...]:
    with pytest.raises(ValidationError) as caught:
        DefaultValidator().validate(schema, value)
    return caught.value.problems


def messages(schema: Any, value: Any) -> list[str]:
    return [str(problem) for problem in problems(schema, value)]


# Dialects


@pytest.mark.parametrize("uri", [DRAFT_7, DRAFT_7.rstrip("#"), "https://json-schema.org/draft-07/schema#"])
def test_draft_07_really_is_draft_07(uri: str) -> None:
    pair = {"$schema": uri, "items": [{"type": "string"}, {"type": "integer"}], "additionalItems": False}
    DefaultValidator().validate(pair, ["a", 1])
    assert problems(pair, ["a", "b"])[0].path == "/1"
    assert problems(pair, ["a", 1, 2])
    depends = {"$schema": uri, "dependencies": {"a": ["b"]}}
    assert problems(depends, {"a": 1})
    beside = {"$schema": uri, "definitions": {"any": {}}, "$ref": "#/definitions/any", "type": "string"}
    DefaultValidator().validate(beside, 5)  # what stands beside a $ref does not count in draft-07


@pytest.mark.parametrize("uri", [DRAFT_2020_12, f"{DRAFT_2020_12}#"])
def test_the_2020_12_dialect_is_known_with_and_without_its_hash(uri: str) -> None:
    assert problems({"$schema": uri, "prefixItems": [{"type": "string"}]}, [1])
    assert problems({"$schema": uri, "$defs": {"any": {}}, "$ref": "#/$defs/any", "type": "string"}, 5)


@pytest.mark.parametrize(
    "uri",
    [
        "http://json-schema.org/draft-04/schema#",
        "http://json-schema.org/draft-06/schema#",
        "https://json-schema.org/draft/2019-09/schema",
        "https://example.com/my-own",
        "",
        7,
    ],
)
def test_any_other_dialect_is_unsupported(uri: Any) -> None:
    with pytest.raises(UnsupportedDialectError, match=r"\$schema"):
        DefaultValidator().validate({"$schema": uri}, {})


def test_format_and_content_are_annotations_in_both_dialects() -> None:
    for dialect in (DRAFT_7, DRAFT_2020_12):
        schema = {
            "$schema": dialect,
            "format": "email",
            "contentEncoding": "base64",
            "contentMediaType": "application/json",
        }
        DefaultValidator().validate(schema, "!! neither {")


# Documents


def test_a_document_loaded_beforehand_can_be_referred_to() -> None:
    documents = {
        "https://example.com/point.json": {"type": "object", "required": ["x"]},
        "https://example.com/text": '{"$defs": {"short": {"maxLength": 3}}}',
    }
    validator = DefaultValidator(documents)
    validator.validate({"$ref": "https://example.com/point.json"}, {"x": 1})
    with pytest.raises(ValidationError):
        validator.validate({"$ref": "https://example.com/text#/$defs/short"}, "long")
    with pytest.raises(ExternalRefError, match=r"did you mean 'https://example.com/point.json'"):
        validator.validate({"$ref": "https://example.com/points.json"}, {})


@pytest.mark.parametrize(
    ("dialect", "meta"), [(DRAFT_7, DRAFT_7), (DRAFT_2020_12, DRAFT_2020_12), (DRAFT_2020_12, DRAFT_7)]
)
def test_the_meta_schemas_are_built_in(dialect: str, meta: str) -> None:
    schema = {"$schema": dialect, "properties": {"schema": {"$ref": meta}}}
    nested = {"properties": {"a": {"items": {"not": {"type": "string"}}}}}
    DefaultValidator().validate(schema, {"schema": nested})
    nested["properties"]["a"]["items"]["not"]["type"] = "strng"
    with pytest.raises(ValidationError):
        DefaultValidator().validate(schema, {"schema": nested})


def test_a_draft_07_schema_cannot_lean_on_the_newer_meta_schema() -> None:
    with pytest.raises(ExternalRefError):
        DefaultValidator().validate({"$schema": DRAFT_7, "properties": {"a": {"$ref": DRAFT_2020_12}}}, {})


def test_an_own_meta_schema_among_the_documents_is_a_dialect() -> None:
    uri = "https://example.com/meta"
    meta = {
        "$id": uri,
        "$schema": DRAFT_2020_12,
        "$vocabulary": {"https://json-schema.org/draft/2020-12/vocab/core": True},
    }
    DefaultValidator({uri: meta}).validate({"$schema": uri, "minimum": 10}, 5)


def test_a_document_is_known_by_a_relative_name_and_by_its_own_id() -> None:
    documents = {"point.json": {"$id": "https://example.com/point", "type": "object"}}
    validator = DefaultValidator(documents)
    for reference in ("point.json", "https://example.com/point"):
        validator.validate({"$ref": reference}, {})
        with pytest.raises(ValidationError):
            validator.validate({"$ref": reference}, 3)


@pytest.mark.parametrize("documents", [[], "text", {"a": 5}, {"a": "{"}, {"a": {"type": {1}}}])
def test_documents_that_are_none_are_refused(documents: Any) -> None:
    with pytest.raises(InvalidSchemaError, match="document"):
        DefaultValidator(documents)


def test_decorated_function_is_refused_with_a_hint_to_its_tool() -> None:
    @tool
    def add(a: int) -> int:
        return a

    for check in (DefaultValidator().validate_input, DefaultValidator().validate_output):
        with pytest.raises(InvalidSchemaError, match=r"pass its \.tool"):
            check(add, {"a": 1})  # type: ignore[arg-type]


def test_a_reference_to_nothing_says_so() -> None:
    with pytest.raises(InvalidSchemaError, match=r"'#/\$defs/nope' points at nothing") as caught:
        DefaultValidator().validate({"$ref": "#/$defs/nope"}, {})
    assert not isinstance(caught.value, ExternalRefError)


# Problems


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"type": "string"}, 5, "must be a string, not 5"),
        ({"type": ["string", "null"]}, 5, "must be null or a string, not 5"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "x", "must be an integer or null, not 'x'"),
        ({"enum": ["open", "closed"]}, "opne", "must be one of 'open', 'closed', not 'opne'; did you mean 'open'?"),
        ({"const": None}, True, "must be null, not true"),
        ({"minimum": 1}, 0, "must be at least 1, not 0"),
        ({"maximum": 1.5}, 2, "must be at most 1.5, not 2"),
        ({"exclusiveMinimum": 1}, 1, "must be greater than 1, not 1"),
        ({"exclusiveMaximum": 1}, 1, "must be less than 1, not 1"),
        ({"multipleOf": 5}, 7, "must be a multiple of 5, not 7"),
        ({"minLength": 2}, "a", "must have at least 2 characters, and 'a' has fewer"),
        ({"maxLength": 1}, "ab", "must have at most 1 character, and 'ab' has more"),
        ({"pattern": "^a"}, "b", "must match the pattern '^a', and 'b' does not"),
        ({"minItems": 1}, [], "must have at least 1 item, and an array has fewer"),
        ({"maxItems": 1}, [1, 2], "must have at most 1 item, and an array has more"),
        ({"uniqueItems": True}, [1, 1], "must not contain the same item twice"),
        ({"minProperties": 1}, {}, "must have at least 1 property, and an object has fewer"),
        ({"required": ["title"]}, {}, "required property 'title' is missing"),
        ({"required": ["title"]}, {"titel": 1}, "required property 'title' is missing; did you write 'titel'?"),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, "required property 'b' is missing beside those given"),
        ({"propertyNames": {"maxLength": 1}}, {"ab": 1}, "the property name 'ab' does not fit: it must have at most 1 character, and 'ab' has more"),
        ({"not": {"type": "string"}}, "x", "must not be of the kind that the schema forbids, and 'x' is"),
        ({"contains": {"type": "string"}}, [1], "does not have the right number of items of the required kind"),
        ({"oneOf": [{}, {}]}, 1, "fits more than one of the alternatives, and must fit just one"),
        ({"properties": {"a": False}}, {"a": 1}, "/a: is not allowed here; remove it"),
        ({"prefixItems": [{}], "items": False}, [1, 2], "/1: is not allowed here; remove it"),
        ({"unevaluatedItems": False}, [1], "holds items that the schema does not allow; remove them"),
        (False, 1, "is not allowed here; remove it"),
    ],
    ids=lambda value: json.dumps(value)[:40] if not isinstance(value, str) else None,
)  # fmt: skip
def test_each_keyword_says_what_is_wrong_and_what_would_be_right(
    schema: Any, value: Any, expected: str
) -> None:
    assert messages(schema, value) == [expected]


def test_the_nearest_alternative_is_the_one_explained() -> None:
    schema = {
        "anyOf": [
            {"type": "string"},
            {
                "type": "object",
                "properties": {"kind": {"const": "a"}, "x": {"type": "integer"}},
                "required": ["kind", "x"],
            },
            {"type": "object", "properties": {"kind": {"const": "b"}}, "required": ["kind", "y", "z"]},
        ]
    }
    [message] = messages(schema, {"kind": "a", "x": "1"})
    assert message == "fits none of the 3 alternatives; the nearest one says: /x: must be an integer, not '1'"


def test_all_problems_come_at_once_with_their_pointers() -> None:
    schema = {
        "properties": {
            "title": {"type": "string"},
            "labels": {"items": {"type": "string"}},
            "a/b~c": {"minimum": 1},
        },
        "required": ["title", "body"],
    }
    found = problems(schema, {"title": 5, "labels": ["a", None, 3], "a/b~c": 0})
    assert {(problem.path, problem.keyword) for problem in found} == {
        ("/title", "type"),
        ("/labels/1", "type"),
        ("/labels/2", "type"),
        ("/a~1b~0c", "minimum"),
        ("", "required"),
    }


def test_no_more_than_32_problems_are_listed() -> None:
    assert len(problems({"items": {"type": "string"}}, [1] * 1000)) == 32


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "additionalProperties": False},
        {"properties": {"title": {}}, "additionalProperties": False},
        {"properties": {"title": {}}, "unevaluatedProperties": False},
        {"$defs": {"t": {"properties": {"title": {}}, "additionalProperties": False}}, "$ref": "#/$defs/t"},
    ],
)
def test_each_unexpected_property_is_named(schema: Any) -> None:
    found = problems(schema, {"titel": 1, "zzz": 2})
    assert [problem.path for problem in found] == ["", ""]
    assert "unexpected property 'titel'" in found[0].message
    assert "unexpected property 'zzz'" in found[1].message
    if "properties" in json.dumps(schema):
        assert "properties" not in schema or "did you mean 'title'?" in found[0].message


def test_the_text_of_the_error_holds_every_problem() -> None:
    with pytest.raises(ValidationError, match=r"/a: must be a string, not 1; /b: must be a string, not 2"):
        DefaultValidator().validate({"additionalProperties": {"type": "string"}}, {"a": 1, "b": 2})


# Schemas that are none


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [("dict", "object"), ("float", "number"), ("int", "integer"), ("str", "string"), ("bool", "boolean"),
     ("list", "array"), ("strng", "string"), ("None", "null"), ("String", "string")],
)  # fmt: skip
def test_a_type_that_is_none_is_told_the_nearest_one(wrong: str, meant: str) -> None:
    with pytest.raises(InvalidSchemaError) as caught:
        DefaultValidator().validate({"properties": {"a": {"type": wrong}}}, {})
    [problem] = caught.value.problems
    assert problem == Problem(
        "/properties/a/type", "type", f"'{wrong}' is not a JSON Schema type; did you mean '{meant}'?"
    )


def test_every_fault_of_a_schema_is_listed_with_its_place() -> None:
    schema = {"type": "dict", "required": True, "properties": {"a": {"minimum": "x", "type": "any"}}}
    with pytest.raises(InvalidSchemaError) as caught:
        DefaultValidator().validate(schema, {})
    assert {problem.path for problem in caught.value.problems} == {
        "/type",
        "/required",
        "/properties/a/minimum",
        "/properties/a/type",
    }
    assert "leave 'type' out" in str(caught.value)


def test_a_bad_pattern_is_named() -> None:
    with pytest.raises(InvalidSchemaError, match=r"/properties/a/pattern: '\(' is not a regular expression"):
        DefaultValidator().validate({"properties": {"a": {"pattern": "("}}}, {})


# Real tools

WITH_A_SPACE = {
    "tests": ["Compare Fares", "Draw Network"],
    "shared": ["Summarize Detection", "Visualize Entity Detections"],
}
"""The tools whose names are refused, by the folder that holds the data."""


def rows(file: Path) -> list[dict[str, Any]]:
    with file.open() as lines:
        return [
            {key: value for key, value in json.loads(line).items() if key not in {"source", "server"}}
            for line in lines
        ]


def test_the_schemas_of_every_real_tool_compile(data: Path) -> None:
    validator = DefaultValidator()
    refused = {}
    for row in rows(data / "real-tools" / "mcp_tools.jsonl"):
        try:
            record = Tool.from_json(row)
        except InvalidToolError as error:
            refused[row["name"]] = str(error)
            continue
        for check in (validator.validate_input, validator.validate_output):
            try:
                check(record, {})
            except ValidationError:
                continue
    assert list(refused) == WITH_A_SPACE[data.parent.name]
    assert all("may contain only letters, digits" in reason for reason in refused.values())


def test_every_function_that_is_not_json_schema_is_told_which_type_is_wrong(data: Path) -> None:
    validator = DefaultValidator()
    types = {"array", "boolean", "integer", "null", "number", "object", "string"}
    functions = rows(data / "real-tools" / "bfcl_not_json_schema.jsonl")
    assert len(functions) == {"tests": 8, "shared": 300}[data.parent.name]
    for row in functions:
        with pytest.raises(InvalidSchemaError) as caught:
            validator.validate_input(Tool.from_json(row), {})
        wrong = {
            part["type"] for part in objects(row["inputSchema"]) if isinstance(part.get("type"), str)
        } - types
        for name in wrong:
            [told, *_] = [p.message for p in caught.value.problems if p.message.startswith(f"'{name}'")]
            assert any(f"'{kind}'" in told for kind in types)


def objects(value: Any) -> list[dict[str, Any]]:
    if isinstance(value, dict):
        return [value, *(found for member in value.values() for found in objects(member))]
    return [found for member in value for found in objects(member)] if isinstance(value, list) else []


# Laws

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False, allow_infinity=False, width=16)
    | st.text("ab", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


def schemas() -> st.SearchStrategy[Any]:
    leaf = st.sampled_from(
        [
            True,
            False,
            {},
            {"type": "string"},
            {"type": "integer"},
            {"minimum": 1},
            {"maxLength": 1},
            {"enum": ["a", 1, None]},
            {"$ref": "#/$defs/d"},
        ]
    )
    return st.recursive(
        leaf,
        lambda inner: st.fixed_dictionaries(
            {},
            optional={
                "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
                "items": inner,
                "additionalProperties": inner,
                "anyOf": st.lists(inner, min_size=1, max_size=2),
                "allOf": st.lists(inner, min_size=1, max_size=2),
                "not": inner,
                "required": st.lists(st.sampled_from("abc"), max_size=2, unique=True),
                "minItems": st.integers(0, 2),
                "unevaluatedProperties": inner,
            },
        ),
        max_leaves=6,
    )


@law(60)
@given(schemas(), schemas(), JSON)
def test_the_verdict_is_that_of_the_reference_implementation_in_python(
    schema: Any, shared: Any, value: Any
) -> None:
    whole = {"allOf": [schema], "$defs": {"d": {"items": shared} if shared != {"$ref": "#/$defs/d"} else {}}}
    expected = jsonschema.Draft202012Validator(whole)
    try:
        DefaultValidator().validate(whole, value)
        verdict = True
    except ValidationError:
        verdict = False
    except SchemaTooComplexError:
        return  # a loop that Python's implementation does not survive either
    assert verdict is expected.is_valid(value)


@law(20, suppress_health_check=list(HealthCheck))
@given(
    from_schema(
        {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "array", "items": {"type": "string"}}},
            "required": ["a"],
            "additionalProperties": False,
        }
    )
)
def test_generated_instances_of_a_schema_fit_it(value: Any) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "array", "items": {"type": "string"}}},
        "required": ["a"],
        "additionalProperties": False,
    }
    DefaultValidator().validate(schema, value)


def test_a_type_becomes_a_schema_once_and_is_not_shared() -> None:
    first = schema_of(list[int])
    first["type"] = "changed"
    assert schema_of(list[int]) == {"type": "array", "items": {"type": "integer"}}
    with pytest.raises(InvalidSchemaError, match="has no JSON Schema"):
        schema_of(type(lambda: None))


@pytest.mark.parametrize("kind", ["sdk", "canonical"])
def test_tools_of_the_sdk_and_in_the_canonical_form_are_validated(kind: str) -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
    fields: dict[str, Any] = {"name": "search", "input_schema": schema, "output_schema": schema}
    tool = mcp_types.Tool(**fields) if kind == "sdk" else CanonicalTool(**fields)
    validator = DefaultValidator()
    for check in (validator.validate_input, validator.validate_output):
        check(tool, {"q": "drill"})
        with pytest.raises(ValidationError, match="required property 'q' is missing"):
            check(tool, {})
    tool.input_schema["required"] = []
    if kind == "sdk":  # which can change
        validator.validate_input(tool, {})
    else:
        with pytest.raises(ValidationError):
            validator.validate_input(tool, {})
    validator.validate_output(type(tool)(name="a", input_schema=schema), {"anything": 1})


def test_record_with_a_tool_is_refused_with_a_hint_to_it() -> None:
    tool = Tool(name="a", input_schema={})
    for check in (DefaultValidator().validate_input, DefaultValidator().validate_output):
        with pytest.raises(InvalidSchemaError, match=r"pass its \.tool"):
            check(ToolDoc(summary="A.", tool=tool), {})
        with pytest.raises(InvalidSchemaError):
            check({"inputSchema": {}}, {})  # type: ignore[arg-type]
