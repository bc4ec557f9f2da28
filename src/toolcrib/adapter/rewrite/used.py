"""Listing of the keywords that a schema uses."""

from collections.abc import Iterator
from typing import Any

from toolcrib.adapter.loss import step
from toolcrib.adapter.rewrite.source import MANY_SCHEMAS, MAP_OF_SCHEMAS, ONE_SCHEMA


def used_keywords(schema: Any) -> Iterator[tuple[str, str]]:
    """Yield every keyword of a schema with the path of its subschema; property names are not keywords.

    >>> list(used_keywords({"type": "object", "properties": {"type": {"minimum": 1}}}))
    [('type', ''), ('properties', ''), ('minimum', '/properties/type')]
    """
    pending: list[tuple[Any, str]] = [(schema, "")]
    for subschema, path in pending:
        if type(subschema) is not dict:
            continue
        for word, value in subschema.items():
            yield word, path
            if word in MAP_OF_SCHEMAS and type(value) is dict:
                pending += [(member, step(path, word, name)) for name, member in value.items()]
            elif word in MANY_SCHEMAS | {"items"} and type(value) is list:
                pending += [(member, step(path, word, index)) for index, member in enumerate(value)]
            elif word in ONE_SCHEMA:
                pending.append((value, step(path, word)))
