"""Reads the value of a tool out of an MCP result."""

import json
from math import isfinite
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

from toolcrib.errors.text import truncate
from toolcrib.model.plain import parse_json, walk

TASK = "task"
"""The type of a result that is the handle of a task."""
_MAX_TTL_MS = 24 * 60 * 60 * 1000
"""Milliseconds for which a task can be queried, whatever its server declares."""
_MAX_REASON = 2_000
"""Characters of a tool's error message that go into the error; the raw result has the rest."""


def result_value(result: dict[str, Any]) -> Any:
    """Return the value of a tool's result.

    That is its structured content, if it has any, as it came: servers that wrap what is no object as
    `{"result": ...}` declare just that in the output schema, so it is not unwrapped. Without it the value of
    a single part, read as JSON if it is a text that is JSON; of several parts a list of theirs, in which
    texts are not read; of none, None. Images, audio, resources and links stay the objects they came as.

    >>> result_value({"content": [{"type": "text", "text": '{"id": 7}'}]})
    {'id': 7}
    >>> result_value({"content": [{"type": "text", "text": "0151 2345"}]})
    '0151 2345'
    """
    structured = result.get("structuredContent")
    # Only results of the modern era carry a type, and only there is null a value like any other.
    if structured is not None or ("structuredContent" in result and "resultType" in result):
        return structured
    parts = result.get("content")
    if not isinstance(parts, list):
        return None
    values = [_part_value(part) for part in parts]
    if len(values) != 1:
        return values or None
    return read_text(values[0]) if isinstance(values[0], str) else values[0]


def _part_value(part: Any) -> Any:
    is_text = isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)
    return part["text"] if is_text else part


def read_text(text: str) -> Any:
    """Return the JSON value of a text that is JSON as a whole, else the text.

    A bare number counts only if it would be written just so: a version `1.10` or a key `1e5` is a text.

    >>> read_text("[1, 2]"), read_text("42"), read_text("1.10"), read_text("NaN"), read_text("007")
    ([1, 2], 42, '1.10', 'NaN', '007')
    """
    start = text[:64].lstrip()[:1]
    if start and start not in '{["-0123456789tfn':
        return text
    try:
        value = parse_json(text)
    except ValueError:
        return text
    if type(value) is int or type(value) is float:
        return value if json.dumps(value) == text.strip() else text
    try:
        result_size(value)
    except ValueError:  # `1e999`, half a character, or nested deeper than can be written
        return text
    return value


def _is_finite(value: Any) -> bool:
    """Return whether a value holds no number that JSON cannot write: `1e999` is read as infinity."""
    return all(isfinite(member) for member in walk(value) if type(member) is float)


def result_size(value: Any) -> int:
    """Return how many bytes a value takes as JSON.

    Raises:
        ValueError: it cannot be written as JSON.
    """
    try:
        encoded = to_json(value, inf_nan_mode="constants")
    except (PydanticSerializationError, UnicodeEncodeError) as error:
        raise ValueError(f"the result cannot be written as JSON: {error}") from error
    if (b"NaN" in encoded or b"Infinity" in encoded) and not _is_finite(value):
        raise ValueError("the result holds a number that JSON does not have: NaN or an infinity")
    return len(encoded)


def task_ttl_ms(handle: dict[str, Any]) -> int:
    """Return for how many milliseconds a server keeps a task, as far as that can be relied on.

    >>> task_ttl_ms({"ttlMs": 60000}), task_ttl_ms({"ttlMs": None})
    (60000, 86400000)
    """
    stated = handle.get("ttlMs")
    return min(stated, _MAX_TTL_MS) if type(stated) is int and stated > 0 else _MAX_TTL_MS


def describe_failure(result: dict[str, Any]) -> str:
    """Return the message of an error result.

    >>> describe_failure({"isError": True, "content": [{"type": "text", "text": "no such file"}]})
    'no such file'
    """
    parts = result.get("content")
    values = [_part_value(part) for part in parts] if isinstance(parts, list) else []
    text = "\n".join(value for value in values if isinstance(value, str)).strip()
    if not text and result.get("structuredContent") is not None:
        text = json.dumps(result["structuredContent"], ensure_ascii=False, default=str)
    text = text or "the tool reported an error and did not say which"
    return truncate(text, _MAX_REASON, f"… ({len(text):,} characters)")
