"""The way there and back for one of several alternatives."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolcrib.adapter.rewrite.codec import (
    ArrayCodec,
    Codec,
    CodecError,
    Known,
    NullableCodec,
    RefCodec,
    decode,
    encode,
)
from toolcrib.adapter.rewrite.object_codecs import ObjectCodec
from toolcrib.adapter.rewrite.source import type_of

__all__ = ["Branch", "UnionCodec", "hides"]


@dataclass(slots=True)
class Branch:
    """One alternative of a union."""

    kinds: frozenset[str]
    """The JSON types of its converted values."""
    codec: Codec | None
    declared: frozenset[str] | None = frozenset()
    """The properties that it names; None where it says what any property must be."""

    def names_all(self, value: Mapping[str, Any]) -> bool:
        """Return whether its converted object has every property that a value has."""
        if isinstance(self.codec, ObjectCodec):
            others = self.codec.extra[0] if self.codec.extra else None
            return all(key in self.codec.converted_keys or key == others for key in value)
        return self.declared is not None and value.keys() <= self.declared


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
                if not isinstance(value, dict) or branch.declared is None or value.keys() <= branch.declared:
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
        candidates = [(index, branch) for index, branch in enumerate(self.branches) if kind in branch.kinds]
        if kind == "object":  # where all its properties are named, their nulls mean what they mean there
            candidates.sort(key=lambda candidate: not candidate[1].names_all(value))
        for index, branch in candidates:
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
            pending += one.codecs.values()
            pending += [one.extra[1]] if one.extra else []
    return False
