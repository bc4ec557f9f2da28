"""Twelve shapes that real servers sent and real providers or converters refused, each in every format."""

from typing import Any

import pytest
from adapter.support import (
    assert_comes_back,
    convert,
    convert_tool,
    faults,
    is_fallback,
    obj,
    properties_of,
    schema_of,
)

from toolcrib.adapter.portability import TARGETS
from toolcrib.errors import ConversionError

TEXT = {"type": "string"}
each_target = pytest.mark.parametrize("target", TARGETS)


def sent(schema: dict[str, Any], target: str, *values: Any) -> Any:
    """Convert a schema, check that the provider takes it and that calls come back, and return the converted one."""
    conversion = convert(schema, target)
    assert faults(conversion, target) == ()
    for value in values:
        assert_comes_back(conversion, target, value)
    return schema_of(conversion)


@each_target
def test_a_root_that_wants_one_or_the_other(target: str) -> None:
    schema = obj(a=TEXT, b=TEXT) | {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
    found = sent(schema, target, {"a": "x"}, {"b": "y"}, {"a": "x", "b": "y"})
    if target == "mcp":
        assert found == schema
    elif found is not None:
        assert found["type"] == "object"
        assert not found.keys() & {"anyOf", "oneOf", "allOf"}
        assert list(found["properties"]) == ["a", "b"]
        assert '{"required":["a"]}' in found["description"]


@each_target
def test_property_names_that_providers_refuse(target: str) -> None:
    names = ["filter[id]", "$top", "@microsoft.graph.downloadUrl", "x" * 80]
    schema = obj(**dict.fromkeys(names, TEXT)) | {"required": ["$top"]}
    found = sent(schema, target, dict.fromkeys(names, "v"), {"$top": "v"})
    if target in {"anthropic", "anthropic-strict", "gemini-openapi"}:
        assert list(found["properties"])[1:3] == ["top", "microsoft_graph_downloadUrl"]
        assert "top" in found["required"]
    elif found is not None:
        assert list(found["properties"]) == names


@each_target
def test_an_object_without_properties(target: str) -> None:
    found = sent({"type": "object"}, target, {})
    if target not in {"mcp", "anthropic", "gemini", "a2a"}:
        assert found["properties"] == {}
    sent(obj(o={"type": "object"}), target, {"o": {}}, {"o": {"any": [1, None]}}, {})


@each_target
def test_properties_named_properties_and_type(target: str) -> None:
    names = [
        "properties",
        "type",
        "items",
        "$ref",
        "required",
        "enum",
        "anyOf",
        "description",
        "additionalProperties",
    ]
    inner = obj(properties=TEXT, type={"type": "integer"})
    schema = obj(**dict.fromkeys(names, TEXT)) | {"required": ["type"]}
    sent(schema, target, dict.fromkeys(names, "v"), {"type": "x"})
    sent(
        obj(properties=inner, type=inner), target, {"properties": {"properties": "x", "type": 1}, "type": {}}
    )


@each_target
def test_a_reference_into_the_properties(target: str) -> None:
    headers = {"type": "object", "additionalProperties": TEXT}
    schema = obj(headers=headers, more={"$ref": "#/properties/headers"}) | {"required": ["headers"]}
    sent(schema, target, {"headers": {"a": "b"}, "more": {"c": "d"}}, {"headers": {}})


@each_target
def test_a_reference_with_siblings_and_a_union_with_definitions(target: str) -> None:
    schema = obj(
        a={"$ref": "#/$defs/d", "description": "The a.", "default": {"x": "y"}},
        b={"anyOf": [{"$ref": "#/$defs/d"}, {"type": "null"}], "default": None},
        c={"$ref": "#/$defs/d", "required": ["x"], "title": "C"},
    )
    schema |= {"$defs": {"d": obj(x=TEXT)}}
    sent(schema, target, {"a": {"x": "1"}, "b": {"x": "2"}, "c": {"x": "3"}}, {"a": {}}, {"b": None})


@each_target
def test_lists_of_lists_and_lists_of_nothing_in_particular(target: str) -> None:
    cell = {"anyOf": [TEXT, {"type": "number"}, {"type": "boolean"}, {"type": "null"}]}
    rows = {"type": "array", "items": {"type": "array", "items": cell}}
    union = {"type": "array", "items": {"anyOf": [cell, {"type": "array", "items": cell}]}}
    schema = obj(rows=rows, any={"type": "array"}, union=union)
    sent(
        schema,
        target,
        {"rows": [["a", 1, True, None], []], "any": [1, {"a": 1}, "x"], "union": ["a", ["b", None], 2.5]},
    )


@each_target
@pytest.mark.parametrize("more", [{}, False, True, TEXT], ids=["anything", "nothing", "true", "texts"])
def test_additional_properties_of_every_kind(target: str, more: Any) -> None:
    values = [{"o": {}}] if more is False else [{"o": {}}, {"o": {"k": "v", "k 2": "w"}}]
    sent(obj(o={"type": "object", "additionalProperties": more}), target, *values)
    sent({**obj(a=TEXT), "additionalProperties": more}, target, {"a": "x"}, {})
    sent({"type": "object", "additionalProperties": more}, target, {})


@each_target
def test_a_format_that_only_some_take(target: str) -> None:
    schema = obj(u={"type": "string", "format": "uri", "description": "Where."})
    found = sent(schema, target, {"u": "https://x.test"})
    if target == "openai-strict":
        assert found["properties"]["u"] == {"type": ["string", "null"], "description": "Where. (format: uri)"}
    elif target in {"anthropic-strict", "anthropic", "openai", "mcp"}:
        assert found["properties"]["u"]["format"] == "uri"
    elif found is not None:
        assert found["properties"]["u"] == {"type": "string", "description": "Where. (format: uri)"}


@each_target
def test_nulls_where_keywords_should_be(target: str) -> None:
    schema = obj(
        a={"type": "array", "items": None},
        b={"type": "string", "enum": None, "default": None, "format": None},
    )
    conversion = convert(schema, target)
    assert faults(conversion, target) == ()
    assert conversion.decode_call(conversion.encode_call({"a": ["x"], "b": "y"}, "1")).args == {
        "a": ["x"],
        "b": "y",
    }
    if target not in {"mcp", "a2a"}:
        assert "items" in properties_of(conversion)["a"] or target == "anthropic"
        assert {"/properties/a", "/properties/b"} <= {warning.path for warning in conversion.warnings}


@each_target
def test_references_that_recur_or_meet_again(target: str) -> None:
    tree = obj(v=TEXT, children={"type": "array", "items": {"$ref": "#/$defs/tree"}})
    schema = obj(t={"$ref": "#/$defs/tree"}) | {"$defs": {"tree": tree}}
    sent(schema, target, {"t": {"v": "1", "children": [{"v": "2", "children": [{}]}]}})
    diamond = obj(a={"$ref": "#/$defs/l"}, b={"$ref": "#/$defs/r"})
    diamond |= {
        "$defs": {"l": obj(x={"$ref": "#/$defs/z"}), "r": obj(x={"$ref": "#/$defs/z"}), "z": obj(q=TEXT)}
    }
    sent(diamond, target, {"a": {"x": {"q": "1"}}, "b": {"x": {"q": "2"}}})
    assert is_fallback(convert(schema, target)) is (target == "anthropic-strict")


@each_target
@pytest.mark.parametrize("name", ["Summarize Detection", "3d_print", "naïve", "a:b", "x" * 200, "-"])
def test_names_with_spaces_and_digits_in_front(target: str, name: str) -> None:
    try:
        conversion = convert_tool({"name": name, "inputSchema": obj(a=TEXT)}, target)
    except ConversionError as error:
        pytest.fail(str(error))
    assert_comes_back(conversion, target, {"a": "x"})
    assert conversion.decode_call(conversion.encode_call({}, "1")).tool_id == name
    if target == "mcp":
        assert conversion.name == name
    elif target != "a2a":
        assert conversion.name.isascii()
        assert len(conversion.name) <= 128


@pytest.mark.parametrize("target", TARGETS)
def test_a_reference_to_where_it_stands_keeps_what_it_says(target: str) -> None:
    node = obj(name={"type": "string"}, children={"type": "array", "items": {"$ref": "#/properties/data"}})
    conversion = convert(obj(data=node), target)
    value = {"data": {"name": "a", "children": [{"name": "b", "children": []}]}}
    assert_comes_back(conversion, target, value)
    if schema_of(conversion) is not None and target != "gemini-openapi":
        assert not [each for each in conversion.warnings if "anything" in each.message]
