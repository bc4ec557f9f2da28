"""Follows references within a document, and refuses those that leave it."""

from typing import Any, Final
from urllib.parse import unquote

from toolcrib.errors import ExternalRefError, InvalidSchemaError
from toolcrib.model.schema.references import lookup, parse_pointer

_MAX_HOPS = 32
_MISSING: Final = object()


def find_target(document: dict[str, Any], reference: str) -> Any:
    """Return the target of a reference.

    Raises:
        ExternalRefError: it leads to another document.
        InvalidSchemaError: the target does not exist.
    """
    if not reference.startswith("#"):
        raise ExternalRefError(
            f"the reference {reference[:200]!r} leaves the document, and nothing is ever fetched"
        )
    fragment = unquote(reference[1:])
    if fragment and not fragment.startswith("/"):
        raise InvalidSchemaError(f"the reference {reference[:200]!r} is not a JSON pointer")
    value = lookup(document, parse_pointer(fragment), _MISSING)
    if value is _MISSING:
        raise InvalidSchemaError(f"the reference {reference[:200]!r} points at nothing")
    return value


def follow(document: dict[str, Any], value: Any) -> Any:
    """Return an object; if it is a reference, its target.

    Raises:
        InvalidSchemaError: references form a circle, or as `find_target` raises.
    """
    for _ in range(_MAX_HOPS):
        if not isinstance(value, dict) or not isinstance(value.get("$ref"), str):
            return value
        value = find_target(document, value["$ref"])
    raise InvalidSchemaError("references refer to one another endlessly")


def follow_bare(document: dict[str, Any], schema: Any) -> Any:
    """Return the target of a schema that is only a reference, whose keywords are then visible."""
    only = isinstance(schema, dict) and set(schema) <= {"$ref", "description", "title"}
    return follow(document, schema) if only else schema
