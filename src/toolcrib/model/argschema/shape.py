"""Telling the two shapes of a schema apart, and taking either apart."""

from dataclasses import dataclass
from typing import Any, Final, Literal

from toolcrib.model.argschema.findings import Findings
from toolcrib.model.argschema.wording import shown

Shape = Literal["auto", "map", "json-schema"]

_TEXTS: Final = frozenset(
    {
        "type",
        "title",
        "description",
        "schemaVersion",
        "$schema",
        "$id",
        "$comment",
        "$anchor",
        "$ref",
        "required",
    }
)
"""Top-level keywords whose value is never an object, so an object there is an argument of that name."""
_UNENFORCED: Final = frozenset(
    {"additionalProperties", "allOf", "anyOf", "const", "contains", "dependentRequired", "dependentSchemas"}
    | {"else", "enum", "format", "if", "items", "maxProperties", "minProperties", "not", "oneOf"}
    | {"patternProperties", "propertyNames", "then", "unevaluatedProperties", "$dynamicRef", "$ref"}
)
_SILENT: Final = frozenset(
    {"$defs", "default", "definitions", "deprecated", "examples", "readOnly", "writeOnly"}
)
_KEYWORDS: Final = _TEXTS | _UNENFORCED | _SILENT
_MAP_KEYWORDS: Final = _TEXTS | {"additionalProperties", "$defs"}
_HOLD_SCHEMAS: Final = frozenset({"additionalProperties", "propertyNames", "unevaluatedProperties"})
"""Keywords of an object's schema whose value may well be a schema with a type."""


@dataclass(frozen=True, slots=True)
class Parts:
    """A schema taken apart, whichever shape it had."""

    properties: dict[str, Any]
    required: Any
    version: Any
    nested: bool
    """Whether the properties stood under `properties`."""


def take_apart(schema: dict[str, Any], shape: Shape, findings: Findings) -> Parts:
    """Return the parts of a schema of the given shape, or of the shape it seems to have."""
    nested = shape == "json-schema" or (shape == "auto" and _is_json_schema(schema))
    if nested:
        properties = schema.get("properties", {})
        if type(properties) is not dict:
            findings.refuse(("properties",), "properties", "properties must be an object")
            properties = {}
        others = {key: value for key, value in schema.items() if key != "properties"}
    else:
        others = {key: value for key, value in schema.items() if _is_note(key, value)}
        properties = {key: value for key, value in schema.items() if key not in others}
    _look_at_keywords(others, findings)
    return Parts(properties, others.get("required", []), others.get("schemaVersion"), nested)


def _is_json_schema(schema: dict[str, Any]) -> bool:
    """Say whether `properties` holds the arguments, and is not itself an argument."""
    properties = schema.get("properties")
    if type(properties) is not dict or type(properties.get("type")) is str:
        return False
    others = (item for item in schema.items() if item[0] != "properties")
    return all(_is_keyword(key) and not _is_argument(key, value) for key, value in others)


def _is_keyword(key: str) -> bool:
    return key in _KEYWORDS or key.startswith("x-")


def _is_argument(key: str, value: Any) -> bool:
    """Say whether a keyword beside `properties` is rather an argument of that name."""
    if type(value) is not dict or key in _HOLD_SCHEMAS:
        return False
    return key in _TEXTS or type(value.get("type")) is str


def _is_note(key: str, value: Any) -> bool:
    """Say whether an entry of a direct map says something about the map and describes no argument."""
    return type(value) is not dict and (key in _MAP_KEYWORDS or key.startswith("x-"))


def _look_at_keywords(others: dict[str, Any], findings: Findings) -> None:
    if "type" in others and others["type"] != "object":
        text = "the type at the top must be 'object'; to describe one argument, put it under its name"
        findings.refuse(("type",), "type", text)
    for key in others:
        if key in _UNENFORCED or not _is_keyword(key):
            findings.warn(f"'{shown(key)}' at the top is not enforced")
