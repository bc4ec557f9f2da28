import json
from pathlib import Path
from typing import Any

import pytest

from toolcrib.discovery.evaluation.catalogue import compiles, repair_schema
from toolcrib.model import DefaultValidator

DEEP: dict[str, Any] = {"type": "nonsense", "description": "the end"}
for _ in range(100):
    DEEP = {"type": "nonsense", "properties": {"x": DEEP}}


def repair(schema: dict[str, Any]) -> dict[str, Any]:
    validator = DefaultValidator()
    found = repair_schema(schema, validator)
    assert compiles(found, validator)
    return found


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        pytest.param({"type": "dict"}, {"type": "object"}, id="a word of another language"),
        pytest.param(
            {"type": "dict", "properties": {"type": {"type": "float"}}},
            {"type": "object", "properties": {"type": {"type": "number"}}},
            id="a property called type",
        ),
        pytest.param({"properties": {"x": {"type": "any"}}}, {"properties": {"x": {}}}, id="any type"),
        pytest.param(
            {"properties": {"x": {"type": ["String", "None"]}}},
            {"properties": {"x": {"type": ["string", "null"]}}},
            id="several types",
        ),
        pytest.param({"type": [1, "string"]}, {}, id="a type that is no word"),
        pytest.param({"type": []}, {}, id="no type"),
        pytest.param(
            {"type": "tuple", "items": [{"type": "float"}], "prefixItems": [{"type": "float"}]},
            {"type": "object"},
            id="a root that no keyword fits",
        ),
        pytest.param(
            {"anyOf": [{"type": "float"}, {"type": "str"}]},
            {"anyOf": [{"type": "number"}, {"type": "string"}]},
            id="alternatives",
        ),
        pytest.param(
            {"type": "dict", "default": {"type": "float"}, "enum": [{"type": "float"}]},
            {"type": "object", "default": {"type": "float"}, "enum": [{"type": "float"}]},
            id="values that look like schemas",
        ),
        pytest.param(
            {
                "description": "Cut a board.",
                "properties": {
                    "angle": {"minimum": "low", "description": "In degrees.", "enum": [45, 90]},
                    "marks": {"items": {"description": "A mark.", "maximum": []}},
                    "odd": 3,
                },
            },
            {
                "type": "object",
                "description": "Cut a board.",
                "properties": {
                    "angle": {"description": "In degrees.", "enum": [45, 90]},
                    "marks": {"items": {"description": "A mark."}},
                    "odd": {},
                },
            },
            id="beyond words for types",
        ),
    ],
)
def test_a_schema_that_does_not_compile_becomes_the_nearest_that_does(
    schema: dict[str, Any], expected: dict[str, Any]
) -> None:
    before = json.dumps(schema)
    assert repair(schema) == expected
    assert json.dumps(schema) == before


def test_a_schema_that_compiles_is_the_same_object() -> None:
    schema = {"type": "string", "minLength": 3}
    assert repair(schema) is schema


def test_a_schema_too_deep_to_compile_keeps_its_upper_levels() -> None:
    assert "properties" in repair(DEEP)


def test_a_schema_that_stays_too_complex_becomes_any_object() -> None:
    wide = {"type": "nonsense", "enum": [[value] * 1000 for value in range(1000)]}
    assert repair(wide) == {"type": "object"}


def test_real_function_docs_that_are_not_json_schema_keep_their_properties(data: Path) -> None:
    lines = (data / "real-tools" / "bfcl_not_json_schema.jsonl").read_text().splitlines()
    schemas = [row.get("inputSchema") or row["parameters"] for row in map(json.loads, lines)]
    for schema in schemas:
        assert repair(schema).get("properties", {}).keys() == schema.get("properties", {}).keys()
