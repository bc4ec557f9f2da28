"""The shape that a set of JSON values has in common: types and names, never the values themselves.

Shapes are joined, and the join is commutative and associative: the same values give the same shape in
whatever order and grouping they come. Every bound is chosen to keep that true. An object with too many names
becomes a map; and the depth to which all is told is the greatest at which the whole still has an acceptable
weight, where weight never falls when shapes are joined.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, Self

__all__ = ["KINDS", "MAX_DEPTH", "MAX_NAMES", "MAX_WEIGHT", "Shape"]

MAX_DEPTH: Final = 6
"""How many levels of objects and arrays are told apart."""
MAX_NAMES: Final = 100
"""How many names an object may have before it is a map."""
MAX_WEIGHT: Final = 10_000
_KINDS: Final[Mapping[type, str]] = {
    dict: "object",
    list: "array",
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
}
KINDS: Final = tuple(_KINDS.values())
_NAME: Final = re.compile(r"[@$]?[^\W\d][\w$-]{0,63}")
_MAX_DIGITS: Final = 3


class Shape:
    """What was seen in one place: of which types, and in objects and arrays which shapes."""

    __slots__ = ("is_map", "items", "kinds", "named", "objects", "rest")

    def __init__(self) -> None:
        self.kinds: set[str] = set()
        self.objects = 0
        """How many of the values were objects."""
        self.named: dict[str, tuple[int, Shape]] = {}
        """How many of the objects had each name, and what was there."""
        self.rest: Shape | None = None
        """What objects had under keys that are data rather than names."""
        self.is_map = False
        """Whether there were so many names that all of them are data."""
        self.items: Shape | None = None

    def add(self, value: Any, depth: int) -> None:
        """Take in a JSON value, down to a depth."""
        self.kinds.add(_KINDS[type(value)])
        if type(value) is dict:
            self.objects += 1
            if depth > 0:
                self._add_members(value, depth)
        elif type(value) is list and value and depth > 0:
            self.items = self.items or Shape()
            for member in value:
                self.items.add(member, depth - 1)

    def _add_members(self, members: dict[str, Any], depth: int) -> None:
        named = self.named
        for key, member in members.items():
            known = named.get(key)
            if known is None:
                if self.is_map or not _is_name(key):
                    self.rest = self.rest or Shape()
                    self.rest.add(member, depth - 1)
                    continue
                known = (0, Shape())
            known[1].add(member, depth - 1)
            named[key] = known[0] + 1, known[1]
        self._bound()

    def join(self, other: Self, depth: int) -> None:
        """Take in all that another shape has seen, down to a depth; the other is not changed."""
        self.kinds |= other.kinds
        self.objects += other.objects
        if depth <= 0:
            return
        self.is_map |= other.is_map
        for name, (count, shape) in other.named.items():
            before, kept = self.named.get(name) or (0, Shape())
            kept.join(shape, depth - 1)
            self.named[name] = before + count, kept
        if other.rest:
            self.rest = self.rest or Shape()
            self.rest.join(other.rest, depth - 1)
        if other.items:
            self.items = self.items or Shape()
            self.items.join(other.items, depth - 1)
        self._bound(depth)

    def _bound(self, depth: int = MAX_DEPTH) -> None:
        """Become a map if there are too many names."""
        self.is_map |= len(self.named) > MAX_NAMES
        if self.is_map and self.named:
            self.rest = self.rest or Shape()
            for _, shape in self.named.values():
                self.rest.join(shape, depth - 1)
            self.named = {}

    def to_depth(self, depth: int) -> "Shape":
        """Return a copy that tells nothing below a depth."""
        copied = Shape()
        copied.join(self, depth)
        return copied

    def weight(self, depth: int) -> int:
        """Return a measure of how large this is down to a depth; no join makes it smaller.

        That is the number of shapes in it, but that a map weighs as much as the names it may stand for.
        """
        if depth <= 0:
            return 1
        rest = self.rest.weight(depth - 1) if self.rest else 0
        items = self.items.weight(depth - 1) if self.items else 0
        names = sum(shape.weight(depth - 1) for _, shape in self.named.values())
        return 1 + names + items + rest * (MAX_NAMES + 2 if self.is_map else 1)


def _is_name(key: str) -> bool:
    """Return whether a key looks chosen by a programmer, and not like an address, a number or a file."""
    return bool(_NAME.fullmatch(key)) and sum(map(str.isdigit, key)) <= _MAX_DIGITS
