"""Records as the REPL and notebooks show them: a few short lines, and tables in HTML.

Tools, their descriptions and their results are written by others. Everything here is cut to a length, its
invisible characters are made visible, and in HTML it is escaped.
"""

import json
import re
from collections.abc import Sequence
from html import escape
from reprlib import Repr
from typing import Any

from toolcrib.errors.text import truncate
from toolcrib.model.plain import is_large

HIDDEN = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # steer a terminal; a carriage return lets a line be written over
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # turn the direction of text
    "\u2028\u2029"  # end a line where nobody expects it
    "\u00ad\u180e\u200b-\u200d\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb\U0001bca0-\U0001bca3"  # no width
    "\U000e0000-\U000e007f\U000e0100-\U000e01ef"  # tags and variations, which a model reads
    "]"
)
"""What steers a terminal, turns the direction of text or hides in it.

Some scripts and emoji need a few of these, and files of Windows the carriage return: whoever complains of
them rather than replaces them has to let those pass.
"""
MAX_ROWS = 10
"""How many rows the REPL shows of a list."""
_MAX_TABLE_ROWS = 100
MAX_JSON = 4_000
"""At how many characters a value in JSON is cut."""
_MAX_LINE = 100
"""Characters of a line of the REPL."""
_MAX_TEXT = 300
"""Characters of a text in a table."""
_REPR = Repr()
_REPR.maxstring = _REPR.maxother = 60
_REPR.maxlevel = 4


def visible(text: str) -> str:
    r"""Return text with escape sequences for the characters in it that nobody sees.

    >>> visible("safe\u202egnp.exe")
    'safe\\u202egnp.exe'
    """
    return HIDDEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def one_line(text: str, length: int = _MAX_LINE) -> str:
    """Return the beginning of a text on one line."""
    line = visible(" ".join(text[: 4 * length].split()))
    return line if len(line) <= length and len(text) <= 4 * length else f"{line[: length - 1]}…"


def brief(value: Any, length: int = _MAX_LINE) -> str:
    """Return the beginning of a value as Python writes it; how large the value is does not matter.

    >>> brief({"prices": [4, 6] * 1000})
    "{'prices': [4, 6, 4, 6, 4, 6, ...]}"
    """
    return one_line(_REPR.repr(value), length)


def brief_json(value: Any) -> str:
    """Return a value as JSON on several lines; of a large one, the beginning of what Python writes."""
    if is_large(value):
        return brief(value, MAX_JSON)
    text = visible(json.dumps(value, indent=2, ensure_ascii=False, default=str))
    return truncate(text, MAX_JSON)


def table(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]], length: int = _MAX_TEXT) -> str:
    """Return a table in HTML of texts, which are escaped and cut at a length."""
    cell = "<td style='text-align: left; white-space: pre-wrap'>{}</td>"
    body = [
        "<tr>" + "".join(cell.format(_escape(text, length)) for text in row) + "</tr>"
        for row in rows[:_MAX_TABLE_ROWS]
    ]
    if len(rows) > _MAX_TABLE_ROWS:
        body.append(f"<tr><td colspan='{len(head)}'>{len(rows) - _MAX_TABLE_ROWS:,} more</td></tr>")
    heads = "".join(f"<th style='text-align: left'>{_escape(text, length)}</th>" for text in head)
    # Notebooks read what stands between dollar signs as formulas, in which there can be links.
    return (
        f"<table class='tex2jax_ignore mathjax_ignore'><caption>{_escape(caption, length)}</caption>"
        f"<thead><tr>{heads}</tr></thead><tbody>{''.join(body)}</tbody></table>"
    )


def _escape(text: str, length: int) -> str:
    shown = visible(text[: length + 1])
    return escape(shown if len(text) <= length else f"{shown[:length]}…")
