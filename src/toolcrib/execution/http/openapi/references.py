"""References within a document, followed; none ever leaves it."""

from typing import Any, Final
from urllib.parse import unquote

from toolcrib.errors import ExternalRefError, InvalidSchemaError
from toolcrib.model.schema.references import lookup, parse_pointer

_MAX_HOPS = 32
_NOTHING: Final = object()


def target(document: dict[str, Any], reference: str) -> Any:
    """Return what a reference points at.

    Raises:
        ExternalRefError: it leaves the document.
        InvalidSchemaError: it points at nothing.
    """
    if not reference.startswith("#"):
        raise ExternalRefError(
            f"the reference {reference[:200]!r} leaves the document, and nothing is ever fetched"
        )
    fragment = unquote(reference[1:])
    if fragment and not fragment.startswith("/"):
        raise InvalidSchemaError(f"the reference {reference[:200]!r} is not a JSON pointer")
    value = lookup(document, parse_pointer(fragment), _NOTHING)
    if value is _NOTHING:
        raise InvalidSchemaError(f"the reference {reference[:200]!r} points at nothing")
    return value


def follow(document: dict[str, Any], value: Any) -> Any:
    """Return an object, or what it refers to where it is a reference.

    Raises:
        InvalidSchemaError: the references go round in a circle, or as `target` raises.
    """
    for _ in range(_MAX_HOPS):
        if not isinstance(value, dict) or not isinstance(value.get("$ref"), str):
            return value
        value = target(document, value["$ref"])
    raise InvalidSchemaError("a reference leads to a reference, and so on without end")


def opened(document: dict[str, Any], schema: Any) -> Any:
    """Return what a schema that is only a reference refers to, so that it says itself what it is."""
    only = isinstance(schema, dict) and set(schema) <= {"$ref", "description", "title"}
    return follow(document, schema) if only else schema
