"""JSON as editors write it: with comments and trailing commas."""

import json
import re
from typing import Any

from toolcrib.model.plain import parse_json

__all__ = ["parse_jsonc"]

_STRING = r'"(?:\\.|[^"\\])*+"'
_COMMENT = re.compile(rf"{_STRING}|//[^\n]*|/\*(?:.*?\*/|.*)", re.DOTALL)
_COMMA = re.compile(rf"{_STRING}|,(?=\s*[\]}}])", re.DOTALL)
_VISIBLE = re.compile(r"[^\n]")


def parse_jsonc(text: str) -> Any:
    """Return the value of a JSON text that may have comments and trailing commas.

    >>> parse_jsonc('{"url": "http://127.0.0.1", /* ours */ "args": [1, 2,],} // done')
    {'url': 'http://127.0.0.1', 'args': [1, 2]}

    Raises:
        ValueError: it is no such text, the line and the column being those of the text; or a key stands twice
            in one object.
    """
    plain = _COMMA.sub(_blank, _COMMENT.sub(_blank, text))
    parse_json(plain)
    return json.loads(plain, object_pairs_hook=_object)


def _blank(found: re.Match[str]) -> str:
    """Return blanks in the place of what is no JSON, so that everything else stays where it is."""
    if found[0].startswith('"'):
        return found[0]
    if found[0].startswith("/*") and not found[0].endswith("*/", 2):
        raise ValueError(f"a comment begins at character {found.start()} and does not end")
    return _VISIBLE.sub(" ", found[0])


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for place, key in enumerate(keys) if key in keys[:place])
        raise ValueError(f"the key {twice[:80]!r} stands twice in one object; one of them would be lost")
    return made
