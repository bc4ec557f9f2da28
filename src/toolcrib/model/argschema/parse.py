"""Parsing of argument schemas in both of their shapes."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, get_args

from toolcrib.errors import InvalidSchemaError, Problem, SchemaTooComplexError, ValidationError
from toolcrib.errors.base import MAX_PROBLEMS
from toolcrib.model.argschema.fields import PropertyReader
from toolcrib.model.argschema.records import TYPES, quote
from toolcrib.model.argschema.schema import SCHEMA_VERSION, ArgSchema
from toolcrib.model.plain import copy_json, measure, parse_json
from toolcrib.model.schema.keywords import LISTS, MAPS, SINGLES

Shape = Literal["auto", "map", "json-schema"]

_MAX_VALUES = 20_000
_MAX_DEPTH = 64
_LIGHT_TYPES: Final = ("float", "enum")
"""Types that only light argument schemas have."""
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")

_TEXTS: Final = frozenset(
    {"type", "title", "description", "schemaVersion", "required"}
    | {"$schema", "$id", "$comment", "$anchor", "$ref"}
)
"""Top-level keywords whose value is never an object; an object there is an argument of that name."""
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
"""Keywords of an object whose value may be a schema with a type."""


def parse_arg_schema(
    schema: Mapping[str, Any] | str | bytes,
    *,
    shape: Shape = "auto",
    strict: bool = False,
    extended: bool = False,
) -> ArgSchema:
    """Parse an argument schema, given as a mapping or its JSON text, in either shape.

    >>> parse_arg_schema({"q": {"type": "string", "required": True}}).properties["q"].required
    True
    >>> parse_arg_schema({"properties": {"q": {"type": "string"}}, "required": ["q"]}).required
    ('q',)

    Args:
        schema: A direct map from names to properties, or an object with `properties` and `required`.
        shape: The shape of the schema; `auto` detects it.
        strict: Refuse unknown types and later versions, and have `validate_args` refuse unknown arguments
            and fractions where an integer is expected.
        extended: Also enforce `pattern`, `minItems`, `maxItems` and nested `properties`, check that each
            `default` fits, and warn about `deprecated` arguments.

    Raises:
        InvalidSchemaError: the schema cannot be used; every problem is listed.
    """
    if shape not in get_args(Shape):
        raise InvalidSchemaError(f"shape must be 'auto', 'map' or 'json-schema', not {str(shape)[:40]!r}")
    plain = _plain(schema)
    nested = shape == "json-schema" or (shape == "auto" and _is_json_schema(plain))
    reader = PropertyReader(strict=strict, extended=extended)
    properties, others = _take_apart(plain, reader, nested=nested)
    version = _read_version(others.get("schemaVersion"), reader)
    at = ("properties",) if nested else ()
    members = reader.members(properties, others.get("required", []), at)
    _raise_problems(reader.problems)
    return ArgSchema(
        properties=members.properties,
        required=members.required,
        version=version,
        warnings=tuple(reader.warnings),
        strict=strict,
        extended=extended,
        doubts=tuple(reader.doubts[:MAX_PROBLEMS]),
    )


def _plain(schema: Any) -> dict[str, Any]:
    """Check that a schema is a dict of plain JSON of limited size, and return a copy."""
    if isinstance(schema, str | bytes | bytearray):
        try:
            schema = parse_json(schema)
        except ValueError as error:
            _raise_problems([Problem("", "json", f"it is not JSON: {error}"[:500])])
    try:
        schema = _as_dicts(schema, iter(range(_MAX_VALUES)))
    except Exception as error:  # a mapping of the program may raise anything
        message = f"a mapping in it cannot be read ({type(error).__name__}: {error})"[:500]
        raise InvalidSchemaError("invalid argument schema", (Problem("", "type", message),)) from error
    if type(schema) is not dict:
        message = f"an argument schema must be an object, not {type(schema).__name__[:40]}"
        _raise_problems([Problem("", "type", message)])
    try:
        values = measure(schema)[0]
    except ValidationError as error:
        too_large = error.problems[0].keyword == "size"
        kind = SchemaTooComplexError if too_large else InvalidSchemaError
        raise kind("invalid argument schema", error.problems) from None
    if values > _MAX_VALUES:
        raise SchemaTooComplexError(f"the argument schema holds more than {_MAX_VALUES:,} values")
    plain: dict[str, Any] = copy_json(schema)
    return plain


def _as_dicts(value: Any, room: Iterator[int], depth: int = 0) -> Any:
    """Convert mappings of other types in a value to dicts, up to the limits of size and depth."""
    if isinstance(value, Mapping) and depth < _MAX_DEPTH and next(room, None) is not None:
        return {key: _as_dicts(member, room, depth + 1) for key, member in value.items()}
    return value


def _raise_problems(problems: list[Problem]) -> None:
    if problems:
        more = len(problems) - MAX_PROBLEMS
        also = f" (the first {MAX_PROBLEMS} problems; {more} more)" if more > 0 else ""
        raise InvalidSchemaError(f"invalid argument schema{also}", tuple(problems[:MAX_PROBLEMS]))


def _is_json_schema(schema: dict[str, Any]) -> bool:
    """Return whether `properties` contains the arguments, and is not itself an argument."""
    properties = schema.get("properties")
    if type(properties) is not dict or type(properties.get("type")) is str:
        return False
    others = (item for item in schema.items() if item[0] != "properties")
    return all(_is_keyword(key) and not _is_argument(key, value) for key, value in others)


def is_argument_map(schema: Mapping[str, Any]) -> bool:
    """Return whether a mapping is a direct map of arguments rather than a JSON Schema.

    >>> is_argument_map({"q": {"type": "string", "required": True}})
    True
    >>> is_argument_map({"type": "object"}), is_argument_map({"items": {"type": "string"}})
    (False, False)
    """
    members = {key: value for key, value in schema.items() if not _is_note(key, value)}
    described = all(type(value) is dict and type(value.get("type")) is str for value in members.values())
    return described and any(not _is_keyword(key) or key in _TEXTS for key in members)


def light_field(schema: Any) -> tuple[str, ...] | None:
    """Return the place of a field that only light argument schemas have; None if there is none.

    That is an argument with `isArray`, with `required` true or false, or of the type `float` or `enum`.

    >>> light_field({"properties": {"tags": {"type": "string", "isArray": True}}})
    ('properties', 'tags', 'isArray')
    >>> light_field({"properties": {"isArray": {"type": "boolean"}}, "required": ["isArray"]}) is None
    True
    """
    if isinstance(schema, dict) and schema.get("type", "object") not in TYPES:
        return None  # another dialect, such as one with the type `dict`
    pending: list[tuple[Any, tuple[str, ...]]] = [(schema, ())]
    for described, place in pending:  # the loop appends to the list
        if type(described) is not dict:
            continue
        for field in ("isArray", "required"):
            if type(described.get(field)) is bool:
                return (*place, field)
        kinds = described.get("type")
        kinds = kinds if type(kinds) is list else [kinds]
        if any(type(kind) is str and kind in _LIGHT_TYPES for kind in kinds):
            return (*place, "type")
        pending += _subschemas(described, place)
    return None


def _subschemas(schema: dict[str, Any], place: tuple[str, ...]) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """Yield the subschemas of a schema with their places."""
    for word, held in schema.items():
        if type(held) is dict and word in MAPS:
            yield from ((each, (*place, word, name)) for name, each in held.items())
        elif type(held) is list and (word in LISTS or word == "items"):
            yield from ((each, (*place, word, str(at))) for at, each in enumerate(held))
        elif word in SINGLES:
            yield held, (*place, word)


def _is_keyword(key: str) -> bool:
    return key in _KEYWORDS or key.startswith("x-")


def _is_argument(key: str, value: Any) -> bool:
    """Return whether a key beside `properties` is an argument of that name and not a keyword."""
    if type(value) is not dict or key in _HOLD_SCHEMAS:
        return False
    return key in _TEXTS or type(value.get("type")) is str


def _take_apart(
    schema: dict[str, Any], reader: PropertyReader, *, nested: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split a schema into its properties and its other top-level keys."""
    if nested:
        properties = schema.pop("properties", {})
        others = schema
        if type(properties) is not dict:
            reader.refuse(("properties",), "properties must be an object")
            properties = {}
    else:
        others = {key: value for key, value in schema.items() if _is_note(key, value)}
        properties = {key: value for key, value in schema.items() if key not in others}
    if others.get("type", "object") != "object":
        text = "the type at the top must be 'object'; to describe one argument, put it under its name"
        reader.refuse(("type",), text)
    ignored = [key for key in others if key in _UNENFORCED or not _is_keyword(key)]
    reader.warnings += [f"{quote(key)} at the top is not enforced" for key in ignored]
    return properties, others


def _is_note(key: str, value: Any) -> bool:
    """Return whether an entry of a direct map is about the map itself and not an argument."""
    return type(value) is not dict and (key in _MAP_KEYWORDS or key.startswith("x-"))


def _read_version(version: Any, reader: PropertyReader) -> str:
    at, latest = ("schemaVersion",), SCHEMA_VERSION
    if version is not None and type(version) is not str:
        reader.refuse(at, f"schemaVersion must be a date such as '{latest}'")
    written = version.strip() if type(version) is str else ""
    if written and not _DATE.fullmatch(written):
        text = f"schemaVersion {quote(written)} is not a date such as '{latest}'"
        reader.doubt(at, text, f"read as {latest}")
    elif written > latest:
        text = f"schemaVersion '{written}' is later than '{latest}', the latest known here"
        reader.doubt(at, text, f"read as {latest}")
    return written or latest
