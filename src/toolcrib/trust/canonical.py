"""Canonical JSON: equal values have equal texts, whatever the order of keys and however numbers are written.

It is a part of formula 1 of the lock, so it cannot change without a new formula: keys sorted by code points,
no spaces, characters as they are, and a number without a fraction written as an integer.
"""

import re
from hashlib import sha256
from typing import Any

from toolcrib.model.json_text import sorted_json

_WHOLE_FLOAT = re.compile(r"\d\.0(?:[],}]|$)")
_EXACT = 2**53
"""Above it, floating-point numbers are no longer told apart from their neighbours, and stay as they are."""


def canonical_json(value: Any) -> str:
    """Return the canonical text of a JSON value.

    >>> canonical_json({"b": 1.0, "a": [True, "é"]})
    '{"a":[true,"é"],"b":1}'
    """
    text = sorted_json(value)
    if ".0" in text and _WHOLE_FLOAT.search(text):  # the first is fast, and most have none
        return sorted_json(_without_floats(value))
    return text


def digest(text: str) -> str:
    """Return the SHA-256 digest of a text, as the lock writes it."""
    return f"sha256:{sha256(text.encode()).hexdigest()}"


def _without_floats(value: Any) -> Any:
    """Return a value with integers for numbers that have no fraction."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < _EXACT else value
    if isinstance(value, dict):
        return {key: _without_floats(member) for key, member in value.items()}
    return [_without_floats(member) for member in value] if isinstance(value, list) else value
