"""The way of a value into the converted schema's terms and back.

A codec is built beside each subschema whose values look different when rewritten; where they look the same
there is none. `encode` takes a valid value of the original schema, `decode` takes whatever a model sent:
what is not in the shape asked for is passed on as it is, for the validator of the original schema to judge,
unless it cannot be read at all.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from toolcrib.adapter.loss import step
from toolcrib.adapter.rewrite.source import identity
from toolcrib.model.json_text import compact_json
from toolcrib.model.plain import measure, parse_json

Known = dict[tuple[int, int], Any]
"""What was decided about parts of the value being decoded."""
"""Writes JSON without spaces."""


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
    if type(value) is int:
        return str(value)
    return compact_json(value)


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
            found = parse_json(value)
            measure(found, max_depth=256)
        except ValueError as error:
            advice = (
                ""
                if value.lstrip()[:1] in set('{["')
                else ", with quotes around a string, such as '\"text\"'"
            )
            raise CodecError(path, f"must be JSON text{advice}; {error}") from None
        return found


@dataclass(slots=True)
class EnumCodec:
    """One of a few values, each known by a text."""

    values: Mapping[str, Any]
    opaque: bool = True

    def encode(self, value: Any, path: str) -> Any:
        wanted = identity(value)
        for text, member in self.values.items():
            if identity(member) == wanted:
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
