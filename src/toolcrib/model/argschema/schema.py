"""Parsed argument schemas, and their conversion to JSON Schema."""

from dataclasses import dataclass
from typing import Any, Final

from toolcrib.errors import Problem
from toolcrib.model.argschema.records import ACCEPTED, ArgSchemaProperty, ArgType, Members, form_of
from toolcrib.model.plain import copy_json, measure, parse_json

SCHEMA_VERSION: Final = "2025-10-09"
"""The date of the implemented version of the format."""
_NOTHING: Final[dict[str, Any]] = {"not": {}}


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgSchema:
    """A parsed argument schema; both shapes give the same record."""

    properties: dict[str, ArgSchemaProperty]
    """The arguments by name, in schema order."""
    required: tuple[str, ...] = ()
    """Every required name in schema order; names without a property come last."""
    version: str = SCHEMA_VERSION
    """The date in the schema."""
    warnings: tuple[str, ...] = ()
    """Fields that are not enforced, and fields that were read permissively."""
    strict: bool = False
    """Whether unknown arguments, fractions for integers and later schema versions are refused."""
    extended: bool = False
    """Whether fields that this version does not enforce, such as `pattern`, are enforced all the same."""
    doubts: tuple[Problem, ...] = ()
    """Problems that strict parsing would refuse."""

    @property
    def members(self) -> Members:
        """The arguments as the members of one object."""
        return Members(self.properties, self.required)

    def to_json_schema(self) -> dict[str, Any]:
        """Return a JSON Schema (2020-12) that accepts the same arguments.

        >>> schema = ArgSchema(properties={}, required=("q",))
        >>> schema.to_json_schema()["required"]
        ['q']
        """
        head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"}
        return head | _object_schema(self.members, strict=self.strict)


def _object_schema(members: Members, *, strict: bool) -> dict[str, Any]:
    properties = {name: _property_schema(prop, strict=strict) for name, prop in members.properties.items()}
    schema: dict[str, Any] = {"properties": properties}
    if members.required:
        schema["required"] = list(members.required)
    if strict:
        for name in members.required:
            properties.setdefault(name, {})
        schema["additionalProperties"] = False
    return schema


def _property_schema(prop: ArgSchemaProperty, *, strict: bool) -> dict[str, Any]:
    value = _value_schema(prop, strict=strict)
    schema: dict[str, Any] = {"description": prop.description} if prop.description else {}
    if prop.is_array:
        schema |= {"type": "array"} | _drop_none(minItems=prop.min_items, maxItems=prop.max_items)
        schema |= {"items": value} if value else {}
    else:
        schema |= value
    if prop.has_default:
        schema["default"] = copy_json(prop.default)
    if prop.deprecated:
        schema["deprecated"] = True
    return schema


def _value_schema(prop: ArgSchemaProperty, *, strict: bool) -> dict[str, Any]:
    schema = _drop_none(
        type=_type_name(prop.value_type, strict=strict),
        minLength=prop.min_length,
        maxLength=prop.max_length,
        minimum=prop.minimum,
        maximum=prop.maximum,
    )
    if prop.choices is not None:
        values = _enum(prop.choices, prop.value_type)
        schema |= {"enum": values} if values else _NOTHING
    if prop.patterns:
        first, *others = ({"pattern": pattern.text} for pattern in prop.patterns)
        schema |= first | ({"allOf": others} if others else {})
    if prop.members is not None:
        schema |= _object_schema(prop.members, strict=strict)
    return schema


def _drop_none(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _type_name(kind: ArgType | None, *, strict: bool) -> str | None:
    if kind == "float" or (kind == "integer" and not strict):
        return "number"  # this version of the format does not distinguish integers from other numbers
    return None if kind == "enum" else kind


def _enum(choices: dict[str, Any], kind: ArgType | None) -> list[Any]:
    """Return all JSON values that have the form of a choice and the right type."""
    accepted = ACCEPTED.get(kind) if kind else None
    values = (value for form in choices for value in _values_with(form))
    return [value for value in values if accepted is None or type(value) in accepted]


def _values_with(form: str) -> list[Any]:
    """Return the values with a form: the text itself and, if it is canonical JSON, its value."""
    try:
        value = parse_json(form)
        measure(value)
    except ValueError:
        return [form]
    return [form, value] if type(value) is not str and form_of(value) == form else [form]
