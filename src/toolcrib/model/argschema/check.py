"""Checking values against a parsed schema."""

from typing import Any, Final

from toolcrib.errors import Problem
from toolcrib.model.argschema.findings import MAX_PROBLEMS
from toolcrib.model.argschema.meter import Meter, SpentError
from toolcrib.model.argschema.plain import JsonScan
from toolcrib.model.argschema.property import ACCEPTED, ArgSchemaProperty, ArgType, Bounds, Members
from toolcrib.model.argschema.wording import Place, did_you_mean, label, number_text, pointer

_NOUNS: Final[dict[ArgType, str]] = {
    "string": "a string",
    "integer": "an integer",
    "float": "a number",
    "number": "a number",
    "boolean": "a boolean",
    "array": "an array",
    "object": "an object",
}
_SOUND: Final = frozenset({str, int, bool, type(None)})

Fault = tuple[str, str]
"""A keyword, and what it says of the argument."""


class _FullError(Exception):
    """As many problems as are reported have been found."""


class Check:
    """One check of one set of arguments; it stops at 32 problems."""

    def __init__(self, *, strict: bool) -> None:
        self.problems: list[Problem] = []
        self._strict = strict
        self._scan = JsonScan()
        self._meter = Meter()

    def run(self, members: Members, args: Any) -> tuple[Problem, ...]:
        """Return every problem of the arguments, in schema order."""
        try:
            self._members(members, args, ())
        except _FullError:
            pass
        except SpentError:
            self.problems.append(Problem("", "size", "the arguments hold too many values to check"))
        return tuple(self.problems[:MAX_PROBLEMS])

    def fits(self, prop: ArgSchemaProperty, value: Any) -> tuple[Problem, ...]:
        """Return every problem of one value as this argument."""
        return self.run(Members({prop.name: prop}), {prop.name: value})

    def _add(self, place: Place, keyword: str, message: str) -> None:
        self.problems.append(Problem(pointer(place), keyword, message))
        if len(self.problems) >= MAX_PROBLEMS:
            raise _FullError

    def _fault(self, place: Place, fault: Fault) -> None:
        self._add(place, fault[0], f"argument '{label(place)}' {fault[1]}")

    def _members(self, members: Members, value: dict[Any, Any], place: Place) -> None:
        # A key that is not a string may compare as it likes, so it never meets a look-up.
        known = {key: item for key, item in value.items() if type(key) is str}
        all_named = len(known) == len(value)
        self._meter.spend(len(members.properties) + len(value))
        for name, prop in members.properties.items():
            if name in known:
                self._property(prop, known.pop(name), (*place, name))
            elif prop.required:
                self._missing((*place, name))
        for name in members.required:
            if name not in members.properties:
                if name not in known:
                    self._missing((*place, name))
                elif self._strict:
                    self._unread(known.pop(name), (*place, name))
        self._rest(members, known, place)
        if not all_named:
            self._add(place, "type", "argument names must be strings")

    def _missing(self, place: Place) -> None:
        self._add(place, "required", f"missing required argument '{label(place)}'")

    def _rest(self, members: Members, unknown: dict[str, Any], place: Place) -> None:
        """Look at the arguments that no property describes."""
        for name, value in unknown.items():
            if self._strict:
                hint = did_you_mean(name, members.properties)
                text = f"unknown argument '{label((*place, name))}'{hint}"
                self._add((*place, name), "additionalProperties", text)
            else:
                self._unread(value, (*place, name))

    def _unread(self, value: Any, place: Place) -> bool:
        """Report a flaw anywhere in a value that JSON could not hold; say whether there was one."""
        flaw = self._scan.flaw(value)
        if flaw is not None:
            self._fault((*place, *flaw[0]), ("type", flaw[1]))
        return flaw is not None

    def _property(self, prop: ArgSchemaProperty, value: Any, place: Place) -> None:
        if not prop.is_array:
            self._value(prop, value, place)
            return
        if type(value) is not list:
            self._fault(place, ("type", "must be an array"))
            return
        for fault in _count_faults(prop, len(value)):
            self._fault(place, fault)
        self._meter.spend(len(value))
        for index, element in enumerate(value):
            self._value(prop, element, (*place, index))

    def _value(self, prop: ArgSchemaProperty, value: Any, place: Place) -> None:
        kind, expected = type(value), prop.value_type
        if expected is not None and expected != "enum" and not self._has_type(value, expected):
            self._fault(place, ("type", f"must be {_NOUNS[expected]}"))
            return
        if kind not in _SOUND and self._unread(value, place):
            return
        bounds = prop.bounds
        if kind is str:
            self._text(bounds, value, place)
        elif kind is int or kind is float:
            self._number(bounds, value, place)
        if bounds.choices is not None and not bounds.choices.admit(value, self._meter):
            self._fault(place, ("enum", "must be one of the enum values"))
        if kind is dict and prop.members is not None:
            self._members(prop.members, value, place)

    def _has_type(self, value: Any, expected: ArgType) -> bool:
        if type(value) not in ACCEPTED[expected]:
            return False
        fractional = self._strict and expected == "integer" and type(value) is float
        return not fractional or value.is_integer()

    def _text(self, bounds: Bounds, value: str, place: Place) -> None:
        if bounds.min_length is not None and len(value) < bounds.min_length:
            limit = number_text(bounds.min_length)
            self._fault(place, ("minLength", f"string length must be >= {limit}"))
        if bounds.max_length is not None and len(value) > bounds.max_length:
            limit = number_text(bounds.max_length)
            self._fault(place, ("maxLength", f"string length must be <= {limit}"))
        for pattern in bounds.patterns:
            self._meter.spend(pattern.cost(len(value)))
            if not pattern.found_in(value):
                self._fault(place, ("pattern", f"must match the pattern {pattern.shown}"))

    def _number(self, bounds: Bounds, value: float, place: Place) -> None:
        if bounds.minimum is not None and value < bounds.minimum:
            self._fault(place, ("minimum", f"value must be >= {number_text(bounds.minimum)}"))
        if bounds.maximum is not None and value > bounds.maximum:
            self._fault(place, ("maximum", f"value must be <= {number_text(bounds.maximum)}"))


def _count_faults(prop: ArgSchemaProperty, count: int) -> list[Fault]:
    faults = []
    if prop.min_items is not None and count < prop.min_items:
        faults.append(("minItems", f"must have >= {number_text(prop.min_items)} items"))
    if prop.max_items is not None and count > prop.max_items:
        faults.append(("maxItems", f"must have <= {number_text(prop.max_items)} items"))
    return faults
