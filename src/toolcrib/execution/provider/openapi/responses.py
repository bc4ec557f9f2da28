"""The output schema of an operation, and what media types to ask for."""

import json
from collections.abc import Iterator
from typing import Any

from toolcrib.execution.provider.openapi.parameters import is_json
from toolcrib.execution.provider.openapi.references import follow, opened
from toolcrib.execution.provider.openapi.schemas import Schemas

__all__ = ["read_accept", "read_output"]

_NOTHING = {"type": "null"}
_STREAMS = ("text/event-stream", "ndjson", "jsonl", "json-seq", "json-lines", "stream+json")


def read_output(document: dict[str, Any], schemas: Schemas, responses: Any) -> Any:
    """Return the schema of what a successful call gives; None where it cannot be told.

    Each answer of status 2xx must be JSON with a schema, or have no content, which is null. Where an answer
    may be a stream, or is something else than JSON, there is none.
    """
    found: list[Any] = []
    for response in _successes(document, responses):
        content = response.get("content")
        if not content:
            found.append(_NOTHING)
            continue
        if not isinstance(content, dict):
            return None
        media_type = next((name for name in content if is_json(name)), None)
        media = follow(document, content[media_type]) if media_type else None
        is_stream = any(word in name.lower() for name in content for word in _STREAMS)
        if is_stream or not isinstance(media, dict) or "schema" not in media:
            return None
        found.append(schemas.write(opened(document, media["schema"]), "output"))
    different = list({json.dumps(schema, sort_keys=True): schema for schema in found}.values())
    if different in ([], [_NOTHING]):
        return None
    return different[0] if len(different) == 1 else {"anyOf": different}


def read_accept(document: dict[str, Any], responses: Any) -> str:
    """Return the media types to ask for: those of the document, JSON before the rest."""
    named: dict[str, None] = {}
    for response in _successes(document, responses):
        content = response.get("content")
        for name in content if isinstance(content, dict) else ():
            plain = name.partition(";")[0].strip()
            if plain.count("/") == 1 and plain.isascii() and plain.isprintable() and "," not in plain:
                named[plain] = None
    ordered = sorted(named, key=lambda name: not is_json(name))[:16]
    return ", ".join([*ordered, "*/*;q=0.1"]) if ordered else "application/json, */*;q=0.5"


def _successes(document: dict[str, Any], responses: Any) -> Iterator[dict[str, Any]]:
    """Yield the answers that mean success, in the order of their status."""
    if isinstance(responses, dict):
        for status in sorted(map(str, responses)):
            response = follow(document, responses[status])
            if status.upper().startswith("2") and isinstance(response, dict):
                yield response
