"""Validation of arguments against a parsed argument schema."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from toolcrib.errors import Problem
from toolcrib.model.argschema.records import (
    ACCEPTED,
    ArgSchemaProperty,
    ArgType,
    CompiledPattern,
    Members,
    Place,
    form_of,
    label,
    number_text,
    quote,
)
from toolcrib.model.plain import pointer
from toolcrib.model.suggest import did_you_mean

_MAX_STEPS = 40_000_000
"""The maximum number of steps of one checker, about a second: of patterns, and of property lookups."""
_STEPS_PER_PROPERTY = 4
_MAX_HINTS = 200

Fault = tuple[str, str]
"""A keyword, and the message about the argument."""


def problem_at(place: Place, keyword: str, message: str) -> Problem:
    """Make a problem with a message of at most `MAX_MESSAGE` characters."""
    return Problem(pointer(place), keyword, message[:500])


class ValueChecker:
    """Checks values that were measured before, with one limit of steps for all of them."""

    def __init__(self, *, strict: bool) -> None:
        self._strict = strict
        self._steps = _MAX_STEPS

    def members(self, members: Members, value: dict[str, Any], place: Place = ()) -> Iterator[Problem]:
        """Yield the problems of an object, in schema order."""
        properties = members.properties
        if not self._take(len(properties) * _STEPS_PER_PROPERTY):
            yield problem_at(place, "size", "the arguments hold too many objects to check; send fewer")
            return
        for name, prop in properties.items():
            if name in value:
                yield from self.argument(prop, value[name], (*place, name))
            elif prop.required:
                yield _missing((*place, name))
        for name in members.required:
            if name not in properties and name not in value:
                yield _missing((*place, name))
        if self._strict:
            yield from _unknown(members, value, place)

    def argument(self, prop: ArgSchemaProperty, value: Any, place: Place) -> Iterator[Problem]:
        """Yield the problems of one argument."""
        if not prop.is_array:
            yield from self._value(prop, value, place)
        elif type(value) is not list:
            yield _fault(place, "type", "must be an array")
        else:
            bounds = (prop.min_items, prop.max_items)
            for keyword, text in _outside(len(value), bounds, ("minItems", "maxItems"), "must have {} items"):
                yield _fault(place, keyword, text)
            for index, element in enumerate(value):
                yield from self._value(prop, element, (*place, index))

    def _value(self, prop: ArgSchemaProperty, value: Any, place: Place) -> Iterator[Problem]:
        kind = prop.value_type
        if kind is not None and kind != "enum" and not self._has_type(value, kind):
            yield _fault(place, "type", f"must be {_noun(kind)}")
            return
        for keyword, text in self._faults(prop, value):
            yield _fault(place, keyword, text)
        if prop.members is not None and type(value) is dict:
            yield from self.members(prop.members, value, place)

    def _has_type(self, value: Any, kind: ArgType) -> bool:
        if type(value) not in ACCEPTED[kind]:
            return False
        return not (self._strict and kind == "integer" and type(value) is float) or value.is_integer()

    def _faults(self, prop: ArgSchemaProperty, value: Any) -> Iterator[Fault]:
        if type(value) is str:
            lengths = (prop.min_length, prop.max_length)
            yield from _outside(len(value), lengths, ("minLength", "maxLength"), "string length must be {}")
            for pattern in prop.patterns:
                yield from self._mismatch(pattern, value)
        elif type(value) is int or type(value) is float:
            bounds = (prop.minimum, prop.maximum)
            yield from _outside(value, bounds, ("minimum", "maximum"), "value must be {}")
        if prop.choices is not None and form_of(value) not in prop.choices:
            yield "enum", "must be one of the enum values"

    def _mismatch(self, pattern: CompiledPattern, text: str) -> Iterator[Fault]:
        if not self._take(pattern.steps * len(text)):
            yield "pattern", f"is too long to be matched with the pattern {quote(pattern.text)}"
        elif not pattern.engine.is_valid(text):
            yield "pattern", f"must match the pattern {quote(pattern.text)}"

    def _take(self, steps: int) -> bool:
        """Count steps; return False if the limit is exceeded."""
        if steps > self._steps:
            return False
        self._steps -= steps
        return True


def _outside(
    size: float, bounds: tuple[float | None, float | None], keywords: tuple[str, str], text: str
) -> Iterator[Fault]:
    low, high = bounds
    if low is not None and size < low:
        yield keywords[0], text.format(f">= {number_text(low)}")
    if high is not None and size > high:
        yield keywords[1], text.format(f"<= {number_text(high)}")


def _noun(kind: ArgType) -> str:
    name = "number" if kind == "float" else kind
    return f"an {name}" if name[0] in "aio" else f"a {name}"


def _fault(place: Place, keyword: str, text: str) -> Problem:
    return problem_at(place, keyword, f"argument {label(place)} {text}")


def _missing(place: Place) -> Problem:
    return problem_at(place, "required", f"missing required argument {label(place)}")


def _unknown(members: Members, value: dict[str, Any], place: Place) -> Iterator[Problem]:
    known = {*members.properties, *members.required}
    for name in value:
        if name not in known:
            here = (*place, name)
            hint = did_you_mean(name, islice(members.properties, _MAX_HINTS))
            yield problem_at(here, "additionalProperties", f"unknown argument {label(here)}{hint}")
