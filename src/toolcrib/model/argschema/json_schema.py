"""The same rules as JSON Schema 2020-12."""

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final

from toolcrib.model.argschema.forms import MAX_CONTAINER_FORM, Choices, form_of
from toolcrib.model.argschema.property import ACCEPTED, ArgSchemaProperty, ArgType, Bounds, Members

_NAMES: Final[dict[ArgType, str]] = {
    "string": "string",
    "integer": "number",  # this date does not tell integers and floating point apart
    "float": "number",
    "number": "number",
    "boolean": "boolean",
    "array": "array",
    "object": "object",
}
_LONGEST_NUMBER = 700
_NEVER: Final[dict[str, Any]] = {"not": {}}


def json_schema_of(members: Members, *, strict: bool) -> dict[str, Any]:
    """Return the schema of an object with these members."""
    return {"type": "object"} | _members(members, strict=strict)


def _members(members: Members, *, strict: bool) -> dict[str, Any]:
    properties = {name: _property(prop, strict=strict) for name, prop in members.properties.items()}
    schema: dict[str, Any] = {"properties": properties}
    if members.required:
        schema["required"] = list(members.required)
    if strict:
        for name in members.required:
            properties.setdefault(name, {})
        schema["additionalProperties"] = False
    return schema


def _property(prop: ArgSchemaProperty, *, strict: bool) -> dict[str, Any]:
    value = _value(prop, strict=strict)
    schema: dict[str, Any] = {"description": prop.description} if prop.description else {}
    if prop.is_array:
        counts = {"minItems": prop.min_items, "maxItems": prop.max_items}
        schema |= {"type": "array"} | _given(counts) | ({"items": value} if value else {})
    else:
        schema |= value
    if prop.has_default:
        schema["default"] = deepcopy(prop.default)
    if prop.deprecated:
        schema["deprecated"] = True
    return schema


def _value(prop: ArgSchemaProperty, *, strict: bool) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    kind = prop.value_type
    if kind is not None and kind != "enum":
        schema["type"] = "integer" if strict and kind == "integer" else _NAMES[kind]
    schema |= _bounds(prop.bounds, kind)
    if prop.members is not None:
        schema |= _members(prop.members, strict=strict)
    return schema


def _bounds(bounds: Bounds, kind: ArgType | None) -> dict[str, Any]:
    schema = _given(
        {
            "minLength": bounds.min_length,
            "maxLength": bounds.max_length,
            "minimum": bounds.minimum,
            "maximum": bounds.maximum,
        }
    )
    if bounds.choices is not None:
        values = _enum(bounds.choices, kind)
        schema |= {"enum": values} if values else _NEVER
    if bounds.patterns:
        first, *others = (pattern.text for pattern in bounds.patterns)
        schema["pattern"] = first
        if others:
            schema["allOf"] = [{"pattern": text} for text in others]
    return schema


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _enum(choices: Choices, kind: ArgType | None) -> list[Any]:
    """Return every JSON value that has the form of a choice and the right type."""
    accepted = ACCEPTED.get(kind) if kind is not None else None
    values = (value for choice in choices.values for value in _same_form(choice))
    return [value for value in values if accepted is None or type(value) in accepted]


def _same_form(choice: Any) -> Iterator[Any]:
    form = form_of(choice)
    yield form
    if type(form) is not str:
        return
    if type(choice) in (dict, list):
        yield deepcopy(choice)
        return
    try:
        value = json.loads(form) if _could_be_json(form) else form
    except (ValueError, RecursionError):
        return
    if type(value) is not str and form_of(value) == form:
        yield value


def _could_be_json(form: str) -> bool:
    if form[:1] in ("[", "{"):
        return len(form) <= MAX_CONTAINER_FORM
    return form in ("true", "false", "null") or (len(form) <= _LONGEST_NUMBER and form[-1:].isdigit())
