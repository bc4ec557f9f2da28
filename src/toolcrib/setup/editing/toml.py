"""Change one table of a TOML text, and keep everything else as it stands, comments included.

That nothing else has changed is for the caller to check, by reading both.
"""

import tomllib
from collections.abc import Iterator
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT, InlineTable, Item, Key, Table, Whitespace

_MAX_CHARACTERS = 2**17
_MAX_WORK = 20_000
"""Limit for the sum of the squared depths of all keys, to which the time of tomlkit is proportional."""
_MARK = "\0\n"
"""The place of a removed part; no TOML text has it."""

_Body = list[tuple[Key | None, Item]]


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
        ValueError: TOML has no way to write the value, or the text cannot be edited.
    """
    inline = tomlkit.inline_table()
    inline.update(value)
    pairs = [f"{key.as_string()} = {item.as_string()}\n" for key, item in inline.value.body if key]
    table = "".join([f"[{_header_of(path)}]\n", *pairs])
    try:
        before, after, key_path = _split_at(text, path)
    except KeyError:
        gap = "" if not text.strip() else "\n" if text.endswith("\n") else "\n\n"
        return f"{text}{gap}{table}"
    line = f"{_header_of(key_path)} = {inline.as_string()}\n" if key_path else table
    return f"{before}{line}{after}"


def remove_toml(text: str, path: tuple[str, ...]) -> str:
    r"""Return a TOML text without the table at a path and the tables in it; comments after it stay.

    >>> remove_toml("[servers.a]\nurl = 'x'\n[servers.b]\nurl = 'y'\n", ("servers", "b"))
    "[servers.a]\nurl = 'x'\n"

    Raises:
        KeyError: there is no such table.
        ValueError: the text cannot be edited.
    """
    before, after, _ = _split_at(text, path)
    is_alone = not before or before.endswith("\n\n")
    left = before + (after.removeprefix("\n") if is_alone else after)
    return left.rstrip("\n") + "\n" if left.strip() else ""


def _header_of(path: tuple[str, ...]) -> str:
    return tomlkit.key(path).as_string()


def _split_at(text: str, path: tuple[str, ...]) -> tuple[str, str, tuple[str, ...]]:
    """Return the text before and after the table at a path, and the key of its header.

    The key is that of a line, such as `time = { command = "uvx" }` under `[servers]`; it is empty where the
    table has a header of its own.
    """
    try:
        if len(text) > _MAX_CHARACTERS or _parse_cost(tomllib.loads(text)) > _MAX_WORK:
            raise ValueError("it is too large")
        document = tomlkit.parse(text)
        places = list(_find_places(document.body, path))
        if not places:
            raise KeyError(path[-1])
        key, item = places[0][0][places[0][1]]
        headers = places[0][2]
        has_header = isinstance(item, Table | AoT) and key is not None and not key.is_dotted()
        for turn, (body, number, _) in enumerate(places):
            body[number] = (None, Whitespace(("" if turn else _MARK) + _comments_after(body[number][1])))
        before, after = document.as_string().split(_MARK)
    except TOMLKitError as error:
        raise ValueError(f"{error}") from error
    return before, after, () if has_header else path[headers:]


def _parse_cost(value: Any, depth: int = 1) -> int:
    if isinstance(value, dict):
        return sum(depth * depth + _parse_cost(each, depth + 1) for each in value.values())
    return sum(_parse_cost(each, depth + 1) for each in value) if isinstance(value, list) else 0


def _find_places(body: _Body, path: tuple[str, ...], headers: int = 0) -> Iterator[tuple[_Body, int, int]]:
    """Yield each place where a path is written, and the number of its keys in the headers above."""
    for number, (key, item) in enumerate(body):
        if key is None or key.key != path[0]:
            continue
        if len(path) == 1:
            yield body, number, headers
        elif isinstance(item, Table):
            yield from _find_places(item.value.body, path[1:], headers + (not key.is_dotted()))
        elif isinstance(item, InlineTable) and path[1] in item:
            raise ValueError(f"{path[1]!r} is within the braces of {path[0]!r}")


def _comments_after(item: Item) -> str:
    """Return the blank lines and comments at the end of a table: they belong to the next item."""
    if isinstance(item, AoT):
        item = item.body[-1]
    if not isinstance(item, Table):
        return ""
    found: list[str] = []
    for key, each in reversed(item.value.body):
        found.insert(0, _comments_after(each) if key else each.as_string())
        if key:
            break
    return "".join(found)
