"""Representations of records for the REPL and notebooks: a few short lines, and HTML tables.

Tools, their descriptions and their results are untrusted text. It is cut to a length, its invisible
characters are replaced by escape sequences, and in HTML it is escaped.
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
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # terminal control; a carriage return can overwrite a line
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction of text
    "\u2028\u2029"  # unusual line separators
    "\u00ad\u180e\u200b-\u200d\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb\U0001bca0-\U0001bca3"  # no width
    "\U000e0000-\U000e007f\U000e0100-\U000e01ef"  # tags and variation selectors, which a model reads
    "]"
)
"""Characters that control a terminal, change the direction of text or are invisible.

Some scripts and emoji need a few of these, and Windows files the carriage return: code that reports such
characters as errors, instead of replacing them, must make exceptions.
"""
MAX_ROWS = 10
"""The maximum number of rows of a list in the REPL."""
_MAX_TABLE_ROWS = 100
MAX_JSON = 4_000
"""Characters after which a JSON value is cut."""
_MAX_LINE = 100
"""Characters of a line in the REPL."""
_MAX_TEXT = 300
"""Characters of a text in a table."""
_REPR = Repr()
_REPR.maxstring = _REPR.maxother = 60
_REPR.maxlevel = 4


def visible(text: str) -> str:
    r"""Replace invisible characters in a text by escape sequences.

    >>> visible("safe\u202egnp.exe")
    'safe\\u202egnp.exe'
    """
    return HIDDEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def one_line(text: str, length: int = _MAX_LINE) -> str:
    """Return the beginning of a text on one line."""
    line = visible(" ".join(text[: 4 * length].split()))
    return line if len(line) <= length and len(text) <= 4 * length else f"{line[: length - 1]}…"


def brief(value: Any, length: int = _MAX_LINE) -> str:
    """Return the beginning of the repr of a value, in a time that does not depend on its size.

    >>> brief({"prices": [4, 6] * 1000})
    "{'prices': [4, 6, 4, 6, 4, 6, ...]}"
    """
    return one_line(_REPR.repr(value), length)


def brief_json(value: Any) -> str:
    """Return a value as indented JSON; for a large one, the beginning of its repr."""
    if is_large(value):
        return brief(value, MAX_JSON)
    text = visible(json.dumps(value, indent=2, ensure_ascii=False, default=str))
    return truncate(text, MAX_JSON)


def table(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]], length: int = _MAX_TEXT) -> str:
    """Return an HTML table of texts, which are escaped and cut."""
    cell = "<td style='text-align: left; white-space: pre-wrap'>{}</td>"
    body = [
        "<tr>" + "".join(cell.format(_escape(text, length)) for text in row) + "</tr>"
        for row in rows[:_MAX_TABLE_ROWS]
    ]
    if len(rows) > _MAX_TABLE_ROWS:
        body.append(f"<tr><td colspan='{len(head)}'>{len(rows) - _MAX_TABLE_ROWS:,} more</td></tr>")
    heads = "".join(f"<th style='text-align: left'>{_escape(text, length)}</th>" for text in head)
    # The classes stop notebooks from rendering text between dollar signs as formulas, which may have links.
    return (
        f"<table class='tex2jax_ignore mathjax_ignore'><caption>{_escape(caption, length)}</caption>"
        f"<thead><tr>{heads}</tr></thead><tbody>{''.join(body)}</tbody></table>"
    )


def _escape(text: str, length: int) -> str:
    shown = visible(text[: length + 1])
    return escape(shown if len(text) <= length else f"{shown[:length]}…")
