"""References within a schema, and that everything that reads schemas follows them alike."""

from typing import Any

import pytest

from toolcrib import Tool
from toolcrib.adapter.rewrite.source import Source
from toolcrib.discovery.docs import schema_info
from toolcrib.execution.chains.schemas import Budget, Schema
from toolcrib.execution.http.openapi.references import find_target
from toolcrib.model.schema.references import LocalReferences, lookup, parse_pointer
from toolcrib.runtime.stubs import render

DEFINITIONS: dict[str, Any] = {
    "a b": {"type": "boolean"},
    "a/b": {"type": "integer"},
    "a~b": {"type": "number"},
    "caf\u00e9": {"type": "string"},
    "": {"type": "null"},
    "0": {"type": "object"},
}
DOCUMENT: dict[str, Any] = {"$defs": DEFINITIONS, "allOf": [{"type": "object"}, {"type": "string"}]}
NAMED: dict[str, Any] = {
    **DOCUMENT,
    "$id": "https://example.com/tool",
    "$defs": {**DEFINITIONS, "marked": {"$anchor": "mark", "type": "array"}},
}
FOUND = {
    "#/$defs/a%20b": "boolean",
    "#/$defs/a b": "boolean",
    "#/$defs/a~1b": "integer",
    "#/$defs/a~0b": "number",
    "#/$defs/caf%C3%A9": "string",
    "#/$defs/": "null",
    "#/$defs/0": "object",
    "#/allOf/1": "string",
    "#/%24defs/a%20b": "boolean",
}
BY_NAME = {
    "#mark": "array",
    "https://example.com/tool#/$defs/0": "object",
    "https://example.com/tool#mark": "array",
}
NOWHERE = [
    *("#/allOf/01", "#/allOf/2", "#/allOf/-1", "#/allOf/\u0661", "#/allOf/9999999999"),
    *("#/nowhere", "#other", "x#/allOf/1", "#/allOf/1/type/0"),
]


@pytest.mark.parametrize(("reference", "kind"), (FOUND | BY_NAME).items())
def test_a_reference_leads_to_what_it_names(reference: str, kind: str) -> None:
    assert LocalReferences(NAMED).find(reference)["type"] == kind


@pytest.mark.parametrize("reference", NOWHERE)
def test_a_reference_that_leads_nowhere_finds_the_default(reference: str) -> None:
    assert LocalReferences(NAMED).find(reference) is None
    assert LocalReferences(NAMED).find(reference, default=True) is True


def test_the_whole_is_found_by_an_empty_fragment() -> None:
    assert LocalReferences(DOCUMENT).find("#") is DOCUMENT
    assert lookup(DOCUMENT, parse_pointer("")) is DOCUMENT


@pytest.mark.parametrize(("reference", "kind"), FOUND.items())
def test_adapters_chains_and_openapi_agree(reference: str, kind: str) -> None:
    assert Source(DOCUMENT).find(reference)["type"] == kind
    assert Schema(DOCUMENT, Budget(1_000)).follow(reference)["type"] == kind
    assert find_target(DOCUMENT, reference)["type"] == kind


@pytest.mark.parametrize(
    ("reference", "name", "stub"),
    [
        ("#/$defs/a%20b", "boolean", "bool"),
        ("#/$defs/a~1b", "integer", "int"),
        ("#mark", "array", "list[Any]"),
    ],
)
def test_documentation_and_stubs_agree(reference: str, name: str, stub: str) -> None:
    schema = {"type": "object", "properties": {"one": {"$ref": reference}}, "$defs": NAMED["$defs"]}
    assert name in schema_info(schema).phrases["one"]
    assert f"one: {stub}" in render([Tool(name="t", input_schema=schema)])
