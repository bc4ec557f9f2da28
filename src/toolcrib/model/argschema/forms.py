"""The string form by which enum values are compared, the same for every JSON value on every platform."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from toolcrib.model.argschema.meter import Meter

MAX_CONTAINER_FORM = 4096
"""The longest form of an array or object in an enum, in characters."""

_DECIMAL_BITS = 2048
"""Longer integers are compared as integers; no float, and no limit of Python's on digits, reaches this."""

_STEP = 4
"""What one step of writing a form costs, in values checked."""

Form = str | int

_WORDS = {True: "true", False: "false", None: "null"}


def form_of(value: Any, limit: int = MAX_CONTAINER_FORM, meter: Meter | None = None) -> Form | None:
    """Return the string form of a JSON value, or None for a container whose form is longer than the limit.

    >>> [form_of(value) for value in ("a", 1, 1.0, 0.5, True, None, {"b": 1.0, "a": [None]})]
    ['a', '1', '1', '0.5', 'true', 'null', '{"a":[null],"b":1}']
    """
    kind = type(value)
    if kind is str:
        return str(value)
    if kind is dict or kind is list:
        return _container_form(value, limit, meter or Meter())
    if kind is float:
        return str(int(value)) if value.is_integer() else repr(value)
    if kind is int:
        return int(value) if value.bit_length() > _DECIMAL_BITS else str(value)
    return _WORDS[value]


class _Mark(str):
    """Punctuation waiting to be written, told apart from text that is a value."""

    __slots__ = ()


def _container_form(value: Any, limit: int, meter: Meter) -> str | None:
    """Return canonical JSON: keys sorted, no spaces, characters as they are."""
    waiting: list[Any] = [value]
    parts: list[str] = []
    size = 0
    while waiting:
        meter.spend(_STEP)
        item = waiting.pop()
        if type(item) is dict or type(item) is list:
            if size + 2 * len(item) > limit:
                return None
            waiting.extend(reversed(_opened(item)))
            continue
        text = str(item) if type(item) is _Mark else _atom_text(item, limit)
        size += len(text)
        if size > limit:
            return None
        parts.append(text)
    return "".join(parts)


def _opened(container: Any) -> list[Any]:
    """Return the pieces of a container, in order: its punctuation and its values."""
    keyed = type(container) is dict
    pieces: list[Any] = [_Mark("{" if keyed else "[")]
    for item in sorted(container) if keyed else container:
        if len(pieces) > 1:
            pieces.append(_Mark(","))
        pieces.append(item)
        if keyed:
            pieces += (_Mark(":"), container[item])
    pieces.append(_Mark("}" if keyed else "]"))
    return pieces


def _atom_text(value: Any, limit: int) -> str:
    if type(value) is str:
        # One character past the limit is enough to be too long.
        return json.dumps(value[: limit + 1], ensure_ascii=False)
    form = form_of(value)
    return form if type(form) is str else hex(value)


@dataclass(frozen=True, slots=True)
class Choices:
    """The values an enum allows, ready to compare."""

    values: tuple[Any, ...]
    forms: frozenset[Form]
    longest_container: int
    """The length of the longest form that an array or object could have; 0 when none could match."""

    @classmethod
    def of(cls, values: Iterable[Any]) -> "Choices":
        """Return the choices for values whose forms are all short enough."""
        by_form = {form: value for value in values if (form := form_of(value)) is not None}
        lengths = (len(form) for form in by_form if type(form) is str and form[:1] in ("[", "{"))
        longest = max((size for size in lengths if size <= MAX_CONTAINER_FORM), default=0)
        return cls(tuple(by_form.values()), frozenset(by_form), longest)

    def admit(self, value: Any, meter: Meter) -> bool:
        """Say whether a value has the form of one of the choices."""
        if (type(value) is dict or type(value) is list) and not self.longest_container:
            return False
        return form_of(value, self.longest_container, meter) in self.forms

    def both(self, other: "Choices | None") -> "Choices":
        """Return the choices that are in this enum and in the other, where there is another."""
        if other is None:
            return self
        return Choices.of(value for value in self.values if form_of(value) in other.forms)
