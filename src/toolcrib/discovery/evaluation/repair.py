"""Schemas that are not JSON Schema, made such that their words can still be searched."""

from collections.abc import Mapping
from typing import Any

from toolcrib.errors import InvalidSchemaError, ValidationError
from toolcrib.model import DefaultValidator

__all__ = ["compiles", "repair_schema"]

_TYPES = {
    "dict": "object",
    "map": "object",
    "hashmap": "object",
    "struct": "object",
    "list": "array",
    "tuple": "array",
    "set": "array",
    "arraylist": "array",
    "float": "number",
    "double": "number",
    "decimal": "number",
    "long": "integer",
    "int": "integer",
    "short": "integer",
    "bool": "boolean",
    "str": "string",
    "char": "string",
    "text": "string",
    "date": "string",
    "datetime": "string",
    "none": "null",
}
"""What other languages call the types of JSON."""
_JSON_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_NAMED = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
"""Keywords whose value holds schemas by name."""
_DATA = frozenset({"enum", "const", "default", "examples", "example"})
"""Keywords whose value only looks like a schema."""
_MAX_DEPTH = 16


def compiles(schema: Mapping[str, Any], validator: DefaultValidator) -> bool:
    """Return whether arguments can be checked against a schema."""
    try:
        validator.validate(schema, {})
    except InvalidSchemaError:
        return False
    except ValidationError:
        return True
    return True


def repair_schema(schema: dict[str, Any], validator: DefaultValidator) -> dict[str, Any]:
    """Return the nearest schema that compiles: with JSON's words for types, or else just names and texts.

    >>> repair_schema({"type": "dict", "properties": {"x": {"type": "float"}}}, DefaultValidator())
    {'type': 'object', 'properties': {'x': {'type': 'number'}}}
    >>> repair_schema({"properties": {"x": {"description": "Width.", "minimum": "low"}}}, DefaultValidator())
    {'type': 'object', 'properties': {'x': {'description': 'Width.'}}}
    """
    if compiles(schema, validator):
        return schema
    retyped: dict[str, Any] = _retype(schema)
    if compiles(retyped, validator):
        return retyped
    reduced = {"type": "object"} | _reduce(schema, _MAX_DEPTH)
    return reduced if compiles(reduced, validator) else {"type": "object"}


def _retype(schema: Any) -> Any:
    """Return a schema with JSON's words for types; what stands for any type is left out."""
    if isinstance(schema, list):
        return [_retype(member) for member in schema]
    if not isinstance(schema, dict):
        return schema
    changed = {}
    for key, value in schema.items():
        if key in _NAMED and isinstance(value, dict):
            changed[key] = {name: _retype(member) for name, member in value.items()}
        elif key == "type":
            changed |= _type(value)
        else:
            changed[key] = value if key in _DATA else _retype(value)
    return changed


def _type(value: Any) -> dict[str, Any]:
    """Return the `type` keyword that a word, or a list of words, stands for, if any."""
    words = value if isinstance(value, list) else [value]
    known = [_TYPES.get(word.lower(), word.lower()) for word in words if isinstance(word, str)]
    if len(known) < len(words) or not _JSON_TYPES.issuperset(known):
        return {}
    unique = list(dict.fromkeys(known))
    return {"type": unique if isinstance(value, list) else unique[0]} if unique else {}


def _reduce(schema: Any, depth: int) -> dict[str, Any]:
    """Return the properties, descriptions and values that a schema names, and nothing else."""
    if not isinstance(schema, dict) or not depth:
        return {}
    kept: dict[str, Any] = {}
    if isinstance(schema.get("description"), str):
        kept["description"] = schema["description"]
    if isinstance(schema.get("enum"), list):
        kept["enum"] = schema["enum"]
    if isinstance(schema.get("properties"), dict):
        kept["properties"] = {name: _reduce(value, depth - 1) for name, value in schema["properties"].items()}
    if items := _reduce(schema.get("items"), depth - 1):
        kept["items"] = items
    return kept
