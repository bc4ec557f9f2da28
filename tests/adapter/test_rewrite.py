"""Each rewrite by itself: the converted schema, and the conversion of values back."""

import json
from typing import Any

import pytest
from adapter.support import (
    STRUCTURED,
    assert_comes_back,
    convert,
    faults,
    is_fallback,
    obj,
    properties_of,
    schema_of,
)

from toolcrib.adapter.portability import TARGETS
from toolcrib.errors import ConversionError

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}
MAP = {"type": "object", "additionalProperties": TEXT}
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def one(schema: Any, target: str, *, required: bool = True, **rest: Any) -> Any:
    """Return the converted schema of one property."""
    root = obj(a=schema) | ({"required": ["a"]} if required else {}) | rest
    return properties_of(convert(root, target))["a"]


def pairs(value: Any, key: Any = None, **rest: Any) -> dict[str, Any]:
    pair = obj(key=key or TEXT, value=value) | {"required": ["key", "value"], "additionalProperties": False}
    return {"type": "array", "items": pair, **rest}


REWRITES: dict[str, tuple[Any, str, Any]] = {
    "oneOf is anyOf": ({"oneOf": [TEXT, NUMBER]}, "openai-strict", {"anyOf": [TEXT, NUMBER]}),
    "oneOf stays where it may": ({"oneOf": [TEXT, NUMBER]}, "gemini", {"oneOf": [TEXT, NUMBER]}),
    "const is an enum of one": ({"const": "x"}, "gemini-openapi", {"type": "string", "enum": ["x"]}),
    "const stays where it may": ({"const": "x"}, "openai-strict", {"type": "string", "const": "x"}),
    "const is an enum of one in Gemini's JSON Schema": ({"const": 5}, "gemini", {"enum": [5]}),
    "a list of scalar types stays": (
        {"type": ["string", "integer"]},
        "openai-strict",
        {"type": ["string", "integer"]},
    ),
    "a list of types is a union": (
        {"type": ["string", "integer"]},
        "gemini-openapi",
        {"anyOf": [TEXT, NUMBER]},
    ),
    "null in a list of types is nullable": (
        {"type": ["string", "null"]},
        "gemini-openapi",
        {"type": "string", "nullable": True},
    ),
    "null in a union is nullable": (
        {"anyOf": [TEXT, {"type": "null"}]},
        "gemini-openapi",
        {"type": "string", "nullable": True},
    ),
    "an enum of numbers is one of texts": (
        {"enum": [1, 2]},
        "gemini-openapi",
        {"type": "string", "enum": ["1", "2"]},
    ),
    "an enum of objects is one of texts": (
        {"enum": [{"a": 1}]},
        "openai-strict",
        {"type": "string", "enum": ['{"a":1}']},
    ),
    "constraints move into the description": (
        {"type": "string", "description": "Who.", "minLength": 2},
        "anthropic-strict",
        {"type": "string", "description": "Who. (minLength: 2)"},
    ),
    "constraints that are known stay": (
        {"type": "string", "minLength": 2},
        "openai-strict",
        {"type": "string", "minLength": 2},
    ),
    "a format that is not known is described": (
        {"type": "string", "format": "uri"},
        "openai-strict",
        {"type": "string", "description": "(format: uri)"},
    ),
    "a format that is known stays": (
        {"type": "string", "format": "uri"},
        "anthropic-strict",
        {"type": "string", "format": "uri"},
    ),
    "a pattern that looks around is described": (
        {"type": "string", "pattern": "a(?=b)"},
        "openai-strict",
        {"type": "string", "description": "(pattern: a(?=b))"},
    ),
    "a single allOf is merged": (
        {"allOf": [TEXT], "description": "d"},
        "openai-strict",
        {"description": "d", "type": "string"},
    ),
    "several allOf are merged": (
        {"allOf": [{"type": "integer", "minimum": 1}, {"minimum": 3, "maximum": 5}]},
        "openai-strict",
        {"type": "integer", "minimum": 3, "maximum": 5},
    ),
    "an open map is a list of pairs": (MAP, "openai-strict", pairs(TEXT)),
    "the names of an open map are those of its keys": (
        MAP | {"propertyNames": {"enum": ["k1", "k2"]}},
        "anthropic-strict",
        pairs(
            TEXT,
            {"enum": ["k1", "k2"], "type": "string"},
            description='(propertyNames: {"enum":["k1","k2"]})',
        ),
    ),
    "patterns of names are an open map": (
        {"type": "object", "patternProperties": {"^x-": TEXT}, "additionalProperties": False},
        "openai-strict",
        pairs(TEXT),
    ),
    "a free-form value is JSON text": (
        {},
        "openai-strict",
        {"type": "string", "description": "(JSON text of any value)"},
    ),
    "a free-form object is JSON text": (
        {"type": "object", "description": "Extra."},
        "openai-strict",
        {"type": "string", "description": 'Extra. (JSON text of an object that fits {"type":"object"})'},
    ),
    "true is a free-form value": (
        True,
        "gemini-openapi",
        {"type": "string", "description": "(JSON text of any value)"},
    ),
    "a closed object stays one": (
        obj(b=TEXT) | {"required": ["b"], "additionalProperties": False},
        "openai-strict",
        obj(b=TEXT) | {"required": ["b"], "additionalProperties": False},
    ),
    "items that are not described are JSON text": (
        {"type": "array"},
        "openai-strict",
        {"type": "array", "items": {"type": "string", "description": "(JSON text of any value)"}},
    ),
    "items that are not described are anything": (
        {"type": "array"},
        "openai",
        {"type": "array", "items": {}},
    ),
    "properties that are not said are none in particular": ({"type": "object"}, "openai", obj()),
}


@pytest.mark.parametrize(("given", "target", "wanted"), REWRITES.values(), ids=REWRITES)
def test_a_subschema_is_rewritten(given: Any, target: str, wanted: Any) -> None:
    before = json.dumps(given)
    assert one(given, target) == wanted
    assert json.dumps(given) == before


OPTIONAL: dict[str, tuple[Any, Any]] = {
    "a type": (TEXT, {"type": ["string", "null"]}),
    "an enum": ({"type": "string", "enum": ["a"]}, {"type": ["string", "null"], "enum": ["a", None]}),
    "a const": ({"const": "a"}, {"anyOf": [{"type": "string", "const": "a"}, {"type": "null"}]}),
    "a union": ({"anyOf": [TEXT, NUMBER]}, {"anyOf": [TEXT, NUMBER, {"type": "null"}]}),
    "a reference": ({"$ref": "#/$defs/d"}, {"anyOf": [{"$ref": "#/$defs/d"}, {"type": "null"}]}),
    "null already": ({"type": ["string", "null"]}, {"type": ["string", "null"]}),
}


@pytest.mark.parametrize(("given", "wanted"), OPTIONAL.values(), ids=OPTIONAL)
def test_optional_property_becomes_required_and_nullable(given: Any, wanted: Any) -> None:
    conversion = convert(obj(a=given) | {"$defs": {"d": {"type": "string", "minLength": 1}}}, "openai-strict")
    schema = schema_of(conversion)
    assert schema["properties"]["a"] == wanted
    assert schema["required"] == ["a"]
    assert schema["additionalProperties"] is False
    told = [each.path for each in conversion.warnings if each.feature in {"required", "nullable"}]
    assert told == ["/properties/a"]
    assert_comes_back(conversion, "openai-strict", {})
    assert_comes_back(conversion, "openai-strict", {"a": "a"})


def test_a_reference_stays_with_its_definition() -> None:
    schema = obj(a={"$ref": "#/$defs/d"}) | {"required": ["a"], "$defs": {"d": TEXT}}
    assert schema_of(convert(schema, "openai-strict")) == {
        **obj(a={"$ref": "#/$defs/d"}),
        "required": ["a"],
        "additionalProperties": False,
        "$defs": {"d": TEXT},
    }


def test_a_reference_is_replaced_by_what_it_refers_to() -> None:
    assert one({"$ref": "#/$defs/d"}, "gemini-openapi", **{"$defs": {"d": TEXT}}) == TEXT


@pytest.mark.parametrize("target", ["openai", "openai-strict", "anthropic-strict", "gemini"])
def test_a_reference_into_a_property_becomes_one_to_a_definition(target: str) -> None:
    conversion = convert(obj(a=MAP, b={"$ref": "#/properties/a"}) | {"required": ["a", "b"]}, target)
    schema = schema_of(conversion)
    assert schema["properties"]["b"] == {"$ref": "#/$defs/a"}
    assert list(schema["$defs"]) == ["a"]
    assert_comes_back(conversion, target, {"a": {"k": "v"}, "b": {"k": "w"}})


@pytest.mark.parametrize("target", [target for target in TARGETS if target != "a2a"])
def test_a_moved_definition_never_takes_the_name_of_another(target: str) -> None:
    schema = obj(h=TEXT, b={"$ref": "#/properties/h"}, c={"$ref": "#/$defs/h"}, d={"$ref": "#/definitions/h"})
    schema |= {"$defs": {"h": NUMBER}, "definitions": {"h": {"type": "boolean"}}}
    assert_comes_back(convert(schema, target), target, {"h": "a", "b": "x", "c": 3, "d": True})


@pytest.mark.parametrize("target", TARGETS)
def test_keywords_beside_a_reference_are_converted(target: str) -> None:
    schema = obj(a={"$ref": "#/$defs/d", "type": "array"}) | {"$defs": {"d": {"minItems": 1}}}
    conversion = convert(schema, target)
    assert faults(conversion, target) == ()
    assert_comes_back(conversion, target, {"a": ["x"]})


def test_the_description_beside_a_reference_is_kept_around_it() -> None:
    given = {"$ref": "#/$defs/d", "description": "Who."}
    assert one(given, "openai-strict", **{"$defs": {"d": TEXT}}) == {
        "anyOf": [{"$ref": "#/$defs/d"}],
        "description": "Who.",
    }
    assert one(given, "gemini", **{"$defs": {"d": TEXT}}) == given


def test_the_dialect_is_not_said() -> None:
    conversion = convert(obj(a=TEXT) | {"$schema": DRAFT_7}, "openai")
    assert schema_of(conversion) == obj(a=TEXT)
    assert [(each.feature, each.path, each.message) for each in conversion.warnings] == [
        ("$schema", "", "is left out")
    ]


def test_names_that_the_provider_does_not_take_are_others() -> None:
    schema = obj(**{"filter[id]": TEXT, "$top": NUMBER, "filter_id": TEXT, "9": TEXT}) | {
        "required": ["$top"]
    }
    conversion = convert(schema, "gemini-openapi")
    assert list(properties_of(conversion)) == ["filter_id_2", "top", "filter_id", "_9"]
    assert conversion.encode_args({"filter[id]": "x", "$top": 1}) == {"filter_id_2": "x", "top": 1}
    assert_comes_back(conversion, "gemini-openapi", {"filter[id]": "x", "filter_id": "y", "$top": 1, "9": ""})
    with pytest.raises(ConversionError, match="twice"):
        conversion.decode_call({"functionCall": {"name": "t", "args": {"top": 1, "$top": 2}}})


@pytest.mark.parametrize("target", TARGETS)
def test_a_root_whose_names_are_changed_may_refer_to_itself(target: str) -> None:
    schema = obj(**{"f[x]": TEXT, "next": {"$ref": "#"}}) | {
        "required": ["f[x]"],
        "additionalProperties": False,
    }
    assert_comes_back(convert(schema, target), target, {"f[x]": "a", "next": {"f[x]": "b"}})


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string"}, "x"),
        ({"type": "array", "items": TEXT}, ["x"]),
        ({"oneOf": [obj(a=TEXT) | {"required": ["a"]}, obj(b=NUMBER) | {"required": ["b"]}]}, {"b": 1}),
        ({"enum": [{"a": 1}, {"a": 2}]}, {"a": 2}),
        ({"$ref": "#/$defs/d", "$defs": {"d": obj(a=TEXT)}}, {"a": "x"}),
        ({"type": "array", "items": {"$ref": "#"}}, [[], [[]]]),
    ],
    ids=["text", "list", "union", "enum", "reference", "recursive list"],
)
def test_a_root_that_is_no_plain_object_is_wrapped(target: str, schema: Any, value: Any) -> None:
    conversion = convert(schema, target)
    assert faults(conversion, target) == ()
    assert_comes_back(conversion, target, value)


def test_alternatives_at_the_root_that_only_require_are_described() -> None:
    schema = obj(a=TEXT, b=TEXT) | {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
    assert schema_of(convert(schema, "anthropic")) == {
        **obj(a=TEXT, b=TEXT),
        "description": '(anyOf: [{"required":["a"]},{"required":["b"]}])',
    }


TUPLE = {"type": "array", "prefixItems": [TEXT, NUMBER], "items": False, "minItems": 2}


def test_a_tuple_is_an_object() -> None:
    found = one(TUPLE, "openai-strict")
    assert {key: found[key] for key in ("type", "properties", "required", "additionalProperties")} == {
        **obj(item_1=TEXT, item_2=NUMBER),
        "required": ["item_1", "item_2"],
        "additionalProperties": False,
    }
    assert not found.keys() & {"minItems", "maxItems", "items"}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("given", "values"),
    [
        (TUPLE, [["a", 1]]),
        (
            {"type": "array", "prefixItems": [TEXT, MAP]},
            [[], ["a"], ["a", {"k": "v"}], ["a", {}, 1, None, {"x": []}]],
        ),
        ({"type": "array", "prefixItems": [TEXT], "items": NUMBER}, [["a", 1, 2], []]),
        ({"type": "array", "prefixItems": [{"type": ["string", "null"]}], "minItems": 1}, [[None], ["x"]]),
        ({"type": "array", "prefixItems": [{"type": ["string", "null"]}]}, [[None], [], ["x"]]),
        ({"type": "array", "prefixItems": [TEXT, True]}, [["a", None], ["a"]]),
    ],
    ids=["closed", "open", "rest", "required null", "optional null", "anything"],
)
def test_tuples_come_back(target: str, given: Any, values: list[Any]) -> None:
    conversion = convert(obj(a=given), target)
    for value in values:
        assert_comes_back(conversion, target, {"a": value})


@pytest.mark.parametrize("target", TARGETS)
def test_tuples_of_draft_7_come_back(target: str) -> None:
    given = {"type": "array", "items": [TEXT, NUMBER], "additionalItems": False}
    conversion = convert(obj(a=given) | {"$schema": DRAFT_7}, target)
    assert faults(conversion, target) == ()
    assert_comes_back(conversion, target, {"a": ["x", 1]})


def test_forms_of_draft_7_are_told_where_they_change() -> None:
    for schema in (
        obj(a={"type": "array", "items": [TEXT]}),
        obj(a={"type": "array", "items": [TEXT]}) | {"$schema": DRAFT_7},
        obj(a=TEXT, b=TEXT) | {"dependencies": {"a": ["b"]}},
    ):
        conversion = convert(schema, "anthropic")
        assert conversion.warnings or schema_of(conversion) == schema


NODE = obj(v=TEXT, next={"$ref": "#/$defs/n"})


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "next_one",
    [
        {"$ref": "#/$defs/n"},
        {"allOf": [{"$ref": "#/$defs/n"}], "description": "The next."},
        {"type": "object", "anyOf": [{"$ref": "#/$defs/n"}]},
        {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}], "default": None},
        {"$ref": "#/$defs/n", "minProperties": 0},
        {"type": "array", "items": {"$ref": "#/$defs/n"}},
        {"type": "object", "additionalProperties": {"$ref": "#/$defs/n"}},
    ],
    ids=["reference", "allOf", "typed union", "nullable", "sibling", "list", "map"],
)
def test_a_schema_that_refers_to_itself_is_converted(target: str, next_one: Any) -> None:
    schema = obj(n={"$ref": "#/$defs/n"}) | {"$defs": {"n": obj(v=TEXT, next=next_one)}}
    conversion = convert(schema, target)
    assert faults(conversion, target) == ()
    inner: Any = {
        "v": "2",
        "next": [{"v": "3"}]
        if "items" in next_one
        else {"k": {}}
        if "additionalProperties" in next_one
        else {"v": "3"},
    }
    value = [inner] if "items" in next_one else {"k": inner} if "additionalProperties" in next_one else inner
    assert_comes_back(conversion, target, {"n": {"v": "1", "next": value}})


def test_recursion_is_kept_cut_or_a_reason_to_fall_back() -> None:
    schema = obj(n={"$ref": "#/$defs/n"}) | {"$defs": {"n": NODE}}
    assert not is_fallback(convert(schema, "openai-strict"))
    assert is_fallback(convert(schema, "anthropic-strict"))
    cut = properties_of(convert(schema, "gemini-openapi"))["n"]["properties"]["next"]
    assert cut["type"] == "string"
    assert "JSON text" in cut["description"]


UNIONS: dict[str, tuple[list[Any], list[Any]]] = {
    "a map or a text": ([MAP, TEXT], [{"k": "v"}, "s", {}]),
    "a map or a list": ([MAP, {"type": "array", "items": TEXT}], [{}, [], {"k": "v"}, ["s"]]),
    "anything or a text": ([{}, TEXT], ["1", 1, None, {"a": 1}]),
    "a list of texts or of anything": (
        [{"type": "array", "items": TEXT}, {"type": "array", "items": {}}],
        [["1"], [1], []],
    ),
    "objects that differ in a type": ([obj(v=TEXT), obj(v={})], [{"v": "1"}, {"v": 1}, {}]),
    "open objects that differ in a name": ([obj(v=TEXT), obj(w=TEXT)], [{"v": "1"}, {"w": "1"}, {}]),
    "objects told apart by a constant": (
        [
            obj(kind={"const": "m"}, v=MAP) | {"required": ["kind"]},
            obj(kind={"const": "l"}, v={"type": "array", "items": TEXT}) | {"required": ["kind"]},
        ],
        [{"kind": "m", "v": {}}, {"kind": "l", "v": []}, {"kind": "l"}],
    ),
    "enums of numbers and texts": ([{"enum": [1, 2]}, {"enum": ["1", "b"]}], [1, "1", 2, "b"]),
    "an object with a map or one with a list": (
        [obj(v=MAP), obj(v={"type": "array", "items": TEXT})],
        [{"v": {}}, {"v": []}],
    ),
    "null, or a list of maps": ([{"type": "null"}, {"type": "array", "items": MAP}], [[{}, {"k": "v"}], []]),
    "a tuple or an object": (
        [TUPLE, obj(item_1=TEXT, item_2=NUMBER)],
        [["a", 1], {"item_1": "a", "item_2": 1}],
    ),
    "an object with an enum of objects or of texts": (
        [obj(v={"enum": [{"a": 1}]}), obj(v={"enum": ['{"a":1}']})],
        [{"v": {"a": 1}}, {"v": '{"a":1}'}],
    ),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", UNIONS)
@pytest.mark.parametrize("word", ["anyOf", "oneOf"])
def test_the_value_of_a_union_is_read_as_the_alternative_it_was_written_as(
    target: str, name: str, word: str
) -> None:
    members, values = UNIONS[name]
    conversion = convert(obj(a={word: members}) | {"required": ["a"]}, target)
    assert faults(conversion, target) == ()
    for value in values:
        if word == "anyOf":
            assert_comes_back(conversion, target, {"a": value})


@pytest.mark.parametrize("target", STRUCTURED)
def test_alternatives_that_could_be_mistaken_are_json_text(target: str) -> None:
    found = one({"anyOf": [MAP, {"type": "array", "items": pairs(TEXT)["items"]}]}, target)
    assert found["type"] == "string"


@pytest.mark.parametrize("target", STRUCTURED)
def test_a_map_that_may_hold_itself_or_a_list_is_told_from_it(target: str) -> None:
    node = {
        "type": "object",
        "additionalProperties": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "array", "items": TEXT}]},
    }
    conversion = convert(obj(n={"$ref": "#/$defs/a"}) | {"$defs": {"a": node}}, target)
    assert_comes_back(conversion, target, {"n": {"k": [], "l": {}, "m": {"n": ["x"]}}})


@pytest.mark.parametrize("target", STRUCTURED)
def test_a_default_of_one_union_leaves_the_others_readable(target: str) -> None:
    union = {"anyOf": [MAP, TEXT]}
    conversion = convert(obj(a=union | {"default": "x"}, b=union, c=union), target)
    for value in ({"b": "s"}, {"c": {"k": "v"}}, {"a": {}}):
        assert_comes_back(conversion, target, value)


def test_a_default_is_said_in_the_converted_terms() -> None:
    assert one(MAP | {"default": {"k": "v"}}, "gemini-openapi")["default"] == [{"key": "k", "value": "v"}]
    root = obj(a=MAP) | {"default": {"a": {"k": "v"}}}
    assert schema_of(convert(root, "gemini-openapi")).get("default") in (
        None,
        {"a": [{"key": "k", "value": "v"}]},
    )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("rest", "value"),
    [
        ({"if": {"required": ["x"]}, "then": {"properties": {"b": TEXT}}}, {"x": "s", "b": "t"}),
        ({"dependentSchemas": {"x": {"properties": {"b": TEXT}}}}, {"x": "s", "b": "t"}),
        ({"dependencies": {"x": {"properties": {"b": TEXT}}}}, {"x": "s", "b": "t"}),
        ({"anyOf": [{"properties": {"b": TEXT}}, {"properties": {"c": MAP}}]}, {"x": "s", "c": {"k": "v"}}),
        ({"allOf": [{"properties": {"b": TEXT}}]}, {"x": "s", "b": "t"}),
        ({"patternProperties": {"^p": TEXT}, "additionalProperties": False}, {"x": "s", "p1": "t"}),
        ({"additionalProperties": NUMBER}, {"x": "s", "more": 5}),
    ],
    ids=[
        "then",
        "dependentSchemas",
        "dependencies",
        "anyOf",
        "allOf",
        "patternProperties",
        "additionalProperties",
    ],
)
@pytest.mark.parametrize("place", ["root", "property"])
def test_properties_that_other_keywords_declare_can_be_passed(
    target: str, rest: Any, value: Any, place: str
) -> None:
    schema = obj(x=TEXT) | rest
    if place == "property":
        schema, value = obj(a=schema), {"a": value}
    conversion = convert(schema, target)
    assert faults(conversion, target) == ()
    assert_comes_back(conversion, target, value)


FAULTY = [
    ("items", None),
    ("enum", None),
    ("type", None),
    ("properties", None),
    ("required", "a"),
    ("minLength", "3"),
    ("anyOf", {}),
    ("$ref", 5),
    ("$dynamicRef", None),
]


@pytest.mark.parametrize("target", [target for target in TARGETS if target not in {"mcp", "a2a"}])
@pytest.mark.parametrize(("word", "value"), FAULTY, ids=[word for word, _ in FAULTY])
def test_a_keyword_that_means_nothing_is_left_out_and_told(target: str, word: str, value: Any) -> None:
    conversion = convert(obj(a={"type": "string", word: value}), target)
    assert faults(conversion, target) == ()
    told = "type" if word == "type" else word
    assert any(
        each.path == "/properties/a" and each.feature in {told, "$ref"} for each in conversion.warnings
    )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "given",
    [
        {"type": ["string", "array"], "enum": ["a"]},
        {"type": ["string", "object"], "const": "a"},
        {"type": ["string", "null"], "enum": ["a", None]},
        {"type": ["string", "null"], "const": "a"},
        {"enum": ["a", None]},
        {"enum": ["a", 1, None, {"x": 1}]},
        {"type": "string", "enum": ["a", 5]},
    ],
    ids=str,
)
def test_values_that_no_type_admits_leave_no_empty_alternatives(target: str, given: Any) -> None:
    conversion = convert(obj(a=given), target)
    assert faults(conversion, target) == ()
    assert_comes_back(conversion, target, {"a": "a"})


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "given",
    [{"type": "null"}, {"const": None}, {"enum": [None]}, {"anyOf": [{"type": "null"}]}, {"type": ["null"]}],
    ids=str,
)
def test_a_property_that_is_always_null_comes_back(target: str, given: Any) -> None:
    conversion = convert(obj(a=given) | {"required": ["a"]}, target)
    assert faults(conversion, target) == ()
    assert_comes_back(conversion, target, {"a": None})


@pytest.mark.parametrize("target", TARGETS)
def test_a_list_that_must_be_empty_keeps_its_description(target: str) -> None:
    conversion = convert(obj(a={"type": "array", "items": False, "description": "Nothing yet."}), target)
    assert faults(conversion, target) == ()
    if target != "a2a":
        assert "Nothing yet." in json.dumps(conversion.payload)
    assert_comes_back(conversion, target, {"a": []})


@pytest.mark.parametrize("target", STRUCTURED)
def test_descriptions_inside_of_a_union_of_one_are_not_lost(target: str) -> None:
    given = {
        "anyOf": [{"type": "string", "description": "Inner."}, {"type": "null"}],
        "description": "Outer.",
    }
    conversion = convert(obj(a=given), target)
    told = any(each.feature == "description" for each in conversion.warnings)
    assert told or "Inner." in json.dumps(conversion.payload)


@pytest.mark.parametrize("target", STRUCTURED)
def test_definitions_that_nothing_refers_to_are_not_lost_in_silence(target: str) -> None:
    conversion = convert(obj(a=TEXT) | {"$defs": {"unused": TEXT}}, target)
    assert "$defs" in schema_of(conversion) or any(each.feature == "$defs" for each in conversion.warnings)


def nested(levels: int, wrap: Any) -> Any:
    schema: Any = TEXT
    for _ in range(levels):
        schema = wrap(schema)
    return schema


def everything_required(schema: Any) -> Any:
    return schema | {"required": list(schema["properties"]), "additionalProperties": False}


LIMITS: dict[str, tuple[str, Any, bool]] = {
    "ten objects deep": ("openai-strict", nested(10, lambda one: everything_required(obj(a=one))), True),
    "eleven objects deep": ("openai-strict", nested(11, lambda one: everything_required(obj(a=one))), False),
    "twelve maps deep": (
        "openai-strict",
        obj(a=nested(12, lambda one: {"type": "object", "additionalProperties": one})),
        False,
    ),
    "twelve tuples deep": (
        "openai-strict",
        obj(a=nested(12, lambda one: {"type": "array", "prefixItems": [one], "items": False})),
        False,
    ),
    "a thousand values": (
        "openai-strict",
        everything_required(obj(a={"enum": [f"{index}" for index in range(1000)]})),
        True,
    ),
    "a thousand values and null": (
        "openai-strict",
        obj(a={"enum": [f"{index}" for index in range(1000)]}),
        False,
    ),
    "one enum of too many characters": (
        "openai-strict",
        everything_required(obj(a={"enum": [f"{index:060}" for index in range(300)]})),
        False,
    ),
    "constants of too many characters": (
        "openai-strict",
        everything_required(obj(**{f"p{index}": {"const": "x" * 1300} for index in range(100)})),
        False,
    ),
    "24 optional properties": ("anthropic-strict", obj(**{f"p{index}": TEXT for index in range(24)}), True),
    "25 optional properties": ("anthropic-strict", obj(**{f"p{index}": TEXT for index in range(25)}), False),
    "16 unions": (
        "anthropic-strict",
        everything_required(obj(**{f"p{index}": {"type": ["string", "null"]} for index in range(16)})),
        True,
    ),
    "17 unions": (
        "anthropic-strict",
        everything_required(obj(**{f"p{index}": {"type": ["string", "null"]} for index in range(17)})),
        False,
    ),
}


@pytest.mark.parametrize(("target", "schema", "fits"), LIMITS.values(), ids=LIMITS)
def test_a_schema_over_a_limit_is_sent_plain_with_a_warning(target: str, schema: Any, fits: bool) -> None:
    conversion = convert(schema, target)
    assert is_fallback(conversion) is not fits
    assert faults(conversion, target) == ()
    payload = conversion.payload.get("function", conversion.payload)
    assert payload.get("strict", False) is fits


def test_references_with_descriptions_count_as_the_judge_counts_them() -> None:
    schema = everything_required(
        obj(**{f"p{index}": {"$ref": "#/$defs/d", "description": "d"} for index in range(17)})
    )
    conversion = convert(schema | {"$defs": {"d": everything_required(obj(z=TEXT))}}, "anthropic-strict")
    assert faults(conversion, "anthropic-strict") == ()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("reference", ["#thing", "#/$defs/with%20space", "#/$defs/with~1slash"])
def test_warnings_stand_at_pointers_into_the_schema(target: str, reference: str) -> None:
    inner = {"type": "string", "minLength": 1, "$comment": "c", "x-own": 1}
    definitions = {"thing": inner | {"$anchor": "thing"}, "with space": inner, "with/slash": inner}
    schema = obj(a={"$ref": reference}) | {"$defs": definitions}
    for warning in convert(schema, target).warnings:
        if warning.part == "input":
            found: Any = schema
            for part in warning.path.split("/")[1:]:
                found = found[part.replace("~1", "/").replace("~0", "~")]
            assert warning.path == "" or warning.path.startswith("/")
