"""JSON as editors write it: with comments and trailing commas."""

import re
from typing import Any

from toolcrib.model.plain import parse_json

__all__ = ["parse_jsonc"]

_STRING = r'"(?:\\.|[^"\\])*+"'
_COMMENT = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?\*/", re.DOTALL)
_COMMA = re.compile(rf"{_STRING}|,(?=\s*[\]}}])", re.DOTALL)
_VISIBLE = re.compile(r"[^\n]")


def parse_jsonc(text: str) -> Any:
    """Return the value of a JSON text that may have comments and trailing commas.

    >>> parse_jsonc('{"url": "http://127.0.0.1", /* ours */ "args": [1, 2,],} // done')
    {'url': 'http://127.0.0.1', 'args': [1, 2]}

    Raises:
        ValueError: it is no such text; the line and the column are those of the text.
    """
    return parse_json(_COMMA.sub(_blank, _COMMENT.sub(_blank, text)))


def _blank(found: re.Match[str]) -> str:
    """Return blanks in the place of what is no JSON, so that everything else stays where it is."""
    return found[0] if found[0].startswith('"') else _VISIBLE.sub(" ", found[0])
