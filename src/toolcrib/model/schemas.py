"""Builders for JSON Schema 2020-12 written by hand; each returns a plain dict.

>>> from toolcrib.model import schemas as s
>>> s.object_({"q": s.string(min_length=1), "limit": s.integer(minimum=1)}, required=["q"])["required"]
['q']
>>> s.array(s.enum("open", "closed"), unique_items=True)
{'type': 'array', 'items': {'enum': ['open', 'closed']}, 'uniqueItems': True}

Keywords are spelt as in Python (`min_length`); one that a builder has no parameter for can be added to its
dict. All builders raise an `InvalidSchemaError` with every problem that the meta-schema finds. Values and
alternatives are given one by one, or as one list.
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
    """Keywords that every schema may have."""

    title: str
    description: str
    default: Any
    examples: list[Any]
    deprecated: bool
    read_only: bool
    write_only: bool
    nullable: bool
    """Whether null is a value too."""


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
    """Return the schema of a text."""
    return _typed("string", _String, keywords)


def number(**keywords: Unpack[_Number]) -> JsonSchema:
    """Return the schema of a number."""
    return _typed("number", _Number, keywords)


def integer(**keywords: Unpack[_Number]) -> JsonSchema:
    """Return the schema of a number without a fraction."""
    return _typed("integer", _Number, keywords)


def boolean(**keywords: Unpack[_Value]) -> JsonSchema:
    """Return the schema of true and false."""
    return _typed("boolean", _Value, keywords)


def array(items: JsonSchema | None = None, /, **keywords: Unpack[_Array]) -> JsonSchema:
    """Return the schema of an array whose members all fit `items`; of any members without it."""
    return _typed("array", _Array, keywords, {} if items is None else {"items": items})


def object_(
    properties: Mapping[str, JsonSchema | bool] | None = None,
    /,
    *,
    required: Iterable[str] = (),
    **keywords: Unpack[_Object],
) -> JsonSchema:
    """Return the schema of an object; properties that are not `required` may be absent.

    Further properties are allowed, as everywhere in JSON Schema, unless `additional_properties=False`.

    Raises:
        InvalidSchemaError: a required name is not among the properties, or as for all builders.
    """
    if not isinstance(properties, Mapping | None):
        _refuse("/properties", f"must map names to schemas, not be {type(properties).__name__}")
    known = dict(properties or {})
    given = [required] if isinstance(required, str) or not isinstance(required, Iterable) else list(required)
    if not all(isinstance(name, str) for name in given):
        _refuse("/required", "must be a list of names")
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
    return _typed("object", _Object, keywords, own | ({"required": names} if names else {}))


def no_parameters() -> JsonSchema:
    """Return the input schema that MCP recommends for a tool without parameters.

    >>> no_parameters()
    {'type': 'object', 'additionalProperties': False}
    """
    return {"type": "object", "additionalProperties": False}


def enum(*values: Any, **keywords: Unpack[_Common]) -> JsonSchema:
    """Return the schema of the values listed, of whatever types they are."""
    listed = _listed(values)
    nullable = keywords.get("nullable", False) and None not in listed
    return _schema({"enum": [*listed, *([None] if nullable else [])]}, _Common, keywords)


def any_of(*schemas: JsonSchema | bool | list[JsonSchema], **keywords: Unpack[_Common]) -> JsonSchema:
    """Return the schema of values that fit at least one of the schemas."""
    return _schema({"anyOf": _alternatives(schemas, keywords)}, _Common, keywords)


def one_of(*schemas: JsonSchema | bool | list[JsonSchema], **keywords: Unpack[_Common]) -> JsonSchema:
    """Return the schema of values that fit exactly one of the schemas."""
    return _schema({"oneOf": _alternatives(schemas, keywords)}, _Common, keywords)


def _refuse(path: str, message: str) -> NoReturn:
    raise InvalidSchemaError("invalid schema", (Problem(path, "type", message),))


def _listed(given: tuple[Any, ...]) -> list[Any]:
    return list(given[0]) if len(given) == 1 and isinstance(given[0], list | tuple) else list(given)


def _alternatives(schemas: tuple[Any, ...], keywords: _Common) -> list[Any]:
    return [*_listed(schemas), *([{"type": "null"}] if keywords.get("nullable") else [])]


def _typed(
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
    return _schema(head, allowed, keywords)


def _schema(head: JsonSchema, allowed: type, keywords: Mapping[str, Any]) -> JsonSchema:
    """Return a schema with these keywords as well, if the meta-schema accepts it."""
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
