"""Plain JSON values: validation, size limits, traversal and copies.

Only the exact types `dict`, `list`, `str`, `int`, `float`, `bool` and `None` are JSON. Subclasses, tuples,
sets, NaN, infinities, lone surrogates and keys that are not strings are refused, because validators,
serializers and providers treat them differently.
"""

import json
from collections.abc import Iterable, Iterator
from enum import Enum
from math import isfinite
from typing import Any, NoReturn

from toolcrib.errors import Problem, ValidationError

MAX_DEPTH = 64
"""The maximum nesting of containers in a value."""
MAX_NODES = 500_000
"""The maximum number of values, containers included, in a value."""
MAX_CHARS = 64 << 20
"""The maximum number of characters, keys included, in a value."""
MAX_TEXT = 16 << 20
"""The maximum length of a JSON text that is parsed."""
_MAX_INT_BITS = 14_000
"""Just under the 4,300 digits beyond which Python refuses to print an integer."""
MAX_INT = (1 << 63) - 1
"""Larger integers are called wide: validators compare and divide them slowly."""
MIN_INT = -(1 << 63)
"""Smaller integers are wide too."""
_CONTAINERS = {dict, list}
_LARGE_NODES = 10_000
"""A larger value takes too long to traverse in an event loop."""
_LARGE_CHARS = 1_000_000


def measure(value: Any, *, max_depth: int = MAX_DEPTH) -> tuple[int, int, int, int]:  # noqa: C901, PLR0912 - see below
    """Check a JSON value, and return its numbers of values, levels, characters and wide integers.

    The value itself counts, and so do the characters of keys. Every call of every tool passes here, so the
    code is not split into small functions, which would take three times as long.

    >>> measure({"name": "drill", "sizes": [1, 2]})
    (5, 2, 14, 0)
    >>> measure("drill")
    (1, 0, 5, 0)

    Raises:
        ValidationError: the value is not plain JSON, larger than the limits, or deeper than `max_depth`.
    """
    kind = type(value)
    if kind is not dict and kind is not list:
        is_wide = kind is int and not MIN_INT <= value <= MAX_INT
        if is_wide or kind is not int:
            _check_scalar(value, value)
        return 1, 0, len(value) if kind is str else 0, int(is_wide)
    nodes, levels, chars, wide = 1, 0, 0, 0
    level = [value]
    while level:
        levels += 1
        if levels > max_depth:
            _raise_too_large(f"is nested more than {max_depth} levels deep")
        deeper = []
        for container in level:
            nodes += len(container)
            if nodes > MAX_NODES:
                _raise_too_large(f"holds more than {MAX_NODES:,} values")
            members = container
            if type(container) is dict:
                members = container.values()
                for name in container:
                    if type(name) is not str or (not name.isascii() and chars <= MAX_CHARS):
                        _check_key(value, name)
                    chars += len(name)
            for member in members:
                kind = type(member)
                if kind is str:
                    chars += len(member)
                    if not member.isascii() and chars <= MAX_CHARS:
                        _check_scalar(value, member)
                elif kind is dict or kind is list:
                    deeper.append(member)
                elif kind is int:
                    if not MIN_INT <= member <= MAX_INT:
                        wide += 1
                        _check_scalar(value, member)
                elif kind is not bool and member is not None:
                    _check_scalar(value, member)
        level = deeper
    if chars > MAX_CHARS:
        _raise_too_large(f"holds more than {MAX_CHARS:,} characters")
    return nodes, levels, chars, wide


def walk(value: Any) -> Iterator[Any]:
    """Yield a measured value and all values in it, without the keys of objects."""
    pending = [value]
    while pending:
        member = pending.pop()
        yield member
        if type(member) is dict:
            pending += member.values()
        elif type(member) is list:
            pending += member


def count_size(value: Any) -> tuple[int, int]:
    """Return the number of values in a measured value, and of characters in its strings and keys."""
    nodes, chars = 0, 0
    for member in walk(value):
        nodes += 1
        if type(member) is str:
            chars += len(member)
        elif type(member) is dict:
            chars += sum(map(len, member))
    return nodes, chars


def is_large(value: Any) -> bool:
    """Return whether a value is too large to traverse in an event loop."""
    pending = [value if type(value) in _CONTAINERS else [value]]
    nodes = chars = 0
    for container in pending:
        nodes += len(container) + 1
        if nodes > _LARGE_NODES:
            return True
        for member in container.values() if type(container) is dict else container:
            kind = type(member)
            if kind is str:
                chars += len(member)
            elif kind is dict or kind is list:
                pending.append(member)
    return chars > _LARGE_CHARS


def copy_unless_large(value: dict[str, Any]) -> dict[str, Any] | None:
    """Return a copy of a JSON object that shares no container with it; None if `is_large`."""
    copied = value.copy()
    pending: list[Any] = [copied]
    nodes = chars = 0
    for container in pending:
        nodes += len(container) + 1
        if nodes > _LARGE_NODES:
            return None
        for key, member in container.items() if type(container) is dict else enumerate(container):
            kind = type(member)
            if kind is str:
                chars += len(member)
            elif kind is dict or kind is list:
                container[key] = inner = member.copy()  # an existing key may be replaced during iteration
                pending.append(inner)
    return None if chars > _LARGE_CHARS else copied


def longest_key(value: Any) -> int:
    """Return the length of the longest key anywhere in a measured value."""
    objects = (member for member in walk(value) if type(member) is dict)
    return max((len(key) for member in objects for key in member), default=0)


def count_wide(value: Any) -> int:
    """Return the number of integers in a measured value that do not fit into 64 bits."""
    return sum(map(_is_wide, walk(value)))


def _is_wide(value: Any) -> bool:
    return type(value) is int and not MIN_INT <= value <= MAX_INT


def _check_scalar(root: Any, value: Any) -> None:
    """Raise if a value that is not a container is not JSON."""
    kind = type(value)
    if kind is str:
        if not value.isascii() and not _is_unicode(value):
            _raise_not_json(root, value, "holds a lone surrogate, which no JSON text can carry")
    elif kind is int:
        if value.bit_length() > _MAX_INT_BITS:
            _raise_not_json(root, value, "is an integer of more than 4,000 digits")
    elif kind is float:
        if not isfinite(value):
            _raise_not_json(root, value, f"is {value}, which is not a JSON number")
    elif kind is not bool and value is not None:
        _raise_not_json(
            root,
            value,
            f"is a Python {_type_name(value)}, which is not plain JSON{_suggest_conversion(kind)}",
        )


def _check_key(root: Any, key: Any) -> None:
    if type(key) is not str:
        _raise_not_json(
            root, key, f"has a key that is a Python {_type_name(key)}, and JSON keys are plain strings"
        )
    if not _is_unicode(key):
        _raise_not_json(root, key, "has a key that holds a lone surrogate, which no JSON text can carry")


def _type_name(value: Any) -> str:
    name: str = type.__dict__["__name__"].__get__(type(value))  # a metaclass may override `__name__`
    return name[:40]


def _suggest_conversion(kind: type) -> str:
    if issubclass(kind, Enum):
        return ": use its .value"
    for base, plain in ((tuple, list), (dict, dict), (list, list), (str, str), (int, int), (float, float)):
        if issubclass(kind, base):
            return f": convert it with {plain.__name__}()"
    return ""


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _raise_too_large(limit: str) -> NoReturn:
    raise ValidationError((Problem("", "size", f"the value {limit}; send a smaller one"),))


def _raise_not_json(root: Any, culprit: Any, reason: str) -> NoReturn:
    raise ValidationError((Problem(_path_of(root, culprit), "json", f"the value {reason}"[:500]),))


def _path_of(root: Any, culprit: Any) -> str:
    """Return the JSON Pointer to this object within a value, as a value or as a key."""
    pending: list[tuple[Any, tuple[Any, ...]]] = [(root, ())]
    seen = {id(root)}
    for value, path in pending:
        if value is culprit or (type(value) is dict and any(key is culprit for key in value)):
            return pointer(path)
        for key, member in _items_of(value):
            if member is culprit:
                return pointer((*path, key))
            if type(member) in _CONTAINERS and id(member) not in seen:
                seen.add(id(member))
                pending.append((member, (*path, key)))
    return ""


def _items_of(value: Any) -> Iterable[tuple[Any, Any]]:
    if type(value) is dict:
        return value.items()
    return enumerate(value) if type(value) is list else ()


def pointer(path: Any) -> str:
    """Return the JSON Pointer for a path of keys and indexes.

    >>> pointer(["labels", 2, "a/b"])
    '/labels/2/a~1b'
    """
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)


def copy_json(value: Any, *, max_nodes: float = MAX_NODES) -> Any:
    """Return a deep copy of a JSON value, of any depth.

    Raises:
        ValueError: it has more than `max_nodes` values, or contains itself.
    """
    holder = [value]
    pending: list[Any] = [holder]
    nodes = 0
    while pending:
        container = pending.pop()
        nodes += len(container)
        if nodes > max_nodes:
            raise ValueError(f"it holds more than {max_nodes:,} values, or holds itself")
        for key, member in list(container.items()) if type(container) is dict else list(enumerate(container)):
            if type(member) in _CONTAINERS:
                container[key] = member.copy()
                pending.append(container[key])
    return holder[0]


def parse_json(text: str | bytes | bytearray) -> Any:
    """Parse a JSON text strictly, without Python's extensions.

    Raises:
        ValueError: the text is not JSON: malformed, too deep, `NaN`, or an integer too long to read.
    """
    if len(text) > MAX_TEXT:
        raise ValueError(f"it is longer than {MAX_TEXT:,} characters")
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
