"""Builders of JSON Schemas (2020-12); each returns a plain dict.

>>> from toolcrib.model import schemas as s
>>> s.object_({"q": s.string(min_length=1), "limit": s.integer(minimum=1)}, required=["q"])["required"]
['q']
>>> s.array(s.enum("open", "closed"), unique_items=True)
{'type': 'array', 'items': {'enum': ['open', 'closed']}, 'uniqueItems': True}

Keywords are written in snake case (`min_length`); a keyword that a builder does not have can be added to the
dict. All builders raise an `InvalidSchemaError` with every problem that the meta-schema finds. Values and
alternatives are passed one by one, or as one list.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn, TypedDict, Unpack

from pydantic.alias_generators import to_camel

from toolcrib.errors import InvalidSchemaError, Problem
from toolcrib.model.plain import copy_json
from toolcrib.model.schema.compiled import check_against, plain_schema
from toolcrib.model.schema.engine import meta_engine
from toolcrib.model.suggest import did_you_mean

__all__ = [
    "any_of",
    "array",
    "boolean",
    "enum",
    "integer",
    "no_parameters",
    "number",
    "object_",
    "one_of",
    "string",
]

JsonSchema = dict[str, Any]


class _Common(TypedDict, total=False):
    """Keywords of every schema."""

    title: str
    description: str
    default: Any
    examples: list[Any]
    deprecated: bool
    read_only: bool
    write_only: bool
    nullable: bool
    """Whether null is allowed too."""


class _Value(_Common, total=False):
    enum: list[Any]
    const: Any


class _String(_Value, total=False):
    min_length: int
    max_length: int
    pattern: str
    format: str


class _Number(_Value, total=False):
    minimum: float
    maximum: float
    exclusive_minimum: float
    exclusive_maximum: float
    multiple_of: float


class _Array(_Value, total=False):
    min_items: int
    max_items: int
    unique_items: bool


class _Object(_Value, total=False):
    additional_properties: bool | JsonSchema
    min_properties: int
    max_properties: int


def string(**keywords: Unpack[_String]) -> JsonSchema:
    """Return the schema of a string."""
    return _make_typed("string", _String, keywords)


def number(**keywords: Unpack[_Number]) -> JsonSchema:
    """Return the schema of a number."""
    return _make_typed("number", _Number, keywords)


def integer(**keywords: Unpack[_Number]) -> JsonSchema:
    """Return the schema of an integer."""
    return _make_typed("integer", _Number, keywords)


def boolean(**keywords: Unpack[_Value]) -> JsonSchema:
    """Return the schema of a boolean."""
    return _make_typed("boolean", _Value, keywords)


def array(items: JsonSchema | None = None, /, **keywords: Unpack[_Array]) -> JsonSchema:
    """Return the schema of an array whose items fit a schema, or of any array."""
    return _make_typed("array", _Array, keywords, {} if items is None else {"items": items})


def object_(
    properties: Mapping[str, JsonSchema | bool] | None = None,
    /,
    *,
    required: Iterable[str] = (),
    **keywords: Unpack[_Object],
) -> JsonSchema:
    """Return the schema of an object; properties that are not in `required` are optional.

    Undeclared properties are allowed, as always in JSON Schema, unless `additional_properties=False`.

    Raises:
        InvalidSchemaError: a required name is not a property, or the schema is invalid.
    """
    if not isinstance(properties, Mapping | None):
        _raise_invalid("/properties", f"must map names to schemas, not be {type(properties).__name__}")
    known = dict(properties or {})
    given = [required] if isinstance(required, str) or not isinstance(required, Iterable) else list(required)
    if not all(isinstance(name, str) for name in given):
        _raise_invalid("/required", "must be a list of names")
    names = list(dict.fromkeys(given))
    if unknown := [name for name in names if name not in known]:
        raise InvalidSchemaError(
            "invalid schema",
            tuple(
                Problem("/required", "required", f"{name!r} is not a property{did_you_mean(name, known)}")
                for name in unknown
            ),
        )
    own: JsonSchema = {"properties": known} if properties is not None else {}
    return _make_typed("object", _Object, keywords, own | ({"required": names} if names else {}))


def no_parameters() -> JsonSchema:
    """Return the input schema that MCP recommends for a tool without parameters.

    >>> no_parameters()
    {'type': 'object', 'additionalProperties': False}
    """
    return {"type": "object", "additionalProperties": False}


def enum(*values: Any, **keywords: Unpack[_Common]) -> JsonSchema:
    """Return the schema of an enum of the given values, of any types."""
    listed = _flatten(values)
    nullable = keywords.get("nullable", False) and None not in listed
    return _make_schema({"enum": [*listed, *([None] if nullable else [])]}, _Common, keywords)


def any_of(*schemas: JsonSchema | bool | list[JsonSchema], **keywords: Unpack[_Common]) -> JsonSchema:
    """Return a schema that requires at least one of the given schemas."""
    return _make_schema({"anyOf": _add_null(schemas, keywords)}, _Common, keywords)


def one_of(*schemas: JsonSchema | bool | list[JsonSchema], **keywords: Unpack[_Common]) -> JsonSchema:
    """Return a schema that requires exactly one of the given schemas."""
    return _make_schema({"oneOf": _add_null(schemas, keywords)}, _Common, keywords)


def _raise_invalid(path: str, message: str) -> NoReturn:
    raise InvalidSchemaError("invalid schema", (Problem(path, "type", message),))


def _flatten(given: tuple[Any, ...]) -> list[Any]:
    return list(given[0]) if len(given) == 1 and isinstance(given[0], list | tuple) else list(given)


def _add_null(schemas: tuple[Any, ...], keywords: _Common) -> list[Any]:
    return [*_flatten(schemas), *([{"type": "null"}] if keywords.get("nullable") else [])]


def _make_typed(
    kind: str, allowed: type, keywords: Mapping[str, Any], own: JsonSchema | None = None
) -> JsonSchema:
    """Return a schema of one type, or of that type and null."""
    head: JsonSchema = {"type": kind} | (own or {})
    if keywords.get("nullable"):
        head["type"] = [kind, "null"]
        if "const" in keywords:
            raise InvalidSchemaError("a nullable constant is two values: use enum(value, None)")
        if isinstance(values := keywords.get("enum"), list | tuple) and None not in values:
            keywords = {**keywords, "enum": [*values, None]}
    return _make_schema(head, allowed, keywords)


def _make_schema(head: JsonSchema, allowed: type, keywords: Mapping[str, Any]) -> JsonSchema:
    """Return a schema with further keywords, checked against the meta-schema."""
    names = allowed.__annotations__
    if unknown := [name for name in keywords if name not in names]:
        raise InvalidSchemaError(
            "invalid schema",
            tuple(
                Problem(f"/{name}", "name", f"is not a keyword of this builder{did_you_mean(name, names)}")
                for name in unknown
            ),
        )
    tail = {to_camel(name): value for name, value in keywords.items() if name != "nullable"}
    tail = {name: list(value) if isinstance(value, tuple) else value for name, value in tail.items()}
    schema = head | tail
    plain_schema(schema)
    check_against(meta_engine("2020-12"), schema)
    copied: JsonSchema = copy_json(schema)
    return copied
