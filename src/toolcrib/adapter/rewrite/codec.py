"""The way of a value into the converted schema's terms and back.

A codec is built beside each subschema whose values look different when rewritten; where they look the same
there is none. `encode` takes a valid value of the original schema, `decode` takes whatever a model sent:
what is not in the shape asked for is passed on as it is, for the validator of the original schema to judge,
unless it cannot be read at all.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from toolcrib.adapter.paths import step
from toolcrib.adapter.rewrite.source import type_of
from toolcrib.model.plain import parse_json

__all__ = [
    "ArrayCodec",
    "Branch",
    "Codec",
    "CodecError",
    "EnumCodec",
    "Field",
    "JsonTextCodec",
    "MapCodec",
    "NullableCodec",
    "ObjectCodec",
    "RefCodec",
    "TupleCodec",
    "UnionCodec",
    "WrapCodec",
    "decode",
    "encode",
    "hides",
]


Known = dict[tuple[int, int], Any]


class CodecError(ValueError):
    """A value that cannot be brought across, with its place and what to do."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path or 'the arguments'}: {reason}")


class Codec(Protocol):
    """Both directions for the values of one subschema; neither changes what it is given."""

    @property
    def opaque(self) -> bool:
        """Whether encoded values hide their JSON type: an object as an array, anything as text."""
        ...

    def encode(self, value: Any, path: str) -> Any:
        """Return a value of the original schema in the converted schema's terms."""
        ...

    def decode(self, value: Any, path: str, known: Known) -> Any:
        """Return a value of the converted schema in the original's terms; `known` keeps what is decided."""
        ...


def encode(codec: Codec | None, value: Any, path: str = "") -> Any:
    """Return a value in the converted terms; without a codec they are the same."""
    return value if codec is None else codec.encode(value, path)


def decode(codec: Codec | None, value: Any, path: str = "", known: Known | None = None) -> Any:
    """Return a value in the original terms; without a codec they are the same."""
    return value if codec is None else codec.decode(value, path, {} if known is None else known)


def to_text(value: Any) -> str:
    """Return a JSON value as compact text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@dataclass(slots=True)
class JsonTextCodec:
    """Any value, as JSON text in a string."""

    opaque: bool = True

    def encode(self, value: Any, path: str) -> Any:
        return to_text(value)

    def decode(self, value: Any, path: str, known: Known) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return parse_json(value)
        except ValueError as error:
            raise CodecError(
                path, f"must be JSON text, with quotes around a string, such as '\"text\"'; {error}"
            ) from None


@dataclass(slots=True)
class EnumCodec:
    """One of a few values, each known by a text."""

    values: Mapping[str, Any]
    opaque: bool = True

    def encode(self, value: Any, path: str) -> Any:
        kind = type_of(value)
        for text, member in self.values.items():
            if member == value and type_of(member) == kind:
                return text
        raise CodecError(path, "is none of the allowed values")

    def decode(self, value: Any, path: str, known: Known) -> Any:
        return self.values.get(value, value) if isinstance(value, str) else value


@dataclass(slots=True)
class ArrayCodec:
    """A list whose items look different."""

    item: Codec
    opaque: bool = False

    def encode(self, value: Any, path: str) -> Any:
        if not isinstance(value, list):
            return value
        return [self.item.encode(member, step(path, index)) for index, member in enumerate(value)]

    def decode(self, value: Any, path: str, known: Known) -> Any:
        if not isinstance(value, list):
            return value
        return [self.item.decode(member, step(path, index), known) for index, member in enumerate(value)]


@dataclass(slots=True)
class MapCodec:
    """An object with keys of the caller's choice, as a list of key and value pairs."""

    value: Codec | None = None
    opaque: bool = True

    def encode(self, value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            return value
        return [
            {"key": key, "value": encode(self.value, member, step(path, key))}
            for key, member in value.items()
        ]

    def decode(self, value: Any, path: str, known: Known) -> Any:
        if isinstance(value, dict):
            return {key: decode(self.value, member, step(path, key), known) for key, member in value.items()}
        if not isinstance(value, list):
            return value
        found: dict[str, Any] = {}
        for index, pair in enumerate(value):
            at = step(path, index)
            if (
                not isinstance(pair, dict)
                or pair.keys() != {"key", "value"}
                or not isinstance(pair["key"], str)
            ):
                raise CodecError(at, 'must be an object with just "key", a string, and "value"')
            if pair["key"] in found:
                raise CodecError(at, f"the key {pair['key'][:80]!r} is given twice; give each key once")
            found[pair["key"]] = decode(self.value, pair["value"], step(at, "value"), known)
        return found


@dataclass(slots=True)
class TupleCodec:
    """A list whose places mean different things, as an object with a property for each place."""

    items: Sequence[tuple[str, Codec | None, bool]]
    """Name, codec, and whether null stands for its absence."""
    rest: tuple[str, Codec | None] | None = None
    """The property that lists what follows."""
    opaque: bool = True

    def encode(self, value: Any, path: str) -> Any:
        if not isinstance(value, list):
            return value
        found: dict[str, Any] = {}
        for index, (name, codec, null_is_absent) in enumerate(self.items):
            if index < len(value):
                found[name] = encode(codec, value[index], step(path, index))
            elif null_is_absent:
                found[name] = None
        further = value[len(self.items) :]
        if self.rest:
            found[self.rest[0]] = [encode(self.rest[1], member, path) for member in further]
        elif further:
            raise CodecError(path, f"has more than the {len(self.items)} items that the schema describes")
        return found

    def decode(self, value: Any, path: str, known: Known) -> Any:
        if not isinstance(value, dict):
            return value
        further = value.get(self.rest[0]) if self.rest else None
        given = len(self.items)
        while given and not further and self._is_absent(value, given - 1):
            given -= 1
        found = [
            decode(codec, value.get(name), step(path, name), known) for name, codec, _ in self.items[:given]
        ]
        if self.rest and isinstance(further, list):
            found += [decode(self.rest[1], member, step(path, self.rest[0]), known) for member in further]
        return found

    def _is_absent(self, value: dict[str, Any], index: int) -> bool:
        name, _, null_is_absent = self.items[index]
        return name not in value or (null_is_absent and value[name] is None)


Field = tuple[str, Codec | None, bool]
"""A property in the converted object: its name there, its codec, and whether null stands for its absence."""


@dataclass(slots=True)
class ObjectCodec:
    """An object whose properties are renamed, always present, or look different."""

    fields: Mapping[str, Field]
    """By the original name."""
    extra: tuple[str, Codec | None] | None = None
    """The property that lists what the schema does not name."""
    opaque: bool = False

    def encode(self, value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            return value
        found: dict[str, Any] = {}
        for name, (key, codec, null_is_absent) in self.fields.items():
            if name in value:
                found[key] = encode(codec, value[name], step(path, name))
            elif null_is_absent:
                found[key] = None
        others = {name: member for name, member in value.items() if name not in self.fields}
        if self.extra:
            found[self.extra[0]] = encode(self.extra[1], others, path)
        elif taken := others.keys() & found.keys():
            raise CodecError(path, f"{min(taken)[:80]!r} stands for another property; leave it out")
        else:
            found |= others
        return found

    def decode(self, value: Any, path: str, known: Known) -> Any:
        if not isinstance(value, dict):
            return value
        names: dict[str, str] = {key: name for name, (key, _, _) in self.fields.items()}
        found: dict[str, Any] = {}
        for key, member in value.items():
            if self.extra and key == self.extra[0]:
                continue
            name = names[key] if key in names else key  # noqa: SIM401 - narrower for the type checker
            _, codec, null_is_absent = self.fields.get(name, (name, None, False))
            if member is None and null_is_absent:
                continue
            if name in found:
                raise CodecError(path, f"gives {name[:80]!r} twice, also as {key[:80]!r}; give it once")
            found[name] = decode(codec, member, step(path, key), known)
        return self._with_extra(found, value, path, known)

    def _with_extra(
        self, found: dict[str, Any], value: dict[str, Any], path: str, known: Known
    ) -> dict[str, Any]:
        if self.extra is None or value.get(self.extra[0]) is None:
            return found
        at = step(path, self.extra[0])
        others = decode(self.extra[1], value[self.extra[0]], at, known)
        if not isinstance(others, dict):
            raise CodecError(at, 'must be a list of objects with "key" and "value"')
        if twice := found.keys() & others.keys():
            raise CodecError(at, f"gives {min(twice)[:80]!r}, which has a property of its own; use that")
        return found | others


@dataclass(slots=True)
class NullableCodec:
    """Null, or something that looks different."""

    inner: Codec
    opaque: bool = field(init=False)

    def __post_init__(self) -> None:
        self.opaque = self.inner.opaque

    def encode(self, value: Any, path: str) -> Any:
        return None if value is None else self.inner.encode(value, path)

    def decode(self, value: Any, path: str, known: Known) -> Any:
        return None if value is None else self.inner.decode(value, path, known)


@dataclass(slots=True)
class WrapCodec:
    """A value that is not an object of its own, as the one property of an object."""

    key: str
    inner: Codec | None
    opaque: bool = True

    def encode(self, value: Any, path: str) -> Any:
        return {self.key: encode(self.inner, value, path)}

    def decode(self, value: Any, path: str, known: Known) -> Any:
        if not isinstance(value, dict) or value.keys() != {self.key}:
            raise CodecError(path, f"must be an object with just the property {self.key!r}")
        return decode(self.inner, value[self.key], step(path, self.key), known)


@dataclass(slots=True)
class RefCodec:
    """The codec of a definition, looked up when it is used: definitions may refer to themselves."""

    name: str
    table: Mapping[str, Codec | None]

    @property
    def opaque(self) -> bool:
        codec = self.table.get(self.name)
        return codec is not None and not isinstance(codec, RefCodec) and codec.opaque

    def encode(self, value: Any, path: str) -> Any:
        return encode(self.table[self.name], value, path)

    def decode(self, value: Any, path: str, known: Known) -> Any:
        return decode(self.table[self.name], value, path, known)


@dataclass(slots=True)
class Branch:
    """One alternative of a union."""

    kinds: frozenset[str]
    """The JSON types of its converted values."""
    codec: Codec | None
    declared: frozenset[str] = frozenset()
    """The properties that it names."""


@dataclass(slots=True)
class UnionCodec:
    """One of several alternatives, at least one of which looks different."""

    branches: Sequence[Branch]
    fits: Callable[[int, Any], bool]
    """Whether a value in the original terms fits the alternative with this index."""
    opaque: bool = False

    def encode(self, value: Any, path: str) -> Any:
        chosen: Branch | None = None
        for index, branch in enumerate(self.branches):
            if self.fits(index, value):
                if not isinstance(value, dict) or value.keys() <= branch.declared:
                    return encode(branch.codec, value, path)
                chosen = chosen or branch
        if chosen is None:
            raise CodecError(path, "fits none of the alternatives of the schema")
        return encode(chosen.codec, value, path)

    def decode(self, value: Any, path: str, known: Known) -> Any:
        key = id(self), id(value)  # nested unions would otherwise try the same reading time and again
        if key not in known:
            known[key] = self._read(value, path, known)
        if isinstance(known[key], CodecError):
            raise known[key]
        return known[key]

    def _read(self, value: Any, path: str, known: Known) -> Any:
        """Return the first reading that fits its alternative, or else the first that can be read at all."""
        kind = type_of(value)
        readings: list[Any] = []
        failure: CodecError | None = None
        for index, branch in enumerate(self.branches):
            if kind not in branch.kinds:
                continue
            try:
                found = decode(branch.codec, value, path, known)
            except CodecError as error:
                failure = failure or error
                continue
            if self.fits(index, found):
                return found
            readings.append(found)
        if readings:
            return readings[0]
        return failure or value


def hides(codec: Codec | None) -> bool:
    """Return whether any part of an encoded value hides its JSON type, or may do so."""
    pending = [codec]
    while pending:
        one = pending.pop()
        if one is None:
            continue
        if one.opaque or isinstance(one, RefCodec):
            return True
        if isinstance(one, ArrayCodec):
            pending.append(one.item)
        elif isinstance(one, NullableCodec):
            pending.append(one.inner)
        elif isinstance(one, UnionCodec):
            pending += [branch.codec for branch in one.branches]
        elif isinstance(one, ObjectCodec):
            pending += [inner for _, inner, _ in one.fields.values()]
            pending += [one.extra[1]] if one.extra else []
    return False
