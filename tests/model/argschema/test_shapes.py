"""The two shapes of a schema, and invalid schemas."""

from collections import ChainMap
from types import MappingProxyType
from typing import Any

import pytest

from toolcrib.errors import InvalidSchemaError, SchemaTooComplexError
from toolcrib.model import argschema
from toolcrib.model.argschema import ArgSchema, parse_arg_schema, validate_args

FIELDS: dict[str, Any] = {
    "q": {"type": "string", "description": "What to find."},
    "limit": {"type": "integer", "maximum": 5},
}


def test_the_package_exports_what_it_documents() -> None:
    expected = ["SCHEMA_VERSION", "ArgSchema", "ArgSchemaProperty", "apply_defaults", "parse_arg_schema"]
    assert argschema.__all__ == [*expected, "validate_args"]


def test_both_shapes_of_a_schema_are_equivalent() -> None:
    direct = parse_arg_schema({"q": FIELDS["q"] | {"required": True}, "limit": FIELDS["limit"]})
    nested = parse_arg_schema({"type": "object", "properties": FIELDS, "required": ["q"]})
    assert direct == nested
    assert direct.to_json_schema() == nested.to_json_schema()


def test_a_property_can_be_read() -> None:
    prop = parse_arg_schema(
        {"q": {"type": "enum", "enum": ["a", 1], "isArray": True, "required": True}}
    ).properties["q"]
    assert (prop.name, prop.type, prop.required, prop.is_array, prop.enum) == (
        "q",
        "enum",
        True,
        True,
        ("a", 1),
    )
    assert parse_arg_schema(FIELDS).properties["q"].description == "What to find."
    assert parse_arg_schema(FIELDS).properties["q"].enum is None


def test_the_shape_can_be_said() -> None:
    schema: dict[str, Any] = {"properties": {"x": {"type": "string"}}}
    assert list(parse_arg_schema(schema, shape="json-schema").properties) == ["x"]
    assert list(parse_arg_schema(schema, shape="map").properties) == ["properties"]
    assert parse_arg_schema({"q": {}}, shape="json-schema").warnings == ("'q' at the top is not enforced",)


@pytest.mark.parametrize(
    "extra",
    [
        {"$schema": "x"},
        {"title": "T"},
        {"$defs": {"a": {"type": "string"}}},
        {"x-vendor": 1},
        {"additionalProperties": {"type": "string"}},
        {"anyOf": []},
        {"schemaVersion": "2025-10-09"},
    ],
    ids=lambda extra: next(iter(extra)),
)
def test_json_schema_keywords_beside_properties_are_no_arguments(extra: dict[str, Any]) -> None:
    assert list(parse_arg_schema({"properties": FIELDS, **extra}).properties) == ["q", "limit"]


def test_notes_about_a_direct_map_are_no_arguments() -> None:
    schema = parse_arg_schema(
        {"schemaVersion": "2025-10-09", "description": "Finds.", "required": ["q"], **FIELDS}
    )
    assert list(schema.properties) == ["q", "limit"]
    assert schema.required == ("q",)


def test_a_schema_that_is_parsed_already_may_be_used_more_strictly() -> None:
    schema = parse_arg_schema({"q": {"type": "strng"}})
    validate_args(schema, {"q": 1})
    with pytest.raises(InvalidSchemaError, match="did you mean 'string'"):
        validate_args(schema, {"q": 1}, strict=True)


def test_a_schema_parsed_strictly_stays_strict() -> None:
    schema = parse_arg_schema({"q": {"type": "integer"}}, strict=True)
    with pytest.raises(ValueError, match="must be an integer"):
        validate_args(schema, {"q": 1.5})


def test_a_parsed_schema_shares_nothing_with_what_it_was_read_from() -> None:
    raw: dict[str, Any] = {"q": {"type": "enum", "enum": [["a"]], "default": {"deep": []}}}
    schema = parse_arg_schema(raw)
    before = schema.to_json_schema()
    raw["q"]["enum"][0].append("b")
    raw["q"]["default"]["deep"].append(1)
    raw["z"] = {}
    assert schema.to_json_schema() == before
    before["properties"]["q"]["default"]["deep"].append(2)
    assert schema.to_json_schema() != before


@pytest.mark.parametrize(
    "schema",
    [
        None,
        [],
        "q",
        {"type": "string"},
        {"q": None},
        {"q": {"items": []}},
        {"q": {"type": 5}},
        {"q": {"required": "yes"}},
        {"q": {"description": 5}},
        {"q": {"enum": "a"}},
        {"q": {"enum": []}},
        {"q": {"enum": [["a" * 5000]]}},
        {"q": {"enum": [{"a" * 5000: 1}]}},
        {"q": {"enum": [10**400]}},
        {"q": {"enum": ("a",)}},
        {"properties": {}, "required": "q"},
        {"properties": {}, "required": [1]},
        {1: {}},
    ],
    ids=lambda schema: repr(schema)[:40],
)
def test_a_schema_that_makes_no_sense_is_refused(schema: Any) -> None:
    with pytest.raises(InvalidSchemaError, match="invalid argument schema: "):
        parse_arg_schema(schema)


def test_an_unknown_shape_is_refused() -> None:
    with pytest.raises(InvalidSchemaError, match="shape must be"):
        parse_arg_schema({}, shape="xml")  # type: ignore[arg-type]  # what is tested
    with pytest.raises(InvalidSchemaError, match="properties must be an object"):
        parse_arg_schema({"properties": []}, shape="json-schema")


def test_a_schema_beyond_all_measure_is_refused() -> None:
    with pytest.raises(SchemaTooComplexError, match="more than 20,000 values"):
        parse_arg_schema({"q": {"enum": list(range(20_000))}})


def test_a_union_of_types_takes_any_value_with_a_warning() -> None:
    schema = parse_arg_schema({"q": {"type": ["string", "null"]}})
    validate_args(schema, {"q": None})
    assert schema.warnings == ("argument 'q' has a list of types (any value is accepted)",)


def test_a_strict_schema_forbids_other_arguments_in_json_schema() -> None:
    schema = parse_arg_schema({"properties": {"n": {"type": "integer"}}, "required": ["z"]}, strict=True)
    assert isinstance(schema, ArgSchema)
    assert schema.to_json_schema() == {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"n": {"type": "integer"}, "z": {}},
        "required": ["z"],
        "additionalProperties": False,
    }


def test_a_version_that_is_no_date_is_read_as_this_one() -> None:
    assert parse_arg_schema({"schemaVersion": "  "}).warnings == ()
    assert "is not a date" in parse_arg_schema({"schemaVersion": "v2"}).warnings[0]


@pytest.mark.parametrize(
    "schema",
    [
        '{"q": {"type": "string", "required": true}}',
        b'{"properties": {"q": {"type": "string"}}, "required": ["q"]}',
        MappingProxyType({"q": MappingProxyType({"type": "string", "required": True})}),
        ChainMap({"q": {"type": "string", "required": True}}),
    ],
    ids=["text", "bytes", "read-only", "chain map"],
)
def test_a_schema_may_be_json_text_or_any_mapping(schema: Any) -> None:
    assert parse_arg_schema(schema).required == ("q",)


@pytest.mark.parametrize(
    ("schema", "message"), [("{", "it is not JSON"), ("[]", "must be an object, not list")]
)
def test_text_that_describes_no_arguments_is_refused(schema: str, message: str) -> None:
    with pytest.raises(InvalidSchemaError, match=message):
        parse_arg_schema(schema)
