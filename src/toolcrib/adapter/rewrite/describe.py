"""Descriptions of constraints that a converted schema cannot express."""

from collections.abc import Iterable
from typing import Any, Final

from toolcrib.adapter.rewrite.codec import to_text
from toolcrib.errors.text import truncate
from toolcrib.model.json_text import COMPACT_ENCODER

MAX_HINT: Final = 600
"""The maximum length of a schema that is quoted in a description, in characters."""
_MAX_NOTE: Final = 300
_MAX_SMALL: Final = 40
_CONTAINERS: Final = frozenset({dict, list})


def describe(description: Any, items: Iterable[tuple[str, Any]]) -> str:
    """Return a description with some keywords and their values appended.

    >>> describe("How many.", [("minimum", 1), ("maximum", 9)])
    'How many. (minimum: 1; maximum: 9)'
    """
    notes = "; ".join(f"{word}: {_to_short_text(value, _MAX_NOTE)}" for word, value in items)
    return add_text(description, f"({notes})")


def add_text(description: Any, text: str) -> str:
    """Return a description with a text appended."""
    return f"{description.rstrip()} {text}" if isinstance(description, str) and description.strip() else text


def quote_schema(schema: dict[str, Any], *, left_out: frozenset[str]) -> str:
    """Return a short quotation of a schema; empty if it has no keywords or refers elsewhere."""
    kept = {word: value for word, value in schema.items() if word not in left_out}
    text = _to_short_text(kept, MAX_HINT)
    return f" that fits {text}" if kept and '"$ref"' not in text else ""


def _to_short_text(value: Any, limit: int) -> str:
    """Serialize a value, and stop soon after a limit."""
    if isinstance(value, str):
        text = value
    elif not isinstance(value, dict | list):
        return to_text(value)
    elif _is_small(value):
        text = to_text(value)
    else:
        text = ""
        for piece in COMPACT_ENCODER.iterencode(value):
            text += piece
            if len(text) > limit:
                break
    return truncate(text, limit)


def _is_small(value: Any) -> bool:
    """Return whether a container is so small that serializing all of it is fastest."""
    pending = [value]
    for held in pending:
        pending += [
            member
            for member in (held.values() if type(held) is dict else held)
            if type(member) in _CONTAINERS
        ]
        if len(held) > _MAX_SMALL or len(pending) > _MAX_SMALL:
            return False
    return True
