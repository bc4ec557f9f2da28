"""Inference of output schemas from the results of tools; values are never stored.

A shape must be the same in whatever order results arrive and shapes are merged, since several processes may
share a catalogue. So every limit is monotonic: an object with too many names becomes a map for good, and a
shape that weighs too much loses its deepest level for good.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field

from toolcrib.errors import Problem, ValidationError
from toolcrib.model.plain import measure
from toolcrib.model.record import Record

MAX_DEPTH: Final = 6
"""The maximum number of levels of objects and arrays in a shape."""
MAX_NAMES: Final = 100
"""An object with more names than this is treated as a map, whose keys are data."""
MAX_WEIGHT: Final = 10_000
"""The maximum number of parts of a shape; beyond it the deepest level is dropped."""
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
MAX_OBSERVED = 50_000
"""The maximum number of values, containers included, of a result that is learnt from: about 30 ms of CPU."""
_MAX_LEVELS = 256
_Kind = Literal["object", "array", "string", "integer", "number", "boolean", "null"]
_Count = Annotated[int, Field(ge=0)]
MAX_PROPERTIES: Final = 50
"""The maximum number of properties of one object in the schema."""
MAX_NODES: Final = 1_000
"""The maximum number of subschemas in the schema; deeper levels are left open."""


class Shape:
    """The types seen at one place of a JSON value, with the shapes of members and items."""

    __slots__ = ("is_map", "items", "kinds", "named", "objects", "rest")

    def __init__(self) -> None:
        self.kinds: set[str] = set()
        self.objects = 0
        """The number of objects among the values."""
        self.named: dict[str, tuple[int, Shape]] = {}
        """For each name, the number of objects that had it, and the shape of its values."""
        self.rest: Shape | None = None
        """The shape of the values under keys that are data rather than names."""
        self.is_map = False
        """Whether there were so many names that all keys count as data."""
        self.items: Shape | None = None

    def add(self, value: Any, depth: int) -> None:
        """Add a JSON value, down to a depth."""
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
        self._limit_names()

    def join(self, other: Self, depth: int) -> None:
        """Merge another shape into this one, down to a depth; the other is not changed."""
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
        self._limit_names(depth)

    def _limit_names(self, depth: int = MAX_DEPTH) -> None:
        """Become a map if there are too many names."""
        self.is_map |= len(self.named) > MAX_NAMES
        if self.is_map and self.named:
            self.rest = self.rest or Shape()
            for _, shape in self.named.values():
                self.rest.join(shape, depth - 1)
            self.named = {}

    def to_depth(self, depth: int) -> "Shape":
        """Return a copy, cut at a depth."""
        copied = Shape()
        copied.join(self, depth)
        return copied

    def weight(self, depth: int) -> int:
        """Return the size of the shape down to a depth; it never decreases when shapes are joined.

        It is the number of shapes inside, except that a map weighs as much as the names that it may replace.
        """
        if depth <= 0:
            return 1
        rest = self.rest.weight(depth - 1) if self.rest else 0
        items = self.items.weight(depth - 1) if self.items else 0
        names = sum(shape.weight(depth - 1) for _, shape in self.named.values())
        return 1 + names + items + rest * (MAX_NAMES + 2 if self.is_map else 1)


def _is_name(key: str) -> bool:
    """Return whether a key looks like a name in a program, not like an address, a number or a file."""
    return bool(_NAME.fullmatch(key)) and sum(map(str.isdigit, key)) <= _MAX_DIGITS


class _WrittenShape(Record):
    """The JSON form of a shape."""

    kinds: tuple[_Kind, ...] = ()
    objects: _Count = 0
    named: dict[str, tuple[_Count, "_WrittenShape"]] = Field(default_factory=dict)
    rest: "_WrittenShape | None" = None
    is_map: bool = False
    items: "_WrittenShape | None" = None


class _WrittenObservation(Record):
    observed: _Count
    depth: Annotated[int, Field(ge=0, le=MAX_DEPTH)]
    shape: _WrittenShape


@dataclass(frozen=True, slots=True, eq=False)
class ObservedShape:
    """The common shape of some JSON values; immutable, and without the values themselves.

    The same values give the same shape in any order, and each of them is valid against its JSON Schema. Keys
    that look like data, such as numbers, addresses and file names, are not stored either.

    >>> one, other = ObservedShape.of({"id": 1, "name": "a"}), ObservedShape.of({"id": 2})
    >>> one.merge(other).json_schema()["required"]
    ['id']
    """

    observed: int = 0
    """The number of values it was learnt from."""
    shape: Shape = field(default_factory=Shape, repr=False)
    """The shape; must not be modified."""
    depth: int = MAX_DEPTH
    """The number of levels of objects and arrays in it."""

    @classmethod
    def of(cls, value: Any) -> "ObservedShape":
        """Return the shape of one value.

        Raises:
            ValidationError: the value is not plain JSON, or too large.
        """
        nodes, *_ = measure(value, max_depth=_MAX_LEVELS)
        if nodes > MAX_OBSERVED:
            message = f"the value holds {nodes:,} values, and at most {MAX_OBSERVED:,} are looked at"
            raise ValidationError((Problem("", "size", message),))
        shape = Shape()
        shape.add(value, MAX_DEPTH)
        return cls._limit_weight(1, shape, MAX_DEPTH)

    def merge(self, other: "ObservedShape") -> "ObservedShape":
        """Return the shape of the values of both together."""
        depth = min(self.depth, other.depth)
        shape = self.shape.to_depth(depth)
        shape.join(other.shape, depth)
        return self._limit_weight(self.observed + other.observed, shape, depth)

    @classmethod
    def _limit_weight(cls, observed: int, shape: Shape, count: int) -> "ObservedShape":
        """Cut a shape at the greatest depth at which it is not too large."""
        depth = count
        while shape.weight(depth) > MAX_WEIGHT:
            depth -= 1
        return cls(observed, shape if depth == count else shape.to_depth(depth), depth)

    def json_schema(self) -> dict[str, Any]:
        """Return a JSON Schema, limited in size, of all values seen; `{}` if there were none."""
        return shape_schema(self.shape, self.depth) if self.observed else {}

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form, from which `from_json` restores the shape."""
        return {"observed": self.observed, "depth": self.depth, "shape": _shape_to_json(self.shape)}

    @classmethod
    def from_json(cls, source: str | bytes | bytearray | dict[str, Any]) -> "ObservedShape":
        """Restore a shape from its JSON form.

        Raises:
            InvalidToolError: it is malformed.
        """
        read = _WrittenObservation.from_json(source)
        return cls._limit_weight(
            read.observed, _read_shape(read.shape, read.depth).to_depth(read.depth), read.depth
        )


def _shape_to_json(shape: Shape) -> dict[str, Any]:
    data: dict[str, Any] = {"kinds": sorted(shape.kinds)}
    if shape.objects:
        data["objects"] = shape.objects
    if shape.named:
        named = sorted(shape.named.items())
        data["named"] = {name: [count, _shape_to_json(inner)] for name, (count, inner) in named}
    if shape.is_map:
        data["isMap"] = True
    for key, inner in (("rest", shape.rest), ("items", shape.items)):
        if inner:
            data[key] = _shape_to_json(inner)
    return data


def _read_shape(place: _WrittenShape, depth: int) -> Shape:
    shape = Shape()
    shape.kinds, shape.objects, shape.is_map = set(place.kinds), place.objects, place.is_map
    if depth > 0:
        shape.named = {
            name: (count, _read_shape(inner, depth - 1)) for name, (count, inner) in place.named.items()
        }
        shape.rest = _read_shape(place.rest, depth - 1) if place.rest else None
        shape.items = _read_shape(place.items, depth - 1) if place.items else None
    return shape


def shape_schema(shape: Shape, depth: int) -> dict[str, Any]:
    """Return the JSON Schema of a shape; the same shape always gives the same schema.

    An object with too many names to list is described by those that most objects have, or as a map if every
    object has different ones.
    """
    while depth > 0 and _count_nodes(shape, depth) > MAX_NODES:
        depth -= 1
    return _schema(shape, depth)


def _count_nodes(shape: Shape, depth: int) -> int:
    if depth <= 0:
        return 1
    inner = [member for _, member in shape.named.values()]
    inner += [member for member in (shape.rest, shape.items) if member]
    return 1 + sum(_count_nodes(member, depth - 1) for member in inner)


def _schema(shape: Shape, depth: int) -> dict[str, Any]:
    is_wide = "number" in shape.kinds
    types = [kind for kind in KINDS if kind in shape.kinds and not (is_wide and kind == "integer")]
    schema: dict[str, Any] = {"type": types[0] if len(types) == 1 else types}
    if depth <= 0:
        return schema
    if shape.named or shape.rest:
        schema |= _members_schema(shape, depth)
    if shape.items:
        schema["items"] = _schema(shape.items, depth - 1)
    return schema


def _members_schema(shape: Shape, depth: int) -> dict[str, Any]:
    listed = _list_names(shape)
    rest = shape.rest.to_depth(depth - 1) if shape.rest else Shape()
    for name in shape.named.keys() - listed:
        rest.join(shape.named[name][1], depth - 1)
    members: dict[str, Any] = {}
    if listed:
        members["properties"] = {name: _schema(shape.named[name][1], depth - 1) for name in listed}
    if required := [name for name in listed if shape.named[name][0] == shape.objects]:
        members["required"] = required
    if rest.kinds:
        members["additionalProperties"] = _schema(rest, depth - 1)
    return members


def _list_names(shape: Shape) -> list[str]:
    """Return the names to list as properties, sorted."""
    counts = {name: count for name, (count, _) in shape.named.items()}
    if len(counts) <= MAX_PROPERTIES:
        return sorted(counts)
    common = sum(count * 2 >= shape.objects for count in counts.values())
    if common * 2 < len(counts):
        return []
    return sorted(sorted(counts, key=lambda name: (-counts[name], name))[:MAX_PROPERTIES])
