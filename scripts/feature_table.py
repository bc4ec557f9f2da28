"""Writes the table of the fate of each keyword into docs/providers.md; `--check` only compares."""

import json
import sys
from pathlib import Path
from typing import Any

from toolcrib.adapter import FeatureLossWarning, SchemaFeature, default_registry
from toolcrib.adapter.portability import TARGETS, input_schema_of

PAGE = Path(__file__).parent.parent / "docs" / "providers.md"
START = "<!-- features -->\n"
END = "<!-- /features -->\n"
TEXT = {"type": "string"}
SAMPLES: dict[str, Any] = {
    "$ref": {"$ref": "#/$defs/part"},
    "$defs": {"$ref": "#/$defs/part"},
    "$dynamicRef": {"$dynamicRef": "#part"},
    "anyOf": {"anyOf": [TEXT, {"type": "integer"}]},
    "oneOf": {"oneOf": [TEXT, {"type": "integer"}]},
    "allOf": {"allOf": [{"type": "string", "minLength": 1}]},
    "not": {"type": "string", "not": {"const": "x"}},
    "pattern": {"type": "string", "pattern": "^[a-z]+$"},
    "format": {"type": "string", "format": "uri"},
    "additionalProperties": {"type": "object", "additionalProperties": TEXT},
    "properties": {
        "type": "object",
        "properties": {"a": TEXT},
        "required": ["a"],
        "additionalProperties": False,
    },
    "required": {
        "type": "object",
        "properties": {"a": TEXT},
        "required": ["a"],
        "additionalProperties": False,
    },
    "enum": {"type": "integer", "enum": [1, 2]},
    "const": {"type": "string", "const": "x"},
    "default": {"type": "string", "default": "x"},
    "examples": {"type": "string", "examples": ["x"]},
    "items": {"type": "array", "items": TEXT},
    "prefixItems": {"type": "array", "prefixItems": [TEXT, TEXT], "minItems": 2, "maxItems": 2},
    "contains": {"type": "array", "items": TEXT, "contains": {"const": "x"}},
    "patternProperties": {"type": "object", "patternProperties": {"^a": TEXT}, "additionalProperties": False},
    "propertyNames": {"type": "object", "additionalProperties": TEXT, "propertyNames": {"minLength": 2}},
    "dependentRequired": {
        "type": "object",
        "properties": {"a": TEXT, "b": TEXT},
        "dependentRequired": {"a": ["b"]},
    },
    "dependentSchemas": {
        "type": "object",
        "properties": {"a": TEXT},
        "dependentSchemas": {"a": {"minProperties": 2}},
    },
    "dependencies": {"type": "object", "properties": {"a": TEXT, "b": TEXT}, "dependencies": {"a": ["b"]}},
    "unevaluatedItems": {"type": "array", "items": TEXT, "unevaluatedItems": False},
    "unevaluatedProperties": {"type": "object", "properties": {"a": TEXT}, "unevaluatedProperties": False},
    "if": {"type": "string", "if": {"minLength": 2}, "then": {"maxLength": 9}},
    "type": {"type": ["string", "null"]},
}
NUMERIC = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
ON_LISTS = ("minItems", "maxItems", "minContains", "maxContains", "additionalItems")
ON_OBJECTS = ("minProperties", "maxProperties")
FLAGS = ("uniqueItems", "deprecated", "readOnly", "writeOnly", "nullable")
SKIPPED = {"definitions", "then", "else", "$schema", "$id", "$anchor", "$dynamicAnchor"}


def sample(keyword: str) -> dict[str, Any]:
    """Return the schema of a property that uses a keyword."""
    if keyword in SAMPLES:
        return dict(SAMPLES[keyword])
    if keyword in NUMERIC:
        return {"type": "number", keyword: 2}
    if keyword in ON_LISTS:
        value = False if keyword == "additionalItems" else 2
        return {"type": "array", "items": TEXT, "contains": {"const": "x"}, keyword: value}
    if keyword in ON_OBJECTS:
        return {"type": "object", "properties": {"a": TEXT}, keyword: 1}
    if keyword in FLAGS:
        return (
            {"type": "array", "items": TEXT, keyword: True}
            if keyword == "uniqueItems"
            else {**TEXT, keyword: True}
        )
    value = 2 if keyword in {"minLength", "maxLength"} else {} if keyword == "contentSchema" else "text/x"
    return {**TEXT, keyword: value}


def fate(keyword: str, target: str) -> str:
    """Convert a schema with a keyword to a target, and return its fate."""
    schema = {
        "type": "object",
        "properties": {"it": sample(keyword)},
        "required": ["it"],
        "additionalProperties": False,
        "$defs": {"part": {"type": "string", "$dynamicAnchor": "part"}},
    }
    if keyword not in {"$ref", "$defs", "$dynamicRef"}:
        del schema["$defs"]
    adapter, options = TARGETS[target]
    conversion = default_registry().convert(
        {"name": "t", "inputSchema": schema}, source="mcp", target=adapter, **options
    )
    told = [
        warning for warning in conversion.warnings if warning.feature == keyword and warning.part == "input"
    ]
    if not told and any("free-form" in warning.message for warning in conversion.warnings):
        return "text"
    return _classify(keyword, told, input_schema_of(conversion.payload)["properties"]["it"])


def _classify(keyword: str, told: list[FeatureLossWarning], found: Any) -> str:
    if not told:
        return "kept"
    if any("description" in warning.message for warning in told) and keyword in json.dumps(found):
        return "described"
    return "left out" if all("left out" in warning.message for warning in told) else "rewritten"


def table() -> str:
    """Return the table in Markdown."""
    targets = [target for target in TARGETS if target not in {"mcp", "a2a"}]
    lines = [f"| keyword | {' | '.join(targets)} |", f"|---|{'---|' * len(targets)}"]
    for feature in SchemaFeature:
        if feature not in SKIPPED:
            fates = [fate(feature.value, target) for target in targets]
            lines.append(f"| `{feature}` | {' | '.join(fates)} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write the page, or report that it is out of date."""
    page = PAGE.read_text()
    before, _, rest = page.partition(START)
    _, _, after = rest.partition(END)
    fresh = f"{before}{START}\n{table()}\n{END}{after}"
    if "--check" in sys.argv:
        return 0 if fresh == page else 1
    PAGE.write_text(fresh)
    return 0


if __name__ == "__main__":
    sys.exit(main())
