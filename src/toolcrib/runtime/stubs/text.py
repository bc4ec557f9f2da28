"""Text of others inside Python source: it stays inside its docstring, comment or literal, and stays short."""

import json
from collections.abc import Sequence
from typing import Any

_MAX_READ = 4_000
_MAX_LITERAL = 100


def one_line(text: Any, limit: int) -> str:
    r"""Return text on one line of printable characters, cut where it is too long.

    >>> one_line("a\n  b\x00c", 100), one_line("x" * 10, 5)
    ('a b c', 'xxxx…')
    """
    if not isinstance(text, str):
        return ""
    cut = text[:_MAX_READ]
    line = " ".join((cut if cut.isprintable() else _printable(cut)).split())
    return line if len(line) <= limit else f"{line[: limit - 1].rstrip()}…"


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)


def paragraph(text: str | None, limit: int) -> str:
    r"""Return the first paragraph of a text on one line.

    >>> paragraph("Open an issue\nin a repository.\n\nMore.", 100)
    'Open an issue in a repository.'
    """
    read = (text or "")[:_MAX_READ].replace("\r\n", "\n").strip()
    return one_line(read.partition("\n\n")[0], limit)


def comment(parts: Sequence[str]) -> str:
    """Return a comment at the end of a line, or nothing where all parts are empty."""
    text = "; ".join(part for part in parts if part)
    return f"  # {text}" if text else ""


def docstring(lines: Sequence[str], indent: str) -> str:
    """Return lines as a docstring, or nothing where there are none.

    >>> docstring([], "    ")
    ''
    """
    safe = [_quoted(line) for line in lines if line]
    if not safe:
        return ""
    if len(safe) == 1:
        return f'{indent}"""{safe[0]}"""'
    return "\n".join([f'{indent}"""{safe[0]}', *(f"{indent}{line}" for line in safe[1:]), f'{indent}"""'])


def _quoted(line: str) -> str:
    safe = line.replace("\\", "\\\\").replace('"""', "'''")
    return f'{safe[:-1]}\\"' if safe.endswith('"') else safe


def literal(value: Any) -> str | None:
    """Return a JSON scalar as Python writes it; None for other values, and long ones.

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
