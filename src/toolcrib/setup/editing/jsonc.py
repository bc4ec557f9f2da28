r"""Change one member of a JSON text, and keep everything else as it stands, comments included.

The texts are known to be JSON, with comments and trailing commas where editors write them; a line ends with
`\n`.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

_STRING = re.compile(r'"(?:\\.|[^"\\])*+"', re.DOTALL)
_SKIPPED = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)*+", re.DOTALL)
_REST_OF_LINE = re.compile(r"(?:[^\S\n]|/\*[^\n]*?\*/)*+(?://[^\n]*)?")
_NESTED = re.compile(r'"(?:\\.|[^"\\])*+"|//[^\n]*|/\*.*?\*/|[{}\[\]]', re.DOTALL)
_SCALAR = re.compile(r"[^\s,\]}/]+")
_INDENTED = re.compile(r"\n([ \t]+)\S")
_DEFAULT_INDENT = "  "


@dataclass(frozen=True, slots=True)
class _Member:
    key: str
    start: int
    value: int
    end: int


@dataclass(frozen=True, slots=True)
class _Object:
    """The span of an object in a text, from bracket to bracket, and its members."""

    opened: int
    closed: int
    members: tuple[_Member, ...]

    def find(self, key: str) -> _Member | None:
        return next((member for member in self.members if member.key == key), None)


def set_json(text: str, path: tuple[str, ...], value: Any) -> str:
    """Return a JSON text in which the member at a path has a value; objects on the way are made.

    >>> print(set_json('{"mcpServers": {"a": {}} /* ours */}', ("mcpServers", "b"), {"url": "x"}))
    {"mcpServers": {"a": {}, "b": {"url": "x"}} /* ours */}

    Raises:
        ValueError: something on the way is no object, or the text is not written in a way we can change.
    """
    place = _parse_object(text, _skip(text, 0))
    for depth, key in enumerate(path):
        found = place.find(key)
        rest = path[depth + 1 :]
        if found is None:
            for name in reversed(rest):
                value = {name: value}
            return _insert(text, place, key, value)
        if not rest:
            made = _dump(text, value, _indent_at(text, found.start))
            return text[: found.value] + made + text[found.end :]
        place = _parse_object(text, found.value)
    raise ValueError("a path has at least one key")


def remove_json(text: str, path: tuple[str, ...]) -> str:
    """Return a JSON text without the member at a path; comments around it stay.

    >>> remove_json('{"a": 1, "b": 2}', ("b",))
    '{"a": 1}'

    Raises:
        KeyError: there is no such member.
        ValueError: the text is not written in a way we can change.
    """
    place = _parse_object(text, _skip(text, 0))
    for key in path[:-1]:
        place = _parse_object(text, _member_of(place, key).value)
    member = _member_of(place, path[-1])
    number = place.members.index(member)
    after = _skip(text, member.end)
    comma_after = text[after] == ","
    cuts = [_extent_of(text, member, after + 1 if comma_after else member.end)]
    if number and not comma_after:
        comma = _skip(text, place.members[number - 1].end)
        beside = not text[comma + 1 : member.start].strip(" \t")
        cuts = [(comma, member.end)] if beside else [(comma, comma + 1), *cuts]
    for start, end in reversed(cuts):
        text = text[:start] + text[end:]
    return _collapse_if_empty(text, place.opened) if len(place.members) == 1 else text


def _member_of(place: _Object, key: str) -> _Member:
    member = place.find(key)
    if member is None:
        raise KeyError(key)
    return member


def _extent_of(text: str, member: _Member, end: int) -> tuple[int, int]:
    """Return the span to remove with a member: its line if it is alone there, else the blanks after it."""
    before = len(text[: member.start].rstrip(" \t"))
    begins_line = before > 0 and text[before - 1] == "\n"
    rest = _REST_OF_LINE.match(text, end)
    blanks = rest[0] if rest else ""
    if begins_line and not blanks.strip() and text[end + len(blanks) :][:1] in {"\n", ""}:
        return before - 1, end + len(blanks)
    while not begins_line and text[end : end + 1] in {" ", "\t"}:
        end += 1
    return member.start, end


def _collapse_if_empty(text: str, opened: int) -> str:
    """Write an object as `{}` if nothing is left in it, not even a comment."""
    closed = _parse_object(text, opened).closed
    return text if text[opened + 1 : closed].strip() else text[: opened + 1] + text[closed:]


def _insert(text: str, place: _Object, key: str, value: Any) -> str:
    """Return a text whose object has one member more, at its end, written as its others are."""
    if not place.members:
        return _fill(text, place, key, value)
    last = place.members[-1].end
    spread = "\n" in text[place.opened : place.closed]
    indent = _indent_at(text, place.members[0].start)
    member = f"{json.dumps(key, ensure_ascii=False)}: {_dump(text, value, indent if spread else None)}"
    comma = _skip(text, last)
    trailing = text[comma] == ","
    end = comma + 1 if trailing else last
    rest = _REST_OF_LINE.match(text, end)
    tail = rest.end() if rest and spread else end
    put = f"\n{indent}{member}" if spread else f" {member}"
    return "".join([text[:end], "" if trailing else ",", text[end:tail], put, "," * trailing, text[tail:]])


def _fill(text: str, place: _Object, key: str, value: Any) -> str:
    """Return a text whose object, empty so far, has one member; comments in it stay before that."""
    name = json.dumps(key, ensure_ascii=False)
    inside = text[place.opened + 1 : place.closed].rstrip()
    if not _is_spread(text) and not inside:
        return f"{text[: place.opened]}{{{name}: {_dump(text, value, None)}}}{text[place.closed + 1 :]}"
    base = _indent_at(text, place.opened)
    indent = base + _indent_unit(text)
    member = f"\n{indent}{name}: {_dump(text, value, indent)}\n{base}"
    return text[: place.opened + 1] + inside + member + text[place.closed :]


def _dump(text: str, value: Any, indent: str | None) -> str:
    """Return a value in the style of a text, with an indentation; None keeps it on one line."""
    if indent is None or not _is_spread(text):
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(value, ensure_ascii=False, indent=_indent_unit(text)).replace("\n", f"\n{indent}")


def _is_spread(text: str) -> bool:
    """Return whether a text has its members on lines of their own, or has nothing to judge by."""
    return "\n" in text.strip() or text.strip().replace(" ", "") == "{}"


def _indent_unit(text: str) -> str:
    """Return one step of a text's indentation."""
    found = _INDENTED.search(text)
    return found[1] if found else _DEFAULT_INDENT


def _indent_at(text: str, place: int) -> str:
    """Return the indentation of the line in which a place is."""
    line = text[text.rfind("\n", 0, place) + 1 : place]
    return line[: len(line) - len(line.lstrip())]


def _parse_object(text: str, opened: int) -> _Object:
    if text[opened] != "{":
        raise ValueError(f"there is no object at character {opened}")
    members = []
    at = _skip(text, opened + 1)
    while text[at] != "}":
        key = _STRING.match(text, at)
        if key is None:
            raise ValueError(f"there is no key at character {at}")
        value = _skip(text, _skip(text, key.end()) + 1)
        end = _skip_value(text, value)
        members.append(_Member(json.loads(key[0]), at, value, end))
        at = _skip(text, end)
        at = _skip(text, at + 1) if text[at] == "," else at
    return _Object(opened, at, tuple(members))


def _skip_value(text: str, start: int) -> int:
    if text[start] in "{[":
        depth = 0
        for found in _NESTED.finditer(text, start):
            depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(found[0], 0)
            if not depth:
                return found.end()
    found_one = (_STRING if text[start] == '"' else _SCALAR).match(text, start)
    if found_one is None:
        raise ValueError(f"there is no value at character {start}")
    return found_one.end()


def _skip(text: str, at: int) -> int:
    """Return the position of the next token after blanks and comments."""
    found = _SKIPPED.match(text, at)
    return found.end() if found else at
