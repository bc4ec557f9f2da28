"""What counts as JSON here, how large it may be, and how to copy it.

Only the exact types `dict`, `list`, `str`, `int`, `float`, `bool` and `None` are JSON. Subclasses, tuples, sets,
NaN, infinities, lone surrogates and keys that are not strings are refused, because engines, wires and
providers each read them differently.
"""

import json
from math import isfinite
from typing import Any, NamedTuple, NoReturn

from toolcrib.errors import Problem, ValidationError

__all__ = ["MAX_DEPTH", "MAX_NODES", "Size", "copy_json", "measure", "parse_json", "pointer"]

MAX_DEPTH = 64
"""How many containers deep a value may be."""
MAX_NODES = 500_000
"""How many values, containers included, a value may hold."""
_MAX_INT_BITS = 14_000
"""Just under the 4,300 digits beyond which Python itself refuses to print an integer."""
_WIDE = 1 << 63
_CONTAINERS = {dict, list}


class Size(NamedTuple):
    """How large a value is."""

    nodes: int
    """Every value in it, containers and itself included."""
    levels: int
    """Containers deep, itself included: a scalar is 0, a flat object 1."""
    chars: int
    """Characters in all its strings and keys."""
    wide: int
    """Integers that do not fit 64 bits."""


def measure(value: Any, *, max_depth: int = MAX_DEPTH) -> Size:
    """Return the size of a JSON value.

    >>> measure({"name": "drill", "sizes": [1, 2]})
    Size(nodes=5, levels=2, chars=14, wide=0)

    Raises:
        ValidationError: it is not plain JSON, or larger than `MAX_NODES` or deeper than `max_depth`.
    """
    if type(value) not in _CONTAINERS:
        _check_scalar(value, value)
        return Size(1, 0, len(value) if type(value) is str else 0, 0)
    nodes, levels, chars, wide = 1, 0, 0, 0
    level = [value]
    while level:
        levels += 1
        deeper: list[Any] = []
        for container in level:
            nodes += len(container)
            if nodes > MAX_NODES or levels > max_depth:
                _refuse_size(nodes, max_depth)
            if type(container) is dict:
                for key in container:
                    if type(key) is not str or not key.isascii():
                        _check_key(value, key)
                    chars += len(key)
                members: Any = container.values()
            else:
                members = container
            for member in members:
                kind = type(member)
                if kind is str:
                    chars += len(member)
                    if not member.isascii():
                        _check_scalar(value, member)
                elif kind is int:
                    if not -_WIDE <= member < _WIDE:
                        wide += 1
                        _check_scalar(value, member)
                elif kind is dict or kind is list:
                    deeper.append(member)
                elif kind is not bool and member is not None:
                    _check_scalar(value, member)
        level = deeper
    return Size(nodes, levels, chars, wide)


def _check_scalar(root: Any, value: Any) -> None:
    """Raise if a value that is no container is not JSON."""
    kind = type(value)
    if kind is str:
        if not _is_unicode(value):
            _refuse(root, value, "holds a lone surrogate, which no JSON text can carry")
    elif kind is int:
        if value.bit_length() > _MAX_INT_BITS:
            _refuse(root, value, "is an integer of more than 4,000 digits")
    elif kind is float:
        if not isfinite(value):
            _refuse(root, value, f"is {value}, which is not a JSON number")
    elif kind is not bool and value is not None:
        _refuse(root, value, f"is a Python {kind.__name__}, which is not plain JSON{_remedy(kind)}")


def _check_key(root: Any, key: Any) -> None:
    if type(key) is not str:
        _refuse(root, key, f"has the key {key!r:.40}, and JSON keys are strings")
    if not _is_unicode(key):
        _refuse(root, key, "has a key that holds a lone surrogate, which no JSON text can carry")


def _remedy(kind: type) -> str:
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


def _refuse_size(nodes: int, max_depth: int) -> NoReturn:
    limit = (
        f"holds more than {MAX_NODES:,} values"
        if nodes > MAX_NODES
        else f"is nested more than {max_depth} levels deep"
    )
    raise ValidationError((Problem("", "size", f"the value {limit}; send a smaller one"),))


def _refuse(root: Any, culprit: Any, reason: str) -> NoReturn:
    raise ValidationError((Problem(_path_of(root, culprit), "json", f"the value {reason}"[:500]),))


def _path_of(root: Any, culprit: Any) -> str:
    """Return the pointer to the first place where this very object stands, as a value or as a key."""
    pending: list[tuple[Any, tuple[Any, ...]]] = [(root, ())]
    while pending:
        value, path = pending.pop()
        if value is culprit or (type(value) is dict and any(key is culprit for key in value)):
            return pointer(path)
        if type(value) is dict:
            pending += [(member, (*path, key)) for key, member in reversed(value.items())]
        elif type(value) is list:
            pending += [(member, (*path, index)) for index, member in reversed(list(enumerate(value)))]
    return ""


def pointer(path: Any) -> str:
    """Return the JSON Pointer for a path of keys and indexes.

    >>> pointer(["labels", 2, "a/b"])
    '/labels/2/a~1b'
    """
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)


def copy_json(value: Any) -> Any:
    """Return a copy of a JSON value that shares no container with it, however deep it is.

    Raises:
        ValueError: it holds more than `MAX_NODES` values, or holds itself.
    """
    holder = [value]
    pending: list[Any] = [holder]
    nodes = 0
    while pending:
        container = pending.pop()
        nodes += len(container)
        if nodes > MAX_NODES:
            raise ValueError(f"it holds more than {MAX_NODES:,} values, or holds itself")
        for key, member in list(container.items()) if type(container) is dict else list(enumerate(container)):
            if type(member) in _CONTAINERS:
                container[key] = member.copy()
                pending.append(container[key])
    return holder[0]


def parse_json(text: str | bytes | bytearray) -> Any:
    """Return the value of a JSON text, refusing what only Python would read.

    Raises:
        ValueError: the text is not JSON: malformed, too deep, `NaN`, or an integer too long to read.
    """
    try:
        return json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
