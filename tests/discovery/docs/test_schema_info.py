"""Summary of an input schema: types, defaults and required arguments."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from effort import at_most
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.discovery.docs import schema_info
from toolcrib.errors import InvalidSchemaError
from toolcrib.model import SchemaInfo

STRING = {"type": "string"}
INTEGER = {"type": "integer"}


def type_of(schema: Any, **around: Any) -> str:
    return schema_info({"type": "object", "properties": {"x": schema}, **around}).phrases["x"]


@pytest.mark.parametrize(
    ("schema", "phrase"),
    [
        (STRING, "string"),
        ({"type": ["null", "string"]}, "string | null"),
        ({"type": ["integer", "string"]}, "string | integer"),
        ({"type": "string", "format": "date-time"}, "string (date-time)"),
        ({"type": "string", "format": "no such!"}, "string"),
        ({"type": "integer", "format": "int32"}, "integer"),
        ({"type": "array"}, "array"),
        ({"type": "array", "items": STRING}, "array of string"),
        ({"type": "array", "items": {"type": ["string", "null"]}}, "array of (string | null)"),
        ({"type": "array", "items": {"type": "array", "items": INTEGER}}, "array of array of integer"),
        ({"type": "array", "prefixItems": [STRING, INTEGER]}, "array of (string | integer)"),
        ({"type": "array", "items": [STRING, INTEGER]}, "array of (string | integer)"),
        ({"type": "array", "items": True}, "array"),
        ({"type": "array", "items": {"enum": ["x" * 30, "y" * 30, "z" * 30]}}, "array"),
        ({"type": "object", "properties": {"y": STRING}}, "object"),
        ({"enum": ["open", "closed"]}, '"open" | "closed"'),
        ({"type": "string", "enum": ["open", None]}, '"open" | null'),
        ({"enum": [1, 2.5, True, None]}, "1 | 2.5 | true | null"),
        ({"enum": [f"state-{n}" for n in range(9)]}, "string"),
        ({"enum": ["x" * 50, 5]}, "string | 5"),
        ({"enum": [True, *range(9)]}, "boolean | integer"),
        ({"enum": ["x" * 39 + str(n) for n in range(5)]}, "string"),
        ({"enum": [[1], {"a": 1}]}, "array | object"),
        ({"enum": []}, "never"),
        ({"type": "array", "items": False}, "array"),
        ({"anyOf": [False, False]}, "never"),
        ({"enum": "open"}, "any"),
        ({"const": "on"}, '"on"'),
        ({"const": {"a": 1}}, "object"),
        ({"const": None}, "null"),
        ({"anyOf": [STRING, {"type": "null"}]}, "string | null"),
        ({"oneOf": [STRING, {"type": "array", "items": STRING}]}, "string | array of string"),
        ({"anyOf": [{"const": "a"}, {"const": "b"}]}, '"a" | "b"'),
        ({"anyOf": [STRING, STRING]}, "string"),
        ({"anyOf": [STRING, {}]}, "any"),
        ({"anyOf": [STRING, False]}, "string"),
        ({"anyOf": []}, "any"),
        ({"anyOf": 5}, "any"),
        ({"anyOf": [{"const": f"{n}"} for n in range(20)]}, "string"),
        ({"type": "string", "anyOf": [{"minLength": 5}, {"pattern": "a"}]}, "string"),
        ({"type": "string", "anyOf": [{"enum": ["a"]}, {"enum": ["b"]}]}, '"a" | "b"'),
        ({"allOf": [STRING, {"enum": ["a", "b"]}]}, '"a" | "b"'),
        ({"allOf": [{"enum": ["a", "b"]}, STRING]}, '"a" | "b"'),
        ({"allOf": [{"type": "number"}, INTEGER]}, "integer"),
        ({"allOf": [{"type": ["string", "null"]}, STRING]}, "string"),
        ({"allOf": [STRING, INTEGER]}, "string"),
        ({"type": "string", "nullable": True}, "string | null"),
        ({"nullable": True}, "any"),
        ({"properties": {}}, "object"),
        ({"items": STRING}, "array of string"),
        ({"pattern": "a"}, "string"),
        ({"minimum": 1}, "number"),
        ({"type": "text"}, "any"),
        ({"type": ["text", "string"]}, "string"),
        ({"type": [[], "string"]}, "string"),
        ({"type": 5}, "any"),
        ({}, "any"),
        (True, "any"),
        (False, "never"),
        ("no schema", "any"),
        (None, "any"),
    ],
    ids=lambda value: value if isinstance(value, str) else json.dumps(value)[:40],
)
def test_a_type_is_told_in_a_phrase(schema: Any, phrase: str) -> None:
    assert type_of(schema) == phrase


@pytest.mark.parametrize(
    ("schema", "around", "phrase"),
    [
        ({"$ref": "#/$defs/S"}, {"$defs": {"S": STRING}}, "string"),
        ({"$ref": "#/definitions/S"}, {"definitions": {"S": STRING}}, "string"),
        ({"$ref": "#/$defs/a~1b~0c%20d"}, {"$defs": {"a/b~c d": STRING}}, "string"),
        ({"$ref": "#/$defs/L/0"}, {"$defs": {"L": [STRING]}}, "string"),
        ({"$ref": "#/$defs/L/1"}, {"$defs": {"L": [STRING]}}, "any"),
        ({"$ref": "#/$defs/L/x"}, {"$defs": {"L": [STRING]}}, "any"),
        ({"$ref": "#/$defs/S/x/y"}, {"$defs": {"S": STRING}}, "any"),
        ({"$ref": "#word"}, {"$defs": {"S": {"$anchor": "word", **STRING}}}, "string"),
        ({"$dynamicRef": "#word"}, {"$defs": {"S": {"$dynamicAnchor": "word", **STRING}}}, "string"),
        ({"$ref": "#nowhere"}, {}, "any"),
        ({"$ref": "#/$defs/S#word"}, {"$defs": {"S": STRING}}, "any"),
        ({"$ref": "#"}, {}, "object"),
        (
            {"$ref": "https://x.test/s#/$defs/S"},
            {"$id": "https://x.test/s", "$defs": {"S": STRING}},
            "string",
        ),
        ({"$ref": "https://y.test/s#/$defs/S"}, {"$id": "https://x.test/s", "$defs": {"S": STRING}}, "any"),
        ({"$ref": 5, **STRING}, {}, "string"),
        ({"$ref": "#/$defs/S", "enum": ["a"]}, {"$defs": {"S": STRING}}, '"a"'),
        (
            {"$ref": "#/$defs/S", "enum": ["a"]},
            {"$defs": {"S": STRING}, "$schema": "http://json-schema.org/draft-07/schema#"},
            "string",
        ),
        ({"$ref": "#/$defs/A"}, {"$defs": {"A": {"$ref": "#/$defs/B"}, "B": INTEGER}}, "integer"),
        ({"$ref": "#/$defs/A"}, {"$defs": {"A": {"$ref": "#/$defs/A"}}}, "any"),
        ({"anyOf": [{"$ref": "#/properties/x"}]}, {}, "any"),
        ({"type": "array", "items": {"anyOf": [{"$ref": "#/properties/x/items"}]}}, {}, "array"),
        (
            {"$ref": "#/$defs/A"},
            {"$defs": {"A": {"anyOf": [STRING, {"type": "array", "items": {"$ref": "#/$defs/A"}}]}}},
            "string | array",
        ),
        ({"$ref": "#/$defs/A"}, {"$defs": {"A": {"anyOf": [STRING, {"$ref": "#/$defs/A"}]}}}, "string"),
        ({"$ref": "#/$defs/A"}, {"$defs": {"A": {"allOf": [{"$ref": "#/$defs/A"}], **STRING}}}, "string"),
    ],
    ids=lambda value: value if isinstance(value, str) else json.dumps(value)[:40],
)
def test_references_within_the_schema_are_followed(schema: Any, around: Any, phrase: str) -> None:
    assert type_of(schema, **around) == phrase


def test_anchors_are_found_wherever_they_stand() -> None:
    properties = {"x": {"$ref": "#one"}, "y": {"$ref": "#two"}, "z": {"$anchor": "one", "type": "integer"}}
    schema = {"properties": properties, "not": {"items": [{"$anchor": "two", "type": "null"}]}}
    assert schema_info(schema).phrases == {"x": "integer", "y": "null", "z": "integer"}


def test_a_long_chain_of_references_comes_to_an_end() -> None:
    chain: dict[str, Any] = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(5_000)}
    assert type_of({"$ref": "#/$defs/d0"}, **{"$defs": {**chain, "d5000": STRING}}) == "any"
    assert type_of({"$ref": "#/$defs/d4990"}, **{"$defs": {**chain, "d5000": STRING}}) == "string"


@pytest.mark.parametrize(
    ("schema", "info"),
    [
        (True, SchemaInfo()),
        (False, SchemaInfo()),
        ({}, SchemaInfo()),
        ({"properties": [], "required": "a"}, SchemaInfo()),
        ({"properties": None, "required": ["a", 5, "a"]}, SchemaInfo(required=("a",))),
        (
            {"properties": {"b": STRING, "a": {"default": None}}, "required": ["b"]},
            SchemaInfo(required=("b",), phrases={"b": "string", "a": "any"}, defaults={"a": None}),
        ),
        (
            {
                "properties": {"a": STRING},
                "required": ["a"],
                "allOf": [{"properties": {"b": INTEGER}, "required": ["b"]}, {"$ref": "#/$defs/C"}],
                "$defs": {"C": {"properties": {"c": {"default": [1]}}, "required": ["a", "c"]}},
            },
            SchemaInfo(
                required=("a", "b", "c"),
                phrases={"a": "string", "b": "integer", "c": "any"},
                defaults={"c": [1]},
            ),
        ),
        (
            {
                "anyOf": [
                    {"properties": {"id": STRING, "kind": {"const": "a"}}, "required": ["kind", "id"]},
                    {"properties": {"id": INTEGER, "kind": {"const": "b"}}, "required": ["kind"]},
                    {"type": "null"},
                    False,
                ]
            },
            SchemaInfo(required=("kind",), phrases={"id": "string | integer", "kind": '"a" | "b"'}),
        ),
        (
            {
                "properties": {"id": {"type": ["string", "integer"]}},
                "oneOf": [{"properties": {"id": STRING}}, {"required": ["id"]}],
            },
            SchemaInfo(phrases={"id": "string | integer"}),
        ),
        (
            {
                "properties": {"id": {}},
                "if": {"required": ["id"]},
                "then": {"properties": {"id": STRING, "x": STRING}, "required": ["x", "y"]},
                "else": {"properties": {"z": STRING}, "required": ["y"]},
                "dependentSchemas": {"id": {"properties": {"w": STRING}, "required": ["w"]}},
            },
            SchemaInfo(
                required=("y",), phrases={"id": "string", "x": "string", "z": "string", "w": "string"}
            ),
        ),
        ({"then": {"required": ["x"]}, "else": {"required": ["x"]}}, SchemaInfo()),
        (
            {"$ref": "#/$defs/Args", "$defs": {"Args": {"properties": {"a": STRING}, "required": ["a"]}}},
            SchemaInfo(required=("a",), phrases={"a": "string"}),
        ),
        (
            {
                "$schema": "http://json-schema.org/draft-07/schema#",
                "$ref": "#/definitions/Args",
                "properties": {"b": STRING},
                "required": ["b"],
                "definitions": {"Args": {"properties": {"a": STRING}, "required": ["a"]}},
            },
            SchemaInfo(required=("a",), phrases={"a": "string"}),
        ),
        (
            {"anyOf": [{"$ref": "#"}, {"required": ["a"]}], "allOf": [{"$ref": "#"}], "required": ["b"]},
            SchemaInfo(required=("b", "a")),
        ),
        (
            {
                "properties": {
                    "a": {"$ref": "#/$defs/D"},
                    "b": {"allOf": [{"$ref": "#/$defs/D"}]},
                    "c": {"$ref": "#/$defs/D", "default": 2},
                    "d": {"$ref": "#/$defs/Loop"},
                },
                "$defs": {"D": {"default": 1, "type": "integer"}, "Loop": {"$ref": "#/$defs/Loop"}},
            },
            SchemaInfo(
                phrases={"a": "integer", "b": "integer", "c": "integer", "d": "any"},
                defaults={"a": 1, "b": 1, "c": 2},
            ),
        ),
        (
            {"anyOf": [{"properties": {"a": {"default": 1}}}, {"properties": {"a": {"default": 2}}}]},
            SchemaInfo(phrases={"a": "any"}, defaults={"a": 1}),
        ),
        ({"type": ["null", "array"], "required": ["a"]}, SchemaInfo()),
        ({"type": 5, "required": ["a"]}, SchemaInfo(required=("a",))),
    ],
)
def test_a_schema_is_read_at_a_glance(schema: Any, info: SchemaInfo) -> None:
    before = copy.deepcopy(schema)
    found = schema_info(schema)
    assert found.replace(types={}) == info
    assert list(found.phrases) == list(info.phrases)
    assert schema == before


def test_defaults_are_copies() -> None:
    schema: dict[str, Any] = {"properties": {"a": {"default": {"b": []}}}}
    schema_info(schema).defaults["a"]["b"].append(1)
    assert schema == {"properties": {"a": {"default": {"b": []}}}}


@pytest.mark.parametrize("schema", [None, "{}", 5, ["a"], {"required": ("a",)}, {"a": {1}}], ids=repr)
def test_malformed_schema_is_refused(schema: Any) -> None:
    with pytest.raises(InvalidSchemaError):
        schema_info(schema)


def test_a_schema_that_holds_itself_is_refused() -> None:
    schema: dict[str, Any] = {}
    schema["not"] = schema
    with pytest.raises(InvalidSchemaError, match="not plain JSON: the value is nested more than 256 levels"):
        schema_info(schema)


def bomb(levels: int) -> dict[str, Any]:
    branches = {
        f"d{n}": {word: [{"$ref": f"#/$defs/d{n + 1}"}] * 2 for word in ("allOf", "anyOf", "oneOf")}
        for n in range(levels)
    }
    return {"$defs": {**branches, f"d{levels}": {"properties": {"a": STRING}}}, "$ref": "#/$defs/d0"}


NAMES = [f"n{n}" for n in range(10_000)]
HOSTILE: dict[str, Any] = {
    "references that double": bomb(30),
    "branches that double": {"properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": bomb(30)["$defs"]},
    "many names in many branches": {
        "anyOf": [{"$ref": "#/$defs/A", "required": [f"r{n}"]} for n in range(10_000)],
        "$defs": {"A": {"required": NAMES, "properties": dict.fromkeys(NAMES, STRING)}},
    },
    "many names in many parts": {
        "allOf": [{"$ref": "#/$defs/A", "required": [f"r{n}"]} for n in range(10_000)],
        "$defs": {"A": {"required": NAMES}},
    },
    "one default everywhere": {
        "properties": {name: {"$ref": "#/$defs/D"} for name in NAMES},
        "$defs": {"D": {"default": list(range(10_000))}},
    },
    "one enumeration everywhere": {
        "properties": {name: {"allOf": [{"$ref": "#/$defs/E"}]} for name in NAMES},
        "$defs": {"E": {"enum": [f"v{n}" for n in range(10_000)]}},
    },
    "many alternatives": {
        "properties": {"x": {"anyOf": [{"type": "array", "items": {"const": n}} for n in range(10_000)]}}
    },
    "one property in many places": {
        "allOf": [{"properties": {"x": {"enum": [n, "a"]}}} for n in range(10_000)],
    },
    "defaults in a crowd": {
        "properties": {"x": {"allOf": [{"$ref": "#/$defs/A"}] * 1_000}},
        "$defs": {"A": {"allOf": [{"$ref": "#/$defs/A"}] * 1_000}},
    },
}


@pytest.mark.attack
@pytest.mark.parametrize("schema", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_schema_is_told_in_bounded_time_and_size(schema: Any) -> None:
    with at_most(10):
        info = schema_info(schema)
    assert sum(map(len, info.phrases.values())) < 1_000_000
    assert len(json.dumps(info.defaults)) < 200_000


WORDS = st.sampled_from(
    [
        *("properties", "required", "allOf", "anyOf", "oneOf", "then", "else", "if", "$defs", "items"),
        *("type", "enum", "const", "default", "$ref", "#", "#/$defs/a", "#/allOf/0"),
        *("a", "b", "x", "string", "object", "null"),
    ]
)
JSON = st.recursive(
    WORDS | st.none() | st.booleans() | st.integers(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=6),
    max_leaves=40,
)


@given(st.dictionaries(WORDS, JSON, max_size=6))
def test_any_json_object_is_told_without_being_changed(schema: dict[str, Any]) -> None:
    before = copy.deepcopy(schema)
    info = schema_info(schema)
    assert schema == before
    assert SchemaInfo.from_json(info.to_json()) == info
    assert info == schema_info(copy.deepcopy(schema))


def test_real_tools_are_told(data: Path) -> None:
    lines = (data / "real-tools" / "mcp_tools.jsonl").read_text().splitlines()
    schemas = [json.loads(line)["inputSchema"] for line in lines]
    for schema in schemas:
        info = schema_info(schema)
        assert set(schema.get("properties", {})) <= set(info.phrases)
        assert set(schema.get("required", ())) <= set(info.required)
        assert all(len(phrase) <= 200 for phrase in info.phrases.values())


@pytest.mark.parametrize(
    ("schema", "types"),
    [
        ({"type": "string"}, ("string",)),
        ({"type": ["string", "null"]}, ("string", "null")),
        ({"enum": ["open", "closed", 1, None]}, ("string", "integer", "null")),
        ({"const": {"a": 1}}, ("object",)),
        ({"type": "array", "items": {"type": "string"}}, ("array",)),
        ({"type": "string", "format": "date-time"}, ("string",)),
        (
            {"anyOf": [{"type": "integer"}, {"type": "number"}, {"$ref": "#/$defs/list"}]},
            ("integer", "number", "array"),
        ),
        ({"minimum": 3}, ("number",)),
        ({"$ref": "#/$defs/list"}, ("array",)),
        ({}, None),
        (True, None),
        (False, None),
        ({"description": "Anything."}, None),
    ],
    ids=str,
)
def test_the_types_of_an_argument_are_those_of_json(schema: Any, types: tuple[str, ...] | None) -> None:
    whole = {"properties": {"x": schema}, "$defs": {"list": {"type": "array"}}}
    info = schema_info(whole)
    assert info.types.get("x") == types
    assert info.to_json().get("types", {}).get("x") == (None if types is None else list(types))
    assert SchemaInfo.from_json(info.to_json()) == info
