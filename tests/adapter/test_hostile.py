"""Schemas, calls and results that once hung, crashed or came back changed."""

import copy
import pickle
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from adapter.support import REGISTRY, STRUCTURED, assert_comes_back, convert, faults, obj, schema_of
from effort import at_most

from toolcrib.adapter.portability import TARGETS
from toolcrib.errors import ConversionError

SECONDS = 2.0
"""CPU time that any of these may take."""
TEXT = {"type": "string"}
MAP = {"type": "object", "additionalProperties": TEXT}


def everything(properties: dict[str, Any]) -> dict[str, Any]:
    return obj(**properties) | {"required": list(properties)}


def anchors(count: int) -> dict[str, Any]:
    defs = {f"d{index}": {"$anchor": f"a{index}", "type": "string", "minLength": 1} for index in range(count)}
    return obj(**{f"p{index}": {"$ref": f"#a{index}"} for index in range(count)}) | {"$defs": defs}


def undeclared(count: int) -> dict[str, Any]:
    return {"type": "object", "required": [f"p{index}" for index in range(count)]}


def told_apart(count: int) -> dict[str, Any]:
    return obj(a={"anyOf": [everything({"k": {"const": f"k{index}"}, "m": MAP}) for index in range(count)]})


def one_union(count: int) -> dict[str, Any]:
    union = {"anyOf": [{"type": "string", "minLength": index} for index in range(count)]}
    return obj(**{f"p{index}": {"$ref": "#/$defs/u"} for index in range(count)}) | {"$defs": {"u": union}}


def merged_enums(count: int) -> dict[str, Any]:
    big = {"enum": [f"v{index}" for index in range(count * 10)]}
    beside = {"$ref": "#/$defs/b", "minLength": 1}
    return obj(**{f"p{index}": beside for index in range(count)}) | {"$defs": {"b": big}}


def merged_texts(count: int) -> dict[str, Any]:
    big = {"type": "object", "description": "x" * count * 500, "properties": {"a": TEXT}}
    beside = {"$ref": "#/$defs/b", "additionalProperties": False}
    return obj(**{f"p{index}": beside for index in range(count)}) | {"$defs": {"b": big}}


def shuffled_enums(count: int) -> dict[str, Any]:
    values = [f"v{index}" for index in range(count)]
    return obj(a={"allOf": [{"enum": values}, {"enum": values[::-1]}]})


def same_names(count: int) -> dict[str, Any]:
    defs = {f"d{index}": {"x": {"type": "string", "minLength": 1}} for index in range(count)}
    return obj(**{f"p{index}": {"$ref": f"#/$defs/d{index}/x"} for index in range(count)}) | {"$defs": defs}


@pytest.mark.attack
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("make", "count"),
    [
        (anchors, 2000),
        (undeclared, 40_000),
        (told_apart, 1000),
        (one_union, 4000),
        (merged_enums, 500),
        (merged_texts, 1000),
        (shuffled_enums, 8000),
        (same_names, 4000),
    ],
    ids=lambda given: given.__name__ if callable(given) else str(given),
)
def test_no_schema_takes_more_than_its_size_allows(
    target: str, make: Callable[[int], dict[str, Any]], count: int
) -> None:
    schema = make(count)
    with at_most(SECONDS), suppress(ConversionError):
        convert(schema, target)


def test_many_small_values_are_decoded_in_time() -> None:
    item = obj(**{f"p{index}": TEXT for index in range(1000)})
    conversion = convert(obj(a={"type": "array", "items": item}), "openai-strict")
    call = {"function": {"name": "t", "arguments": {"a": [{}] * 50_000}}, "id": "c"}
    with at_most(SECONDS):
        assert len(conversion.decode_call(call).args["a"]) == 50_000


def test_the_same_tool_a_thousand_times_gets_a_thousand_names() -> None:
    tools = [{"name": "t", "inputSchema": obj()}] * 1000
    with at_most(SECONDS):
        many = REGISTRY.convert_many(tools, source="mcp", target="openai")
    assert len({one.name for one in many}) == 1000


@pytest.mark.parametrize("target", TARGETS)
def test_a_long_chain_of_merged_definitions_is_converted_or_refused(target: str) -> None:
    defs: dict[str, Any] = {"d100": TEXT}
    for index in range(100):
        inner = {"allOf": [{"$ref": f"#/$defs/d{index + 1}"}, {"description": "q", "minProperties": 1}]}
        defs[f"d{index}"] = {"allOf": [obj(x=inner), {"minProperties": 0}]}
    with suppress(ConversionError):
        convert(obj(a={"$ref": "#/$defs/d0"}) | {"$defs": defs}, target)


@pytest.mark.parametrize("target", STRUCTURED)
def test_a_discriminator_that_is_no_list_of_values_is_none(target: str) -> None:
    members = [everything({"k": {"enum": wrong}, "m": MAP}) for wrong in (None, 5)]
    assert faults(convert(obj(a={"anyOf": members}), target), target) == ()


def deep(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels):
        value = {"items": value, "type": "ARRAY"}
    return value


@pytest.mark.parametrize(
    ("source", "raw"),
    [
        ("gemini", {"name": "t", "parameters": deep(2000)}),
        ("gemini", {"name": "t", "parameters": {"anyOf": 5, "nullable": True}}),
        ("anthropic", {"name": "t", "input_schema": {"type": "object"}, "input_examples": [deep(3000)]}),
        ("anthropic", {"name": "t", "input_schema": {"type": "object"}, "input_examples": [{1, 2}]}),
    ],
    ids=["deep schema", "no union", "deep example", "no JSON"],
)
def test_a_definition_that_is_none_never_crashes_its_adapter(source: str, raw: Any) -> None:
    with suppress(ConversionError):
        REGISTRY.convert(raw, source=source, target="mcp")


@pytest.mark.parametrize(
    "text", ["[" + "0," * 600_000 + "0]", "1e999", '"\\ud800"'], ids=["too many", "infinite", "surrogate"]
)
def test_free_form_text_that_is_no_json_value_is_refused(text: str) -> None:
    conversion = convert(obj(a={}), "openai-strict")
    with pytest.raises(ConversionError, match="/a"):
        conversion.decode_call({"id": "c", "function": {"name": "t", "arguments": {"a": text}}})


def test_an_id_that_is_none_is_refused() -> None:
    conversion = convert(obj(), "mcp")
    with pytest.raises(ConversionError, match="the id of a call is text"):
        conversion.decode_call({"id": 10**5000, "params": {"name": "t"}})


def test_an_image_without_a_type_is_told_as_text() -> None:
    result = {"content": [{"type": "image", "mimeType": [], "data": "x"}]}
    assert convert(obj(), "anthropic").encode_result(result, "c")["content"][0]["type"] == "text"


@pytest.mark.parametrize("target", STRUCTURED)
@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"anyOf": [obj(a=TEXT), everything({"a": {"type": ["string", "null"]}})]}, {"a": None}),
        ({"anyOf": [obj(**{"a b": TEXT}), obj(a_b=TEXT)]}, {"a_b": "x"}),
        ({"enum": [[1], [True]]}, [True]),
        ({"enum": [{"a": 1}, {"a": True}]}, {"a": True}),
        ({"anyOf": [{"oneOf": [obj(a=TEXT), MAP]}]}, {"z": "1"}),
    ],
    ids=["null", "names", "lists", "objects", "nested"],
)
def test_ambiguous_values_round_trip(target: str, schema: Any, value: Any) -> None:
    assert_comes_back(convert(everything({"a": schema}), target), target, {"a": value})


@pytest.mark.parametrize("target", ["openai-strict", "anthropic-strict"])
def test_properties_of_the_eightieth_alternative_can_be_passed(target: str) -> None:
    members = [obj(**{f"p{index}": TEXT}) for index in range(80)]
    conversion = convert(obj(z=TEXT) | {"anyOf": members}, target)
    assert_comes_back(conversion, target, {"z": "1", "p79": "a"})
    assert "p79" in schema_of(conversion)["properties"]


def test_a_weakened_one_of_admits_more_than_one_alternative() -> None:
    schema = everything({"a": {"oneOf": [{"type": "string", "not": {"const": "a"}}, {"const": "a"}]}})
    assert_comes_back(convert(schema, "gemini"), "gemini", {"a": "a"})


def test_a_new_name_is_never_that_of_a_required_property() -> None:
    schema = obj(**{"a b": TEXT}) | {"required": ["a_b"]}
    assert_comes_back(convert(schema, "anthropic"), "anthropic", {"a_b": "x"})


@pytest.mark.parametrize("target", STRUCTURED)
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "items": {"type": "object", "default": 1}, "properties": {"a": {}}},
        {"type": "string", "oneOf": [obj(a=TEXT)]},
        {"type": "array", "enum": [1]},
        {"type": "integer", "enum": ["1"]},
    ],
)
def test_words_of_another_type_never_reach_a_strict_schema(target: str, schema: Any) -> None:
    assert faults(convert(obj(a=schema), target), target) == ()


@pytest.mark.parametrize("target", STRUCTURED)
def test_an_enum_without_null_does_not_gain_it(target: str) -> None:
    found = convert(everything({"a": {"type": ["string", "null"], "enum": ["a"]}}), target).payload
    assert "null" not in str(found)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "definition",
    [
        {"strict": True},
        {"outputSchema": {}},
        {"inputSchema": everything({"a": {"type": ["string"]}}) | {"additionalProperties": False}},
        {"inputSchema": everything({"a": {"anyOf": [TEXT]}}) | {"additionalProperties": False}},
    ],
    ids=["strict", "output", "list", "union"],
)
def test_values_that_do_not_round_trip_are_reported(target: str, definition: dict[str, Any]) -> None:
    raw = {"name": "t", "inputSchema": obj(), **definition}
    adapter, options = TARGETS[target]
    conversion = REGISTRY.convert(raw, source="mcp", target=adapter, **options)
    if conversion.lossless:
        assert REGISTRY.convert(conversion.payload, source=adapter, target="mcp").payload == raw


def test_a_payload_shares_nothing_with_the_options() -> None:
    mark = {"type": "ephemeral"}
    payload = REGISTRY.convert(
        {"name": "t", "inputSchema": obj()}, source="mcp", target="anthropic", cache_control=mark
    ).payload
    payload["cache_control"]["ttl"] = "1h"
    assert mark == {"type": "ephemeral"}


@pytest.mark.parametrize("again", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])  # noqa: S301
def test_a_conversion_can_be_copied(again: Callable[[Any], Any]) -> None:
    union = {
        "anyOf": [everything({"k": {"const": "a"}, "m": MAP}), everything({"k": {"const": "b"}, "m": TEXT})]
    }
    conversion = convert(everything({"a": union}), "openai-strict")
    value = {"a": {"k": "a", "m": {"x": "y"}}}
    assert again(conversion).encode_args(value) == conversion.encode_args(value) != value


def test_true_and_one_are_not_the_same_option() -> None:
    raw = {"name": "t", "inputSchema": obj()}
    REGISTRY.convert(raw, source="mcp", target="openai", strict=True)
    with pytest.raises(ConversionError, match="strict must be True or False, not 1"):
        REGISTRY.convert(raw, source="mcp", target="openai", strict=1)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "word", ["anyOf", "oneOf", "allOf", "properties", "required", "enum", "type", "items"]
)
@pytest.mark.parametrize("wrong", [None, 5, "x", True])
def test_a_union_of_what_is_no_schema_is_converted_or_refused(target: str, word: str, wrong: Any) -> None:
    for schema in ({"anyOf": [{word: wrong}]}, {"anyOf": [{"anyOf": [{word: wrong}]}], word: wrong}):
        with suppress(ConversionError):
            convert(schema, target)
