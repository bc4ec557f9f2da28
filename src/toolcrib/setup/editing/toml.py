"""Change one table of a TOML text, and keep everything else as it stands, comments included.

Lines are put in and taken out; that nothing else has changed is for the caller to check, by reading both.
"""

import json
import re
import tomllib
from collections.abc import Iterator
from itertools import islice
from typing import Any

__all__ = ["remove_toml", "set_toml", "toml_key", "toml_value"]

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_HEADER = re.compile(r"\s*\[(?!\[)")
_ARRAY_HEADER = re.compile(r"\s*\[\[")
_IDLE = re.compile(r"\s*(#.*)?")
_MAX_LINES = 200
"""Over how many lines one key may go."""
_MAX_TRIES = 20
"""How many places are tried for one key."""


def set_toml(text: str, path: tuple[str, ...], value: dict[str, Any]) -> str:
    """Return a TOML text in which the table at a path has these values: in its place, else at the end.

    >>> print(set_toml("timeout = 5", ("servers", "time"), {"command": "uvx", "args": ["mcp-server-time"]}))
    timeout = 5
    <BLANKLINE>
    [servers.time]
    command = "uvx"
    args = ["mcp-server-time"]
    <BLANKLINE>

    Raises:
        ValueError: TOML has no way to write the value, or the table cannot be found in the text.
    """
    lines = _LINE.findall(text)
    table = "\n".join([f"[{'.'.join(map(toml_key, path))}]", *map(_pair, *_columns(value)), ""])
    if not _has(tomllib.loads(text), path):
        gap = "" if not text.strip() else "\n" if text.endswith("\n") else "\n\n"
        return f"{text}{gap}{table}"
    blocks = list(_blocks(lines, path))
    if not blocks:
        left, place = _without_key(lines, path)
        if place is None:
            raise ValueError(f"the table {'.'.join(path)!r} is not written in a way we can change")
        return "\n\n".join([*filter(None, [left.rstrip()]), table])
    first = blocks[0][0]
    kept = [line for number, line in enumerate(lines) if not _within(number, blocks)]
    before = first - sum(1 for number in range(first) if _within(number, blocks))
    after = kept[before:]
    gap = "\n" if after and after[0].strip() else ""
    return "".join([*kept[:before], table, gap, *after])


def remove_toml(text: str, path: tuple[str, ...]) -> str:
    r"""Return a TOML text without the table at a path and the tables in it; comments after it stay.

    >>> remove_toml("[servers.a]\nurl = 'x'\n[servers.b]\nurl = 'y'\n", ("servers", "b"))
    "[servers.a]\nurl = 'x'\n"

    Raises:
        KeyError: there is no such table.
        ValueError: it cannot be found in the text.
    """
    if not _has(tomllib.loads(text), path):
        raise KeyError(path[-1])
    lines = _LINE.findall(text)
    blocks = list(_blocks(lines, path))
    if not blocks:
        left, place = _without_key(lines, path)
        if place is None:
            raise ValueError(f"the table {'.'.join(path)!r} is not written in a way we can change")
        return left
    kept = [line for number, line in enumerate(lines) if not _within(number, blocks)]
    made = "".join(kept)
    return made.rstrip("\n") + "\n" if made.strip() else ""


def toml_key(key: str) -> str:
    """Return a key as TOML writes it.

    >>> toml_key("time"), toml_key("my.server")
    ('time', '"my.server"')
    """
    return key if _BARE.fullmatch(key) else toml_value(key)


def toml_value(value: Any) -> str:
    """Return a value as TOML writes it, on one line.

    >>> toml_value({"args": ["-v", 1, True], "env": {"A B": "x"}})
    '{ args = ["-v", 1, true], env = { "A B" = "x" } }'

    Raises:
        ValueError: TOML has no way to write it.
    """
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case int() | float():
            return repr(value)
        case list() | tuple():
            return f"[{', '.join(map(toml_value, value))}]"
        case dict():
            return f"{{ {', '.join(map(_pair, *_columns(value)))} }}" if value else "{}"
    raise ValueError(f"TOML cannot hold a value of type {type(value).__name__}")


def _pair(key: str, value: Any) -> str:
    return f"{toml_key(key)} = {toml_value(value)}"


def _columns(table: dict[str, Any]) -> tuple[list[str], list[Any]]:
    return list(table), list(table.values())


def _has(document: Any, path: tuple[str, ...]) -> bool:
    for key in path:
        if not isinstance(document, dict) or key not in document:
            return False
        document = document[key]
    return True


def _blocks(lines: list[str], path: tuple[str, ...]) -> Iterator[tuple[int, int]]:
    """Yield the lines, from and to, of the table at a path and of those in it."""
    headers = [(number, _header(line)) for number, line in enumerate(lines)]
    known = [(number, found) for number, found in headers if found]
    for place, (number, found) in enumerate(known):
        if found[: len(path)] != path:
            continue
        end = known[place + 1][0] if place + 1 < len(known) else len(lines)
        # What stands right above the next table, or at the end of the file, belongs to that.
        while end > number + 1 and _IDLE.fullmatch(lines[end - 1].rstrip("\n")):
            end -= 1
        alone = number == 0 or not lines[number - 1].strip()
        yield number, end + 1 if alone and end < len(lines) and not lines[end].strip() else end


def _within(number: int, blocks: list[tuple[int, int]]) -> bool:
    return any(start <= number < end for start, end in blocks)


def _header(line: str) -> tuple[str, ...]:
    """Return the keys that a line opens a table with; of any other line, none."""
    if not _HEADER.match(line) and not _ARRAY_HEADER.match(line):
        return ()
    try:
        document = tomllib.loads(line)
    except ValueError:
        return ()
    keys = []
    while document:
        key, inside = next(iter(document.items()))
        keys.append(key)
        document = inside[0] if isinstance(inside, list) else inside
    return tuple(keys)


def _without_key(lines: list[str], path: tuple[str, ...]) -> tuple[str, int | None]:
    """Return a text without a key that stands on lines of its own, and where it stood; None: nowhere.

    Such as `time = { command = "uvx" }` under `[servers]`. That the right lines are gone shows when what is
    left can be read and lacks the key alone.
    """
    wanted = _without(tomllib.loads("".join(lines)), path)
    for start, end in islice(_spans(lines, path), _MAX_TRIES):
        left = "".join([*lines[:start], *lines[end:]])
        try:
            if tomllib.loads(left) == wanted:
                return left, start
        except ValueError:
            continue
    return "", None


def _spans(lines: list[str], path: tuple[str, ...]) -> Iterator[tuple[int, int]]:
    """Yield the lines, from and to, on which the key at a path may be written."""
    word = re.compile(rf"(?<![\w-]){re.escape(path[-1])}(?![\w-])")
    table: tuple[str, ...] = ()
    for start, line in enumerate(lines):
        table = _header(line) or table
        rest = path[len(table) :]
        if table != path[: len(table)] or not rest or not word.search(line):
            continue
        for end in range(start + 1, min(start + _MAX_LINES, len(lines)) + 1):
            try:
                found = tomllib.loads("".join(lines[start:end]))
            except ValueError:
                continue  # it goes on
            if _has(found, rest):
                yield start, end
            break


def _without(document: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """Return a document without what stands at a path."""
    key, *rest = path
    if not rest:
        return {name: value for name, value in document.items() if name != key}
    return {**document, key: _without(document[key], tuple(rest))}
