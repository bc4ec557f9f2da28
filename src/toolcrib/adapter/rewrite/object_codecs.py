"""Codecs of objects, maps and tuples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolcrib.adapter.loss import step
from toolcrib.adapter.rewrite.codec import Codec, CodecError, Known, decode, encode

Field = tuple[str, Codec | None, bool]
"""A property in the converted object: its name there, its codec, and whether null means absence."""


@dataclass(slots=True)
class ObjectCodec:
    """An object with properties that are renamed, made required, or have codecs."""

    names: Sequence[str]
    """The names of its properties in the original schema."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """The names in the converted object of properties that were renamed."""
    codecs: Mapping[str, Codec] = field(default_factory=dict)
    """The codecs of properties, by their original names."""
    absent: Sequence[str] = ()
    """The properties for which null means absence."""
    extra: tuple[str, Codec | None] | None = None
    """The property with the list of all others, and its codec."""
    hides_type: bool = False
    _fields: dict[str, Field] | None = None
    _names: dict[str, str] | None = None

    @property
    def fields(self) -> dict[str, Field]:
        """The properties by their original names; computed at first use."""
        if self._fields is None:
            absent = frozenset(self.absent)
            self._fields = {
                name: (self.keys.get(name, name), self.codecs.get(name), name in absent)
                for name in self.names
            }
        return self._fields

    @property
    def converted_keys(self) -> dict[str, str]:
        """The original names by the names in the converted object."""
        if self._names is None:
            self._names = {key: name for name, (key, _, _) in self.fields.items()}
        return self._names

    def encode(self, value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            return value
        fields = self.fields
        found: dict[str, Any] = {}
        for name, (key, codec, null_is_absent) in fields.items():
            if name in value:
                found[key] = encode(codec, value[name], step(path, name))
            elif null_is_absent:
                found[key] = None
        others = {name: member for name, member in value.items() if name not in fields}
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
        names, fields = self.converted_keys, self.fields
        found: dict[str, Any] = {}
        for key, member in value.items():
            if self.extra and key == self.extra[0]:
                continue
            name = names[key] if key in names else key  # noqa: SIM401 - narrower for the type checker
            _, codec, null_is_absent = fields.get(name, (name, None, False))
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
class MapCodec:
    """A map with arbitrary keys, passed as a list of key and value pairs."""

    value: Codec | None = None
    hides_type: bool = True

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
    """A tuple, passed as an object with a property for each position."""

    items: Sequence[tuple[str, Codec | None, bool]]
    """Name, codec, and whether null means absence, for each position."""
    rest: tuple[str, Codec | None] | None = None
    """The property with the list of further items, and its codec."""
    hides_type: bool = True

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
        known_names = {name for name, _, _ in self.items} | ({self.rest[0]} if self.rest else set())
        if surplus := value.keys() - known_names:
            raise CodecError(path, f"has no place for {min(surplus)[:80]!r}; leave it out")
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
