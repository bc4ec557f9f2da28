"""Compares types in the notation of the type checker, and finds those that have no value in common.

A type checker rejects `dict[str, int]` for a TypedDict, and `list[int]` for `list[float]`, but such code
works. Only types without a common JSON value clash: text for a number, a scalar for a list.
"""

import re
from collections.abc import Collection
from functools import lru_cache

from toolcrib.errors.text import fit

_HEAD = re.compile(r"([A-Za-z_][\w.]*)(?:\[(.*)\])?\Z", re.DOTALL)
_LITERAL = re.compile(r"""b?"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+'|[^,\s"']++""")
_KINDS = {
    "str": "str", "LiteralString": "str", "int": "int", "bool": "bool", "float": "float", "None": "None",
    "list": "list", "tuple": "list", "dict": "dict", "set": "set", "frozenset": "set", "bytes": "bytes",
    "CoroutineType": "coroutine", "datetime": "datetime", "date": "date", "Decimal": "Decimal",
}  # fmt: skip
_CONVERTIBLE = {("int", "float"), ("float", "int"), ("bool", "int"), ("bool", "float")}
_MAX_LENGTH = 2_000
_MAX_DEPTH = 8


def union_members(written: str) -> tuple[str, ...]:
    """Return the members of a union; a very long one counts as one type.

    >>> union_members('Literal["a | b", 1] | list[int | None] | None')
    ('Literal["a | b", 1]', 'list[int | None]', 'None')
    """
    return _split_union(written) if len(written) <= _MAX_LENGTH else (written,)


@lru_cache(maxsize=1_024)
def _split_union(written: str) -> tuple[str, ...]:
    return tuple(_split_at(written, "|"))


def _split_at(written: str, separator: str) -> list[str]:
    found, depth, quote, start, skip = [], 0, "", 0, False
    for place, char in enumerate(written):
        if skip:
            skip = False
        elif quote:
            skip = char == "\\"
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char in "[(<{":
            depth += 1
        elif char in "])>}":
            depth -= 1
        elif char == separator and depth == 0:
            found.append(written[start:place].strip())
            start = place + 1
    return [*found, written[start:].strip()]


def types_clash(expected: str, found: str, objects: Collection[str], depth: int = 0) -> bool:
    """Return whether no value of the found type is one of the expected type.

    `objects` are the names of TypedDicts.

    >>> types_clash("int", 'Literal["3"]', ()), types_clash("list[float]", "list[int]", ())
    (True, False)
    >>> types_clash("Issue", "dict[str, int]", ["Issue"])
    False
    """
    if depth > _MAX_DEPTH or len(expected) > _MAX_LENGTH or len(found) > _MAX_LENGTH:
        return False
    return all(
        _members_clash(one, other, objects, depth)
        for one in union_members(expected)
        for other in union_members(found)
    )


def _members_clash(expected: str, found: str, objects: Collection[str], depth: int) -> bool:
    kinds = _json_types(expected, objects), _json_types(found, objects)
    if not kinds[0] or not kinds[1]:
        return False
    if not any(one == other or (other, one) in _CONVERTIBLE for one in kinds[0] for other in kinds[1]):
        return True
    wanted, given = _HEAD.match(expected), _HEAD.match(found)
    if wanted is None or given is None or not wanted[2] or not given[2]:
        return False
    if wanted[1] == given[1] == "Literal":
        return not set(_literal_values(expected)) & set(_literal_values(found))
    if wanted[1] == given[1] and wanted[1] in {"list", "dict"}:
        return types_clash(_split_at(wanted[2], ",")[-1], _split_at(given[2], ",")[-1], objects, depth + 1)
    return False


def _json_types(written: str, objects: Collection[str]) -> set[str]:
    """Return the JSON types of a type; empty if they are not known."""
    head = _HEAD.match(written.rstrip("*"))
    if head is None:
        return set()
    if head[1] == "Literal":
        return {_literal_type(value) for value in _literal_values(written)}
    if head[1] in objects:
        return {"dict"}
    kind = _KINDS.get(head[1])
    return {kind} if kind else set()


def _literal_values(written: str) -> list[str]:
    head = _HEAD.match(written)
    return _LITERAL.findall(head[2]) if head is not None and head[2] else []


def _literal_type(value: str) -> str:
    if value in {"True", "False"}:
        return "bool"
    if value == "None":
        return "None"
    return "str" if value[0] in "\"'" else "bytes" if value[0] == "b" else "int"


def simplify_type(written: str, limit: int = 80) -> str:
    """Return a type in a short form for an error message.

    >>> types = ['Literal["3"]', "dict[str, Unknown]", "CoroutineType[Any, Any, Issue]"]
    >>> tuple(map(simplify_type, types))
    ('"3"', 'dict[str, Any]', 'a coroutine')
    """
    if written.startswith("CoroutineType["):
        return "a coroutine"
    values = (
        _literal_values(written)
        if written.startswith("Literal[") and len(union_members(written)) == 1
        else []
    )
    literal = values[0] if len(values) == 1 else written.replace("Unknown", "Any")
    return fit(literal, limit)
