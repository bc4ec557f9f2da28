"""Simple schemas: recognised without a compiler, which would accept each of them."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import law

from toolcrib.model import DefaultValidator
from toolcrib.model.schema.engine import DRAFT_7, DRAFT_2020_12
from toolcrib.model.schema.simple import is_simple

SCALARS = st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | st.text(max_size=5)
VALUES = SCALARS | st.lists(SCALARS, max_size=3) | st.dictionaries(st.text(max_size=3), SCALARS, max_size=2)
KEYWORDS = (
    *("type", "title", "description", "format", "$comment", "deprecated", "readOnly", "uniqueItems", "enum"),
    *("minimum", "exclusiveMaximum", "multipleOf", "minLength", "maxItems", "minProperties", "required"),
    *("const", "default", "examples", "items", "additionalProperties", "anyOf", "allOf", "properties"),
    *("pattern", "$ref", "$id", "$schema", "not", "unknown"),
)
FITTING = {
    "type": st.sampled_from(["object", "array", "string", "integer", "null", "text", ["string", "null"]]),
    "enum": st.lists(SCALARS, max_size=3),
    "required": st.lists(st.text(max_size=3), max_size=3),
    "minimum": st.integers() | st.floats(allow_nan=False),
    "multipleOf": st.floats(allow_nan=False) | st.integers(-2, 5),
    "$schema": st.sampled_from([DRAFT_7, f"{DRAFT_2020_12}#", "https://example.com/schema"]),
}


def nodes(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Schemas, right and wrong, with others in them."""
    below = {
        "properties": st.dictionaries(st.text(max_size=3), inner, max_size=3),
        **dict.fromkeys(("items", "additionalProperties", "not"), inner),
        **dict.fromkeys(("anyOf", "allOf"), st.lists(inner, max_size=3)),
    }
    choices = {word: FITTING.get(word, VALUES) | below.get(word, VALUES) for word in KEYWORDS}
    return st.fixed_dictionaries({}, optional=choices)


SCHEMAS = st.recursive(st.booleans() | st.just({}), nodes, max_leaves=8)


@law(200)
@given(SCHEMAS)
def test_a_compiler_accepts_each_simple_schema(schema: Any) -> None:
    if is_simple(schema):
        DefaultValidator().compile(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "text"},
        {"type": []},
        {"type": ["string", "string"]},
        {"required": ["a", "a"]},
        {"properties": []},
        {"properties": {"a": {"pattern": "["}}},
        {"items": [{}]},
        {"anyOf": []},
        {"minLength": -1},
        {"minLength": 1.5},
        {"multipleOf": 0},
        {"minimum": True},
        {"$ref": "#/$defs/a"},
        {"properties": {"a": {"$schema": DRAFT_7}}},
        {"$schema": "https://example.com/schema"},
        {"default": {"$ref": "https://example.com"}},
        {"title": None},
        {"unknown": 1},
        "object",
    ],
)
def test_whatever_else_is_left_to_the_compiler(schema: Any) -> None:
    assert not is_simple(schema)


def test_a_schema_too_deep_or_too_large_is_left_to_the_compiler() -> None:
    deep: dict[str, Any] = {}
    for _ in range(20):
        deep = {"items": deep}
    assert not is_simple(deep)
    assert not is_simple({"properties": {f"p{number}": {} for number in range(600)}})


def test_most_schemas_of_real_tools_are_simple(data: Path) -> None:
    with (data / "real-tools" / "mcp_tools.jsonl").open(encoding="utf-8") as lines:
        found = [is_simple(json.loads(line)["inputSchema"]) for line in lines]
    assert sum(found) >= 0.7 * len(found)
