"""Codecs, which translate values between an original schema and its converted form.

A codec exists only for subschemas whose values change. `encode` takes a valid value of the original schema.
`decode` takes anything that a model sent: a value of an unexpected form is passed on unchanged, and the
validator of the original schema reports it; only what cannot be read at all raises.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from toolcrib.adapter.loss import step
from toolcrib.adapter.rewrite.source import canonical_text
from toolcrib.model.json_text import compact_json
from toolcrib.model.plain import measure, parse_json

Known = dict[tuple[int, int], Any]
"""Cache of decoded parts, by the `id()` of the codec and of the value, for one call of `decode`."""


class CodecError(ValueError):
    """A value that cannot be translated; the message has its path and the remedy."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path or 'the arguments'}: {reason}")


class Codec(Protocol):
    """Translator of the values of one subschema; neither method modifies its argument."""

    @property
    def hides_type(self) -> bool:
        """Whether encoded values have another JSON type: a map as an array, any value as text."""
        ...

    def encode(self, value: Any, path: str) -> Any:
        """Translate a value of the original schema to the converted schema."""
        ...

    def decode(self, value: Any, path: str, known: Known) -> Any:
        """Translate a value of the converted schema to the original schema; `known` caches decoded parts."""
        ...


def encode(codec: Codec | None, value: Any, path: str = "") -> Any:
    """Encode a value; without a codec it is returned unchanged."""
    return value if codec is None else codec.encode(value, path)


def decode(codec: Codec | None, value: Any, path: str = "", known: Known | None = None) -> Any:
    """Decode a value; without a codec it is returned unchanged."""
    return value if codec is None else codec.decode(value, path, {} if known is None else known)


def to_text(value: Any) -> str:
    """Serialize a JSON value compactly."""
    if type(value) is int:  # the usual case, and many times faster than the encoder
        return str(value)
    return compact_json(value)


@dataclass(slots=True)
class JsonTextCodec:
    """A value of any type, passed as JSON text in a string."""

    hides_type: bool = True

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
    """An enum whose values are passed as texts."""

    values: Mapping[str, Any]
    hides_type: bool = True

    def encode(self, value: Any, path: str) -> Any:
        wanted = canonical_text(value)
        for text, member in self.values.items():
            if canonical_text(member) == wanted:
                return text
        raise CodecError(path, "is not one of the allowed values")

    def decode(self, value: Any, path: str, known: Known) -> Any:
        return self.values.get(value, value) if isinstance(value, str) else value


@dataclass(slots=True)
class ArrayCodec:
    """A list whose items have a codec."""

    item: Codec
    hides_type: bool = False

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
    """Null, or a value that has a codec."""

    inner: Codec
    hides_type: bool = field(init=False)

    def __post_init__(self) -> None:
        self.hides_type = self.inner.hides_type

    def encode(self, value: Any, path: str) -> Any:
        return None if value is None else self.inner.encode(value, path)

    def decode(self, value: Any, path: str, known: Known) -> Any:
        return None if value is None else self.inner.decode(value, path, known)


@dataclass(slots=True)
class WrapCodec:
    """A value passed as the only property of an object."""

    key: str
    inner: Codec | None
    hides_type: bool = True

    def encode(self, value: Any, path: str) -> Any:
        return {self.key: encode(self.inner, value, path)}

    def decode(self, value: Any, path: str, known: Known) -> Any:
        if not isinstance(value, dict) or value.keys() != {self.key}:
            raise CodecError(path, f"must be an object with just the property {self.key!r}")
        return decode(self.inner, value[self.key], step(path, self.key), known)


@dataclass(slots=True)
class RefCodec:
    """The codec of a definition, looked up when it is used, since definitions may refer to themselves."""

    name: str
    table: Mapping[str, Codec | None]

    @property
    def hides_type(self) -> bool:
        codec = self.table.get(self.name)
        return codec is not None and not isinstance(codec, RefCodec) and codec.hides_type

    def encode(self, value: Any, path: str) -> Any:
        return encode(self.table[self.name], value, path)

    def decode(self, value: Any, path: str, known: Known) -> Any:
        return decode(self.table[self.name], value, path, known)
