"""Puts foreign text into Python source: it cannot end its docstring, comment or literal, and is shortened."""

import json
from collections.abc import Sequence
from typing import Any

_MAX_READ = 4_000
_MAX_LITERAL = 100


def one_line(text: Any, limit: int) -> str:
    r"""Return text as one line of printable characters, shortened to a limit.

    >>> one_line("a\n  b\x00c", 100), one_line("x" * 10, 5)
    ('a b c', 'xxxx…')
    """
    if not isinstance(text, str):
        return ""
    cut = text[:_MAX_READ]
    line = " ".join((cut if cut.isprintable() else _replace_unprintable(cut)).split())
    return line if len(line) <= limit else f"{line[: limit - 1].rstrip()}…"


def _replace_unprintable(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)


def paragraph(text: str | None, limit: int) -> str:
    r"""Return the first paragraph of a text on one line.

    >>> paragraph("Open an issue\nin a repository.\n\nMore.", 100)
    'Open an issue in a repository.'
    """
    read = (text or "")[:_MAX_READ].replace("\r\n", "\n").strip()
    return one_line(read.partition("\n\n")[0], limit)


def comment(parts: Sequence[str]) -> str:
    """Render a comment for the end of a line; empty if all parts are."""
    text = "; ".join(part for part in parts if part)
    return f"  # {text}" if text else ""


def docstring(lines: Sequence[str], indent: str) -> str:
    """Render lines as a docstring; empty if there are none.

    >>> docstring([], "    ")
    ''
    """
    safe = [_escape(line) for line in lines if line]
    if not safe:
        return ""
    if len(safe) == 1:
        return f'{indent}"""{safe[0]}"""'
    return "\n".join([f'{indent}"""{safe[0]}', *(f"{indent}{line}" for line in safe[1:]), f'{indent}"""'])


def _escape(line: str) -> str:
    safe = line.replace("\\", "\\\\").replace('"""', "'''")
    return f'{safe[:-1]}\\"' if safe.endswith('"') else safe


def literal(value: Any) -> str | None:
    """Render a JSON scalar as a Python literal; None for other values, and long ones.

    >>> literal("a"), literal(True), literal(1.5), literal([1])
    ('"a"', 'True', '1.5', None)
    """
    if isinstance(value, str):
        if len(value) > _MAX_LITERAL:
            return None
        return json.dumps(value, ensure_ascii=False) if value.isprintable() else repr(value)
    if value is None or isinstance(value, bool | int | float):
        text = repr(value)
        return text if len(text) <= _MAX_LITERAL else None
    return None
