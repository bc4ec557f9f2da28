"""Reading of schemas given as a dict, a boolean, JSON text or a Python type."""

from functools import lru_cache
from typing import Any

from pydantic import PydanticUserError, TypeAdapter

from toolcrib.errors import InvalidSchemaError
from toolcrib.model.plain import copy_json, parse_json


def schema_of(kind: Any) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a pydantic model, a dataclass, or any type annotation.

    >>> schema_of(list[int])
    {'items': {'type': 'integer'}, 'type': 'array'}

    Raises:
        InvalidSchemaError: the type, such as a callable, has no JSON Schema.
    """
    try:
        schema = _generate(kind)
    except TypeError:  # unhashable, such as Annotated[int, []]
        schema = _generate.__wrapped__(kind)
    copied: dict[str, Any] = copy_json(schema)
    return copied


@lru_cache(maxsize=1024)
def _generate(kind: Any) -> dict[str, Any]:
    try:
        return TypeAdapter(kind).json_schema()
    except (PydanticUserError, ValueError, TypeError) as error:
        raise InvalidSchemaError(f"{kind!r:.200} has no JSON Schema: {str(error)[:200]}") from error


def read_schema(schema: Any) -> Any:
    """Return a schema in any of the accepted forms as a dict or a boolean, without checking its content."""
    if isinstance(schema, dict | bool):
        return schema
    if isinstance(schema, str | bytes | bytearray):
        try:
            return parse_json(schema)
        except ValueError as error:
            raise InvalidSchemaError(f"the schema is not JSON: {error}"[:500]) from error
    if schema is None or isinstance(schema, list | tuple | int | float):
        raise InvalidSchemaError(
            f"a schema must be an object, a boolean, JSON text or a type, not {type(schema).__name__}"
        )
    return schema_of(schema)
